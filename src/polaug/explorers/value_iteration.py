"""Fitted value iteration in the completed dynamics, with R-max optimism (Brafman and Tennenholtz, 2002).

At anchor states every action gets the target

    (1 − κ) [(1 − p)(r̂ + γ V(ẑ')) + p r̂_end] + κ V_opt

where ẑ', r̂ and the probability p of termination come from the model (or from the transition itself where that very pair
was observed), and κ ∈ [0, 1] is the novelty of ẑ': the variance of a `MultiOutput` engine over radial basis functions
that has seen all visited states.

Up to two relevant dimensions the anchors are the nodes of a grid, with interpolation between them (`GridSolution`).
Beyond, the anchors are drawn from what was visited, and V is the mean of two ridge regressions with radial basis
functions of different centres and lengths, plus quadratics while nothing was found (`Solution`).

Value iteration goes on a little at every step; a finished `Plan` gives Q by one step through the model as it is then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polaug.compiled import compiled
from polaug.explorers.base import FloatArray, IntArray
from polaug.explorers.dynamics import Dynamics, Sample
from polaug.explorers.interpolation import back_up_nodes, corners, grid_nodes, grid_shape, nearest
from polaug.explorers.model_step import Model, predict
from polaug.explorers.novelty import Novelty, novelties
from polaug.explorers.plan import Bounds, Plan, values_at
from polaug.explorers.record import Phase
from polaug.explorers.rollout import held
from polaug.features.kernels import bumps, farthest_points, polynomial, polynomial_size, single_bumps
from polaug.snapshot import saved

Single = NDArray[np.float32]

_SOLVED = 1e-4  # change of V, as a share of its range, at which a plan is finished
_JITTER = 1e-6  # on the diagonal of kernel matrices
_CANDIDATES = 1500  # visited states among which anchors are spread
_SHORTEST = 0.1  # length of a radial basis function, in units of the range seen
_UNSEEN = 0.05  # where no variance is above it, but all are alike unknown, what is above a third of the most is novel


@saved()
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Settings of the planner."""

    nodes: int = 2500
    """Maximum number of nodes of the grid on which V is solved."""
    along: int = 20
    """Minimum number of nodes along each relevant dimension. If `nodes` leaves fewer, V is solved on anchor states."""
    hold: int = 4
    """Maximum number of steps for which a backup on the grid holds an action until the state has left its cell."""
    pairs: int = 3000
    """Without a grid: maximum number of pairs of anchor state and action at which V is solved."""
    centres: int = 150
    """Without a grid: radial basis functions of each regression of V (of two); two thirds of it in the blind phase."""
    length: float = 2.0
    """Length of all radial basis functions, in covering radii of their centres; twice that in the second regression
    in the blind phase.
    """
    ridge: float = 0.01
    """Ridge of the regressions of V; twice that in the blind phase."""
    novelty_centres: int = 60
    """Number of radial basis functions of the engine that measures novelty."""
    novelty_ridge: float = 0.1
    """Weight of the novelty's prior variance against one visit."""
    known: float = 0.1
    """A state whose variance is below this share of the prior's counts as known."""
    optimism: float = 1.0
    """Optimism: V of unknown states above the best return so far, as a multiple of the range of returns. 0: none."""
    fade: float = 4.0
    """Episodes after which `optimism` has fallen to one half."""
    sweeps: int = 150
    """Maximum number of sweeps of value iteration for a plan."""
    work: int = 4_000_000
    """Multiplications that value iteration may take at each step."""
    growth: float = 0.15
    """A new plan starts after this share of the steps so far, at the latest after `longest` steps."""
    longest: int = 500
    """Maximum number of steps between two plans."""
    revisit_length: float = 0.15
    """Length scale of the revisit penalty, where the observed range has length 2. States nearer than half of it are
    treated as the same.
    """
    average: bool = True
    """Whether V is the mean of the last two plans, whose errors differ."""


@saved(
    "model", "anchors", "novelty", "phase", "bounds", "thresholds", "values", "sweeps", "_centres", "_lengths",
    "_known", "_onward", "_options", "_prepared",
)  # fmt: skip
class Solution:
    """Value iteration under way: its matrices are made at the first call of `advance`, its sweeps a few at a time."""

    def __init__(
        self, model: Model, anchors: Sample, centres: FloatArray, lengths: FloatArray, novelty: Novelty,
        phase: Phase, bounds: Bounds, thresholds: tuple[float, float], known: FloatArray, onward: FloatArray,
        values: FloatArray, options: PlanOptions,
    ) -> None:  # fmt: skip
        self.model, self.anchors, self.novelty, self.phase, self.bounds = model, anchors, novelty, phase, bounds
        self.thresholds, self.values, self.sweeps = thresholds, values, 0
        self._centres, self._lengths, self._known, self._onward = centres, lengths, known, onward
        self._options, self._prepared = options, False

    def _restored(self) -> None:
        if self._prepared:
            self._prepare()

    def _prepare(self) -> None:
        """The matrices, which follow from the rest."""
        model, anchors, centres, lengths = self.model, self.anchors, self._centres, self._lengths
        here = np.ascontiguousarray(anchors.z * model.relevance)
        following, *_ = complete(model, anchors)
        there = following.reshape(-1, following.shape[2]) * model.relevance
        m = len(centres) // 2
        heads = [
            _regression(here, there, centres[h * m : (h + 1) * m], float(lengths[h]), self.phase, self._options)
            for h in range(2)
        ]
        self._project = [project for project, _ in heads]
        self._both = np.concatenate([project.astype(np.float32) for project in self._project])
        self._ahead = np.concatenate([ahead for _, ahead in heads], axis=1)

    def advance(self, work: int) -> bool:
        """As many sweeps as `work` multiplications allow, at least one; True once V is solved."""
        if not self._prepared:
            self._prepare()
            self._prepared = True
            return False
        unit = max(self.bounds.optimum - self.bounds.low, 1e-300)
        for _ in range(max(work // (self._ahead.size + self._both.size), 1)):
            mean = float(self.values.mean())
            both = self._ahead @ (self._both @ ((self.values - mean) / unit).astype(np.float32))
            changed = back_up(self.values, both, mean, unit, self._known, self._onward, *self.bounds)
            self.sweeps += 1
            if changed < _SOLVED * unit or self.sweeps >= self._options.sweeps:
                return True
        return False

    def plan(self) -> Plan:
        """V as it is."""
        m, model = len(self._centres) // 2, self.model
        mean = float(self.values.mean())
        solved = [project @ (self.values - mean) for project in self._project]
        # The monomials were of relevant units; a plan uses those of z.
        rescale = polynomial(model.relevance[None])[0]
        searching = self.phase is not Phase.IMPROVING
        quadratic = (solved[0][m:] + solved[1][m:]) * rescale if searching else np.zeros(len(rescale))
        return Plan(
            model.centre, model.inverse, model.relevance, np.ascontiguousarray(self._centres.T),
            np.repeat(-0.5 / self._lengths**2, m), np.concatenate([w[:m] for w in solved]), quadratic,
            float(self.phase is not Phase.BLIND), mean,
            *self.bounds, np.ascontiguousarray(self.novelty.visited.T), -0.5 / self.novelty.length**2,
            self.novelty.certainty, *self.thresholds, np.ones(len(model.centre), np.int64), np.zeros(0),
        )  # fmt: skip


@saved(
    "model", "novelty", "phase", "bounds", "thresholds", "values", "sweeps", "_shape", "_states", "_done",
    "_variance", "_gamma", "_options",
)  # fmt: skip
class GridSolution:
    """Value iteration on a grid under way: V (n,) of its nodes.

    A backup holds an action until the state has left the cell of its node: interpolation blurs V once for each backup,
    and steps much shorter than a cell would be lost in that (semi-Lagrangian schemes; Munos and Moore, 2002).

    Nodes away from everything visited stand for the visited state nearest to them. Otherwise the optimistic values of
    states that do not exist would leak into those that do.
    """

    def __init__(
        self, model: Model, shape: IntArray, visited: FloatArray, novelty: Novelty, phase: Phase,
        bounds: Bounds, gamma: float, values: FloatArray, options: PlanOptions,
    ) -> None:  # fmt: skip
        self.model, self.novelty, self.phase, self.bounds = model, novelty, phase, bounds
        self.thresholds = (options.known, 1.0)
        self.values, self.sweeps = values, 0
        self._shape, self._gamma, self._options = shape, gamma, options
        self._states = grid_nodes(shape)
        away = novelty.variance(self._states * model.relevance) > options.known
        rows = nearest(self._states[away] * model.relevance, visited * model.relevance)
        self._states[away] = visited[rows]
        self._done = 0  # nodes whose backups are known
        self._variance = np.zeros((len(self._states), model.by_action.shape[0]))
        self._restored()

    def _restored(self) -> None:
        """What follows from the rest."""
        n, A = self._variance.shape
        self._following = np.zeros((n, A, len(self._shape)))
        self._paid, self._onward = np.zeros((n, A)), np.zeros((n, A))
        self._hold(slice(self._done))
        if self._done == n:
            self._prepare()

    def advance(self, work: int) -> bool:
        """As many sweeps as `work` multiplications allow, at least one; True once V is solved.

        Before the first sweep the backups are prepared, a share of the nodes at each call.
        """
        if self._done < len(self._states):
            self._look_ahead(work)
            return False
        unit = max(self.bounds.optimum - self.bounds.low, 1e-300)
        for _ in range(max(work // self._weights.size, 1)):
            changed = back_up_nodes(
                self.values, self._corners, self._weights, self._known, self._ahead, *self.bounds, self.sweeps % 2 == 0
            )
            self.sweeps += 1
            if changed < _SOLVED * unit or self.sweeps >= self._options.sweeps:
                return True
        return False

    def _look_ahead(self, work: int) -> None:
        """Where the actions lead from some more nodes."""
        model, A = self.model, self.model.by_action.shape[0]
        products = A * self._options.hold * (len(self._shape) + 1) * (len(model.phases) + len(model.ending))
        some = slice(self._done, self._done + max(work // products, 1))
        self._hold(some)
        there = self._following[some].reshape(-1, len(self._shape)) * model.relevance
        self._variance[some] = self.novelty.variance(there).reshape(-1, A)
        self._done = min(some.stop, len(self._states))
        if self._done == len(self._states):
            self._prepare()

    def _hold(self, some: slice) -> None:
        """Play each action from these nodes until their cell is left."""
        self._following[some], self._paid[some], self._onward[some] = held(
            self.model, self._states[some], self._shape, self._gamma, self._options.hold
        )

    def _prepare(self) -> None:
        """What Bellman backups of all nodes need."""
        self.thresholds = thresholds(self._variance, self.phase, self._options)
        unknown = novelties(self._variance, *self.thresholds)
        paid = np.zeros_like(self._paid) if self.phase is Phase.BLIND else self._paid
        self._known = (1.0 - unknown) * paid + unknown * self.bounds.optimum
        self._ahead = (1.0 - unknown) * self._onward
        self._corners, self._weights = corners(self._shape, self._following.reshape(-1, len(self._shape)))

    def plan(self) -> Plan:
        """V as it is."""
        model, d, none = self.model, len(self._shape), np.zeros(0)
        return Plan(
            model.centre, model.inverse, model.relevance, np.zeros((d, 0)), none, none, np.zeros(polynomial_size(d)),
            float(self.phase is not Phase.BLIND), 0.0, *self.bounds, np.ascontiguousarray(self.novelty.visited.T),
            -0.5 / self.novelty.length**2, self.novelty.certainty, *self.thresholds, self._shape, self.values.copy(),
        )  # fmt: skip


def thresholds(variance: FloatArray, phase: Phase, options: PlanOptions) -> tuple[float, float]:
    """Up to which variance a state counts as known, and from which on as wholly novel."""
    most = float(variance.max())
    if phase is Phase.BLIND and _JITTER < most < _UNSEEN:  # small steps only lead to near neighbours of what was seen
        return most / 3.0, most
    return options.known, 1.0


def begin(
    dynamics: Dynamics, before: Plan | None, bounds: Bounds, phase: Phase, gamma: float, options: PlanOptions,
    rng: np.random.Generator,
) -> Solution | GridSolution:  # fmt: skip
    """Value iteration, starting from the V of `before`."""
    model = dynamics.model
    assert model is not None
    sample = dynamics.draw(rng)
    A = model.by_action.shape[0]
    relevant = sample.z * model.relevance
    chosen, order, radius, candidates = _anchors(relevant, A, options, rng)
    searching = phase is not Phase.IMPROVING
    m = max(1, min(options.centres * 2 // 3 if searching else options.centres, len(order) // 2))
    b = min(options.novelty_centres, len(order))
    spread = candidates[np.concatenate([order[: 2 * m : 2][:m], order[1 : 2 * m : 2][:m]])]
    if len(spread) < 2 * m:  # a single point so far serves both
        spread = np.resize(spread, 2 * m)
    lengths = options.length * radius[m - 1] * np.array([1.0, 2.0 if searching else 1.0])
    novelty = Novelty(
        np.ascontiguousarray(relevant[candidates[order[:b]]]),
        max(options.length * float(radius[b - 1]), 1.5 * _SHORTEST), options.novelty_ridge,
    )  # fmt: skip
    novelty.count(relevant)
    half = np.divide(1.0, model.inverse, out=np.zeros_like(model.inverse), where=model.inverse > 0)
    shape = grid_shape(model.relevance, options.nodes, options.along)
    if shape is not None:
        nodes = grid_nodes(shape) * half + model.centre
        V = np.zeros(len(nodes)) if before is None else np.clip(values_at(before, nodes), *bounds)
        visited = np.ascontiguousarray(sample.z[candidates])
        return GridSolution(model, shape, visited, novelty, phase, bounds, gamma, V, options)
    anchors = sample.rows(chosen)
    following, reward, ends, last_reward = complete(model, anchors)
    if phase is Phase.BLIND:  # rewards do not differ yet: only the time to something novel counts
        reward, last_reward = np.zeros_like(reward), np.zeros_like(last_reward)
    variance = novelty.variance(following.reshape(-1, following.shape[2]) * model.relevance)
    limits = thresholds(variance, phase, options)
    unknown = novelties(variance, *limits).reshape(reward.shape)
    known = (1.0 - unknown) * ((1.0 - ends) * reward + ends * last_reward) + unknown * bounds.optimum
    onward = (1.0 - unknown) * (1.0 - ends) * gamma
    values = np.zeros(len(anchors.z))
    if before is not None:
        values = np.clip(values_at(before, anchors.z * half + model.centre), *bounds)
    return Solution(
        model, anchors, np.ascontiguousarray(relevant[spread]), np.maximum(lengths, _SHORTEST), novelty, phase, bounds,
        limits, known, onward, values, options,
    )  # fmt: skip


def _anchors(
    relevant: FloatArray, n_actions: int, options: PlanOptions, rng: np.random.Generator
) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """Anchors (rows of the sample): two thirds spread as far as possible, the rest at random.

    Also the farthest-point order among the candidates, its covering radii, and the candidates.
    """
    n = len(relevant)
    count = max(2, min(options.pairs // n_actions, n))
    candidates = np.arange(n) if n <= _CANDIDATES else rng.choice(n, _CANDIDATES, replace=False)
    spread = max(min(2 * count // 3, len(candidates)), min(len(candidates), 2))
    order, radius = farthest_points(
        np.ascontiguousarray(relevant[candidates]), spread, int(rng.integers(len(candidates)))
    )
    far = candidates[order]
    rest = np.setdiff1d(np.arange(n), far)
    extra = rng.choice(rest, min(max(count - spread, 0), len(rest)), replace=False)
    return np.concatenate([far, extra]), order, radius, candidates


def complete(model: Model, anchors: Sample) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """`predict` at the anchors; what was observed needs no prediction."""
    following, reward, ends, last_reward = predict(model, np.ascontiguousarray(anchors.z))
    real = np.flatnonzero(anchors.listed)
    action = anchors.actions[real]
    following[real, action], reward[real, action] = anchors.following[real], anchors.rewards[real]
    ends[real, action], last_reward[real, action] = anchors.terminated[real], anchors.rewards[real]
    return following, reward, ends, last_reward


def _regression(
    here: FloatArray, there: FloatArray, centres: FloatArray, length: float, phase: Phase, options: PlanOptions
) -> tuple[FloatArray, Single]:
    """The matrix (m + P, N) from anchor values to weights, and the features (N A, m + P) of the next states."""
    K, ahead = bumps(here, centres, length), single_bumps(there, centres, length)
    searching = phase is not Phase.IMPROVING
    prior = options.ridge * (2.0 if searching else 1.0) * bumps(centres, centres, length)
    if searching:
        monomials = polynomial(here)
        K = np.concatenate([K, monomials], axis=1)
        ahead = np.concatenate([ahead, polynomial(there).astype(np.float32)], axis=1)
        wide = np.zeros((K.shape[1], K.shape[1]))
        wide[: len(prior), : len(prior)] = prior
        wide[range(len(prior), len(wide)), range(len(prior), len(wide))] = options.ridge
        prior = wide
    prior[np.diag_indices_from(prior)] += _JITTER
    return np.asarray(np.linalg.solve(K.T @ K + prior, K.T), dtype=np.float64), ahead


@compiled
def back_up(
    values: FloatArray, both: Single, mean: float, unit: float, known: FloatArray, onward: FloatArray, low: float,
    optimum: float,
) -> float:  # fmt: skip
    """New `values` (N,), in place, from the sum of both regressions (N A,) at the next states; gives the most that any
    has changed.
    """
    n, n_actions = known.shape
    largest = 0.0
    for i in range(n):
        best = -np.inf
        for a in range(n_actions):
            following = min(max(mean + unit * 0.5 * both[i * n_actions + a], low), optimum)
            best = max(best, known[i, a] + onward[i, a] * following)
        best = min(max(best, low), optimum)
        largest = max(largest, abs(best - values[i]))
        values[i] = best
    return largest
