"""Box 2: the matrix-completion engine. It takes and returns arrays and is independent of environments and agents.

entries.py          Ω, checked and stored
cost.py             J of Eq. 2, principal angles, canonical distance
multiplicative.py   Eq. 3 and 4
als.py              low rank on Ω only
recursive.py        one entry at a time
multi_output.py     several outputs on shared features, one row at a time
model.py            the estimator `InductiveCompletion`
"""

from polaug.completion.als import AlsOptions
from polaug.completion.cost import canonical_distance, cost, principal_angles
from polaug.completion.model import SOLVERS, InductiveCompletion, solvers
from polaug.completion.multiplicative import MultiplicativeOptions
from polaug.completion.recursive import RecursiveOptions

__all__ = [
    "SOLVERS",
    "AlsOptions",
    "InductiveCompletion",
    "MultiplicativeOptions",
    "RecursiveOptions",
    "canonical_distance",
    "cost",
    "principal_angles",
    "solvers",
]
