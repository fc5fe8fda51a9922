"""A local page that shows runs while they train. `serve` blocks, `start` runs it in a separate process.

follow.py    reads the run folders below one root; writes nothing
play.py      plays episodes with the last saved network of a run
server.py    serves the page on this machine
static/      HTML and script; charts and style are those of the report
"""

from polaug.studio.server import Studio, serve, start

__all__ = ["Studio", "serve", "start"]
