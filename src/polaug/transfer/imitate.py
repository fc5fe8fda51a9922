"""`imitate`: self-imitation (Oh et al., 2018) on rollouts that were better than the agent's value estimate.

Steps of finished episodes, whoever drove, are kept with their discounted returns R. Where R exceeds the estimate, a
policy is pulled towards the action taken, in proportion to the excess, and a value-based agent raises its value.
"""

from __future__ import annotations

import numpy as np

from polaug.config import Augmentation
from polaug.exploration import Explorer, Transitions
from polaug.state import State
from polaug.transfer.base import Student, Transfer
from polaug.transfer.episodes import FinishedEpisodes
from polaug.transfer.optimizer import TeachingOptimizer, input_factor


class Imitate(Transfer):
    """Lessons from the agent's and the explorer's own past."""

    def __init__(self, settings: Augmentation, student: Student, explorer: Explorer, rng: np.random.Generator) -> None:
        super().__init__(settings, student, explorer, rng)
        self._episodes = FinishedEpisodes(student.gamma, settings.memory)
        self._optimizer = TeachingOptimizer(student.parameters, settings.teach_rate, student.first_layers)

    def watch(self, transitions: Transitions) -> None:
        """Follow the episodes; returns are known when they end. A truncated tail counts as worth nothing more."""
        self._episodes.watch(transitions)

    def restart(self) -> None:
        """Forget unfinished episodes."""
        self._episodes.restart()

    def forget(self) -> None:
        """No momentum; what paid off has paid off."""
        self._optimizer.forget()

    def teach(self, weight: float = 1.0) -> dict[str, float]:
        """A quarter of the usual minibatches: each is used in full."""
        if not len(self._episodes) or self.student.evaluate is None:
            return {}
        batches, total, better = max(1, round(weight * self.settings.teach_batches / 4)), 0.0, 0.0
        spread = 1e-6 + float(self._episodes.returns.std())  # the weight must not depend on the reward's scale
        for _ in range(batches):
            at = self.rng.integers(len(self._episodes), size=self.settings.teach_batch_size)
            raw, taken, returns = self._episodes.rows(at)
            states, actions = self.student.tensor(raw), self.student.actions(taken)
            log_probs, values = self.student.evaluate(states, actions)
            scale = self.student.reward_scale()
            excess = ((values.new_tensor(returns * scale) - values) / (spread * scale)).clamp(min=0.0)
            loss = 0.5 * excess.square().mean() if values.requires_grad else excess.new_zeros(())
            if log_probs is not None:
                loss = loss - (log_probs * excess.detach().clamp(max=3.0)).mean()
            self._optimizer.step(loss, input_factor(states))
            total, better = total + float(loss.detach()), better + float((excess > 0).float().mean())
        self.student.sync()
        return {"lesson_loss": total / batches, "better_than_expected": better / batches}

    def state_dict(self) -> State:
        """Finished episodes and the optimizer."""
        return self._episodes.state_dict() | self._optimizer.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        self._episodes.load_state_dict(state)
        self._optimizer.load_state_dict(state)
