"""Methods are names for settings; a pair that cannot work is refused before anything runs."""

import json
import pickle
import warnings

import gymnasium as gym
import pytest
from gymnasium import spaces

from polaug.config import Augmentation
from polaug.errors import InvalidInputError, UnknownNameError
from polaug.study import CLASSIC, Task, task
from polaug.study.agents import build
from polaug.study.methods import ALGORITHMS, METHODS, TUNED, check_fit, method, tuned


def test_the_table_has_the_methods_of_the_issue():
    wanted = {"ppo", "dqn", "ppo-tuned", "dqn-tuned", "ppo+counting", "atta2c", "atta2c-curious", "ppo+rnd", "ppo+icm",
              "ppo+pa", "dqn+pa", "ppo+pa-paper", "dqn+pa-paper"}  # fmt: skip
    assert wanted <= set(METHODS)
    for name, found in METHODS.items():
        assert method(name) is found
        assert found.name == name
        assert found.description
        assert found.source
        assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("name", "explorer", "transfer", "is_tuned"),
    [
        ("ppo+pa", "portfolio", "auto", False),
        ("dqn+pa-paper", "paper", "as_published", False),
        ("ppo+pa:kickstart", "portfolio", "kickstart", False),
        ("ppo-tuned+pa", "portfolio", "auto", True),
        ("sac+optimistic", "optimistic", "auto", False),
        ("dqn+model:replay", "model", "replay", False),
    ],
)
def test_names_are_read(name, explorer, transfer, is_tuned):
    found = method(name)
    assert (found.name, found.tuned) == (name, is_tuned)
    assert (found.augmentation.explorer, found.augmentation.transfer) == (explorer, transfer)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pppo", "Did you mean 'ppo'"), ("ppo+paa", "Did you mean 'ppo+pa'.* `polaug list` shows all.$"),
        ("dqn-tund", "Did you mean 'dqn-tuned'"),
        ("ppo+pa:kickstrt", "Did you mean 'kickstart'"), ("ppo+optimist", "Did you mean 'ppo+optimistic'"),
        ("atta2c+pa", "Did you mean"), ("", "Choose from"), ("../evil", "Choose from"),
    ],
)  # fmt: skip
def test_a_typo_gets_the_nearest_name(name, words):
    with pytest.raises(UnknownNameError, match=words.replace("+", r"\+")):
        method(name)


def test_changes_of_the_augmentation_are_part_of_the_name():
    changed = method("ppo").with_augmentation(teach_every=10, explorer="paper")
    assert changed.name == "ppo+pa[explorer=paper,teach_every=10]"
    assert changed.augmentation == Augmentation(teach_every=10, explorer="paper")
    assert method("ppo").with_augmentation().name == "ppo+pa"
    assert method("ppo+pa").with_augmentation(teach_every=Augmentation().teach_every) == method("ppo+pa")


@pytest.mark.parametrize(
    ("name", "where", "words"),
    [
        ("dqn", "Pendulum-v1", "DQN needs Discrete actions"),
        ("sac", "CartPole-v1", "SAC needs Box actions"),
        ("ppo-tuned", "DeepSea", "no tuned ppo"),
        ("ppo+pa:distil", "CartPole-v1", "PPO, A2C and TRPO can be taught by"),
        ("ppo", "Blackjack-v1", r"ppo cannot see the Tuple observations of Blackjack-v1\. Wrap it in gymnasium"),
        ("dqn+pa", "Blackjack-v1", "dqn.pa cannot see the Tuple observations"),
    ],
)
def test_pairs_that_can_not_work_are_refused(name, where, words):
    with pytest.raises(InvalidInputError, match=words):
        check_fit(method(name), task(where))


class Inner(gym.Env):
    """Observations that are a Dict of one part."""

    action_space = spaces.Discrete(2)

    def __init__(self, part):
        self.observation_space = spaces.Dict({"part": part})


def test_a_dict_is_seen_by_plain_agents_if_its_parts_are():
    gym.register("Inner-v0", entry_point=Inner)
    box = Task("box", "Inner-v0", (("part", spaces.Box(0, 1)),))
    check_fit(method("ppo"), box)
    check_fit(method("ppo+pa"), box)
    with pytest.raises(InvalidInputError, match="cannot see the Dict observations of box"):
        check_fit(method("atta2c"), box)
    deep = Task("deep", "Inner-v0", (("part", spaces.Dict({"deeper": spaces.Discrete(2)})),))
    with pytest.raises(InvalidInputError, match="cannot see the Dict observations of deep"):
        check_fit(method("ppo"), deep)
    del gym.registry["Inner-v0"]


def test_what_must_be_installed_is_named_as_pip_knows_it(monkeypatch):
    monkeypatch.setattr("polaug.study.methods.importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidInputError, match=r"TRPO needs sb3-contrib, got 'trpo'\. pip install sb3-contrib\.$"):
        check_fit(method("trpo"), task("CartPole-v1"))


def test_tuned_settings_are_plain_data_of_known_algorithms_and_tasks():
    assert json.loads(json.dumps(TUNED)) == TUNED
    assert set(TUNED) <= set(ALGORITHMS)
    assert {env_id for table in TUNED.values() for env_id in table} <= {each.env_id for each in CLASSIC}
    assert tuned("dqn", "polaug/PaperMountainCar-v0") == TUNED["dqn"]["MountainCar-v0"]
    assert tuned("ppo", "CartPole-v1")["learning_rate"] == "lin_0.001"
    assert tuned("ppo", "NoSuch-v0") is None


@pytest.mark.parametrize(("algo", "env_id"), [(algo, env_id) for algo in TUNED for env_id in TUNED[algo]])
def test_every_tuned_method_can_be_built(algo, env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SWIG's types warn when Box2D is first imported
        if env_id.startswith("Lunar"):
            pytest.importorskip("Box2D")
    model, tape = build(method(f"{algo}-tuned"), task(env_id), seed=0)
    settings = tuned(algo, env_id)
    assert tape.num_envs == settings.get("n_envs", 1)
    assert (model.get_vec_normalize_env() is not None) == settings.get("normalize", False)
    if isinstance(settings.get("learning_rate"), str):
        assert model.lr_schedule(0.5) == pytest.approx(float(settings["learning_rate"][4:]) / 2)
    if "gamma" in settings:
        assert model.gamma == settings["gamma"]
    tape.close()


def test_environments_and_explorer_draw_other_numbers():
    first, tape = build(method("ppo"), task("CartPole-v1"), seed=0)
    again, twin = build(method("dqn"), task("CartPole-v1"), seed=0)
    assert (tape.reset() == twin.reset()).all()  # every method of a seed meets the same environment
    assert tape.venv.envs[0].unwrapped.np_random_seed != first.seed == again.seed


def test_a_task_of_a_package_is_found_by_other_processes_too():
    found = task("tests.study.marked_env:Marked-v0")
    assert isinstance(found, Task)
    assert found.package == "tests.study.marked_env"
    assert pickle.loads(pickle.dumps(found)).make().unwrapped
