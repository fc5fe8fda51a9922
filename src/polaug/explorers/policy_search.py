"""`policy_search`: a search for low-rank policies a = argmax_a (1, z)ᵀ Θ y(a) in the completed dynamics.

With X the state itself and Y a few action features, Q̂ = X U Vᵀ Yᵀ is such a policy, whatever its values. Many tasks of
control have a good one, but fitting values does not find it. So it is searched for by evolution in the completed
dynamics (model rollouts from starts that were seen, with the model's own error as noise; compare Chua et al., 2018), a
few rollouts at each step. What a policy really returned corrects what the model had predicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from polaug.explorers.base import Batch, FloatArray, IntArray
from polaug.explorers.dynamics import DynamicsOptions, Sample, fourier_features
from polaug.explorers.experience import DynamicsExplorer, settings
from polaug.explorers.model_step import BEYOND, Model
from polaug.explorers.rollout import linear_returns, linear_scores
from polaug.explorers.threads import one_thread
from polaug.features.kernels import farthest_points, polynomial_size
from polaug.features.spaces import Space
from polaug.snapshot import saved
from polaug.streams import stream

_AT_ONCE = 6  # policies of one call: a call has its price, and long rollouts of many would be a pause
_MOST_WORK = 10_000  # products of a step of a rollout: beyond, tens of thousands of them would cost seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Settings of the policy search."""

    population: int = 24
    """Number of policies in a generation."""
    elite: int = 10
    """Policies kept because the model predicts the highest returns for them."""
    veterans: int = 4
    """Policies kept because of their real returns."""
    starts: int = 4
    """Model rollouts of a policy. Half of them decide whether it gets the others."""
    generations: int = 3
    """Generations that are compared in the same model, each with smaller mutations."""
    mutation: float = 0.5
    """Size of the first generation's mutations against that of a policy; half as much in each further one."""
    fresh: float = 0.25
    """Share of a generation that is drawn at random."""
    credit: float = 100.0
    """Steps of model rollouts that each real step allows."""
    first_credit: float = 40_000.0
    """Steps of model rollouts allowed at the beginning."""
    burst: float = 0.01
    """Share of the allowed rollout steps that is spent at one real step. An early model is poor, so not all at once."""
    longest: int = 400
    """Maximum number of steps of a model rollout."""
    known_points: int = 120
    """Number of visited states, spread as far as possible, that mark where the model has data."""
    known_radius: float = 3.0
    """Distance from these states, in covering radii, beyond which predictions of the model are not used."""


@saved()
@dataclass(slots=True, eq=False)
class Policy:
    """Θ (1 + d, n), what the model predicts for it and what it has really returned."""

    theta: FloatArray
    predicted: float = 0.0
    plays: int = 0
    total: float = 0.0  # of real returns
    excess: float = 0.0  # of real returns over what was predicted from their start


@saved()
@dataclass(slots=True)
class Playing:
    """A policy in an episode."""

    policy: Policy
    predicted: float = math.nan  # from the actual start; NaN until the first step is seen
    corrected: float = math.nan


@saved("model", "starts", "known", "reach", "usual", "horizon", "number")
@dataclass(slots=True)
class Judge:
    """Rollouts from fixed starts with fixed noise in one model, so that policies compare."""

    model: Model
    starts: FloatArray  # (B, d)
    known: FloatArray  # (d, b)
    reach: float
    usual: float
    horizon: int
    number: int  # seeds the noise
    noise: FloatArray = field(init=False)  # (B, T, d)

    def __post_init__(self) -> None:
        self._restored()

    def _restored(self) -> None:
        drawn = stream(self.number, "policy_search", "noise")
        shape = (len(self.starts), self.horizon, self.starts.shape[1])
        self.noise = drawn.standard_normal(shape) * self.model.error

    def returns(self, thetas: FloatArray, Y: FloatArray, first: int, last: int) -> tuple[FloatArray, int]:
        """Sum (K,) of the returns of policies (K, 1 + d, n) from starts first … last − 1, and the steps it took."""
        weights = np.ascontiguousarray((thetas @ Y.T).transpose(0, 2, 1))
        return self._play(weights, self.starts[first:last], self.noise[first:last])

    def from_state(self, thetas: FloatArray, Y: FloatArray, z: FloatArray) -> tuple[FloatArray, int]:
        """Returns (K,) from one state z (d,), the mean of two rollouts."""
        weights = np.ascontiguousarray((thetas @ Y.T).transpose(0, 2, 1))
        totals, steps = self._play(weights, np.stack([z, z]), self.noise[:2])
        return totals / 2, steps

    def _play(self, weights: FloatArray, starts: FloatArray, noise: FloatArray) -> tuple[FloatArray, int]:
        totals = np.zeros(len(weights))
        steps = linear_returns(self.model, weights, starts, noise, self.known, self.reach, self.usual, totals)
        return totals, steps


@saved(
    "_archive", "_queue", "_judge", "_round", "_generation", "_credit", "_centre", "_inverse", "_playing", "_bias",
    "_judged", "_errors", "_own", "_review_at",
)  # fmt: skip
class PolicySearchExplorer(DynamicsExplorer):
    """Search for linear policies in learned dynamics.

    Parameters
    ----------
    search
        `SearchOptions`, or a dict of some of its fields.
    **common
        See `DynamicsExplorer`.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        search: SearchOptions | Mapping[str, Any] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(observation_space, action_space, **common)
        self._search = settings("search", search, SearchOptions)
        self._Y, d = self.actions.Y, self._flatten.size
        self._archive: list[Policy] = []
        self._queue: list[Policy] = []  # to be compared with the archive, the next one last
        self._judge: Judge | None = None
        self._round = self._generation = 0
        self._credit = self._search.first_credit
        self._centre, self._inverse = np.zeros(d), np.zeros(d)  # the units of all Θ
        self._playing: dict[int, Playing] = {}
        self._bias, self._judged = 0.0, 0  # by how much real returns exceed predictions, over how many
        self._errors = np.zeros(2)  # squared, of judging by the record and by the model
        self._own = np.zeros(0, dtype=np.bool_)  # whether each episode was driven by this explorer alone so far
        self._review_at = 0  # step; alone, it looks after the dynamics itself

    @staticmethod
    def suits(dimensions: int, n_actions: int, options: DynamicsOptions) -> bool:
        """Whether a step of a rollout is cheap enough for tens of thousands of them, and policies are few enough
        numbers to be searched for.
        """
        products = fourier_features(dimensions, options) + n_actions + polynomial_size(dimensions)
        return (1 + dimensions) * products <= _MOST_WORK

    @property
    def ready(self) -> bool:
        """Whether there is a policy."""
        return bool(self._archive)

    # -- acting -----------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Unfinished episodes count for no policy."""
        super().reset()
        self._playing.clear()

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        for i in self._to_drive(len(flat)):
            if not self._archive:
                self._chosen[i] = self._rng.integers(self.actions.n_actions)
                continue
            if i not in self._playing:
                self._playing[i] = Playing(self.best)
            self._chosen[i] = self._scores(self._playing[i].policy, flat[i : i + 1]).argmax()
        return np.maximum(self._chosen, 0)

    def _scores(self, policy: Policy, flat: FloatArray) -> FloatArray:
        return linear_scores(policy.theta, self._Y, self._centre, self._inverse, flat)

    # -- learning ---------------------------------------------------------------------------------------------------

    def _learn(self, batch: Batch) -> None:
        if self._shares:
            return
        finished = self.experience.learn(batch)
        if self.experience.buffer.steps >= self._review_at:
            self._review_at = int(1.15 * self.experience.buffer.steps) + 1
            self.experience.review()
        followed = np.array(self._followed(batch), dtype=np.bool_)
        self._own = followed & (self._own if len(self._own) == len(batch) else True)
        judged = {i: total if self._own[i] else None for i, total in finished}
        self._own = self._own | batch.ended
        self.learn_from(batch, judged, int(np.count_nonzero(followed)))

    def learn_from(self, batch: Batch, judged: Mapping[int, float | None], driven: int) -> None:
        """Learn from transitions that the experience has just taken in.

        Parameters
        ----------
        batch
            The transitions.
        judged
            The environments whose episode is over, with its return if it was this explorer's.
        driven
            Steps that this explorer drove, or the portfolio that it belongs to: they earn rollouts, so that what
            searching costs stays in proportion to them.
        """
        own = self._followed(batch)
        self._forget_choice(len(batch))
        for i, playing in list(self._playing.items()):
            if i >= len(batch):
                del self._playing[i]
            elif own[i] and math.isnan(playing.predicted):
                self._choose_for(i, batch.next_flat[i])
        for i, total in judged.items():
            played = self._playing.pop(i, None)
            if played is not None and total is not None and not math.isnan(played.predicted):
                self._judge_by(played, total)
        most = 3.0 * self._search.first_credit
        self._credit = min(self._credit + self._search.credit * driven, most)
        self._advance()

    def quiet(self, n: int) -> bool:
        """Whether steps of n environments that others drive change nothing."""
        return self._credit <= 0.0 and not self._awaits(n) and all(i < n for i in self._playing)

    def _choose_for(self, environment: int, flat: FloatArray) -> None:
        """The policy with the best prospects from here."""
        judge = self._judge
        if judge is None:
            return
        z = np.clip((flat - judge.model.centre) * judge.model.inverse, -BEYOND, BEYOND)
        predicted, steps = judge.from_state(np.array([policy.theta for policy in self._archive]), self._Y, z)
        self._credit -= steps
        trust = 0.5  # in the model against the record, by which of the two has erred less
        if self._judged >= 2 and self._errors.sum() > 0:
            trust = float(self._errors[0] / self._errors.sum())
        corrected = [
            float(here) + (policy.excess + self._bias) / (policy.plays + 1)
            for here, policy in zip(predicted, self._archive, strict=True)
        ]
        prospects = [
            (1.0 - trust) * self._record(policy) + trust * c for policy, c in zip(self._archive, corrected, strict=True)
        ]
        best = int(np.argmax(prospects))
        self._playing[environment] = Playing(self._archive[best], float(predicted[best]), corrected[best])

    def _judge_by(self, playing: Playing, total: float) -> None:
        """Update the errors of predictions and records from a real return."""
        policy, weight = playing.policy, 1.0 / min(self._judged + 1, 5)
        judgements = np.array([self._record(policy), playing.corrected])
        self._errors += ((total - judgements) ** 2 - self._errors) * weight
        self._bias += (total - playing.predicted - self._bias) * weight
        self._judged += 1
        policy.plays += 1
        policy.total += total
        policy.excess += total - playing.predicted

    def _record(self, policy: Policy) -> float:
        """The mean of its real returns, the corrected prediction counting as one more."""
        return (policy.total + policy.predicted + self._bias) / (policy.plays + 1)

    @property
    def best(self) -> Policy:
        """The policy with the best record."""
        return max(self._archive, key=self._record)

    # -- searching --------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Some rollouts, as long as there is credit."""
        if self.experience.dynamics.frame is None:
            return
        spend = max(self._search.burst * self._credit, min(self._search.credit, self._credit))
        while spend > 0.0 and self._credit > 0.0:
            if not self._queue:
                self._next_generation()
            assert self._judge is not None
            usual = self._search.starts * max(self.experience.record.longest, 1)
            batch = min(max(int(spend / usual), 1), _AT_ONCE, len(self._queue))
            used = self._compare([self._queue.pop() for _ in range(batch)])
            spend -= used
            self._credit -= used

    def _next_generation(self) -> None:
        """Fill the queue: a new model and the archive again, or children of the archive."""
        fresh = self._judge is None or self._generation >= self._search.generations
        if fresh:
            self._judge = self._new_judge()
            self._generation = 0
            self._round += 1
            for policy in self._archive:
                policy.theta = _normalised(policy.theta)
            self._queue = self._archive.copy()
            if not self._queue:
                self._queue = [Policy(self._drawn()) for _ in range(4 * self._search.population)]
            return
        strength = self._search.mutation * 0.5**self._generation
        self._generation += 1
        self._queue = [Policy(theta) for theta in self._bred(strength)]

    def _compare(self, policies: list[Policy]) -> int:
        """Score some policies in model rollouts; those above the median of the archive get all rollouts and join it."""
        assert self._judge is not None
        B, half = len(self._judge.starts), max(len(self._judge.starts) // 2, 1)
        totals, steps = self._judge.returns(np.array([p.theta for p in policies]), self._Y, 0, half)
        kept = {id(policy) for policy in self._archive}
        bar = -np.inf
        if len(self._archive) >= self._search.elite:
            bar = median(policy.predicted for policy in self._archive)
        better = [k for k in range(len(policies)) if totals[k] / half >= bar or id(policies[k]) in kept]
        if better and half < B:
            rest, more = self._judge.returns(np.array([policies[k].theta for k in better]), self._Y, half, B)
            steps += more
        else:
            rest = np.zeros(len(better))
        for k, extra in zip(better, rest, strict=True):
            policies[k].predicted = float(totals[k] + extra) / B
            if id(policies[k]) not in kept:
                self._archive.append(policies[k])
        by_prediction = sorted(self._archive, key=lambda p: -p.predicted)
        elite = self._search.elite
        played = [policy for policy in by_prediction[elite:] if policy.plays]
        self._archive = by_prediction[:elite] + sorted(played, key=lambda p: -self._record(p))[: self._search.veterans]
        return steps

    @one_thread
    def _new_judge(self) -> Judge:
        """Rollouts in the model as it is now."""
        model, record, options = self.experience.dynamics.model, self.experience.record, self._search
        assert model is not None
        self._reframe(model)
        starts = np.clip((record.starts(options.starts, self._rng) - model.centre) * model.inverse, -BEYOND, BEYOND)
        sample: Sample = self.experience.dynamics.draw(self._rng)
        seen = sample.following
        if len(seen) > 800:
            seen = seen[self._rng.choice(len(seen), 800, replace=False)]
        points = np.ascontiguousarray(seen * model.relevance)
        order, radius = farthest_points(points, min(options.known_points, len(points)), 0)
        reach = options.known_radius * max(float(radius[-1]), 0.05)
        return Judge(
            model, starts, np.ascontiguousarray(points[order].T), reach**2, float(sample.rewards.mean()),
            record.horizon(options.longest), self._round,
        )  # fmt: skip

    def _reframe(self, model: Model) -> None:
        """Rewrite all Θ for the model's present units: z_old = z · ratio + shift."""
        if self._archive or self._playing:
            units = np.where(model.inverse > 0, model.inverse, 1.0)
            ratio = np.where(model.inverse > 0, self._inverse / units, 0.0)
            shift = (model.centre - self._centre) * self._inverse
            everyone = {id(p): p for p in [*self._archive, *(playing.policy for playing in self._playing.values())]}
            for policy in everyone.values():
                first, rest = policy.theta[0] + shift @ policy.theta[1:], ratio[:, None] * policy.theta[1:]
                policy.theta = np.concatenate([first[None], rest])
        self._centre, self._inverse = model.centre.copy(), model.inverse.copy()

    def _drawn(self) -> FloatArray:
        """A dimension without relevance does not steer."""
        assert self._judge is not None
        model = self._judge.model
        amplitude = np.append(1.0, np.where(model.inverse > 0, model.relevance, 0.0))[:, None]
        return _normalised(self._rng.standard_normal((len(amplitude), self._Y.shape[1])) * amplitude)

    def _bred(self, strength: float) -> list[FloatArray]:
        """A generation: some random, some mutated from the better ones, some moved along the difference of two."""
        rng, pool = self._rng, sorted(self._archive, key=lambda p: -p.predicted)
        fresh, thetas = self._search.fresh, []
        for _ in range(self._search.population):
            kind = rng.random()
            if kind < fresh:
                thetas.append(self._drawn())
                continue
            parent = pool[min(int(rng.exponential(2.0)), len(pool) - 1)].theta
            if kind < (1.0 + fresh) / 2 or len(pool) < 4:
                child = parent + strength * self._drawn()
            else:
                one, other = rng.integers(len(pool), size=2)
                child = parent + 0.7 * (pool[one].theta - pool[other].theta) + 0.05 * self._drawn()
            thetas.append(_normalised(child))
        return thetas

    # -- what it knows ----------------------------------------------------------------------------------------------

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return self.values(flat)

    def values(self, flat: FloatArray) -> FloatArray | None:
        """Scores (n, N) of the policy with the best record: right in their order, not in their size."""
        return self._scores(self.best, flat) if self._archive else None

    def predicted_return(self, starts: FloatArray, horizon: int) -> float:
        """Mean undiscounted return of the best policy in model rollouts from `starts` (n, d)."""
        model, best = self.experience.dynamics.model, self.best
        assert model is not None
        units = np.where(model.inverse > 0, model.inverse, 1.0)
        ratio = np.where(model.inverse > 0, self._inverse / units, 0.0)
        shift = (model.centre - self._centre) * self._inverse
        theta = np.concatenate([(best.theta[0] + shift @ best.theta[1:])[None], ratio[:, None] * best.theta[1:]])
        weights = np.ascontiguousarray((theta @ self._Y.T).T[None])
        z = np.clip((starts - model.centre) * model.inverse, -BEYOND, BEYOND)
        totals, nowhere = np.zeros(1), np.zeros((z.shape[1], 1))
        linear_returns(model, weights, z, np.zeros((len(z), horizon, z.shape[1])), nowhere, 1e300, 0.0, totals)
        return float(totals[0]) / len(z)

    @property
    def expected_return(self) -> float | None:
        """What the best policy may be expected to return; None while there is none."""
        return max(self._record(policy) for policy in self._archive) if self._archive else None


def _normalised(theta: FloatArray) -> FloatArray:
    """A policy's size does not matter; keeping it at 1 gives mutations their meaning."""
    size = math.sqrt(float((theta * theta).sum()))
    return theta / max(size, 1e-12)
