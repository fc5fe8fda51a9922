"""From run folders to one self-contained HTML page and figures for papers. Start at `write_report`.

grids.py     runs -> common points by steps, episodes or seconds
curves.py    points -> learning curves with intervals, the committee's choices
heat.py      maps -> bytes for the page
overall.py   all tasks at once
summary.py   what explorers alone achieved, in numbers and sentences
data.py      all of it as plain data
tables.py    HTML tables, and the same rows for the download
sections.py  HTML around the charts
page.py      the page: HTML, style, script, data
figures.py   PNG and PDF with matplotlib
palette.py, digits.py, dimensions.py   colours and dashes; numbers for people; names of observations
assets/      the page's style and script, as they are read
vendor/      Plotly
"""

from polaug.report.page import write_report
from polaug.report.summary import Group, groups
from polaug.study.results import Run, find_runs

__all__ = ["Group", "Run", "find_runs", "groups", "write_report"]
