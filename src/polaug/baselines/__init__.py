"""Whole agents to compare with, as Stable-Baselines3 has them: attention A2C, and Sarsa with tile coding."""

from polaug.baselines.atta2c import AttA2C
from polaug.baselines.tiles import TileSarsa

__all__ = ["AttA2C", "TileSarsa"]
