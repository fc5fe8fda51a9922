"""What augmented agents of both kinds share: construction, the callback that watches, saving and loading."""

from __future__ import annotations

import inspect
import io
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from polaug.config import Augmentation
from polaug.errors import StateError
from polaug.exploration import Explorer
from polaug.integrations.sb3 import saving
from polaug.integrations.sb3.companion import Companion
from polaug.integrations.sb3.raw import raw_endings
from polaug.integrations.sb3.students import family_of
from polaug.transfer import transfer_class

DEFAULT = Augmentation()


class Watch(BaseCallback):
    """Stands before the user's callbacks: they see the actor of an episode in its info, and rewards with the bonus."""

    def __init__(self, actions: str) -> None:
        super().__init__()
        self._actions = actions  # the local variable of SB3's loop that holds what went to the environment

    def _on_step(self) -> bool:
        companion: Companion = getattr(self.model, "_polaug")  # noqa: B009 (mypy: SB3's class has no such attribute)
        news = bool(companion.after_step(self.model, self.locals, self.locals[self._actions]))
        if companion.lesson_due():
            companion.teach()
            news = True
        if news:
            for name, value in companion.statistics().items():
                self.logger.record(f"augment/{name}", value)
        return True


if TYPE_CHECKING:  # mypy sees what the mixin is mixed into
    _Host = BaseAlgorithm
else:
    _Host = object


class AugmentedAgent(_Host):
    """Mixed in before an SB3 class. What is added lives in `_polaug`; None there is the plain agent to the bit."""

    _polaug: Companion | None
    _action_variable: str  # of SB3's collection loop
    _n_steps_are_ours: bool  # whether the transfer has asked for n-step returns, not the user

    def __init__(self, *args: Any, augmentation: Augmentation | None = DEFAULT, **kwargs: Any) -> None:
        self._polaug = None if augmentation is None else Companion(augmentation)
        self._n_steps_are_ours = False
        if self._polaug is not None:
            kwargs = self._with_n_step(args, kwargs)
        super().__init__(*args, **kwargs)

    def _with_n_step(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """n-step returns where the transfer needs them and the user has not said otherwise."""
        assert self._polaug is not None
        settings, cls = self._polaug.settings, type(self)
        parameters = inspect.signature(super().__init__).parameters
        custom_buffer = kwargs.get("replay_buffer_class") is not None or kwargs.get("optimize_memory_usage")
        if not issubclass(cls, OffPolicyAlgorithm) or "n_steps" not in parameters or custom_buffer:
            return kwargs
        given = set(kwargs) | set(list(parameters)[: len(args)])
        if "n_steps" in given or not transfer_class(settings.transfer, family_of(cls)).n_step:
            return kwargs
        self._n_steps_are_ours = True
        return kwargs | {"n_steps": settings.n_step}

    @property
    def explorer(self) -> Explorer | None:
        """Who acts beside the agent, with its Q̂; None for the plain agent, and before there is an environment."""
        return None if self._polaug is None or not self._polaug.attached else self._polaug.explorer

    # -- hooks of SB3 -----------------------------------------------------------------------------------------------

    def _setup_model(self) -> None:
        super()._setup_model()  # type: ignore[safe-super]  # abstract in SB3's base, not in its agents
        if self._polaug is not None:
            self._polaug.attach(self)

    def set_env(self, *args: Any, **kwargs: Any) -> None:
        """As SB3's."""
        super().set_env(*args, **kwargs)
        if self._polaug is not None:
            self._polaug.attach(self)

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        reset_num_timesteps: bool = True,
        tb_log_name: str = "run",
        progress_bar: bool = False,
    ) -> Any:
        restarts = reset_num_timesteps or self._last_obs is None
        result = super()._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar)
        if self._polaug is not None and restarts:
            self._polaug.restart(self.n_envs)
            self._break_off()
        return result

    def _break_off(self) -> None:
        """All environments have been reset: what was stored of the episodes under way has no continuation."""

    def collect_rollouts(self, *args: Any, **kwargs: Any) -> Any:
        """As SB3's, with an eye on how episodes end."""
        if self._polaug is None:
            return super().collect_rollouts(*args, **kwargs)  # type: ignore[misc]  # SB3's base has none, its agents do
        with raw_endings(self) as self._polaug.endings:
            return super().collect_rollouts(*args, **kwargs)  # type: ignore[misc]

    def _init_callback(self, callback: Any, progress_bar: bool = False) -> Any:
        if self._polaug is not None:
            callbacks = callback if isinstance(callback, list) else [] if callback is None else [callback]
            callbacks = [c if isinstance(c, BaseCallback) else ConvertCallback(c) for c in callbacks]
            callback = [Watch(self._action_variable), *callbacks]
        return super()._init_callback(callback, progress_bar)

    # -- files ------------------------------------------------------------------------------------------------------

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_polaug"]

    def save(self, path: Any, exclude: Any = None, include: Any = None) -> None:
        """As SB3's, with the augmentation as plain arrays in the same zip, written whole or not at all."""
        archive = io.BytesIO()
        with nullcontext() if self._polaug is None else self._polaug.settled():
            super().save(archive, exclude=exclude, include=include)
        state = (
            None if self._polaug is None else self._polaug.state_dict() | {"agent": np.array(_plain_name(type(self)))}
        )
        saving.write(path, archive, state)

    @classmethod
    def load(cls, path: Any, env: Any = None, *args: Any, augmentation: Any = DEFAULT, **kwargs: Any) -> Any:
        """As SB3's; the saved settings hold unless `augmentation` is passed (None: go on without)."""
        state = saving.read(path)
        saved, own = str((state or {}).get("agent", "")), _plain_name(cls)
        if saved not in ("", own):
            raise StateError(f"{path}: holds a {saved}, not a {own}. Load it with polaug.augment({saved}).load(...).")
        companion: Companion | None
        if augmentation is None:
            companion = None
        elif augmentation is not DEFAULT:
            companion = Companion(augmentation, state)
        elif state is None:
            companion = None  # saved by the plain agent: it stays one
            if not saving.by_augmented(path):
                warnings.warn(f"{path}: holds a plain {own}, and stays one. Pass augmentation=polaug.Augmentation() to "
                              "augment it, or augmentation=None to say that it should.", stacklevel=2)  # fmt: skip
        else:
            try:
                companion = Companion(Augmentation.from_json(str(state["augmentation"])), state)
            except KeyError as fault:
                raise StateError(f"{path}: the augmentation's part lacks {fault}. Load another file.") from fault
        if state is None:  # `n_steps` of a plain agent are its user's
            kwargs["_n_steps_are_ours"] = False
        model = super().load(path, env, *args, **kwargs, _polaug=companion)
        if companion is not None and state is not None:
            companion.loaded(state)
        return model


def _plain_name(agent: type) -> str:
    """Of the class that was augmented."""
    return next(base.__name__ for base in agent.__mro__ if not issubclass(base, AugmentedAgent))
