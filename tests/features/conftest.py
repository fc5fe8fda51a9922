"""Spaces that several tests share."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces


@pytest.fixture
def mountain_car() -> spaces.Box:
    return spaces.Box(np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32))


@pytest.fixture
def cart_pole() -> spaces.Box:
    high = np.array([4.8, np.inf, 0.41887903, np.inf], np.float32)
    return spaces.Box(-high, high)
