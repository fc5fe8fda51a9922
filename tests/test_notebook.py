"""The example notebook runs from top to bottom as it is, and what it says of itself is what it shows."""

import re

import nbformat
from docs.examples.run_notebook import FIGURES, HERE, NOTEBOOK, run


def printed(notebook):
    streams = [o["text"] for cell in notebook.cells for o in cell.get("outputs", ()) if o["output_type"] == "stream"]
    return "".join(streams)


def test_the_notebook_runs_and_the_augmented_agent_reaches_the_flag():
    notebook = run(nbformat.read(NOTEBOOK, as_version=4))
    augmented, plain = (int(number) for number in re.findall(r"-\d+", printed(notebook)))
    assert plain == -200
    assert augmented > -180
    assert sum("image/png" in o.get("data", {}) for c in notebook.cells for o in c.get("outputs", ())) == len(FIGURES)


def test_it_is_committed_with_its_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert "plain" in printed(notebook)
    assert all((HERE / name).read_bytes().startswith(b"\x89PNG") for name in FIGURES)
    assert not any(o["output_type"] == "error" or o.get("name") == "stderr" for c in code for o in c.outputs)
