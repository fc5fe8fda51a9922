"""The studio's pages over HTTP: only on this machine, and read-only."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from polaug.errors import InvalidInputError, PolaugError, StateError, invalid
from polaug.report.page import SCRIPTS, asset
from polaug.studio.follow import MOST, Follower, OutsideError
from polaug.studio.play import Players

HOST = "127.0.0.1"
PORT = 8137
"""Default port; no well-known service uses it."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
}  # fmt: skip


def _files() -> dict[str, tuple[str, str]]:
    """The files that are served: content and type by name."""
    own = files("polaug.studio").joinpath("static")
    shared = "\n".join(asset(f"assets/{name}") for name in SCRIPTS if name != "main.js")
    return {
        "": (own.joinpath("index.html").read_text("utf-8"), "text/html"),
        "page.css": (asset("assets/page.css") + own.joinpath("studio.css").read_text("utf-8"), "text/css"),
        "plotly.js": (asset("vendor/plotly-cartesian.min.js"), "text/javascript"),
        "shared.js": (shared, "text/javascript"),
        "studio.js": (own.joinpath("studio.js").read_text("utf-8"), "text/javascript"),
    }


def application(root: Path) -> Any:
    """The studio of the runs below `root` as an ASGI application."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    follower, players, known = Follower(root), Players(), _files()

    def answered(make: Callable[[Request], Response]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            try:
                response = make(request)
            except PolaugError as fault:
                status = 404 if isinstance(fault, InvalidInputError) else 409
                status = 403 if isinstance(fault, OutsideError) else status
                response = JSONResponse({"error": str(fault)}, status)
            response.headers.update(_HEADERS)
            return response

        return answer

    def file(request: Request) -> Response:
        name = request.path_params.get("name", "")
        if name not in known:
            raise invalid("page", "must be a page of the studio", name, "Open the printed address.")
        content, kind = known[name]
        return Response(content, media_type=kind)

    def runs(_: Request) -> Response:
        return JSONResponse({"root": root.name or str(root), "runs": follower.listing()})

    def board(request: Request) -> Response:
        names = request.query_params.getlist("run")[:MOST]
        tag = f'"{hashlib.sha256(repr(follower.stamp(names)).encode()).hexdigest()[:24]}"'
        if request.headers.get("If-None-Match") == tag:
            return Response(status_code=304)
        return JSONResponse(follower.board(names), headers={"ETag": tag})

    def frame(request: Request) -> Response:
        shown = players.frame(follower.folder(request.query_params.get("run", "")))
        words = {"X-Step": str(shown.step), "X-Return": f"{shown.total:.6g}", "X-Ended": shown.ended}
        return Response(shown.png, media_type="image/png", headers=words)

    routes = [Route("/", answered(file)), Route("/api/runs", answered(runs)), Route("/api/board", answered(board)),
              Route("/api/frame", answered(frame)), Route("/{name}", answered(file))]  # fmt: skip
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])  # other host names are refused
    return Starlette(routes=routes, middleware=[hosts])


def serve(folder: str | os.PathLike[str], port: int = PORT, *, ready: Callable[[str], None] | None = None) -> None:
    """Serve the runs below `folder`, which is only read, on 127.0.0.1 until interrupted.

    `port` 0 takes a free port. `ready` is called with the page's address; by default the address is printed.
    """
    root = Path(folder)
    if not root.is_dir():
        remedy = "Pass the --out folder of `polaug train` or `polaug compare`."
        raise invalid("folder", "must be a folder", str(folder), remedy)
    try:
        import uvicorn

        app = application(root.resolve())
    except ImportError as fault:
        raise StateError('studio: needs starlette and uvicorn. pip install "polaug[studio]".') from fault
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except (OSError, OverflowError) as fault:
            remedy = "Pass another port, or 0 for any free one."
            raise invalid("port", f"must be a free one ({fault})", port, remedy) from fault
        listening.listen()
        os.environ.update(SDL_VIDEODRIVER="dummy", SDL_AUDIODRIVER="dummy")  # agents play without a window
        address = f"http://{HOST}:{listening.getsockname()[1]}/"
        (ready or _announce)(address)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listening])


def _announce(address: str) -> None:
    print(f"studio: {address}", flush=True)


class Studio:
    """A studio in a separate process, so that it does not affect the training."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url

    def stop(self) -> None:
        """Stop the studio. It also stops when the process that started it ends."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()

    def __enter__(self) -> Studio:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(folder: str | os.PathLike[str], port: int = 0) -> Studio:
    """Start a studio of the runs below `folder` in a separate process. `.url` is the page, `.stop()` stops it."""
    Path(folder).mkdir(parents=True, exist_ok=True)  # the training will create runs there
    command = [sys.executable, "-c", "from polaug.studio.server import _child; _child()", str(folder), str(port)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    with process.stdout as told:
        lines = []
        for line in told:
            if line.startswith("studio: http"):
                return Studio(process, line.removeprefix("studio: ").strip())
            lines.append(line.strip())
    Studio(process, "").stop()
    raise StateError(f"studio: did not start ({' '.join(lines[-1:])}). Run `polaug studio` to see why.")


def _child() -> None:
    """Serve until standard input ends, that is until the parent process ends."""

    def watch() -> None:
        sys.stdin.read()
        os._exit(0)

    def ready(address: str) -> None:
        _announce(address)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)  # the parent reads only the address
        os.dup2(silent, 2)

    threading.Thread(target=watch, daemon=True).start()
    serve(sys.argv[1], int(sys.argv[2]), ready=ready)
