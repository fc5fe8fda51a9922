"""PPO in one file, in CleanRL's style. The lines marked `# polaug` augment it.

    python examples/ppo.py --env MountainCar-v0 --steps 16000 --seed 1

trains and prints the mean return of the deterministic policy over 100 episodes from fresh starts:
here −104.2 (solved is −110).
"""

import argparse

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn
from torch.distributions import Categorical

import polaug  # polaug
from polaug.coach import Pupil, Standardise  # polaug

LEARNING_RATE = 2.5e-4
N_ENVS, N_STEPS = 4, 128
GAMMA, LAMBDA = 0.99, 0.95
EPOCHS, MINIBATCHES = 4, 4
CLIP, ENTROPY, VALUE, MAX_NORM = 0.2, 0.01, 0.5, 0.5


def network(d: int, outputs: int) -> nn.Sequential:
    """Logits or values of observations (n, d)."""
    return nn.Sequential(
        Standardise(d),  # polaug
        nn.Linear(d, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs),
    )  # fmt: skip


def train(env_id: str, steps: int, seed: int) -> nn.Sequential:
    """A trained policy."""
    torch.manual_seed(seed)
    envs = SyncVectorEnv([lambda: gym.make(env_id)] * N_ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
    d, n_actions = envs.single_observation_space.shape[0], int(envs.single_action_space.n)
    policy, critic = network(d, n_actions), network(d, 1)
    with torch.no_grad():
        policy[-1].weight.mul_(0.01)
    parameters = [*policy.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, eps=1e-5)
    pupil = Pupil.of_policy(policy, critic=critic, gamma=GAMMA)  # polaug
    spaces = envs.single_observation_space, envs.single_action_space  # polaug
    coach = polaug.Coach(pupil, *spaces, n_envs=N_ENVS, seed=seed)  # polaug

    seen = torch.zeros(N_STEPS + 1, N_ENVS, d)
    taken, log_probs, own = (torch.zeros(N_STEPS, N_ENVS) for _ in range(3))
    rewards, bootstrap, going_on = (torch.zeros(N_STEPS, N_ENVS) for _ in range(3))
    observations, _ = envs.reset(seed=seed)
    for update in range(steps // (N_STEPS * N_ENVS)):
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1.0 - update * N_STEPS * N_ENVS / steps)
        bootstrap.zero_()
        for t in range(N_STEPS):
            seen[t] = torch.as_tensor(observations)
            with torch.no_grad():
                choice = Categorical(logits=policy(seen[t]))
                actions = choice.sample().numpy()
                actions = coach.act(observations, actions)  # polaug
                taken[t] = torch.as_tensor(actions)
                log_probs[t] = choice.log_prob(taken[t])
            following, reward, terminated, truncated, infos = envs.step(actions)
            over, last = terminated | truncated, following.copy()
            for k in np.flatnonzero(over):
                last[k] = infos["final_obs"][k]
                if truncated[k] and not terminated[k]:  # the value goes on where only the time is over
                    with torch.no_grad():
                        bootstrap[t, k] = GAMMA * critic(torch.as_tensor(last[k])[None])[0, 0]
            coach.observe(polaug.Transitions(observations, actions, reward, last, terminated, truncated))  # polaug
            own[t] = torch.as_tensor(coach.own)  # polaug
            rewards[t], going_on[t] = torch.as_tensor(reward), torch.as_tensor(~over)
            observations = following
        seen[-1] = torch.as_tensor(observations)

        with torch.no_grad():
            values = critic(seen)[..., 0]  # after the rollout: teaching in between has changed them
        advantages, ahead = torch.zeros(N_STEPS, N_ENVS), torch.zeros(N_ENVS)
        for t in reversed(range(N_STEPS)):
            delta = rewards[t] + bootstrap[t] + GAMMA * going_on[t] * values[t + 1] - values[t]
            ahead = delta + GAMMA * LAMBDA * going_on[t] * ahead
            advantages[t] = ahead
        returns = advantages + values[:-1]
        chosen = own.flatten().nonzero()[:, 0]  # polaug: the loss assumes the policy's own actions
        columns = (
            seen[:-1].reshape(-1, d),
            taken.flatten(),
            log_probs.flatten(),
            advantages.flatten(),
            returns.flatten(),
        )
        for _ in range(EPOCHS):
            for rows in chosen[torch.randperm(len(chosen))].split(N_STEPS * N_ENVS // MINIBATCHES):
                if len(rows) < 2:
                    continue
                states, actions_, old, advantage, goal = (column[rows] for column in columns)
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                choice = Categorical(logits=policy(states))
                ratio = (choice.log_prob(actions_) - old).exp()
                gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
                value_loss = 0.5 * (critic(states)[:, 0] - goal).square().mean()
                loss = -gain + VALUE * value_loss - ENTROPY * choice.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, MAX_NORM)
                optimizer.step()
    envs.close()
    return policy


def evaluate(env_id: str, policy: nn.Sequential, episodes: int = 100, first_seed: int = 1_000_000) -> float:
    """Mean return of the likeliest actions, one episode from each start."""
    env, total = gym.make(env_id), 0.0
    for seed in range(first_seed, first_seed + episodes):
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            with torch.no_grad():
                action = int(policy(torch.as_tensor(observation)[None]).argmax())
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
    return total / episodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="MountainCar-v0")
    parser.add_argument("--steps", type=int, default=16_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    print(f"{evaluate(chosen.env, train(chosen.env, chosen.steps, chosen.seed)):.1f}")
