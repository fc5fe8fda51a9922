"""The agent at play: the film shows what was played, in its own time; wrong files and environments are named."""

import hashlib
import json
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib
import stable_baselines3 as sb3
from PIL import Image
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import polaug
from polaug.errors import InvalidInputError, StateError, UnknownNameError
from polaug.explorers.random import RandomExplorer
from polaug.study.agents import write_normalization
from polaug.study.methods import method
from polaug.study.study import run_settings
from polaug.study.tasks import Task, task
from polaug.watch import watch
from polaug.watch.agent import Cast, _driven, _play, algorithm_of, find_task, open_agent
from polaug.watch.film import COLOURS, Gif, open_film

SMALL = {"n_steps": 64, "batch_size": 64}
POLE = Task("CartPole-v1", "CartPole-v1", episode_limit=25)  # an explorer may balance it for long


@pytest.fixture(scope="module")
def pole(tmp_path_factory):
    """A barely trained augmented agent on CartPole, whose episodes are short."""
    path = tmp_path_factory.mktemp("pole") / "pole.zip"
    model = polaug.augment(sb3.PPO)("MlpPolicy", "CartPole-v1", seed=0, **SMALL)
    model.learn(128)
    model.save(path)
    return path


def frames(path):
    result = []
    with Image.open(path) as film:
        for index in range(film.n_frames):
            film.seek(index)
            result.append((np.asarray(film.convert("RGB")), film.info["duration"]))
    return result


def shows(picture, actor):
    """Whether the actor's colour is in the picture."""
    wanted = np.array([int(COLOURS[actor][k : k + 2], 16) for k in (1, 3, 5)])
    return bool((np.abs(picture.astype(int) - wanted).max(axis=2) < 12).sum() > 100)


class Collected:
    """A film that keeps every panel that it was shown."""

    def __init__(self, casts):
        self.casts, self.panels, self.holds = casts, [], []

    def add(self, draw, *, hold=0.0):
        assert draw().width == 400
        self.panels.append([cast.panel() for cast in self.casts])
        self.holds.append(hold)


def test_a_gif_shows_both_and_keeps_time(pole, tmp_path):
    before = hashlib.sha256(pole.read_bytes()).hexdigest()
    shares = []
    out = watch(pole, tmp_path / "new" / "pole.gif", env=POLE, episodes=2, seed=3, fps=25,
                progress=lambda label, share: shares.append(share))  # fmt: skip
    assert out == tmp_path / "new" / "pole.gif"
    film = frames(out)
    assert all(shows(picture, actor) for actor in COLOURS for picture, _ in film)
    assert sum(duration > 1500 for _, duration in film) == 2  # the two ends are held
    assert out.stat().st_size < 5_000_000
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert [file.name for file in out.parent.iterdir()] == ["pole.gif"]  # no temporary file stays
    assert hashlib.sha256(pole.read_bytes()).hexdigest() == before


def test_a_machine_without_screen_and_sound_says_nothing_about_it(pole, tmp_path):
    names = f"{str(pole)!r}, {str(tmp_path / 'a.gif')!r}"
    code = f"from polaug.watch import watch; watch({names}, env='CartPole-v1', episodes=1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_same_seed_gives_the_same_film(pole, tmp_path):
    films = [watch(pole, tmp_path / f"{k}.gif", env=POLE, episodes=1, seed=1).read_bytes() for k in range(2)]
    assert films[0] == films[1]


def test_what_is_shown_was_played(pole):
    """Same starts for both, the agent's return is the one it gets elsewhere, and who ends first waits."""
    found = POLE
    _, act, explorer = open_agent(pole, found)
    envs = [found.make(render_mode="rgb_array") for _ in range(2)]
    casts = [Cast(envs[0], "agent", "", act), Cast(envs[1], "explorer", "", _driven(explorer), explorer)]
    film = Collected(casts)
    list(_play(casts, 5, "title", film, 400))
    first, last = film.panels[0], film.panels[-1]
    assert np.array_equal(first[0].picture, first[1].picture)
    assert [panel.step for panel in first] == [0, 0]
    assert all(panel.ended for panel in last)
    assert len(film.panels) == 1 + max(panel.step for panel in last)
    assert film.holds == [0.0] * (len(film.panels) - 1) + [1.5]
    for panels in zip(*film.panels, strict=True):
        ends = [panel for panel in panels if panel.ended]
        assert len({(panel.step, panel.total) for panel in ends}) == 1

    model = sb3.PPO.load(pole)
    env = POLE.make()
    observation, _ = env.reset(seed=5)
    total, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(int(model.predict(observation, deterministic=True)[0]))
        total, ended = total + float(reward), terminated or truncated
    assert last[0].total == total
    for each in (env, *envs):
        each.close()


def test_an_mp4_has_every_frame(pole, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    out = watch(pole, tmp_path / "pole.mp4", env=POLE, episodes=1, seed=0, fps=20, width=401)
    count, seconds = ffmpeg.count_frames_and_secs(out)
    still = watch(pole, tmp_path / "pole.gif", env=POLE, episodes=1, seed=0, fps=20, width=401)
    assert seconds == pytest.approx(sum(duration for _, duration in frames(still)) / 1000, abs=0.2)
    assert count == pytest.approx(20 * seconds, abs=1)


def test_an_mp4_without_ffmpeg_says_what_to_install(pole, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(InvalidInputError, match=r"imageio-ffmpeg.*pip install imageio-ffmpeg"):
        watch(pole, tmp_path / "pole.mp4", env=POLE, episodes=1)


@pytest.mark.parametrize(
    "augmentation", [None, polaug.Augmentation(explorer="counting"), polaug.Augmentation(explorer=RandomExplorer)]
)
def test_without_an_explorer_that_drives_only_the_agent_is_shown(tmp_path, augmentation):
    model = polaug.augment(sb3.PPO)("MlpPolicy", "CartPole-v1", seed=0, augmentation=augmentation, **SMALL)
    model.save(tmp_path / "plain")
    assert open_agent(tmp_path / "plain.zip", POLE)[2] is None
    film = frames(watch(tmp_path / "plain", tmp_path / "plain.gif", env=POLE, episodes=1))
    assert shows(film[0][0], "agent")
    assert not shows(film[0][0], "explorer")


def test_text_and_categories_are_drawn(tmp_path):
    """DeepSea renders as text and its observations are categories."""
    model = polaug.augment(sb3.DQN)("MlpPolicy", task("DeepSea").make(), seed=0, buffer_size=100)
    model.save(tmp_path / "sea")
    film = frames(watch(tmp_path / "sea", tmp_path / "sea.gif", env="DeepSea", episodes=1))
    assert len(film) == 21  # the start and N moves
    assert any(not np.array_equal(film[0][0], picture) for picture, _ in film[1:])


def test_continuous_actions(tmp_path):
    model = polaug.augment(sb3.SAC)("MlpPolicy", "Pendulum-v1", seed=0, buffer_size=100)
    model.save(tmp_path / "swing")
    assert (
        len(
            frames(
                watch(
                    tmp_path / "swing",
                    tmp_path / "swing.gif",
                    env=Task("Pendulum-v1", "Pendulum-v1", episode_limit=30),
                    episodes=1,
                )
            )
        )
        > 15
    )


def test_a_run_folder_needs_no_names(pole, tmp_path):
    folder = tmp_path / "seed_0"
    folder.mkdir()
    (folder / "model.zip").write_bytes(pole.read_bytes())
    config = {"task": "short pole", "env_id": "CartPole-v1", "kwargs": {}, "episode_limit": 7, "method": "ppo+pa"}
    (folder / "config.json").write_text(json.dumps(config))
    assert watch(folder, tmp_path / "a.gif", episodes=1).read_bytes().startswith(b"GIF89a")
    found = find_task(folder / "model.zip", None)
    assert (found.name, found.episode_limit) == ("short pole", 7)

    (folder / "config.json").write_text(json.dumps(config | {"env_id": "Nowhere-v0"}))
    with pytest.raises(InvalidInputError, match="package:Nowhere-v0"):
        watch(folder, tmp_path / "a.gif")
    (folder / "config.json").write_text(json.dumps(config | {"settings": {"normalize": True}}))
    with pytest.raises(StateError, match=r"normalization\.npz"):
        watch(folder, tmp_path / "a.gif")
    (folder / "config.json").write_text("{")
    with pytest.raises(StateError, match="--env"):
        watch(folder, tmp_path / "a.gif")


def test_a_run_folder_knows_the_package_of_its_environment(tmp_path):
    wanted = task("tests.study.marked_env:Marked-v0")
    settings = run_settings(wanted, method("dqn"), 0, steps=100)
    (tmp_path / "config.json").write_text(json.dumps(settings))
    found = find_task(tmp_path / "model.zip", None)
    assert (found.package, found.env_id) == ("tests.study.marked_env", "Marked-v0")
    found.make().close()


@pytest.mark.parametrize("saved_as", ["arrays", "pickle"])
def test_observations_are_scaled_as_in_training(tmp_path, saved_as):
    venv = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]))
    model = polaug.augment(sb3.PPO)("MlpPolicy", venv, seed=0, **SMALL)
    model.learn(128)
    model.save(tmp_path / "model")
    pickled = None
    if saved_as == "arrays":
        write_normalization(tmp_path / "normalization.npz", model)
    else:
        pickled = tmp_path / "vecnormalize.pkl"
        venv.save(pickled)
    _, act, explorer = open_agent(tmp_path / "model.zip", POLE, vecnormalize=pickled)
    venv.training = False
    rng = np.random.default_rng(0)
    for raw in rng.normal(size=(50, 4)).astype(np.float32):
        assert act(raw) == model.predict(venv.normalize_obs(raw), deterministic=True)[0]
    assert explorer is not None  # it takes raw observations
    venv.close()


@pytest.mark.parametrize(
    ("cls", "env"),
    [(sb3.PPO, "CartPole-v1"), (sb3.A2C, "CartPole-v1"), (sb3.DQN, "CartPole-v1"), (sb3.SAC, "Pendulum-v1"),
     (sb3.TD3, "Pendulum-v1"), (sb3_contrib.TRPO, "CartPole-v1"), (sb3_contrib.QRDQN, "CartPole-v1"),
     (sb3_contrib.TQC, "Pendulum-v1"), (sb3.DDPG, "Pendulum-v1")],
)  # fmt: skip
def test_the_file_gives_its_algorithm_away(cls, env, tmp_path):
    cls("MlpPolicy", env).save(tmp_path / "agent")
    assert algorithm_of(tmp_path / "agent.zip") == {"DDPG": "td3"}.get(cls.__name__, cls.__name__.lower())


def test_mistakes_are_named(pole, tmp_path):
    out = tmp_path / "film.gif"
    (tmp_path / "text.zip").write_text("not a zip")
    (tmp_path / "empty").mkdir()

    def refused(kind, match, model=pole, to=out, **options):
        with pytest.raises(kind, match=match):
            watch(model, to, **{"env": POLE, "episodes": 1} | options)

    refused(InvalidInputError, "no such file", model=tmp_path / "nothing")
    refused(InvalidInputError, r"no model\.zip.*`polaug compare` with --save-models", model=tmp_path / "empty")
    for seed in range(2):
        run = tmp_path / "runs" / f"seed_{seed}"
        run.mkdir(parents=True)
        (run / "model.zip").write_bytes(b"")
    refused(InvalidInputError, r"Name a folder that has one, for example .*seed_0\.", model=tmp_path / "runs")
    refused(StateError, "damaged, or no agent", model=tmp_path / "text.zip")
    refused(InvalidInputError, "another one than the agent's", env="MountainCar-v0")
    refused(UnknownNameError, "CartPole-v1", env="CartPol-v1")
    refused(InvalidInputError, "does not say where", env=None)
    refused(UnknownNameError, "Did you mean 'ppo'", algo="pppo")
    refused(StateError, "cannot be loaded", algo="dqn")
    refused(InvalidInputError, r"\.gif or \.mp4", to=tmp_path / "film.avi")
    refused(InvalidInputError, "not a folder", to=_folder(tmp_path))
    refused(InvalidInputError, "width", width=10)
    refused(InvalidInputError, "fps", fps=0)
    refused(InvalidInputError, "episodes", episodes=0)
    refused(InvalidInputError, "seed", seed=-1)
    refused(InvalidInputError, "VecNormalize", vecnormalize=tmp_path / "text.zip")
    assert not out.exists()


def _folder(tmp_path):
    path = tmp_path / "folder.gif"
    path.mkdir(exist_ok=True)
    return path


class Unseen(gym.Env):
    """CartPole's spaces, and nothing to see."""

    observation_space = gym.make("CartPole-v1").observation_space
    action_space = gym.spaces.Discrete(2)


def test_an_environment_that_cannot_be_drawn_is_named(pole, tmp_path):
    gym.register("polaug-test/Unseen-v0", entry_point=Unseen)
    try:
        with pytest.raises(InvalidInputError, match="rgb_array"):
            watch(pole, tmp_path / "a.gif", env="polaug-test/Unseen-v0")
    finally:
        del gym.registry["polaug-test/Unseen-v0"]


def test_a_long_restless_film_stays_small_and_keeps_its_length(tmp_path):
    rng = np.random.default_rng(0)
    film = Gif(tmp_path / "noise.gif", fps=50)
    for step in range(900):
        noise = rng.integers(0, 255, (60, 120, 3), dtype=np.uint8)
        film.add(lambda noise=noise: Image.fromarray(noise), hold=1.0 if step == 899 else 0.0)
    film.finish()
    shown = frames(tmp_path / "noise.gif")
    assert len(shown) <= 360
    assert (tmp_path / "noise.gif").stat().st_size < 5_000_000
    assert sum(duration for _, duration in shown) == pytest.approx(19_000, abs=100)
    assert min(duration for _, duration in shown) >= 20


def test_an_abandoned_film_leaves_nothing(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    film = open_film(tmp_path / "a.mp4", 30)
    film.add(lambda: Image.new("RGB", (64, 48)))
    film.abandon()
    assert not list(tmp_path.iterdir())
