"""Ends the processes of a Ray that polaug started if its head is killed; `RayPool` runs it as a script.

Ray's agents and workers outlive a killed head, and the driver cannot end them: Ray's core exits its process. This
script watches the processes that carry the session's name and what they started. Once the head or the driver is gone it
ends them all.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
from pathlib import Path

import psutil

_TICK = 0.5  # seconds between looks: a process that lives for less leaves nothing behind
_HEAD = ("gcs_server", "raylet")  # without these a session is over


def session(name: str, known: set[psutil.Process]) -> tuple[set[psutil.Process], int]:
    """The living processes of a session: those that bear its name, what they started, and those `known` before.

    Also how many processes of its head there are.
    """
    found = psutil.process_iter(["ppid", "cmdline", "status"])
    running = {each.pid: each for each in found if each.info["status"] != psutil.STATUS_ZOMBIE}
    running.pop(os.getpid(), None)
    words = {pid: each.info["cmdline"] or [""] for pid, each in running.items()}
    mine = {pid for pid, each in running.items() if each in known or any(name in word for word in words[pid])}
    head = sum(Path(words[pid][0]).name in _HEAD for pid in mine)
    while more := {pid for pid, each in running.items() if each.info["ppid"] in mine} - mine:
        mine |= more
    return {running[pid] for pid in mine}, head


def main() -> None:
    """`ray_reaper.py SESSION`, until stdin ends."""
    name, driver = sys.argv[1], True
    known: set[psutil.Process] = set()
    while driver:
        known, head = session(name, known)
        if head < len(_HEAD):
            break
        driver = not select.select([sys.stdin], [], [], _TICK)[0]  # readable: its end
    for process in session(name, known)[0]:
        with contextlib.suppress(psutil.Error):
            process.kill()


if __name__ == "__main__":
    main()
