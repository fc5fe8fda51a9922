"""The settings of an augmented agent. Names of explorers and transfers are checked when the agent is built."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from polaug.checks import non_negative, positive, whole
from polaug.errors import StateError, invalid, unknown


@dataclass(frozen=True)
class Augmentation:
    """How an agent is augmented. The defaults are the same for all environments."""

    guide: Any = None
    """Anything that acts: the name of an explorer, or an `Explorer`; a function f(observations) -> actions, of one
    observation or of a batch; a policy with Stable-Baselines3's `predict`; demonstrations as (observations, actions), a
    dict of these, a list of episodes, or a Minari data set. With a list of guides, the one with the best returns drives
    and teaches. None: the `explorer`."""

    explorer: str | Callable[..., Any] = "portfolio"
    """The explorer that guides if there is no `guide`: a name from `polaug.explorers()`, or a callable
    f(observation_space, action_space, seed=…) that returns an `Explorer`, for example its class."""

    explorer_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of `explorer`, by name. The page of each explorer lists them."""

    transfer: str = "auto"
    """How the agent is taught: a name from `polaug.transfers()`. "auto" chooses by the kind of agent."""

    tau_e: int | None = None
    """τ_e of Algorithm 1: the guide drives the first τ_e steps and none after them. None: p decides (see `window`)."""

    tau_q: int | None = None
    """τ_q of Algorithm 1: Q̂ is learnt during the first τ_q steps. None: during all steps."""

    seed: int | None = None
    """Seed of the guide, the coach and the teaching. None: the agent's seed, or a random one if it has none."""

    window: int = 8
    """Number of latest episodes of guide and agent from which p is computed, the probability that the guide has the
    higher mean return. Fewer episodes make p noisy, more make it react late."""

    guide_share: float = 0.75
    """Largest share of the steps that the guide drives. The agent needs the rest for its own training."""

    trial_share: float = 0.05
    """Smallest share of the steps that the guide drives, to measure its returns. No teaching unless p is above it."""

    evaluation_share: float = 0.5
    """Share of the agent's episodes without exploration noise. A stochastic policy often has much lower returns during
    training than its deterministic one. The better kind counts for p."""

    keep: float = 0.3
    """Weight of teaching updates on earlier labels when p is not above `trial_share`, for value-based agents. Without
    them the agent's own updates would forget what was taught. 0 switches them off."""

    teach_every: int = 250
    """Environment steps between two teaching phases."""

    teach_updates: int = 80
    """Maximum number of gradient steps in a teaching phase. An agent that agrees with the guide gets a tenth."""

    teach_batch_size: int = 256
    """States in a minibatch of teaching."""

    teach_rate: float = 1e-2
    """Learning rate of the separate Adam optimizer of teaching."""

    n_step: int = 5
    """n of the n-step returns of value-based agents, unless you set their own `n_steps`. 1 changes nothing."""

    memory: int = 20_000
    """States kept for teaching."""

    def __post_init__(self) -> None:
        if not (isinstance(self.explorer, str) or callable(self.explorer)):
            raise invalid("explorer", "must be a name or a callable", self.explorer, 'Pass for example "portfolio".')
        options: Any = self.explorer_options
        if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
            raise invalid("explorer_options", "must be a dict of options", self.explorer_options, "Pass a dict.")
        if not isinstance(self.transfer, str):
            raise invalid("transfer", "must be a name", self.transfer, 'Pass for example "auto".')
        for name in ("tau_e", "tau_q", "seed"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 0)
        for name in ("window", "teach_every", "teach_updates", "n_step", "memory"):
            whole(name, getattr(self, name), 2 if name == "window" else 1)
        whole("teach_batch_size", self.teach_batch_size, 2)
        positive("teach_rate", self.teach_rate)
        for name in ("guide_share", "trial_share", "evaluation_share", "keep"):
            if non_negative(name, getattr(self, name)) > 1.0:
                raise invalid(name, "must lie in [0, 1]", getattr(self, name), f"Pass for example {name}=0.5.")
        if self.trial_share > self.guide_share:
            raise invalid("trial_share", f"must be at most guide_share={self.guide_share}", self.trial_share,
                          "Pass a smaller one.")  # fmt: skip

    @classmethod
    def of(cls, given: Any) -> Augmentation:
        """The settings that a user passed: an `Augmentation`, a dict of its fields, or the name of an explorer.

        Examples
        --------
        >>> from polaug import Augmentation
        >>> Augmentation.of({"explorer": "model", "teach_every": 100}).teach_every
        100
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, str):
            return cls(explorer=given)
        if not isinstance(given, Mapping):
            rule = "must be a polaug.Augmentation, a dict of its fields, an explorer's name or None"
            remedy = "Pass for example polaug.Augmentation(), or None for the plain agent."
            raise invalid("augmentation", rule, given, remedy)
        valid = [f.name for f in dataclasses.fields(cls)]
        for name in given:
            if name not in valid:
                raise unknown("setting of Augmentation", name, valid)
        return cls(**given)

    def to_json(self) -> str:
        """All settings as JSON. Callables are left out and must be passed again on loading."""
        # Not asdict: it copies, and some options (a lock, an open file) cannot be copied.
        settings = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        settings |= {"explorer_options": dict(self.explorer_options)}
        kept, dropped = {}, []
        for name, value in settings.items():
            try:
                kept[name] = json.loads(json.dumps(value))
            except (TypeError, ValueError):
                dropped.append(name)
        guides = self.guide if isinstance(self.guide, list) else [self.guide]
        if not all(each is None or isinstance(each, str) for each in guides):  # demonstrations are no settings
            kept.pop("guide", None)
            dropped = [*(name for name in dropped if name != "guide"), "guide"]
        return json.dumps({"settings": kept, "dropped": dropped}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Augmentation:
        """What `to_json` wrote."""
        try:
            content = json.loads(text)
            settings, dropped = dict(content["settings"]), list(content["dropped"])
        except (ValueError, KeyError, TypeError) as fault:
            raise StateError(
                f"augmentation: the saved settings are damaged ({fault!r}). Pass augmentation=."
            ) from fault
        if dropped:
            raise StateError(f"augmentation: the saved agent used its own {dropped[0]}, which a file of plain arrays "
                             "cannot hold. Load it with the same augmentation=polaug.Augmentation(...).")  # fmt: skip
        return cls.of(settings)
