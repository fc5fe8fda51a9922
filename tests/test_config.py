"""Settings are checked where they are written down, and survive being saved."""

import dataclasses
import json
import threading

import pytest

from polaug.config import Augmentation
from polaug.errors import InvalidInputError, StateError, UnknownNameError


@pytest.mark.parametrize(("field", "value"), [
    ("explorer", 3), ("explorer_options", [1]), ("transfer", None), ("tau_e", -1), ("tau_q", 1.5), ("window", 1),
    ("trial_share", 1.1), ("trial_share", 0.8), ("guide_share", -0.1), ("evaluation_share", float("nan")),
    ("keep", 2.0), ("teach_every", 0), ("teach_updates", 0), ("teach_batch_size", 1), ("teach_rate", 0.0),
    ("n_step", 0), ("memory", 0), ("seed", "x"),
])  # fmt: skip
def test_a_bad_value_is_named(field, value):
    with pytest.raises(InvalidInputError, match=f"^{field}: "):
        Augmentation(**{field: value})


def test_every_field_is_explained():
    source = __import__("inspect").getsource(Augmentation)
    for field in dataclasses.fields(Augmentation):
        after = source.split(f"    {field.name}: ", 1)[1].split("\n", 1)[1]
        assert after.lstrip().startswith('"""'), field.name


def test_settings_survive_json():
    settings = Augmentation(explorer="paper", explorer_options={"rank": 2}, tau_e=100, keep=0.1)
    assert Augmentation.from_json(settings.to_json()) == settings


def test_settings_are_given_as_a_dict_or_as_an_explorers_name():
    settings = Augmentation(explorer="model", teach_every=100)
    assert Augmentation.of(settings) is settings
    assert Augmentation.of({"explorer": "model", "teach_every": 100}) == settings
    assert Augmentation.of("model") == Augmentation(explorer="model")
    with pytest.raises(UnknownNameError, match="Did you mean 'teach_every'"):
        Augmentation.of({"teach_evry": 100})
    with pytest.raises(InvalidInputError, match="augmentation: must be"):
        Augmentation.of(7)


@pytest.mark.parametrize("guide", [abs, ([[0.0]], [0]), [{"observations": [[0.0]], "actions": [0]}]])
def test_a_guide_is_saved_by_its_name_only(guide):
    with pytest.raises(StateError, match="its own guide"):
        Augmentation.from_json(Augmentation(guide=guide).to_json())
    for named in ("model", ["model", "random"]):
        assert Augmentation.from_json(Augmentation(guide=named).to_json()).guide == named


def test_what_json_cannot_hold_must_be_passed_again():
    with pytest.raises(StateError, match="explorer_options"):
        Augmentation.from_json(Augmentation(explorer_options={"features": len}).to_json())
    with pytest.raises(StateError, match="damaged"):
        Augmentation.from_json("{")


def test_options_that_have_no_copy_do_not_keep_an_agent_from_being_saved():
    class Encoder:
        def __init__(self):
            self.lock = threading.Lock()

        def __call__(self, observations):
            return observations

    saved = Augmentation(explorer_options={"features": Encoder()}, window=5).to_json()
    assert json.loads(saved)["dropped"] == ["explorer_options"]
    assert json.loads(saved)["settings"]["window"] == 5
