"""Box 1: x(s) and y(a), features of states and actions for any environment. Start at `state_features`.

To add a map, write one file that defines it and add one line to a table below; its name is the file's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from polaug.errors import invalid, unknown
from polaug.features.actions import ActionFeatures, OneHotActions, OrdinalActions, PolynomialActions
from polaug.features.base import HashedStates, StateFeatures
from polaug.features.custom import Custom
from polaug.features.fourier import Fourier
from polaug.features.grid import Grid
from polaug.features.one_hot import OneHot
from polaug.features.random_fourier import RandomFourier
from polaug.features.scaling import Scaler
from polaug.features.simhash import SimHash
from polaug.features.spaces import Flattener, Space, action_flattener

__all__ = [
    "ACTION_FEATURES",
    "STATE_FEATURES",
    "ActionFeatures",
    "HashedStates",
    "Scaler",
    "StateFeatures",
    "action_features",
    "state_features",
]

STATE_FEATURES: dict[str, type] = {
    "custom": Custom,
    "fourier": Fourier,
    "grid": Grid,
    "one_hot": OneHot,
    "random_fourier": RandomFourier,
    "simhash": SimHash,
}

ACTION_FEATURES: dict[str, type] = {
    "one_hot": OneHotActions,
    "ordinal": OrdinalActions,
    "polynomial": PolynomialActions,
}


def state_features(
    features: str | Callable[[Any], Any] | StateFeatures, space: Space, *, seed: int = 0, **options: Any
) -> StateFeatures:
    """State features x(s) for an observation space, by name or from a callable. A map is returned unchanged.

    "auto" chooses one_hot where all parts are categories and random_fourier otherwise. `seed` is the seed of random
    maps. `options` are options of the map's class.
    """
    if not isinstance(features, str):
        if isinstance(features, StateFeatures) and not isinstance(features, type):
            if options:
                raise invalid("options", "are only for maps built by name", sorted(options), "Build the map with them.")
            return features
        if not callable(features):
            raise invalid("features", "must be a name, a callable or a StateFeatures", features, 'Pass "auto".')
        options, features = options | {"function": features}, "custom"
    elif features == "auto":
        features = "one_hot" if Flattener(space).categorical.all() else "random_fourier"
    if features == "custom" and "function" not in options:
        raise invalid("features", "custom needs the callable itself", features, "Pass features=f instead of a name.")
    built: StateFeatures = _build("state features", features, STATE_FEATURES, space, options, seed)
    return built


def action_features(features: str | ActionFeatures, space: Space, **options: Any) -> ActionFeatures:
    """Action features y(a) for an action space, by name. A map is returned unchanged.

    "auto" chooses polynomial for Box actions and one_hot for all others.
    """
    if not isinstance(features, str):
        if isinstance(features, type) or not isinstance(features, ActionFeatures):
            raise invalid("features", "must be a name or an ActionFeatures", features, 'Pass "auto".')
        if options:
            raise invalid("options", "are only for maps built by name", sorted(options), "Build the map with them.")
        return features
    if features == "auto":
        features = "one_hot" if action_flattener(space).categorical.any() else "polynomial"
    built: ActionFeatures = _build("action features", features, ACTION_FEATURES, space, options)
    return built


def _build(
    kind: str, name: str, table: Mapping[str, type], space: Space, options: dict[str, Any], seed: int = 0
) -> Any:
    """Build the class `name` with `options`, after a check of their names."""
    if name not in table:
        raise unknown(kind, name, [*table, "auto"])
    accepted = [option for option in inspect.signature(table[name]).parameters if option != "space"]
    for option in options:
        if option not in accepted:
            raise unknown(f"option of {name} {kind}", option, accepted)
    if "seed" in accepted:
        options = options | {"seed": seed}
    return table[name](space, **options)
