"""RL Zoo with augmented agents: `dqn_pa` is DQN with polaug, and so on.

python examples/zoo.py --algo dqn_pa --env MountainCar-v0 --conf-file examples/zoo.yml
"""

import rl_zoo3
import rl_zoo3.exp_manager
import rl_zoo3.train
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3

import polaug

for agent in (A2C, DQN, PPO, SAC, TD3):
    rl_zoo3.ALGOS[f"{agent.__name__.lower()}_pa"] = polaug.augment(agent)
rl_zoo3.train.ALGOS = rl_zoo3.exp_manager.ALGOS = rl_zoo3.ALGOS

if __name__ == "__main__":
    rl_zoo3.train.train()
