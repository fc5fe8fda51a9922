"""From run folders to one self-contained HTML page and figures for papers. Start at `write_report`.

grids.py, curves.py   runs -> common points by steps, episodes or seconds -> learning curves with intervals
heat.py               maps -> bytes for the page
data.py               all of it as plain data
tables.py             rows of cells, and the same for the download
page.py, templates/   the page: HTML, style, script, data
figures.py            PNG and PDF with matplotlib
labels.py             colours, dashes, names of observations, short numbers
assets/, vendor/      the page's style and script, as they are read; Plotly
"""

from polaug.report.page import write_report
from polaug.study.results import Run, find_runs

__all__ = ["Run", "find_runs", "write_report"]
