"""The adapter to RLlib, on a real Ray of several processes."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import ray
import torch
from gymnasium import spaces
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.env_to_module import FlattenObservations, MeanStdFilter
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from tests.waiting import wait_until

import polaug
import polaug.rllib
from polaug.coach import Coach, Pupil
from polaug.errors import ExplorerError, InvalidInputError
from polaug.rllib.desk import Rounds
from polaug.rllib.learner import own_steps
from polaug.rllib.modules import Actions, check_actions, log_prob
from polaug.rllib.runner import DRIVER, EVALUATION, GUIDE, OWN

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test file

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "rllib.md"
LAKE = {"map_name": "4x4", "is_slippery": False}


def push(observations):
    """MountainCar's classical controller: push where it moves."""
    return np.where(observations[:, 1] < 0.0, 0, 2)


def always_two(observations):
    return np.full((len(observations), 1), 1.5, np.float32)


def into_the_hole(observations):
    return np.where(observations == 0, 2, 1)  # right, and then down


def broken(observations):
    raise OSError("no controller")


def config_of(kind, env, runners=0, augmentation=None, batch=200):
    config = polaug.rllib.augment(kind(), {"seed": 1, "teach_every": 100, "teach_updates": 10} | (augmentation or {}))
    config = config.environment(env).env_runners(num_env_runners=runners, num_cpus_per_env_runner=0.5)
    config = config.debugging(seed=1, log_level="ERROR")
    if kind is PPOConfig:
        return config.training(train_batch_size_per_learner=batch, minibatch_size=50, num_epochs=2)
    config = config.reporting(min_sample_timesteps_per_iteration=100)
    return config.training(num_steps_sampled_before_learning_starts=50)


def weights_of(algo):
    return algo.learner_group.get_weights()[DEFAULT_MODULE_ID]


def agree(states, others):
    return all(np.array_equal(np.asarray(others[name]), np.asarray(state)) for name, state in states.items()
               if name in others)  # fmt: skip


# -- runners that step together, without Ray ----------------------------------------------------------------------


class Corridor:
    """Ten places; the end pays."""

    def __init__(self, cost=0.0):
        self.at, self.cost = 0, cost

    def step(self, action):
        before, self.at = self.at, max(self.at + (1 if action else -1), 0)
        end = self.at == 9
        row = (np.int64(before), np.int64(action), float(end) - self.cost, np.int64(self.at), end, False)
        self.at = 0 if end else self.at
        return row


def coach_of(n=1, explorer="tabular", window=8):
    network = torch.nn.Linear(1, 2)
    pupil = Pupil.of_values(network, gamma=0.99)
    settings = polaug.Augmentation(explorer=explorer, tau_e=10**6, window=window)
    return Coach(pupil, spaces.Discrete(10), spaces.Discrete(2), settings, n_envs=n, seed=3)


def play(rounds, corridors, steps, rng, rows=None):
    """Let the runners step; gives all transitions, in order. `rows` are steps that have not been reported."""
    seen = []
    rows = dict.fromkeys(corridors) if rows is None else rows
    for _ in range(steps):
        for runner, corridor in corridors.items():
            rounds.put(runner, rows[runner], np.int64(corridor.at))
        assert not rounds.missing
        for runner, (driver, action) in rounds.answer().items():
            chosen = action if driver == GUIDE else rng.integers(2)
            rows[runner] = corridors[runner].step(chosen)
            seen.append(rows[runner])
    return seen


def test_the_guide_of_several_runners_knows_what_one_that_saw_everything_knows():
    rounds = Rounds(coach_of())
    corridors = {runner: Corridor() for runner in (1, 2, 3)}
    seen = play(rounds, corridors, 200, np.random.default_rng(0))
    alone = polaug.make_explorer("tabular", spaces.Discrete(10), spaces.Discrete(2), seed=0)
    for row in seen[:-3]:  # the latest steps have not been reported yet
        alone.observe(polaug.Transitions(*(np.array([part]) for part in row)))
    assert rounds.coach.steps == rounds.coach.guide.steps == alone.steps == 3 * 199
    merged, single = (each.state_dict() for each in (rounds.coach.guide, alone))
    counted = [name for name in single if name.startswith("state._table._tables.")]
    assert len(counted) >= 8
    for name in counted:
        assert merged[name] == pytest.approx(single[name], abs=1e-8)


@pytest.mark.parametrize("explorer", ["tabular", "portfolio"])
def test_runners_are_the_environments_of_one_coach(explorer):
    """To the bit what one process with as many environments does."""
    rounds, coach = Rounds(coach_of(explorer=explorer)), coach_of(explorer=explorer)
    coach.begin(2)
    corridors, others = {1: Corridor(), 2: Corridor()}, [Corridor(), Corridor()]
    rng, twin = np.random.default_rng(0), np.random.default_rng(0)
    play(rounds, corridors, 100, rng)
    for t in range(100):
        observations = np.array([corridor.at for corridor in others])
        given = coach.guide_actions(observations) if coach.drivers.any() else [None, None]
        actions = [given[k] if coach.drivers[k] else twin.integers(2) for k in range(2)]
        rows = [corridor.step(action) for corridor, action in zip(others, actions, strict=True)]
        if t < 99:
            coach.observe(polaug.Transitions(*(np.array(column) for column in zip(*rows, strict=True))), teach=False)
    assert agree(coach.state_dict(), rounds.coach.state_dict())


def test_a_runner_that_leaves_and_another_that_joins():
    rounds = Rounds(coach_of())
    corridors = {1: Corridor(), 2: Corridor()}
    rng = np.random.default_rng(0)
    play(rounds, corridors, 50, rng)
    known = rounds.coach.guide.steps
    rounds.put(1, None, np.int64(0))
    assert rounds.missing == [2]
    rounds.leave(2)
    play(rounds, {1: corridors[1]}, 50, rng)
    assert rounds.coach.guide.steps == known + 49
    play(rounds, corridors, 50, rng)
    assert rounds.coach.guide.steps == known + 49 + 2 * 49


def test_the_episodes_of_the_others_go_on_when_a_runner_leaves_or_is_reset():
    rounds = Rounds(coach_of(window=50))
    corridors = {runner: Corridor(cost=1.0) for runner in (1, 2, 3)}
    rng, rows = np.random.default_rng(0), dict.fromkeys(corridors)
    seen = {runner: [] for runner in corridors}

    def follow(n):
        played = play(rounds, corridors, n, rng, rows)
        for runner, row in zip(list(corridors) * n, played, strict=True):
            seen[runner].append(row)

    follow(6)  # too short to reach the end
    rounds.leave(2)
    del corridors[2]
    follow(6)
    corridors[3].at, rows[3], seen[3] = 0, None, []  # it was reset
    follow(200)
    true = []
    for runner in corridors:
        total = 0.0
        for row in seen[runner][:-1]:  # the latest step has not been reported yet
            total += row[2]
            if row[4]:
                true.append(total)
                total = 0.0
    assert len(true) >= 5
    assert sorted(rounds.coach.records.returns["guide"]) == sorted(true)


# -- parts ----------------------------------------------------------------------------------------------------------


def test_ppo_learns_from_its_own_steps_alone():
    drivers = [OWN, OWN, GUIDE, EVALUATION, OWN]
    outputs = {DRIVER: list(drivers), Columns.ACTION_LOGP: [0.0] * 5}
    episode = SingleAgentEpisode(observations=list(range(6)), actions=[0] * 5, rewards=[float(k) for k in range(5)],
                                 extra_model_outputs=outputs, terminated=True, len_lookback_buffer=0)  # fmt: skip
    pieces = own_steps([episode.to_numpy()])
    assert [np.asarray(piece.get_rewards()).tolist() for piece in pieces] == [[0.0, 1.0], [4.0]]
    assert [piece.is_terminated for piece in pieces] == [False, True]
    assert np.asarray(pieces[0].get_observations()).tolist() == [0, 1, 2]


def test_actions_go_to_the_module_and_back():
    space = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 5.0], np.float32))
    for scaled in (True, False):
        config = PPOConfig().env_runners()
        config.normalize_actions, config.clip_actions = scaled, not scaled
        actions = Actions(space, config)
        action = np.array([1.5, 1.0], np.float32)
        assert actions.to_environment(actions.to_module(action)) == pytest.approx(action, abs=1e-6)
        unit = actions.output_in_unit(torch.as_tensor(actions.to_module(action))[None])
        assert unit.numpy()[0] == pytest.approx([0.75, -0.6], abs=1e-6)


@pytest.mark.parametrize("space", [
    spaces.Discrete(3, start=1), spaces.MultiBinary(3), spaces.Box(0, 5, (2,), np.int32),
    spaces.Box(-np.inf, np.inf, (1,)),
])  # fmt: skip
def test_other_actions_are_refused(space):
    with pytest.raises(InvalidInputError, match="action_space"):
        check_actions(space)


# -- training -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cluster")
def test_two_runners_one_killed_in_mid_training():
    config = config_of(PPOConfig, "MountainCar-v0", 2, {"guide": push}).learners(num_learners=1)  # in its own process
    algo = config.build_algo()
    name = algo.config.polaug_desk
    before = weights_of(algo)
    result = algo.train()
    assert result["num_env_steps_sampled_lifetime"] == 200
    assert result["augmentation"]["steps"] == 198  # each runner's latest step is reported with its next
    manager = algo.env_runner_group
    pids = manager.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False)
    assert len(set(pids)) == 2
    os.kill(pids[0], signal.SIGKILL)
    for _ in range(20):
        result = algo.train()
        if manager.num_healthy_remote_workers() == 2 and result["augmentation"]["steps"] > 800:
            break
    again = manager.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False)
    assert pids[1] in again
    assert len(set(again)) == 2
    assert result["augmentation"]["guide_return"] > -200.0 or result["augmentation"]["guide_share"] > 0.5
    # What was taught reaches all runners.
    taught = weights_of(algo)
    assert not agree(before, taught)
    held = manager.foreach_env_runner(lambda runner: runner.module.get_state(), local_env_runner=False)
    assert all(agree(state, taught) for state in held)
    pids = [*again, ray.get(ray.get_actor(name).pid.remote())]
    algo.stop()
    with pytest.raises(ValueError, match=name):
        ray.get_actor(name)
    wait_until(lambda: not any(_alive(pid) for pid in pids))


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.usefixtures("cluster")
def test_log_probabilities_are_those_of_what_was_done():
    algo = config_of(PPOConfig, "Pendulum-v1", 0, {"guide": always_two, "tau_e": 10**6, "transfer": "as_published"})
    algo = algo.build_algo()
    try:
        episode = algo.env_runner.sample(num_timesteps=20)[0]
        outputs = episode.extra_model_outputs
        assert set(np.asarray(episode.get_extra_model_outputs(DRIVER)).tolist()) == {GUIDE}
        done = np.asarray(episode.get_actions())
        assert done == pytest.approx(np.full((20, 1), 0.75))  # 1.5 of 2, in the module's units
        for k in range(20):
            wanted = log_prob(algo.env_runner.module, outputs[Columns.ACTION_DIST_INPUTS][k], episode.get_actions(k))
            assert outputs[Columns.ACTION_LOGP][k] == pytest.approx(wanted, rel=1e-4)
    finally:
        algo.stop()


@pytest.mark.usefixtures("cluster")
def test_evaluation_runners_play_the_agent_alone():
    """The guide would end each episode of the lake after two steps, in a hole."""
    config = config_of(DQNConfig, "FrozenLake-v1", 0, {"guide": into_the_hole, "tau_e": 10**6, "transfer": "replay"})
    config = config.environment(env_config=LAKE).env_runners(
        env_to_module_connector=lambda env, spaces, device: FlattenObservations()
    )
    config = config.evaluation(evaluation_interval=1, evaluation_num_env_runners=1, evaluation_duration=2)
    algo = config.build_algo()
    try:
        result = algo.train()
        steps = result["num_env_steps_sampled_lifetime"]
        assert result["augmentation"]["steps"] == steps - 1
        assert result["augmentation"]["guide_share"] == 1.0
        assert result["env_runners"]["episode_len_mean"] == 2.0
        played = result["evaluation"]["env_runners"]
        assert played["num_episodes"] == 2
        assert played["episode_len_mean"] != 2.0
    finally:
        algo.stop()


@pytest.mark.usefixtures("cluster")
def test_a_guide_that_fails_ends_the_training_by_name():
    algo = config_of(PPOConfig, "MountainCar-v0", 1, {"guide": broken, "tau_e": 10**6, "transfer": "as_published"})
    algo = algo.build_algo()
    try:
        with pytest.raises(ExplorerError, match=r"'broken'.*no controller"):
            algo.train()
    finally:
        algo.stop()


@pytest.mark.usefixtures("cluster")
def test_a_checkpoint_holds_the_coach(tmp_path):
    config = config_of(DQNConfig, "FrozenLake-v1").environment(env_config=LAKE)
    config = config.env_runners(env_to_module_connector=lambda env, spaces, device: FlattenObservations())
    algo = config.build_algo()
    algo.train()
    steps = algo.train()["augmentation"]["steps"]
    wanted, known = weights_of(algo), algo.explorer_state()
    path = algo.save_to_path(str(tmp_path / "checkpoint"))
    algo.stop()
    other = type(algo).from_checkpoint(path)
    try:
        assert agree(wanted, weights_of(other))
        assert agree(known, other.explorer_state())
        assert other.train()["augmentation"]["steps"] > steps
    finally:
        other.stop()


@pytest.mark.usefixtures("cluster")
def test_sac_and_filters():
    config = config_of(SACConfig, "Pendulum-v1", 0, {"guide": always_two})
    config = config.env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())
    algo = config.build_algo()
    try:
        rows = algo.train()["augmentation"]
        assert rows["steps"] >= 99
        assert rows["guide_share"] > 0.3
    finally:
        algo.stop()


@pytest.mark.usefixtures("cluster")
def test_the_page_of_rllib_runs_as_pasted(monkeypatch, tmp_path):
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # Tune's results
    names = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert len(blocks) == 3
    assert names["result"]["augmentation"]["guide_share"] > 0.0
    assert Path(names["path"]).is_dir()
    assert names["results"][0].metrics["num_env_steps_sampled_lifetime"] >= 1000
    assert names["results"][0].metrics["augmentation"]["guide_share"] > 0.0


# -- refusals -------------------------------------------------------------------------------------------------------


class OwnModule(torch.nn.Module):
    pass


def test_without_the_extra_the_error_says_what_to_install():
    code = "import sys; sys.modules['ray.rllib'] = None; import polaug.rllib"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert 'pip install "polaug[rllib]"' in run.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (lambda: PPOConfig, "config: must be one of"),
        (APPOConfig, "APPO cannot be augmented"),
        (IMPALAConfig, "IMPALA cannot be augmented"),
        (lambda: PPOConfig().api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False),
         "api_stack"),
        (lambda: PPOConfig().multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda *_, **__: "a"), "multi_agent"),
        (lambda: PPOConfig().env_runners(num_envs_per_env_runner=4), "num_env_runners=4"),
        (lambda: PPOConfig().rl_module(rl_module_spec=RLModuleSpec(module_class=OwnModule)), "rl_module_spec"),
        (lambda: PPOConfig().rl_module(model_config={"use_lstm": True}), "recurrent"),
        (lambda: PPOConfig().learners(num_learners=2), "num_learners"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(config, words):
    with pytest.raises(InvalidInputError, match=words):
        polaug.rllib.augment(config())


@pytest.mark.usefixtures("cluster")
def test_what_is_set_after_augment_is_refused_when_it_is_built():
    config = polaug.rllib.augment(PPOConfig()).environment("CartPole-v1").env_runners(num_envs_per_env_runner=2)
    with pytest.raises(InvalidInputError, match="num_envs_per_env_runner"):
        config.build_algo()
    plain = polaug.rllib.augment(PPOConfig()).environment("CartPole-v1").env_runners(num_env_runners=0)
    with pytest.raises(InvalidInputError, match="build_algo"):
        PPO(config=plain)
