"""Box 4: decides what drives the next episode, guide or agent, and teaches the agent. Start at `Coach`."""

from polaug.coach.coach import Coach
from polaug.coach.decide import Decision, decide
from polaug.coach.pupil import Pupil
from polaug.coach.records import Episode, Records
from polaug.coach.standardise import Standardise

__all__ = ["Coach", "Decision", "Episode", "Pupil", "Records", "Standardise", "decide"]
