"""The committee: it solves what its members can, whatever the units, and its linear policies mean what they say."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import polaug
from polaug.errors import InvalidInputError, UnknownNameError
from polaug.exploration.rehearsal import play_in_model
from polaug.exploration.run import Run


def play(env, explorer, episodes=1000, steps=10**9, scale=1.0, seed=0):
    """Returns of the episodes, and all actions."""
    returns, actions = [], []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed if episode == 0 else None)
        returns.append(0.0)
        ended = False
        while not ended:
            action = explorer.act(np.asarray(observation)[None])[0]
            following, reward, terminated, truncated, _ = env.step(action)
            step = (
                np.asarray(observation)[None],
                action[None],
                np.array([scale * reward]),
                np.asarray(following)[None],
            )
            explorer.observe(polaug.Transitions(*step, np.array([terminated]), np.array([truncated])))
            returns[-1] += float(reward)
            actions.append(action)
            observation, ended = following, terminated or truncated
            if len(actions) >= steps:
                return returns, np.array(actions)
    return returns, np.array(actions)


def committee(env_id, seed=0, **options):
    env = gym.make(env_id)
    return env, polaug.make_explorer("committee", env.observation_space, env.action_space, seed=seed, **options)


def test_the_car_reaches_the_flag_in_a_few_episodes():
    runs = [play(*committee("MountainCar-v0", seed=seed), episodes=12)[0] for seed in range(3)]
    assert min(max(returns[:6]) for returns in runs) > -200
    assert np.mean([returns[8:] for returns in runs]) > -150


def test_doing_nothing_does_not_end_the_search():
    """Effort costs, and only the flag pays: on this seed the car once stood still for 30 episodes."""
    returns, _ = play(*committee("MountainCarContinuous-v0", seed=4), episodes=4, seed=4)
    assert max(returns) > 0


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


@pytest.mark.parametrize(("name", "seed"), [("committee", 0), ("model", 1)])
def test_who_has_come_from_worse_to_better_may_stay_there(name, seed):
    env = Band()
    explorer = polaug.make_explorer(name, env.observation_space, env.action_space, seed=seed)
    returns, _ = play(env, explorer, episodes=6, seed=seed)
    assert max(returns[-2:]) > -100
    assert min(returns[-2:]) > -300


@pytest.mark.parametrize("actions", [gym.spaces.Box(-1, 1, (1,)), gym.spaces.MultiDiscrete([2, 1])])
def test_a_lost_episode_is_shaken_by_any_listed_action(actions):
    """There may be more listed actions than features of them, or fewer."""
    explorer = polaug.make_explorer("committee", gym.spaces.Box(-1, 1, (3,)), actions, seed=0)
    run, held = Run("model", settled=True), set()
    for _ in range(200):
        run.length, run.held_until = 100, 0
        assert explorer._is_shaken(run)
        held.add(run.held)
    assert held == set(range(explorer.actions.n_actions))


def test_a_loser_that_is_due_gets_one_of_several_environments(monkeypatch):
    env, explorer = committee("MountainCar-v0")
    play(env, explorer, episodes=8)
    contest, start = explorer._contest, env.reset(seed=9)[0].astype(float)
    monkeypatch.setattr(contest, "_hopeless", lambda name, flat: False)  # whatever the model thinks of it
    for name, standing in contest.standings.items():
        standing.last = 1 if name == "fitted" else explorer._store.steps  # it alone is due,
    contest.standings["fitted"].returns = [-200.0] * 5  # for no merit of its own
    given = []
    for _ in range(4):
        given.append(contest.next_member(start))
        contest.standings[given[-1]].flying += 1
    assert given[0] == "fitted"
    assert "fitted" not in given[1:]


@pytest.mark.parametrize(("returns", "searches"), [
    ([-330.0, -300.0, -300.0, -300.0], True),  # who stands still comes to the time limit, and nobody has done better
    ([-330.0, -302.0, -301.0, -300.0], False),  # they get better
])  # fmt: skip
def test_where_standing_still_is_the_best_that_is_known_the_search_goes_on(returns, searches):
    """Every step costs, some more than others, nobody has seen an end: returns that tie say that nothing happens."""
    env, explorer = committee("MountainCar-v0", seed=1)
    play(env, explorer, episodes=1, steps=150)
    contest, start = explorer._contest, env.reset(seed=9)[0].astype(float)
    contest._returns.best_reward, contest._returns.worst_reward = -1.0, -30.0
    contest._recent, contest._best, contest.episodes = returns, max(returns), 8
    for name, standing in contest.standings.items():
        standing.plays = standing.counted = 2 if name == "model" else 3
        standing.returns, standing.last = [-330.0 if name == "model" else -300.0] * 2, explorer._store.steps
    assert (contest.next_member(start) == "model") == searches


def test_the_pole_is_balanced_in_a_few_dozen_episodes():
    env, explorer = committee("CartPole-v1")
    returns, _ = play(env, explorer, episodes=30)
    assert max(returns) == 500
    assert explorer.statistics()["plays_linear"] > 0


@pytest.mark.parametrize("scale", [2.0**20, 2.0**-20])
def test_the_unit_of_rewards_does_not_matter(scale):
    _, plain = play(*committee("MountainCar-v0"), steps=900)
    _, scaled = play(*committee("MountainCar-v0"), steps=900, scale=scale)
    assert np.array_equal(plain, scaled)


def test_categories_are_counted_one_by_one():
    env = gym.make("FrozenLake-v1", is_slippery=False)
    explorer = polaug.make_explorer("committee", env.observation_space, env.action_space)
    returns, _ = play(env, explorer, episodes=20)
    assert returns[-1] == 1.0
    assert "tried_pairs" in explorer.statistics()


class Binned(gym.ObservationWrapper):
    """Observations as places in 100 bins of each dimension."""

    def __init__(self, env, space):
        super().__init__(env)
        self.observation_space = space

    def observation(self, observation):
        low, high = self.env.observation_space.low, self.env.observation_space.high
        return np.clip((observation - low) / (high - low) * 100, 0, 99).astype(np.int64)


def test_many_combinations_of_positions_are_read_as_numbers():
    """The car, seen as one of 10,000 places, reaches the flag as it does where they are called numbers."""
    results = []
    for space in (gym.spaces.MultiDiscrete([100, 100]), gym.spaces.Box(0, 99, (2,), np.int64)):
        env = Binned(gym.make("MountainCar-v0"), space)
        explorer = polaug.make_explorer("committee", env.observation_space, env.action_space, seed=0)
        results.append(play(env, explorer, episodes=6))
    (returns, actions), (_, as_numbers) = results
    assert max(returns) > -200.0
    assert np.array_equal(actions, as_numbers)


@pytest.mark.parametrize(
    ("space", "counted"),
    [
        (gym.spaces.Discrete(500), True),
        (gym.spaces.Discrete(20_000), True),
        (gym.spaces.MultiDiscrete([20_000]), True),
        (gym.spaces.MultiDiscrete([5, 5, 5, 4]), True),
        (gym.spaces.MultiDiscrete([30, 30]), True),
        (gym.spaces.MultiDiscrete([40, 40]), False),
        (gym.spaces.MultiDiscrete([4] * 7), True),
        (gym.spaces.MultiBinary(14), True),
        (gym.spaces.Tuple([gym.spaces.Discrete(32), gym.spaces.Discrete(11), gym.spaces.Discrete(2)]), True),
        (gym.spaces.Box(0, 1, (2,)), False),
    ],
    ids=str,
)
def test_what_is_counted_and_what_is_read_as_numbers(space, counted):
    explorer = polaug.make_explorer("committee", space, gym.spaces.Discrete(2))
    assert ("tried_pairs" in explorer.statistics()) == counted


def test_members_can_be_chosen_but_not_without_the_model():
    env, explorer = committee("MountainCar-v0", members=("model", "linear"))
    play(env, explorer, episodes=6)
    assert "plays_fitted" not in explorer.statistics()
    with pytest.raises(InvalidInputError, match="members"):
        committee("MountainCar-v0", members=("linear",))
    with pytest.raises(UnknownNameError, match="Did you mean 'fitted'"):
        committee("MountainCar-v0", members=("model", "fited"))


def test_values_teach_what_the_best_member_does():
    env, explorer = committee("CartPole-v1")
    play(env, explorer, episodes=15)
    states = np.random.default_rng(0).normal(scale=0.1, size=(50, 4))
    values = explorer.q_values(states.astype(np.float32))
    expected = (
        explorer._members[explorer._contest.best()].values(states.astype(np.float32).astype(float)).argmax(axis=1)
    )
    assert np.array_equal(values.argmax(axis=1), expected)
    assert values.max() <= 1.0 / (1.0 - 0.99) + 1e-6  # in units of return


def test_the_model_teaches_where_the_linear_members_single_policy_is_clearly_worse():
    env, explorer = committee("CartPole-v1")
    play(env, explorer, episodes=15)
    states = np.random.default_rng(0).normal(scale=0.1, size=(50, 4)).astype(np.float32)
    if explorer._contest.best() != "linear":
        explorer._contest.standings["linear"].returns = [500.0] * 10
        explorer._contest.standings["linear"].counted = 10
    assert explorer._contest.best() == "linear"
    explorer._teacher._model_teaches = True
    assert np.array_equal(explorer.q_values(states), explorer._model.values(states.astype(float)))
    explorer._teacher._model_teaches = False
    choice = explorer._linear.values(states.astype(float)).argmax(axis=1)
    assert np.array_equal(explorer.q_values(states).argmax(axis=1), choice)


def test_imagined_episodes_are_the_same_compiled_or_not():
    env, explorer = committee("CartPole-v1")
    play(env, explorer, steps=300)
    laws = explorer._model.dynamics.laws
    rng = np.random.default_rng(0)
    weights, starts = rng.standard_normal((2, 2, 5)), 0.1 * rng.standard_normal((2, 4))
    arguments = (laws, weights, starts, np.zeros((2, 20, 4)), rng.standard_normal((4, 9)), 100.0, 1.0)
    compiled, plain = np.zeros(2), np.zeros(2)
    assert play_in_model(*arguments, compiled) == play_in_model.py_func(*arguments, plain)
    np.testing.assert_allclose(compiled, plain, rtol=1e-6)


def test_thousands_of_episodes_are_no_more_than_a_few():
    """The rarity of retries doubles with every play; after a thousand it must still be a number."""
    space = gym.spaces.Box(-1.0, 1.0, (2,))
    explorer = polaug.make_explorer("committee", space, gym.spaces.Discrete(2), seed=0)
    rng = np.random.default_rng(0)
    for _ in range(2500):
        states = rng.uniform(-1, 1, (2, 1, 2)).astype(np.float32)
        actions = explorer.act(states[0])
        explorer.observe(
            polaug.Transitions(states[0], actions, rng.normal(size=1), states[1], np.array([True]), np.array([False]))
        )
    assert max(standing.counted for standing in explorer._contest.standings.values()) > 1030


def test_policies_survive_a_change_of_units():
    env, explorer = committee("CartPole-v1")
    play(env, explorer, steps=300)
    linear, laws = explorer._linear, explorer._model.dynamics.laws
    linear.search(linear._starts[0])
    states = np.random.default_rng(0).normal(scale=0.05, size=(100, 4))
    before = linear.values(states)
    linear._reframe(laws._replace(centre=laws.centre + 0.3, inverse=laws.inverse * 0.7))
    np.testing.assert_allclose(linear.values(states), before, atol=1e-9)


def test_policies_are_searched_for_from_the_start_of_their_own_environment(monkeypatch):
    env, explorer = committee("CartPole-v1")
    play(env, explorer, episodes=8)
    linear, searched = explorer._linear, []
    monkeypatch.setattr(linear, "search", lambda start, search=linear.search: (searched.append(start), search(start)))
    starts = np.random.default_rng(0).normal(scale=0.05, size=(2, 4))
    for environment, start in enumerate(starts):
        linear.started(environment, start)
    for environment in range(2):
        linear.begin(environment)
    assert np.array_equal(searched, starts)


def drive(env, explorer, steps, observe, seed=0):
    """Somebody else drives at random; `observe` gets each step."""
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    for _ in range(steps):
        action = np.array([rng.integers(env.action_space.n)])
        following, reward, terminated, truncated, _ = env.step(action[0])
        ends = np.array([terminated]), np.array([truncated])
        observe(polaug.Transitions(observation[None], action, np.array([float(reward)]), following[None], *ends))
        observation = env.reset()[0] if terminated or truncated else following


def test_episodes_of_others_are_learnt_from_but_speak_for_no_member():
    env, explorer = committee("CartPole-v1")
    play(env, explorer, episodes=10)
    before, fitted_at, stored = explorer.statistics(), explorer._model._fit_at, explorer._store.steps
    drive(env, explorer, 400, explorer.observe)
    after = explorer.statistics()
    assert explorer._store.steps == stored + 400
    assert after["steps"] == before["steps"] + 400
    assert explorer._model._fit_at == fitted_at  # whoever plays next catches up
    assert {k: v for k, v in after.items() if "plays" in k} == {k: v for k, v in before.items() if "plays" in k}


def test_returns_are_of_whole_episodes_whoever_drives_in_other_environments():
    """Actions are chosen for all environments, also where an agent is in the middle of an episode."""
    env = gym.make("MountainCar-v0")
    explorer = polaug.make_explorer("committee", env.observation_space, env.action_space)
    rng, ended = np.random.default_rng(0), np.zeros((40, 2), dtype=bool)
    ended[9::10, 0], ended[19::20, 1] = True, True
    for t in range(40):
        seen, then = rng.uniform(-0.05, 0.05, (2, 2, 2))
        actions = rng.integers(3, size=2)
        if t % 10 >= 5:  # the explorer drives in the first environment only
            actions[0] = explorer.act(seen)[0]
        explorer.observe(polaug.Transitions(seen, actions, -np.ones(2), then, np.zeros(2, dtype=bool), ended[t]))
    assert sorted(explorer._contest._recent) == [-20.0] * 2 + [-10.0] * 4


def test_episodes_of_a_good_agent_beside_ours_are_booked_to_nobody(monkeypatch):
    """It agrees with a good member on most steps: who drives must be said."""
    envs = [gym.make("CartPole-v1") for _ in range(2)]
    explorer = polaug.make_explorer("committee", envs[0].observation_space, envs[0].action_space)
    booked, ended = [], [0, 0]
    monkeypatch.setattr(explorer._contest, "book", lambda name, total, book=explorer._contest.book: (
        booked.append(total), book(name, total)))  # fmt: skip
    seen = np.stack([env.reset(seed=i)[0] for i, env in enumerate(envs)])
    for _ in range(1600):
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
        assert sum(standing.flying for standing in explorer._contest.standings.values()) <= 1
    assert ended[1] >= 3
    assert len(booked) == ended[0]
    assert len(explorer._contest._recent) == min(sum(ended), 40)  # they still make the scale


def test_who_drives_is_said_for_one_step_and_for_all_environments():
    _, explorer = committee("CartPole-v1")
    explorer.drive_only(np.array([True]))
    with pytest.raises(InvalidInputError, match="where"):
        explorer.act(np.zeros((2, 4), np.float32))
    assert not explorer._runs
    explorer.act(np.zeros((2, 4), np.float32))
    assert sorted(explorer._runs) == [0, 1]


def test_steps_of_others_are_the_same_in_bulk_as_one_by_one():
    """Also once store and terminal states are full, and what is new takes the place of others at random."""
    env, one = committee("CartPole-v1", capacity=400)
    _, bulk = committee("CartPole-v1", capacity=400)
    steps = []
    for explorer in (one, bulk):
        play(env, explorer, episodes=8)
    drive(env, one, 8000, one.observe)
    drive(env, bulk, 8000, steps.append)
    for k in range(0, 8000, 500):
        bulk.observe_past(steps[k : k + 500])
    assert one._model.dynamics.replaces(1)
    first, second = one.state_dict(), bulk.state_dict()
    assert sorted(first) == sorted(second)
    for key in first:
        np.testing.assert_array_equal(first[key], second[key], err_msg=key)


def test_steps_that_are_not_alike_are_taken_one_by_one():
    env, one = committee("CartPole-v1")
    _, bulk = committee("CartPole-v1")
    steps = []
    drive(env, one, 20, one.observe)
    drive(env, bulk, 20, steps.append)
    lists = [replace(step, observations=step.observations.tolist()) for step in steps]
    bulk.observe_past([*steps[:7], *lists[7:]])
    nothing = polaug.Transitions(*(getattr(steps[0], name)[:0] for name in steps[0].__slots__))
    bulk.observe_past([nothing, nothing])
    bulk.observe_past([])
    assert bulk.steps == one.steps
    assert np.array_equal(bulk._store.states, one._store.states)


def test_what_was_stored_before_an_interruption_is_not_shown_again(monkeypatch):
    env, explorer = committee("CartPole-v1")
    steps = []
    drive(env, explorer, 50, steps.append)
    monkeypatch.setattr(explorer, "_count", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        explorer.observe_past(steps)
    assert explorer.steps == explorer._store.steps == 50


def test_while_only_its_search_plays_the_model_teaches():
    """Others were tried once, by luck or not: Q̂ is of the member whose episodes are seen to be good."""
    _, explorer = committee("Pendulum-v1")
    contest = explorer._contest
    contest._returns.best_reward, contest._returns.worst_reward = -1e-6, -16.0
    assert contest.exploring
    contest.book("fitted", -100.0)
    for total in (-1200.0, -150.0, -130.0, -240.0, -120.0):
        contest.book("model", total)
    assert contest.best() == "fitted"
    assert contest.teacher() == "model"
    for _ in range(3):
        contest.book("fitted", -100.0)
    assert contest.teacher() == "fitted"
