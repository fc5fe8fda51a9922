"""PPO on MiniGrid with the standard wrappers. One line augments it.

    python examples/minigrid.py --env MiniGrid-DoorKey-5x5-v0 --steps 10000 --seed 1

trains on one layout and prints the mean return of the agent's own deterministic policy over 100 episodes.
"""

import argparse
import sys
from statistics import mean

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, in which a file has the name of the package

import gymnasium as gym
from minigrid.wrappers import ImgObsWrapper, ReseedWrapper
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import minigrid  # noqa: F401  (registers the tasks)
import polaug


def environment(env_id: str, layout: int) -> gym.Env:
    """What the agent sees is the 7 × 7 cells in front of it; every episode has the same layout."""
    return Monitor(ImgObsWrapper(ReseedWrapper(gym.make(env_id), seeds=(layout,))))


def train(env_id: str, steps: int, seed: int) -> PPO:
    """A trained agent."""
    return polaug.augment(PPO)("MlpPolicy", environment(env_id, seed), seed=seed, device="cpu").learn(steps)


def evaluate(env_id: str, model: PPO, seed: int, episodes: int = 100) -> float:
    """Mean return of the likeliest actions."""
    returns, _ = evaluate_policy(model, environment(env_id, seed), episodes, return_episode_rewards=True)
    return mean(returns)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="MiniGrid-DoorKey-5x5-v0")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    model = train(chosen.env, chosen.steps, chosen.seed)
    print(f"{evaluate(chosen.env, model, chosen.seed):.2f}")
