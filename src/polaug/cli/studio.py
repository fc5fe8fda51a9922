"""`polaug studio`."""

from __future__ import annotations

from typing import Annotated

import typer

from polaug.cli.options import whole_number
from polaug.cli.report import Folder

Port = Annotated[
    int, typer.Option(parser=whole_number(0, 9000), metavar="N", help="Port on this machine; 0 chooses a free one.")
]


def studio_(folder: Folder, port: Port = 8137) -> None:
    """Show runs on a local page while they train.

    Examples:
      polaug studio runs
      polaug studio runs/compare --port 9000
    """
    from polaug.studio import serve

    serve(folder, port)
