"""The settings of an augmented agent: one field is one keyword, one command-line flag and one row of the report.

Names of explorers and transfers are checked where their tables are, when the agent is built.
"""

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
    """How an agent is augmented. Every default is meant to be left alone; no setting depends on the environment."""

    explorer: str | Callable[..., Any] = "committee"
    """Who explores: a name from `polaug.explorers()`, or a callable f(observation_space, action_space, seed=…)."""

    explorer_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of that explorer."""

    transfer: str = "auto"
    """How the rollouts teach the agent: a name from `polaug.transfers()`; "auto" takes the best known."""

    tau_e: int | None = None
    """Algorithm 1's τ_e: the explorer drives during the first τ_e steps and never after. None: automatic."""

    tau_q: int | None = None
    """Algorithm 1's τ_q: Q̂ is learnt during the first τ_q steps. None: as long as the explorer is of use."""

    patience: int = 3_000
    """Steps that an explorer may drive without being better than the agent before only trials are left to it; where
    episodes are long, at least one for each 500 of them, up to six."""

    trial_share: float = 0.1
    """Share of steps that the loser of the comparison gets at first, to show whether it has improved."""

    teach_every: int = 250
    """Environment steps between lessons."""

    teach_batches: int = 80
    """Most minibatches of a lesson; an agent that already agrees with Q̂ gets fewer."""

    teach_batch_size: int = 256
    """States in a minibatch of a lesson."""

    teach_rate: float = 1e-2
    """Learning rate of the lessons' own Adam."""

    smoothing: float = 0.25
    """Softness of the labels, in [0, 1): the share of probability that the teacher leaves to the other actions."""

    margin: float = 0.8
    """Margin of the large-margin loss, in units of the spread of the agent's values."""

    n_step: int = 5
    """n of the n-step returns of value-based agents whose own `n_steps` was not set; 1 leaves them as they are."""

    memory: int = 20_000
    """States kept for lessons."""

    seed: int | None = None
    """Seed of the explorer. None: the agent's, or a fresh one if it has none either."""

    def __post_init__(self) -> None:
        if not (isinstance(self.explorer, str) or callable(self.explorer)):
            raise invalid("explorer", "must be a name or a callable", self.explorer, 'Pass for example "committee".')
        options: Any = self.explorer_options
        if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
            raise invalid("explorer_options", "must be a dict of options", self.explorer_options, "Pass a dict.")
        if not isinstance(self.transfer, str):
            raise invalid("transfer", "must be a name", self.transfer, 'Pass for example "auto".')
        for name in ("tau_e", "tau_q", "seed"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 0)
        whole("patience", self.patience, 0)
        for name in ("teach_every", "teach_batches", "n_step", "memory"):
            whole(name, getattr(self, name), 1)
        whole("teach_batch_size", self.teach_batch_size, 2)
        positive("teach_rate", self.teach_rate)
        non_negative("margin", self.margin)
        for name in ("trial_share", "smoothing"):
            if non_negative(name, getattr(self, name)) >= 1.0:
                raise invalid(name, "must lie in [0, 1)", getattr(self, name), f"Pass for example {name}=0.1.")

    def to_json(self) -> str:
        """All settings as JSON; what JSON cannot hold (callables) is left out and must be passed again on loading."""
        # Not asdict: it copies, and what users pass (a lock, an open file) may have no copy.
        settings = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        settings |= {"explorer_options": dict(self.explorer_options)}
        kept, dropped = {}, []
        for name, value in settings.items():
            try:
                kept[name] = json.loads(json.dumps(value))
            except (TypeError, ValueError):
                dropped.append(name)
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
        valid = {f.name for f in dataclasses.fields(cls)}
        for name in settings:
            if name not in valid:
                raise unknown("setting of Augmentation", name, valid)
        return cls(**settings)
