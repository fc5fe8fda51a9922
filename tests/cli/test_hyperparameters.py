"""Hyperparameters as people write them: pairs, flat files, and RL Zoo's files, of which nothing is executed."""

import pytest
from stable_baselines3 import PPO

from polaug import cli
from polaug.cli.hyperparams import read_file, read_pairs
from polaug.errors import InvalidInputError, UnknownNameError
from polaug.study import task
from polaug.study.agents import build
from polaug.study.methods import check_names, method, trained
from polaug.study.study import run_settings


def test_pairs_are_numbers_lists_or_text():
    found = read_pairs(["n_steps:512", "gamma=0.9", "learning_rate:lin_1e-3", "policy_kwargs:dict(net_arch=[8, 8])",
                        "use_sde:true", "normalize:True"])  # fmt: skip
    assert found == {"n_steps": 512, "gamma": 0.9, "learning_rate": "lin_1e-3", "policy_kwargs": {"net_arch": [8, 8]},
                     "use_sde": True, "normalize": True}  # fmt: skip
    for wrong in ("n_steps", ":5", ""):
        with pytest.raises(InvalidInputError, match="-p: must be NAME:VALUE"):
            read_pairs([wrong])


def test_files_are_flat_or_the_zoos(tmp_path):
    flat, zoo = tmp_path / "flat.yml", tmp_path / "zoo.yml"
    flat.write_text("n_steps: 64\ngamma: 0.9\n")
    zoo.write_text(
        "CartPole-v1:\n  n_envs: 8\n  n_timesteps: !!float 1e5\n  policy: 'MlpPolicy'\n  learning_rate: lin_0.001\n"
        "  policy_kwargs: \"dict(net_arch=[64, 64])\"\n  noise_type: 'normal'\n  noise_std: 0.2\n"
        "Acrobot-v1:\n  gamma: 0.5\n"
    )
    assert read_file(flat, "CartPole-v1") == {"n_steps": 64, "gamma": 0.9}
    assert read_file(zoo, "CartPole-v1") == {
        "n_envs": 8, "learning_rate": "lin_0.001", "policy_kwargs": {"net_arch": [64, 64]}, "noise": ["normal", 0.2],
    }  # fmt: skip
    assert read_file(zoo, "Acrobot-v1") == {"gamma": 0.5}
    with pytest.raises(InvalidInputError, match="It has some for CartPole-v1, Acrobot-v1"):
        read_file(zoo, "Pendulum-v1")
    for content in ("[1, 2]", "a: [", "\x00", "5"):
        flat.write_text(content)
        with pytest.raises(InvalidInputError, match="--hyperparams: "):
            read_file(flat, "CartPole-v1")


def test_nothing_in_a_file_is_executed(tmp_path):
    file = tmp_path / "evil.yml"
    file.write_text(f"gamma: \"__import__('pathlib').Path('{tmp_path}/done').touch()\"\n")
    assert isinstance(read_file(file, "CartPole-v1")["gamma"], str)
    file.write_text(f"gamma: !!python/object/apply:os.mkdir ['{tmp_path}/done']\n")
    with pytest.raises(InvalidInputError, match="must be a YAML file"):
        read_file(file, "CartPole-v1")
    assert not (tmp_path / "done").exists()


def test_they_reach_the_agent_and_become_part_of_the_name():
    changed = method("ppo").with_settings(n_steps=64, n_envs=2, batch_size=32)
    assert changed.name == "ppo[batch_size=32,n_envs=2,n_steps=64]"
    model, tape = build(changed, task("CartPole-v1"), seed=0)
    assert (model.n_steps, model.batch_size, tape.num_envs) == (64, 32, 2)
    assert method("ppo").with_settings() is method("ppo")
    assert changed.with_settings(n_steps=8).settings(task("CartPole-v1"))["n_steps"] == 8


def test_a_misspelt_hyperparameter_gets_the_nearest():
    with pytest.raises(UnknownNameError, match=r"hyperparameter of PPO is called 'n_step'. Did you mean 'n_steps'"):
        check_names(PPO, {"n_step": 5})
    check_names(PPO, {"n_steps": 5, "n_envs": 2, "normalize": True})


@pytest.mark.parametrize(("words", "told"), [
    (("--device", "cudaa"), "device: no device is called 'cudaa'. Did you mean 'cuda'"),
    (("--env-kwargs", '{"suttonbarto_reward": true}'), "called 'suttonbarto_reward'. Did you mean 'sutton_barto"),
    (("--guide", "modell"), "explorer: no explorer is called 'modell'. Did you mean 'model'"),
])  # fmt: skip
def test_a_misspelt_value_is_refused_before_anything_runs(tmp_path, capsys, words, told):
    assert cli.main(["train", "CartPole-v1", *words, "--out", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert "starting" not in captured.err
    assert not list(tmp_path.iterdir())


def test_a_runs_agent_is_built_again_from_its_config():
    cart = task("CartPole-v1")
    changed = (
        method("ppo-tuned+pa").with_augmentation(seed=3).with_settings(n_steps=64, policy_kwargs={"net_arch": [8]})
    )
    again = trained(run_settings(cart, changed, 0))
    assert (again.algo, again.augmentation) == ("ppo", None)
    assert again.settings(cart) == {**changed.settings(cart)}
