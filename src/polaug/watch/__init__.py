"""A saved agent at play, as a GIF or an MP4. Start at `watch`.

agent.py   loads the agent and its explorer, and lets them play
film.py    draws frames and writes the file
"""

from polaug.watch.agent import watch

__all__ = ["watch"]
