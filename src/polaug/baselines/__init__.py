"""Whole agents to compare with, each a subclass of a Stable-Baselines3 agent; no training loop is copied."""

from polaug.baselines.atta2c import AttA2C

__all__ = ["AttA2C"]
