"""The portfolio: it solves what its arms can, whatever the units, and counts an episode for the arm that drove it."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from tests.explorers.playing import drive, made, play

import polaug
from polaug.completion.multi_output import MultiOutput
from polaug.errors import InvalidInputError, UnknownNameError
from polaug.explorers.bandit import Arm, BanditOptions, choose
from polaug.explorers.record import Phase


def test_the_car_reaches_the_flag_in_a_few_episodes():
    runs = [play(*made("MountainCar-v0", seed=seed), episodes=12)[0] for seed in range(3)]
    assert min(max(returns[:8]) for returns in runs) > -200
    assert np.mean([returns[9:] for returns in runs]) > -160


def test_doing_nothing_does_not_end_the_search():
    """Effort costs, and only the flag pays."""
    returns, _ = play(*made("MountainCarContinuous-v0", seed=4), episodes=4, seed=4)
    assert max(returns) > 0


def test_the_pole_is_balanced_in_a_few_dozen_episodes():
    env, explorer = made("CartPole-v1")
    returns, _ = play(env, explorer, episodes=30)
    assert max(returns) == 500
    assert explorer.statistics()["plays_policy_search"] > 0


def test_the_completion_engine_is_what_predicts(monkeypatch):
    """Without what the engine has learnt, the default explorer knows nothing."""
    env, explorer = made("MountainCar-v0")
    play(env, explorer, steps=300)
    engine = explorer.experience.dynamics.engine
    assert isinstance(engine, MultiOutput)
    assert engine.count >= 250
    before = explorer._model.experience.dynamics.model
    assert np.abs(before.by_action).max() > 0.0
    monkeypatch.setattr(MultiOutput, "add", lambda self, phi, targets, step=None: None)
    monkeypatch.setattr(MultiOutput, "blocks", lambda self, rows, step: iter(()))
    env, ignorant = made("MountainCar-v0")
    play(env, ignorant, steps=300)
    assert np.abs(ignorant.experience.dynamics.model.by_action).max() == 0.0
    returns, _ = play(env, ignorant, episodes=4)
    assert max(returns) == -200.0  # a plan in a world that never moves leads nowhere


@pytest.mark.parametrize("scale", [2.0**20, 2.0**-20])
def test_the_unit_of_rewards_does_not_matter(scale):
    _, plain = play(*made("MountainCar-v0"), steps=900)
    _, scaled = play(*made("MountainCar-v0"), steps=900, scale=scale)
    assert np.array_equal(plain, scaled)


class Band(gym.Env):
    """Every step costs outside a band, none inside, and nothing ever ends: standing still there is best."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (1,)), gym.spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = -0.8 + self.np_random.uniform(0, 0.1), 0
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.place, self.steps = float(np.clip(self.place + (action - 1) * 0.05, -1, 1)), self.steps + 1
        inside = 0.5 < self.place < 0.7
        return np.array([self.place], np.float32), 0.0 if inside else -1.0, False, self.steps >= 1000, {}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["portfolio", "model"])
def test_a_good_place_may_be_kept(name, seed):
    env = Band()
    explorer = polaug.make_explorer(name, env.observation_space, env.action_space, seed=seed)
    returns, _ = play(env, explorer, episodes=6)  # the third or the fourth one tries the portfolio's other arm
    assert max(returns[-2:]) > -100
    assert min(returns[-2:]) > -300


class Tempting(gym.Wrapper):
    """MountainCar where only the flag pays, and standing still in the valley pays a trifle."""

    def step(self, action):
        observation, _, terminated, truncated, info = self.env.step(action)
        valley = abs(observation[0] + np.pi / 6) < 0.05 and abs(observation[1]) < 0.005
        return observation, 1.0 if terminated else 1e-6 * valley, terminated, truncated, info


def test_a_trifle_does_not_end_the_search():
    env, explorer = made(Tempting(gym.make("MountainCar-v0")), seed=2)
    returns, _ = play(env, explorer, episodes=10)
    assert max(returns) >= 1.0


def test_categories_are_counted_one_by_one():
    env = gym.make("FrozenLake-v1", is_slippery=False)
    explorer = polaug.make_explorer("portfolio", env.observation_space, env.action_space)
    play(env, explorer, episodes=20)
    assert "tried_pairs" in explorer.statistics()


class Binned(gym.ObservationWrapper):
    """Observations as places in 100 bins of each dimension."""

    def __init__(self, env, space):
        super().__init__(env)
        self.observation_space = space

    def observation(self, observation):
        low, high = self.env.observation_space.low, self.env.observation_space.high
        return np.clip((observation - low) / (high - low) * 100, 0, 99).astype(np.int64)


def test_places_are_the_same_whatever_they_are_called():
    """The car, seen as one of 10,000 places."""
    results = []
    for space in (gym.spaces.MultiDiscrete([100, 100]), gym.spaces.Box(0, 99, (2,), np.int64)):
        env = Binned(gym.make("MountainCar-v0"), space)
        explorer = polaug.make_explorer("portfolio", env.observation_space, env.action_space, seed=0)
        results.append(play(env, explorer, steps=700)[1])
    assert np.array_equal(*results)


def test_options_reach_their_component_and_bad_ones_are_refused_by_name():
    env, explorer = made("MountainCar-v0", plan={"centres": 20}, search={"population": 8}, arms=("model",))
    play(env, explorer, steps=120)
    assert explorer._model._newest.centres.shape[1] <= 40
    assert "plays_policy_search" not in explorer.statistics()
    with pytest.raises(InvalidInputError, match="arms"):
        made("MountainCar-v0", arms=("policy_search",))
    with pytest.raises(UnknownNameError, match="Did you mean 'policy_search'"):
        made("MountainCar-v0", arms=("model", "policy_serch"))
    with pytest.raises(UnknownNameError, match="Did you mean 'centres'"):
        made("MountainCar-v0", plan={"centers": 20})
    for wrong in ({"centres": 0}, {"centres": 2.5}, {"ridge": np.nan}, {"ridge": "much"}, {"known": True}):
        with pytest.raises(InvalidInputError, match=f"plan.{next(iter(wrong))}"):
            made("MountainCar-v0", plan=wrong)
    with pytest.raises(InvalidInputError, match="plan"):
        made("MountainCar-v0", plan=7)


def test_the_former_name_is_taken():
    env = gym.make("MountainCar-v0")
    made_ = polaug.make_explorer("committee", env.observation_space, env.action_space)
    assert type(made_).__name__ == "PortfolioExplorer"


def test_values_teach_what_the_best_arm_does():
    env, explorer = made("CartPole-v1")
    play(env, explorer, episodes=15)
    states = np.random.default_rng(0).normal(scale=0.1, size=(50, 4)).astype(np.float32)
    for arm, returns in (("policy_search", [500.0] * 10), ("model", [9.0] * 10)):
        explorer._arms[arm].returns = returns
    choice = explorer._search.values(states.astype(float)).argmax(axis=1)
    values = explorer.q_values(states)
    assert np.array_equal(values.argmax(axis=1), choice)
    assert values.max() <= 1.0 / (1.0 - 0.99) + 1e-6  # in units of return
    explorer._arms["policy_search"].returns = [9.0] * 10
    explorer._arms["model"].returns = [500.0] * 10
    assert np.array_equal(explorer.q_values(states), explorer._model.values(states.astype(float)))


def test_while_rewards_tell_nothing_there_is_nothing_to_teach():
    env, explorer = made("MountainCarContinuous-v0")
    play(env, explorer, steps=60)
    explorer._model._phase = Phase.BLIND
    assert explorer.q_values(np.zeros((3, 2), np.float32)) is None
    assert explorer.greedy(np.zeros((3, 2), np.float32)) is None


def test_episodes_of_others_are_learnt_from_but_speak_for_no_arm():
    env, explorer = made("CartPole-v1")
    play(env, explorer, episodes=10)
    before, planned, stored = explorer.statistics(), explorer._model._plan_at, explorer.experience.buffer.steps
    drive(env, explorer, 400, explorer.observe)
    after = explorer.statistics()
    assert explorer.experience.buffer.steps == stored + 400
    assert after["steps"] == before["steps"] + 400
    assert explorer._model._plan_at == planned  # the next arm catches up
    assert {k: v for k, v in after.items() if "plays" in k} == {k: v for k, v in before.items() if "plays" in k}


def test_returns_are_of_whole_episodes_whatever_drives_in_other_environments():
    """Actions are chosen for all environments, also where an agent is in the middle of an episode."""
    env = gym.make("MountainCar-v0")
    explorer = polaug.make_explorer("portfolio", env.observation_space, env.action_space)
    rng, ended = np.random.default_rng(0), np.zeros((40, 2), dtype=bool)
    ended[9::10, 0], ended[19::20, 1] = True, True
    for t in range(40):
        seen, then = rng.uniform(-0.05, 0.05, (2, 2, 2))
        actions = rng.integers(3, size=2)
        if t % 10 >= 5:  # the explorer drives in the first environment only
            actions[0] = explorer.act(seen)[0]
        explorer.observe(polaug.Transitions(seen, actions, -np.ones(2), then, np.zeros(2, dtype=bool), ended[t]))
    assert sorted(explorer._recent) == [-20.0] * 2 + [-10.0] * 4


def test_episodes_of_a_good_agent_beside_it_are_booked_to_no_arm():
    """It agrees with a good arm on most steps: what drives must be said."""
    envs = [gym.make("CartPole-v1") for _ in range(2)]
    explorer = polaug.make_explorer("portfolio", envs[0].observation_space, envs[0].action_space)
    ended = [0, 0]
    seen = np.stack([env.reset(seed=i)[0] for i, env in enumerate(envs)])
    for _ in range(1200):
        explorer.drive_only(np.array([True, False]))
        actions = explorer.act(seen)
        actions[1] = seen[1, 2] + seen[1, 3] > 0
        answers = [env.step(action) for env, action in zip(envs, actions, strict=True)]
        then, terminated, truncated = (np.array([answer[k] for answer in answers]) for k in (0, 2, 3))
        explorer.observe(polaug.Transitions(seen, actions, np.ones(2), then, terminated, truncated))
        seen = then.copy()
        for i in np.flatnonzero(terminated | truncated):
            ended[i] += 1
            seen[i] = envs[i].reset()[0]
        assert sum(arm.pending for arm in explorer._arms.values()) <= 1
    assert ended[1] >= 2
    assert sum(arm.plays for arm in explorer._arms.values()) in (ended[0], ended[0] - 1)  # a table began the first
    assert len(explorer._recent) == min(sum(ended), 40)  # they still make the scale


def test_who_drives_is_said_for_one_step_and_for_all_environments():
    env, explorer = made("CartPole-v1")
    play(env, explorer, steps=40)  # from then on the arms play
    explorer.reset()
    explorer.drive_only(np.array([True]))
    with pytest.raises(InvalidInputError, match="where"):
        explorer.act(np.zeros((2, 4), np.float32))
    assert not explorer._segments
    explorer.act(np.zeros((2, 4), np.float32))
    assert sorted(explorer._segments) == [0, 1]


@pytest.mark.parametrize(("task", "n", "steps"), [("CartPole-v1", 1, 1200), ("CartPole-v1", 3, 700),
                                                  ("Pendulum-v1", 2, 900), ("FrozenLake-v1", 1, 300)])  # fmt: skip
def test_steps_of_the_agent_are_learnt_together_as_one_by_one(task, n, steps):
    """The guide and somebody else take turns; whatever was learnt together is the same to the bit."""

    def state(in_bulk):
        envs = [gym.make(task) for _ in range(n)]
        explorer = polaug.make_explorer("portfolio", envs[0].observation_space, envs[0].action_space, seed=0)
        learnt, one_by_one = [], explorer._learn
        explorer._learn = lambda batch: learnt.append(len(batch)) or one_by_one(batch)
        seen = np.array([env.reset(seed=i)[0] for i, env in enumerate(envs)])
        rng, queue = np.random.default_rng(0), []
        for t in range(steps):
            guided = t % 160 < 60
            if guided and queue:
                explorer.observe_past(queue) if in_bulk else [explorer.observe(step) for step in queue]
                queue = []
            drawn = explorer.actions.to_environment(rng.integers(explorer.actions.n_actions, size=n))
            actions = explorer.act(seen) if guided else drawn
            following, rewards, *ends = zip(
                *(env.step(a)[:4] for env, a in zip(envs, actions, strict=True)), strict=True
            )
            step = polaug.Transitions(seen, actions, np.array(rewards), np.array(following), *map(np.array, ends))
            explorer.observe(step) if guided else queue.append(step)
            over = step.terminated | step.truncated
            seen = np.array([env.reset()[0] if over[i] else following[i] for i, env in enumerate(envs)])
        assert explorer.steps + n * len(queue) == n * steps
        return explorer.state_dict(), sum(learnt)

    (bulk, taken), (single, all_taken) = state(True), state(False)
    assert bulk.keys() == single.keys()
    assert all(np.array_equal(bulk[key], single[key]) for key in single)
    assert (taken < all_taken) == (task != "FrozenLake-v1")  # a table counts


def test_a_bad_step_in_the_middle_leaves_what_was_before_it():
    env, explorer = made("CartPole-v1")
    steps = []
    drive(env, explorer, 60, steps.append)
    steps[40] = replace(steps[40], rewards=np.array([np.nan]))
    with pytest.raises(InvalidInputError, match="rewards: environment 0"):
        explorer.observe_past(steps)
    assert explorer.steps == 40


def test_steps_that_are_not_alike_are_taken_one_by_one():
    env, one = made("CartPole-v1")
    _, bulk = made("CartPole-v1")
    steps = []
    drive(env, one, 60, one.observe)
    drive(env, bulk, 60, steps.append)
    lists = [replace(step, observations=step.observations.tolist()) for step in steps]
    bulk.observe_past([*steps[:7], *lists[7:]])
    nothing = polaug.Transitions(*(getattr(steps[0], name)[:0] for name in steps[0].__slots__))
    bulk.observe_past([nothing, nothing])
    bulk.observe_past([])
    assert bulk.steps == one.steps
    assert np.array_equal(bulk.experience.buffer.states, one.experience.buffer.states)


def test_thousands_of_episodes_are_no_more_than_a_few():
    """The rarity of retries doubles with every play; after a thousand it must still be a number."""
    arms = {"model": Arm(2000, 0, 10**6, [1], [1.0]), "policy_search": Arm(1500, 0, 10**6, [1], [0.0])}
    chosen = choose(arms, [1.0], 10**6, Phase.IMPROVING, False, BanditOptions(), lambda name: None)
    assert chosen == "model"


def bandit(model, search, phase=Phase.IMPROVING, steps=1000, predicted=lambda name: None, costly=False, pending=0):
    arms = {name: Arm(len(r), pending if name == "model" else 0, 900 if r else 0, [900] * len(r), list(r))
            for name, r in (("model", model), ("policy_search", search))}  # fmt: skip
    return choose(arms, [*model, *search], steps, phase, costly, BanditOptions(), predicted)


def test_the_better_arm_plays_and_the_other_is_tried_again_when_the_data_have_grown():
    assert bandit([5.0] * 5, [1.0] * 3) == "model"
    assert bandit([1.0] * 5, [5.0] * 3) == "policy_search"
    assert bandit([5.0] * 5, [1.0] * 3, steps=5000) == "policy_search"


def test_model_rollouts_veto_a_hopeless_retry():
    assert bandit([5.0] * 5, [1.0] * 3, steps=5000, predicted=lambda name: 0.0) == "model"
    assert bandit([5.0] * 5, [1.0] * 3, steps=5000, predicted=lambda name: 5.0) == "policy_search"


def test_an_arm_is_first_tried_while_the_leader_falls_short_and_only_if_rollouts_do_not_speak_against_it():
    assert bandit([1.0, *[5.0] * 5], []) == "model"
    assert bandit([1.0, 5.0], []) == "policy_search"
    assert bandit([1.0, 5.0], [], predicted=lambda name: 0.0) == "model"
    assert bandit([1.0], []) == "model"  # which begins
    assert bandit([5.0, 5.0], []) == "model"
    assert bandit([5.0], [], pending=3, predicted=lambda name: -1e9) == "model"


def test_the_model_plays_alone_while_rewards_tell_nothing_and_mostly_until_something_is_found():
    assert bandit([], [], Phase.BLIND) == "model"
    assert bandit([1.0, 1.0], [5.0, 5.0], Phase.SEARCHING) == "model"
    assert bandit([1.0, 1.0], [5.0], Phase.SEARCHING, costly=True) == "policy_search"
