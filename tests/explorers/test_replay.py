"""The best episode is played again where a plan over what is seen walks in circles."""

import numpy as np
from gymnasium import spaces

from polaug import Transitions, make_explorer
from polaug.explorers.replay import BestEpisode


def episode(best, steps, total, *, exploited=True, replayed=False):
    for state, action in steps:
        best.step(0, state, action)
    best.ended(0, total, exploited=exploited, replayed=replayed)


GOOD = [(0, 1), (5, 0), (5, 1)]


def test_the_best_episode_is_followed_as_long_as_states_match():
    best = BestEpisode()
    episode(best, GOOD, 1.0)
    episode(best, [(0, 0)], 0.0, exploited=False)
    assert not best.is_due()  # exploring episodes may fail
    episode(best, [(0, 0)], 0.0)
    assert best.is_due()
    assert not best.is_due()
    for state, action in GOOD:  # another action in the same state, by the step
        assert best.action(0, state) == action
        best.step(0, state, action)
    assert best.action(0, 5) is None  # longer than it was
    best.ended(0, 1.0, exploited=True, replayed=True)
    best.step(0, 0, 0)
    assert best.action(0, 5) is None  # another action was taken
    assert best.actions_in(5) == [0, 1]


def test_a_plan_that_keeps_failing_is_tried_ever_more_rarely():
    best, waits = BestEpisode(), []
    episode(best, GOOD, 1.0)
    for _ in range(7):
        episode(best, [(0, 0)], 0.0)
        waits.append(sum(best.is_due() for _ in range(100)))
    assert waits == [1, 2, 4, 8, 16, 16, 16]


def test_what_cannot_be_repeated_is_not_played_again_until_there_is_better():
    best = BestEpisode()
    episode(best, GOOD, 1.0)
    episode(best, [(0, 0)], 0.0)
    assert best.is_due()
    episode(best, [(0, 1), (3, 0)], 0.0, replayed=True)
    episode(best, [(0, 0)], 0.0)
    assert not best.is_due()
    assert best.actions_in(0) == []
    episode(best, GOOD, 2.0)
    episode(best, [(0, 0)], 0.0)
    assert best.is_due()


class Corridor:
    """Walk right three times, then left twice; all that is seen is whether one stands at the left end."""

    def reset(self):
        self.at, self.turned, self.t = 0, False, 0
        return self.seen()

    def seen(self):
        return np.array([[float(self.at == 0)]])

    def step(self, action):
        self.t += 1
        self.at = max(0, min(self.at + 2 * int(action) - 1, 3))
        self.turned |= self.at == 3
        goal = self.turned and self.at == 1
        return self.seen(), float(goal), goal, self.t >= 30 and not goal


def test_a_task_whose_states_look_alike_is_repeated_once_it_went_well():
    env, explorer = Corridor(), make_explorer("tabular", spaces.Box(0, 1, (1,)), spaces.Discrete(2), seed=0)
    returns = []
    for _ in range(60):
        observation, over, total = env.reset(), False, 0.0
        while not over:
            action = explorer.act(observation)
            following, reward, terminated, truncated = env.step(action[0])
            explorer.observe(Transitions(observation, action, [reward], following, [terminated], [truncated]))
            observation, over, total = following, terminated or truncated, total + reward
        returns.append((total, env.t))
    ends = [t for total, t in returns[-20:] if total]
    assert np.mean([t == min(ends) for _, t in returns[-20:]]) >= 0.5
