"""The coach around a small network and a two-armed task, in a loop of a few lines."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from polaug.coach import Coach, Pupil, Standardise
from polaug.config import Augmentation
from polaug.errors import ExplorerError, InvalidInputError
from polaug.explorers import Explorer, Transitions

SPACE, ACTIONS = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(2)


class Arms:
    """n environments: the right arm is 1 where the first number is positive; `length` steps each."""

    def __init__(self, n=1, length=5, seed=0):
        self.rng, self.n, self.length = np.random.default_rng(seed), n, length
        self.t = np.arange(n) % length
        self.seen = self._draw()

    def _draw(self):
        return self.rng.uniform(-1, 1, (self.n, 2)).astype(np.float32)

    def step(self, actions):
        rewards = np.where(actions == (self.seen[:, 0] > 0), 1.0, 0.0)
        self.t += 1
        over = self.t >= self.length
        self.t[over] = 0
        before, self.seen = self.seen, self._draw()
        return Transitions(before, actions, rewards, self.seen, over, np.zeros(self.n, bool))


class Right(Explorer):
    """Knows the right arm from step `after` on, and pulls the wrong one before."""

    def __init__(self, *args, after=0, **kwargs):
        super().__init__(*args, **kwargs)
        self.after, self.seen, self.told = after, [], []

    def act(self, observations, masks=None):
        return ((np.asarray(observations)[:, 0] > 0) == (self.steps >= self.after)).astype(np.int64)

    def drive_only(self, where):
        self.told.append(where)

    def _choose(self, flat, states):
        return self.act(flat)

    def _learn(self, batch):
        self.seen.append(batch)

    def _q_values(self, flat, states):
        return np.stack([-flat[:, 0], flat[:, 0]], 1) * (1 if self.steps >= self.after else -1)


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(Standardise(2), torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


def coached(n=1, kind="values", guide=Right, untrained=True, **settings):
    net = network()
    pupil = (Pupil.of_values if kind == "values" else Pupil.of_policy)(net, gamma=0.9)
    pupil = replace(pupil, untrained=untrained)
    given = {"guide": guide, "teach_every": 50, "teach_updates": 20} | settings
    return Coach(pupil, SPACE, ACTIONS, Augmentation(**given), n_envs=n, seed=3), net


def play(coach, env, steps, rng=None):
    """An agent whose noise is to pull any arm every fifth time."""
    rng = np.random.default_rng(1) if rng is None else rng
    for _ in range(steps):
        own = np.where(rng.random(env.n) < 0.2, rng.integers(2, size=env.n), coach.pupil.act(env.seen))
        coach.observe(env.step(coach.act(env.seen, own)))


def score(net, n=500):
    states = torch.rand(n, 2) * 2 - 1
    with torch.no_grad():
        return float((net(states).argmax(1) == (states[:, 0] > 0)).float().mean())


@pytest.mark.parametrize("kind", ["values", "policy"])
@pytest.mark.parametrize("n", [1, 3])
def test_the_agent_learns_what_its_guide_knows(n, kind):
    coach, net = coached(n, kind)
    play(coach, Arms(n), 600 // n)
    assert score(net) > 0.95
    assert 0.3 * coach.steps < coach.guide_steps < 0.9 * coach.steps
    assert coach.steps == 600


def test_an_agent_that_gets_worse_is_taught_again():
    coach, net = coached(kind="policy")
    env = Arms()
    play(coach, env, 1500)
    with torch.no_grad():
        net[-1].weight.mul_(-1.0)  # it does the opposite now
        net[-1].bias.mul_(-1.0)
    assert score(net) < 0.1
    play(coach, env, 1500)
    assert score(net) > 0.9


def test_a_guide_that_learns_nothing_gets_its_trials_only():
    coach, net = coached(guide=lambda observation: int(observation[0] < 0), untrained=False)
    with torch.no_grad():  # an agent that knows the task
        net[1].weight.copy_(torch.tensor([[1.0, 0.0]] * 16))
        net[1].bias.zero_()
        net[3].weight.copy_(torch.stack([-torch.ones(16), torch.ones(16)]))
        net[3].bias.zero_()
    assert score(net) == 1.0
    env = Arms()
    play(coach, env, 500)
    before = coach.guide_steps
    play(coach, env, 4000)
    assert 0.02 * 4000 < coach.guide_steps - before < 0.1 * 4000
    assert coach.decision.teaching == 0.0
    assert score(net) > 0.95


def test_a_guide_that_improves_late_is_noticed():
    def build(*spaces, seed):
        return Right(*spaces, seed=seed, after=1500)

    coach, net = coached(guide=None, explorer=build)
    env = Arms()
    play(coach, env, 6000)
    assert score(net) > 0.9


def test_teaching_starts_as_soon_as_the_guide_has_labels():
    class Late(Right):
        def _q_values(self, flat, states):
            return super()._q_values(flat, states) if self.steps >= 60 else None

    coach, _ = coached(guide=Late)
    env = Arms()
    while not coach.updates:
        play(coach, env, 1)
    assert 60 <= coach.steps < 80  # the next regular time would be 100


def test_the_guide_drives_whole_episodes_and_says_which_steps_are_the_agents_own():
    coach, _ = coached(3)
    env, rng = Arms(3), np.random.default_rng(0)
    for _ in range(200):
        drivers, evaluating, first = coach.drivers.copy(), coach.evaluating.copy(), env.t.copy()
        taken = coach.act(env.seen, np.full(3, 7))
        assert (taken[~(drivers | evaluating)] == 7).all()
        np.testing.assert_array_equal(taken[drivers], (env.seen[:, 0] > 0)[drivers])
        episodes = coach.observe(env.step(np.minimum(taken, rng.integers(2, size=3))))
        np.testing.assert_array_equal(coach.own, ~(drivers | evaluating))
        assert sorted(each.environment for each in episodes) == np.flatnonzero(first == 4).tolist()
        going_on = first != 4
        np.testing.assert_array_equal(coach.drivers[going_on], drivers[going_on])
        for each in episodes:
            kind = "guide" if drivers[each.environment] else "agent" if evaluating[each.environment] else "noisy"
            assert each.kind == kind
    assert sum(where.sum() for where in coach.guide.told) == coach.guide_steps


def test_every_step_reaches_the_guide_in_order():
    coach, _ = coached()
    play(coach, Arms(), 700)
    coach.teach()  # the guide is up to date before it is asked
    assert coach.guide.steps == 700
    for before, after in zip(coach.guide.seen, coach.guide.seen[1:], strict=False):
        np.testing.assert_array_equal(before.next_flat, after.flat)


def test_a_saved_coach_goes_on_to_the_bit_in_mid_episode_with_steps_in_its_queue():
    first, net = coached(2)
    env, rng = Arms(2), np.random.default_rng(1)
    while not (first._queue and env.t.any() and first._taught):
        play(first, env, 1, rng)
    second, copy = coached(2)
    copy.load_state_dict(net.state_dict())
    state = {key: np.array(array) for key, array in first.state_dict().items()}
    second.load_state_dict(state)
    twin = deepcopy(env)
    ends = []
    for coach, environment in ((first, env), (second, twin)):
        play(coach, environment, 300, np.random.default_rng(5))
        ends.append(coach.state_dict())
    assert sorted(ends[0]) == sorted(ends[1])
    for key, array in ends[0].items():
        np.testing.assert_array_equal(array, ends[1][key], err_msg=key)
    for one, other in zip(net.state_dict().values(), copy.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_a_guide_that_fails_is_named_and_loses_no_step():
    class Broken(Right):
        def _learn(self, batch):
            if self.steps >= 30:
                raise ZeroDivisionError("bad guide")

    coach, _ = coached(guide=Broken)
    env = Arms()
    with pytest.raises(ExplorerError, match=r"observe failed with ZeroDivisionError: bad guide.*You can still save"):
        play(coach, env, 500)
    coach.state_dict()


def test_steps_of_another_number_of_environments_are_refused():
    coach, _ = coached(2)
    with pytest.raises(InvalidInputError, match=r"one row for each of the 2 environments, got 3. Pass n_envs"):
        coach.observe(Arms(3).step(np.zeros(3, int)))


def test_environments_without_an_end_are_judged_by_segments(monkeypatch):
    monkeypatch.setattr("polaug.coach.coach.SEGMENT", 50)
    coach, net = coached()
    play(coach, Arms(length=10**9), 1_500)
    assert all(coach.records.returns.values())
    assert score(net) > 0.9


def test_the_log_says_what_was_decided():
    coach, _ = coached()
    play(coach, Arms(), 600)
    log = coach.statistics()
    names = {"p_guide", "guide_share", "target_share", "guide_drives", "teaching", "guide_return", "agent_return",
             "noisy_return", "teaching_loss", "teaching_updates"}  # fmt: skip
    assert names <= set(log)
    assert log["guide_share"] == coach.guide_steps / coach.steps
    assert all(np.isfinite(value) for value in log.values())


def test_tau_e_alone_decides_where_it_is_given():
    coach, _ = coached(tau_e=100)
    play(coach, Arms(), 400)
    assert 100 <= coach.guide_steps < 105
    never, _ = coached(tau_e=0)
    play(never, Arms(), 100)
    assert (never.guide_steps, bool(never.evaluating.any()), never.records.returns["agent"]) == (0, False, [])
