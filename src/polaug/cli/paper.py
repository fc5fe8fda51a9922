"""`polaug paper`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from polaug.cli import options
from polaug.cli.study_output import run_and_tell
from polaug.errors import PolaugError


@options.grouped
def paper(
    seeds: options.Seeds = 10,
    methods: Annotated[str | None, options.flag("Methods to run instead of the default ones.", "NAME[,NAME]")] = None,
    ladder: Annotated[
        bool, typer.Option("--ladder", help="Only measure the changes from the paper's algorithm to polaug.")
    ] = False,
    *,
    budget: options.Budget,
    machines: options.Machines,
    out: options.Out = Path("runs/paper"),
) -> int:
    """Repeat the paper's study and draw its figures 1, 2b and 3b.

    Every environment step and every episode counts, including those of restarts. The paper's budget is
    --steps 2500000.

    Example:
      polaug paper --seeds 10 --episodes 100 --out runs/paper
    """
    if ladder:
        from polaug.paper.ladder import run_ladder

        run_ladder(out, seeds, partial(print, flush=True))
        return 0
    from polaug.paper.study import paper_study

    chosen: dict[str, Any] = {} if methods is None else {"methods": options.names(methods)}
    code = run_and_tell(paper_study(seeds, **budget.settings(40_000, 100), **chosen), out, machines)
    from polaug.paper.figures import figures  # matplotlib is slow to load

    try:
        for path in figures(out):
            print(f"figure: {path}")
    except PolaugError as fault:  # runs and failures are reported anyway
        print(f"No figures: {fault}")
    return code
