"""`rnd`: random network distillation (Burda et al., 2018): a bonus for states unlike those seen.

A fixed random network is the target; a second one learns to give the same outputs on the states seen. Where it fails,
little like it has been seen. The bonus is the mean squared difference on the state that a step led to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polaug.explorers.base import Batch, FloatArray
from polaug.explorers.network import Network
from polaug.explorers.prediction import PredictionExplorer


class RNDExplorer(PredictionExplorer):
    """A bonus for states on which a predictor has not yet learnt a fixed random network; acts at random.

    `beta` scales the bonus, which is in units of the running deviation of its own discounted sums (`gamma`). Both
    networks have one hidden layer of `hidden` units, the predictor one more, and `outputs` outputs. Every `every`
    transitions the predictor learns from them in minibatches of `minibatch` with Adam at `learning_rate`.
    Observations are whitened and clipped to ±`clip`.
    """

    _trained = ("predictor",)

    def _build(self, hidden: int, outputs: int) -> dict[str, Network]:
        d = self._inputs.size
        # A layer more than the target, as in the paper, so that the target can be learnt at all.
        return {
            "target": Network((d, hidden, outputs), self._rng),
            "predictor": Network((d, hidden, hidden, outputs), self._rng),
        }

    def _error(self, batch: Batch) -> FloatArray:
        return self._difference(batch.next_flat)

    def _uncertainty(self, flat: FloatArray, states: Any) -> FloatArray | None:
        if not self._updates:
            return None
        error, mean = self._difference(flat), (1.0 - self._gamma) * float(self._scale.mean[0])
        return error / (error + mean + 1e-300)  # below ½: better known than the average of what was seen

    def _difference(self, flat: FloatArray) -> FloatArray:
        x = self._inputs(flat)
        difference = self._networks["predictor"](x) - self._networks["target"](x)
        error: FloatArray = np.square(difference).mean(axis=1)
        return error

    def _rows(self, batch: Batch) -> FloatArray:
        return batch.next_flat

    def _train(self, rows: FloatArray) -> None:
        x, predictor = self._inputs(rows), self._networks["predictor"]
        values = predictor.forward(x)
        difference = values[-1] - self._networks["target"](x)
        self._optimizers["predictor"].step(predictor.backward(values, 2.0 / difference.size * difference)[0])
