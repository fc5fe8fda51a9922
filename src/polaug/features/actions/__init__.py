"""Action features y(a): a finite list of actions and a vector for each; one map per file, named after it."""

from polaug.features.actions.base import ActionFeatures
from polaug.features.actions.one_hot import OneHotActions
from polaug.features.actions.ordinal import OrdinalActions
from polaug.features.actions.polynomial import PolynomialActions

__all__ = ["ActionFeatures", "OneHotActions", "OrdinalActions", "PolynomialActions"]
