"""An explorer in an environment, for tests."""

import gymnasium as gym
import numpy as np

import polaug


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


def made(env_id, name="portfolio", seed=0, **options):
    env = gym.make(env_id) if isinstance(env_id, str) else env_id
    return env, polaug.make_explorer(name, env.observation_space, env.action_space, seed=seed, **options)


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
