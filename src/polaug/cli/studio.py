"""`polaug studio`."""

from __future__ import annotations

from typing import Annotated

from polaug.cli.options import whole
from polaug.cli.report import Folder


def studio_(folder: Folder, port: Annotated[int, whole("Port on this machine; 0 chooses a free one.")] = 8137) -> None:
    """Show runs on a local page while they train.

    Examples:
      polaug studio runs
      polaug studio runs/compare --port 9000
    """
    from polaug.studio import serve

    serve(folder, port)
