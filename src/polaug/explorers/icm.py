"""`icm`: intrinsic curiosity (Pathak et al., 2017): a bonus for prediction errors of a dynamics model.

An encoder φ learns, with an inverse model, to tell from φ(s) and φ(s') which action was taken: what actions cannot
influence has no place in φ. A forward model predicts φ(s') from φ(s) and the action. The bonus is ½|φ̂(s') − φ(s')|².
"""

from __future__ import annotations

import numpy as np

from polaug.explorers.base import Batch, FloatArray
from polaug.explorers.network import Network
from polaug.explorers.prediction import PredictionExplorer
from polaug.features.spaces import action_flattener


class ICMExplorer(PredictionExplorer):
    """A bonus for transitions that a model of the dynamics predicts badly; acts at random.

    `beta` scales the bonus, which is in units of the running deviation of its own discounted sums (`gamma`). The
    encoder gives `outputs` features; all networks have one hidden layer of `hidden` units. Every `every` transitions
    they learn from them in minibatches of `minibatch` with Adam at `learning_rate`. Observations are whitened and
    clipped to ±`clip`.
    """

    _trained = ("encoder", "inverse", "forward")

    def _build(self, hidden: int, outputs: int) -> dict[str, Network]:
        flat = action_flattener(self.action_space)
        counts = (flat.high - flat.low).astype(np.int64) + 1
        self._choices = np.cumsum(counts)[:-1] if flat.categorical.any() else None  # where y(a)'s one-hots are split
        self._size, described = outputs, self.actions.size
        return {
            "encoder": Network((self._inputs.size, hidden, outputs), self._rng),
            "inverse": Network((2 * outputs, hidden, described), self._rng),
            "forward": Network((outputs + described, hidden, outputs), self._rng),
        }

    def _error(self, batch: Batch) -> FloatArray:
        n = len(batch)
        codes = self._networks["encoder"](self._inputs(np.concatenate([batch.flat, batch.next_flat])))
        predicted = self._networks["forward"](np.concatenate([codes[:n], batch.features], axis=1))
        error: FloatArray = 0.5 * np.square(predicted - codes[n:]).sum(axis=1)
        return error

    def _rows(self, batch: Batch) -> FloatArray:
        return np.concatenate([batch.flat, batch.next_flat, batch.features], axis=1)

    def _train(self, rows: FloatArray) -> None:
        n, d = len(rows), self._flatten.size
        encoder, inverse, forward = (self._networks[name] for name in self._trained)
        described = rows[:, 2 * d :]
        encoded = encoder.forward(self._inputs(np.concatenate([rows[:, :d], rows[:, d : 2 * d]])))
        codes, next_codes = encoded[-1][:n], encoded[-1][n:]

        guess = inverse.forward(np.concatenate([codes, next_codes], axis=1))
        inverse_gradient, slopes = inverse.backward(guess, self._inverse_slopes(guess[-1], described))
        # The encoder learns from the inverse model alone: the forward model could also be pleased by features that
        # say nothing, and the bonus would vanish with them.
        both = np.concatenate([slopes[:, : self._size], slopes[:, self._size :]])
        encoder_gradient, _ = encoder.backward(encoded, both)

        predicted = forward.forward(np.concatenate([codes, described], axis=1))
        forward_gradient, _ = forward.backward(predicted, (predicted[-1] - next_codes) / n)
        for name, gradient in zip(self._trained, (encoder_gradient, inverse_gradient, forward_gradient), strict=True):
            self._optimizers[name].step(gradient)

    def _inverse_slopes(self, guess: FloatArray, described: FloatArray) -> FloatArray:
        """Gradient (n, ·) of the inverse loss: cross-entropy of each choice, or the mean squared error of y(a)."""
        if self._choices is None:
            return 2.0 / guess.size * (guess - described)
        parts = []
        for logits in np.split(guess, self._choices, axis=1):
            odds = np.exp(logits - logits.max(axis=1, keepdims=True))
            parts.append(odds / odds.sum(axis=1, keepdims=True))
        slopes: FloatArray = (np.concatenate(parts, axis=1) - described) / len(guess)
        return slopes
