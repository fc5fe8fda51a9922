"""DQN in one file, in CleanRL's style. The lines marked `# polaug` augment it.

    python examples/dqn.py --env MountainCar-v0 --steps 10000 --seed 1

trains and prints the mean return of the greedy policy over 100 episodes from fresh starts:
here −100.7 (solved is −110).
"""

import argparse
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

import polaug  # polaug
from polaug.coach import Pupil, Standardise  # polaug

LEARNING_RATE = 1e-3
GAMMA = 0.99
BUFFER_SIZE = 50_000
BATCH_SIZE = 128
LEARNING_STARTS = 500
TRAIN_EVERY = 2
TARGET_EVERY = 500
N_STEP = 5  # returns over several steps carry what the guide found back sooner
EPSILON_START, EPSILON_END, EPSILON_SHARE = 1.0, 0.05, 0.3


def q_network(d: int, n_actions: int) -> nn.Sequential:
    """Q (n, n_actions) of observations (n, d)."""
    return nn.Sequential(
        Standardise(d),  # polaug
        nn.Linear(d, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, n_actions),
    )  # fmt: skip


def n_step_transition(recent: deque) -> tuple:
    """The oldest step of `recent` with its return over all of them, and how much of the value after them counts."""
    ahead, discount, end = 0.0, 1.0, False
    for _, _, reward, _, terminated in recent:
        ahead, discount = ahead + discount * reward, discount * GAMMA
        end = terminated
    observation, action = recent[0][:2]
    return observation, action, ahead, recent[-1][3], 0.0 if end else discount


def train(env_id: str, steps: int, seed: int) -> nn.Sequential:
    """A trained Q-network."""
    random.seed(seed)
    torch.manual_seed(seed)
    env = SyncVectorEnv([lambda: gym.make(env_id)], autoreset_mode=AutoresetMode.SAME_STEP)
    d, n_actions = env.single_observation_space.shape[0], int(env.single_action_space.n)
    q, target = q_network(d, n_actions), q_network(d, n_actions)
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=LEARNING_RATE)
    pupil = Pupil.of_values(q, target=target, gamma=GAMMA)  # polaug
    coach = polaug.Coach(pupil, env.single_observation_space, env.single_action_space, seed=seed)  # polaug
    memory: deque = deque(maxlen=BUFFER_SIZE)
    recent: deque = deque(maxlen=N_STEP)

    env.action_space.seed(seed)
    observations, _ = env.reset(seed=seed)
    for step in range(steps):
        slope = step / (EPSILON_SHARE * steps)
        epsilon = max(EPSILON_END, EPSILON_START + slope * (EPSILON_END - EPSILON_START))
        if random.random() < epsilon:
            actions = env.action_space.sample()
        else:
            with torch.no_grad():
                actions = q(torch.as_tensor(observations)).argmax(dim=1).numpy()
        actions = coach.act(observations, actions)  # polaug

        following, rewards, terminated, truncated, infos = env.step(actions)
        last = following.copy()
        if terminated[0] or truncated[0]:
            last[0] = infos["final_obs"][0]
        coach.observe(polaug.Transitions(observations, actions, rewards, last, terminated, truncated))  # polaug
        recent.append((observations[0], actions[0], rewards[0], last[0], terminated[0]))
        if len(recent) == N_STEP:
            memory.append(n_step_transition(recent))
        while recent and (terminated[0] or truncated[0]):
            if len(recent) < N_STEP:
                memory.append(n_step_transition(recent))
            recent.popleft()
        observations = following

        if step >= LEARNING_STARTS and step % TRAIN_EVERY == 0:
            batch = random.sample(memory, BATCH_SIZE)
            states, taken, ahead, after, discounts = (np.stack(column) for column in zip(*batch, strict=True))
            with torch.no_grad():
                best = target(torch.as_tensor(after)).max(dim=1).values
                goal = torch.as_tensor(ahead, dtype=torch.float32) + torch.as_tensor(discounts).float() * best
            values = q(torch.as_tensor(states)).gather(1, torch.as_tensor(taken)[:, None])[:, 0]
            loss = nn.functional.smooth_l1_loss(values, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % TARGET_EVERY == 0:
            target.load_state_dict(q.state_dict())
    env.close()
    return q


def evaluate(env_id: str, q: nn.Sequential, episodes: int = 100, first_seed: int = 1_000_000) -> float:
    """Mean return of the greedy policy, one episode from each start."""
    env, total = gym.make(env_id), 0.0
    for seed in range(first_seed, first_seed + episodes):
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            with torch.no_grad():
                action = int(q(torch.as_tensor(observation)[None]).argmax())
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
    return total / episodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="MountainCar-v0")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    print(f"{evaluate(chosen.env, train(chosen.env, chosen.steps, chosen.seed)):.1f}")
