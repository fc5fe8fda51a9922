"""The reproduction of the paper (Mahyari, ICASSP 2021): its study, its figures, and the changes to its algorithm.

study.py    its two tasks and six methods, and polaug's variants
tables.py   the numbers of figure 1
figures.py  figures 1, 2b and 3b
ladder.py, ladder_explorer.py   one change after the other, from the printed algorithm to planning and teaching
"""
