"""From run folders to one self-contained HTML page. Start at `write_report`; nothing here runs an environment.

runs.py      run folders -> plain data
summary.py   plain data -> the numbers and sentences
figures.py   plain data -> SVG
page.py      all of it -> HTML
"""

from polaug.report.page import write_report
from polaug.report.runs import Run, find_runs
from polaug.report.summary import Group, groups

__all__ = ["Group", "Run", "find_runs", "groups", "write_report"]
