"""The paper's action features: one number for each action, evenly spaced, with opposite signs for opposite actions."""

from __future__ import annotations

from polaug.checks import finite, positive
from polaug.features.actions.base import ActionFeatures
from polaug.features.spaces import Space


class OrdinalActions(ActionFeatures):
    """Y in [−spread, spread] + epsilon: [−10, 10] for two actions and [−9, 1, 11] for three, as in section 4.

    `epsilon` keeps an action from having features of exactly zero, which would fix its Q̂ at zero. None (the default)
    chooses spread/10 when some action would have that, and 0 otherwise. Spaces of several dimensions get one
    number for each. Actions must be ordered for this to make sense: left, nothing, right.
    """

    def __init__(self, space: Space, *, spread: float = 10.0, epsilon: float | None = None) -> None:
        super().__init__(space)
        spread = positive("spread", spread)
        if epsilon is None:
            epsilon = spread / 10 if (self.u == 0).any() else 0.0
        self._describe(spread * self.u + finite("epsilon", epsilon))
