"""The member that plays low-rank policies on raw features, a = argmax_a (1, z)ᵀ Θ y(a): the paper's own family of Q̂.

With X the state itself and Y a few action features, Q̂ = X U Vᵀ Yᵀ is such a policy, whatever its values. Many tasks of
control have a good one, but fitting values does not find it. So it is searched for, by evolution inside the learned
dynamics, from the actual start and others seen, with the model's own error as noise. Where an imagined episode leaves
what was ever visited, the rest of it counts as the worse of ending and going on as usual, so that holes of the model do
not pay. What a policy really returned corrects what the model had promised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from polaug.exploration.base import Batch, FloatArray
from polaug.exploration.dynamics import BEYOND, Dynamics, Laws, waves_of
from polaug.exploration.geometry import farthest_points, polynomial_size
from polaug.exploration.imaginer import Imaginer
from polaug.exploration.member import Member
from polaug.exploration.promise import in_units, promised_by_policy
from polaug.exploration.rehearsal import play_in_model
from polaug.exploration.threads import one_thread
from polaug.state import LARGEST_COUNT, State, captured, checked, fitting, within

_POPULATION, _ELITE, _VETERANS = 24, 10, 4  # bred at a time; kept by the model's word; kept by their record
_STARTS = 4  # imagined episodes per policy: half from the actual start, half from others seen
_STARTS_KEPT = 60
_CREDIT, _FIRST_CREDIT, _MOST_CREDIT = 100.0, 40_000.0, 120_000.0  # imagined steps per real one; saved up to the last
_SHORTEST, _LONGEST = 100, 400  # imagined episodes, in steps
_GENERATIONS = 12
_MOST_WORK = 10_000  # products of a step of an imagined episode
_FRESH_SHARE, _MUTATED_SHARE = 0.25, 0.6  # of a generation: drawn anew, mutated up to here, the rest crossed
_KNOWN_RADIUS, _KNOWN_POINTS = 3.0, 120  # what is within so many covering radii of so many visited points is known


@dataclass(slots=True)
class Policy:
    """Θ (1 + d, n), what the model promises for it and what it has really returned."""

    theta: FloatArray
    here: float = 0.0  # promised from the actual start
    promised: float = 0.0  # promised from all starts
    plays: int = 0
    total: float = 0.0  # of real returns
    excess: float = 0.0  # of real returns over `here` at the time
    corrected: float = 0.0  # `here` plus what the record says it is usually off by


class Linear(Member):
    """An archive of policies, searched on before each episode and judged by promise and record."""

    _SAVED = ("_starts", "_n_starts", "_credit", "_longest", "_cut", "_bias", "_judged", "_errors", "_centre",
              "_inverse", "_framed")  # fmt: skip

    def __init__(self, imaginer: Imaginer, Y: FloatArray, dimensions: int, rng: np.random.Generator) -> None:
        self._imaginer, self._Y, self._rng = imaginer, Y, rng
        self._archive: list[Policy] = []
        self._playing: dict[int, tuple[Policy, FloatArray, FloatArray, FloatArray]] = {}
        self._starts, self._n_starts = np.zeros((_STARTS_KEPT, dimensions)), 0
        self._latest: dict[int, FloatArray] = {}  # start of each environment's episode
        self._credit = _FIRST_CREDIT
        self._longest, self._cut = 0, False  # the longest episode, and whether any was cut off by a time limit
        self._bias, self._judged = 0.0, 0  # by how much real returns exceed promises, over how many
        self._errors = np.zeros(2)  # squared, of judging by the record and by the model
        self._centre, self._inverse = np.zeros(dimensions), np.zeros(dimensions)  # the units of all Θ
        self._framed = False

    @staticmethod
    def suits(dimensions: int, n_actions: int) -> bool:
        """Whether a step of an imagined episode is cheap enough for tens of thousands of them, and policies are few
        enough numbers to be searched for.
        """
        return (1 + dimensions) * (waves_of(dimensions) + n_actions + polynomial_size(dimensions)) <= _MOST_WORK

    @property
    def ready(self) -> bool:
        """Whether there is a model to search in."""
        return self._dynamics.laws is not None

    @property
    def _dynamics(self) -> Dynamics:
        return self._imaginer.dynamics

    # -- what happens in the environments ---------------------------------------------------------------------------

    def started(self, environment: int, flat: FloatArray) -> None:
        """An episode starts here, whoever plays it."""
        self._latest[environment] = flat.copy()
        self._starts[self._n_starts % _STARTS_KEPT] = flat
        self._n_starts += 1

    def ended(self, length: int, cut: bool) -> None:
        """An episode ended after `length` steps; `cut` by a time limit."""
        self._longest = max(self._longest, length)
        self._cut = self._cut or cut

    def learn(self, batch: Batch, playing: bool) -> None:
        """Nothing: policies are searched for when an episode begins."""

    def earn(self, steps: int) -> None:
        """Real steps that the committee drove earn imagined ones: what searching costs stays in proportion to them."""
        self._credit = min(self._credit + _CREDIT * steps, _MOST_CREDIT)

    def horizon(self, most: int) -> int:
        """How long imagined episodes should be."""
        return min(self._longest, most) if self._cut else min(max(2 * self._longest, _SHORTEST), most)

    def sample_starts(self, count: int) -> FloatArray:
        """Starts of past episodes (count, d)."""
        return self._starts[self._rng.integers(min(self._n_starts, _STARTS_KEPT), size=count)]

    # -- playing ----------------------------------------------------------------------------------------------------

    def begin(self, environment: int) -> None:
        """Search on, then take the policy with the best prospects."""
        self._imaginer.refit(values=False)
        self.search(self._latest.get(environment, self._starts[0]))
        trust = 0.5  # in the model's word against the record, by which of the two has erred less
        if self._judged >= 2 and self._errors.sum() > 0:
            trust = float(self._errors[0] / self._errors.sum())
        for policy in self._archive:
            policy.corrected = policy.here + (policy.excess + self._bias) / (policy.plays + 1)
        best = max(self._archive, key=lambda p: (1.0 - trust) * self._record(p) + trust * p.corrected)
        self._playing[environment] = (best, best.theta @ self._Y.T, self._centre.copy(), self._inverse.copy())

    def choose(self, environment: int, flat: FloatArray) -> int:
        """The policy's choice."""
        _, weights, centre, inverse = self._playing[environment]
        z = np.minimum(np.maximum((flat - centre) * inverse, -3.0), 3.0)  # `clip` takes twice as long on so few
        return int((weights[0] + z @ weights[1:]).argmax())

    def finish(self, environment: int, total: float | None) -> None:
        """Learn from the return what promises and records are worth."""
        policy = self._playing.pop(environment)[0]
        if total is None:
            return
        weight = 1.0 / min(self._judged + 1, 5)
        judgements = np.array([self._record(policy), policy.corrected])
        self._errors += ((total - judgements) ** 2 - self._errors) * weight
        self._bias += (total - policy.here - self._bias) * weight
        self._judged += 1
        policy.plays += 1
        policy.total += total
        policy.excess += total - policy.here

    def plays(self, environment: int) -> bool:
        """Whether a policy was chosen for the episode."""
        return environment in self._playing

    def values(self, flat: FloatArray) -> FloatArray:
        """Q̂ (n, N) of the policy with the best record: right in its order, not in its size."""
        if not self._archive:
            return np.zeros((len(flat), len(self._Y)))
        theta = self._best.theta
        z = np.clip((flat - self._centre) * self._inverse, -3.0, 3.0)
        q: FloatArray = (theta[0] + z @ theta[1:]) @ self._Y.T
        return q

    def promise(self, laws: Laws, starts: FloatArray, horizon: int) -> float:
        """As that of other members, in one compiled loop."""
        if not self._archive:
            return super().promise(laws, starts, horizon)
        z, back = in_units(laws, starts)
        weights = self._best.theta @ self._Y.T
        return promised_by_policy(laws, weights, self._centre, self._inverse, z, back, horizon)

    @property
    def _best(self) -> Policy:
        return max(self._archive, key=self._record)

    def best_record(self) -> float | None:
        """What the best policy may be expected to return; None before any was played."""
        return max(self._record(policy) for policy in self._archive) if self._judged and self._archive else None

    def _record(self, policy: Policy) -> float:
        """The mean of its real returns, the corrected promise counting as one more."""
        return (policy.total + policy.promised + self._bias) / (policy.plays + 1)

    # -- searching --------------------------------------------------------------------------------------------------

    @one_thread
    def search(self, start: FloatArray) -> None:
        """Breed policies while there is credit, judged by imagined episodes."""
        laws = self._dynamics.laws
        assert laws is not None
        self._reframe(laws)
        judge = self._judge(laws, start)
        # A dimension without relevance should not steer.
        amplitude = np.append(1.0, np.where(laws.inverse > 0, laws.relevance, 0.0))[:, None]
        for policy in self._archive:
            policy.theta = _normalised(policy.theta)
        if self._archive:
            judge(self._archive, 0, _STARTS)
        else:
            fresh = [Policy(self._drawn(amplitude)) for _ in range(4 * _POPULATION)]
            judge(fresh, 0, _STARTS // 2)
            fresh.sort(key=lambda p: -p.here)
            self._archive = fresh[:_POPULATION]
            judge(self._archive, _STARTS // 2, _STARTS)
        self._trim()
        floor = 0.25 * max(self._credit, 0.0)
        for generation in range(_GENERATIONS):
            if self._credit <= floor:
                break
            born = [Policy(theta) for theta in self._bred((0.5, 0.25, 0.12)[generation % 3], amplitude)]
            judge(born, 0, _STARTS // 2)
            bar = float(np.median([policy.here for policy in self._archive]))
            born = [policy for policy in born if policy.here >= bar]  # the others are not worth the second half
            if born:
                judge(born, _STARTS // 2, _STARTS)
                self._archive += born
                self._trim()

    def _judge(self, laws: Laws, start: FloatArray) -> Judge:
        """What judges a list of policies from the same starts, with the same noise."""
        horizon = self.horizon(_LONGEST)
        starts = self.sample_starts(_STARTS)
        starts[: _STARTS // 2] = start
        z = np.clip((starts - laws.centre) * laws.inverse, -BEYOND, BEYOND)
        noise = self._rng.standard_normal((_STARTS, horizon, z.shape[1])) * laws.error
        sample = self._dynamics.sample
        assert sample is not None
        seen = sample.following
        if len(seen) > 800:
            seen = seen[self._rng.choice(len(seen), 800, replace=False)]
        points = np.ascontiguousarray(seen * laws.relevance)
        order, radius = farthest_points(points, min(_KNOWN_POINTS, len(points)), 0)
        reach = _KNOWN_RADIUS * max(float(radius[-1]), 0.05)
        usual = float(sample.rewards.mean())
        return Judge(self, laws, z, noise, np.ascontiguousarray(points[order].T), reach, usual)

    def spend(self, steps: int) -> None:
        """Imagined steps were used up."""
        self._credit -= steps

    def _reframe(self, laws: Laws) -> None:
        """Rewrite all Θ for the model's present units: z_old = z · ratio + shift."""
        if self._framed:
            units = np.where(laws.inverse > 0, laws.inverse, 1.0)
            ratio = np.where(laws.inverse > 0, self._inverse / units, 0.0)
            shift = (laws.centre - self._centre) * self._inverse
            for policy in self._archive:
                first, rest = policy.theta[0] + shift @ policy.theta[1:], ratio[:, None] * policy.theta[1:]
                policy.theta = np.concatenate([first[None], rest])
        self._centre, self._inverse, self._framed = laws.centre.copy(), laws.inverse.copy(), True

    def _drawn(self, amplitude: FloatArray) -> FloatArray:
        return _normalised(self._rng.standard_normal((len(amplitude), self._Y.shape[1])) * amplitude)

    def _bred(self, strength: float, amplitude: FloatArray) -> list[FloatArray]:
        """A generation: some drawn anew, some mutated from the better ones, some moved along the difference of two."""
        rng, pool = self._rng, sorted(self._archive, key=lambda p: -p.promised)
        thetas = []
        for _ in range(_POPULATION):
            kind = rng.random()
            if kind < _FRESH_SHARE:
                thetas.append(self._drawn(amplitude))
                continue
            parent = pool[min(int(rng.exponential(2.0)), len(pool) - 1)].theta
            if kind < _MUTATED_SHARE or len(pool) < 4:
                child = parent + strength * self._drawn(amplitude)
            else:
                one, other = rng.integers(len(pool), size=2)
                child = parent + 0.7 * (pool[one].theta - pool[other].theta) + 0.05 * self._drawn(amplitude)
            thetas.append(_normalised(child))
        return thetas

    def _trim(self) -> None:
        by_promise = sorted(self._archive, key=lambda p: -p.promised)
        played = [policy for policy in by_promise[_ELITE:] if policy.plays]
        self._archive = by_promise[:_ELITE] + sorted(played, key=lambda p: -self._record(p))[:_VETERANS]

    # -- state ------------------------------------------------------------------------------------------------------

    def use(self, rng: np.random.Generator) -> None:
        """Draw from this generator from now on."""
        self._rng = rng

    def state_dict(self) -> State:
        """The archive, policies under way and the record."""
        policies = list(self._archive)
        policies += [p for p, *_ in self._playing.values() if all(p is not other for other in policies)]
        where = {id(policy): k for k, policy in enumerate(policies)}
        d, n = self._starts.shape[1], self._Y.shape[1]
        return captured(self, self._SAVED) | {
            "archived": np.array(len(self._archive)),
            "environments": np.array(list(self._latest), dtype=np.int64),
            "latest": np.array(list(self._latest.values())).reshape(-1, d),
            "thetas": np.array([p.theta for p in policies]).reshape(-1, 1 + d, n),
            "records": np.array(
                [[p.here, p.promised, p.plays, p.total, p.excess, p.corrected] for p in policies]
            ).reshape(-1, 6),
            "playing": np.array([[e, where[id(p)]] for e, (p, *_) in self._playing.items()], dtype=np.int64).reshape(
                -1, 2
            ),
            "playing_weights": np.array([w for _, w, _, _ in self._playing.values()]).reshape(-1, 1 + d, len(self._Y)),
            "playing_units": np.array([[c, i] for _, _, c, i in self._playing.values()]).reshape(-1, 2, d),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`; on an error nothing has changed."""
        values = checked(self, self._SAVED, state)
        d, archived = self._starts.shape[1], int(state["archived"])
        new = fitting("linear", state, _LAYOUT, d=d, weights=1 + d, y=self._Y.shape[1], A=len(self._Y))
        thetas, records, playing, weights, units, environments, latest = new.values()
        within("linear.archived", archived, 0, len(thetas))
        within("linear.playing", playing, 0, LARGEST_COUNT)
        within("linear._n_starts, _longest", [values["_n_starts"], values["_longest"]], 0, LARGEST_COUNT)
        policies = [
            Policy(theta.copy(), float(r[0]), float(r[1]), int(r[2]), float(r[3]), float(r[4]), float(r[5]))
            for theta, r in zip(thetas, records, strict=True)
        ]
        under_way = {
            int(e): (policies[int(k)], weights[i].copy(), units[i, 0].copy(), units[i, 1].copy())
            for i, (e, k) in enumerate(playing)
        }
        for name, value in values.items():
            setattr(self, name, value)
        self._archive, self._playing = policies[:archived], under_way
        self._latest = dict(zip(environments.tolist(), latest, strict=True))


_LAYOUT = {
    "thetas": ("f", "policies", "weights", "y"), "records": ("f", "policies", 6), "playing": ("i", "n", 2),
    "playing_weights": ("f", "n", "weights", "A"), "playing_units": ("f", "n", 2, "d"),
    "environments": ("i", "m"), "latest": ("f", "m", "d"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judge:
    """Imagined episodes from fixed starts with fixed noise, so that policies compare."""

    owner: Linear
    laws: Laws
    starts: FloatArray
    noise: FloatArray
    known: FloatArray
    reach: float
    usual: float

    def __call__(self, policies: list[Policy], first: int, last: int) -> None:
        """Update `here` (the first half of the starts) and `promised` (all) from starts first … last − 1."""
        thetas = np.array([policy.theta for policy in policies])
        weights = np.ascontiguousarray(np.einsum("kij,aj->kai", thetas, self.owner._Y))
        half = _STARTS // 2
        for begin, end in ((first, min(last, half)), (max(first, half), last)):
            if begin >= end:
                continue
            totals = np.zeros(len(policies))
            mine, noise = self.starts[begin:end], self.noise[begin:end]
            steps = play_in_model(self.laws, weights, mine, noise, self.known, self.reach**2, self.usual, totals)
            self.owner.spend(steps)
            for policy, total in zip(policies, totals, strict=True):
                if begin < half:
                    policy.here = float(total) / half
                    policy.promised = policy.here
                else:
                    policy.promised = (policy.here * half + float(total)) / _STARTS


def _normalised(theta: FloatArray) -> FloatArray:
    """A policy's size does not matter; keeping it at 1 gives mutations their meaning."""
    size = math.sqrt(float((theta * theta).sum()))
    return theta / max(size, 1e-12)
