"""Shared parts of augmented agents: construction, the callback, saving and loading."""

from __future__ import annotations

import dataclasses
import inspect
import io
import warnings
from collections import deque
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor

from polaug.coach.teaching import transfer_class
from polaug.config import Augmentation
from polaug.errors import StateError, invalid
from polaug.explorers import Explorer
from polaug.sb3 import saving
from polaug.sb3.bridge import Bridge
from polaug.sb3.extractor import StandardisingCombinedExtractor, StandardisingExtractor
from polaug.sb3.progress import DriverBar
from polaug.sb3.pupils import family_of
from polaug.sb3.spaces import check_environment
from polaug.sb3.vec_normalize import raw_endings

DEFAULT = Augmentation()
_STANDARDISING = {FlattenExtractor: StandardisingExtractor, CombinedExtractor: StandardisingCombinedExtractor}


class Watch(BaseCallback):
    """Runs before the user's callbacks. These see the actor of an episode in its info, and rewards with the bonus."""

    def _on_step(self) -> bool:
        bridge: Bridge = getattr(self.model, "_polaug")  # noqa: B009 (mypy: SB3's class has no such attribute)
        taken = self.locals.get("clipped_actions", self.locals["actions"])  # the actions that the environment received
        news = bool(bridge.after_step(self.model, self.locals, taken))
        if bridge.teach_if_due() or news:
            for name, value in bridge.coach.statistics().items():
                self.logger.record(f"augmentation/{name}", value)
        return True


if TYPE_CHECKING:  # mypy sees what the mixin is mixed into
    _Host = BaseAlgorithm
else:
    _Host = object


class AugmentedAgent(_Host):
    """Mixin before an SB3 class. Its state is in `_polaug`; None gives exactly the plain agent."""

    _polaug: Bridge | None
    _guide_mean = 0.0  # of the returns of the guide's latest episodes
    _n_steps_are_ours: bool  # True if the transfer, not the user, set n-step returns

    def __init__(self, *args: Any, augmentation: Any = DEFAULT, **kwargs: Any) -> None:
        self._polaug = None if augmentation is None else Bridge(Augmentation.of(augmentation))
        self._n_steps_are_ours = False
        if self._polaug is not None:
            self._check_names(kwargs)
            check_environment(args[1] if len(args) > 1 else kwargs.get("env"))
            kwargs = self._with_n_step(args, kwargs)
            kwargs = self._with_standardised_inputs(args, kwargs)
            self._guide_episodes: deque[dict[str, Any]] = deque(maxlen=kwargs.get("stats_window_size", 100))
        super().__init__(*args, **kwargs)

    def _check_names(self, kwargs: dict[str, Any]) -> None:
        """Raise an error for a setting of the augmentation among the agent's own parameters."""
        settings = {field.name for field in dataclasses.fields(Augmentation)}
        for name in settings & set(kwargs) - set(inspect.signature(super().__init__).parameters):
            raise invalid(name, "is a setting of the augmentation, not of the agent", kwargs[name],
                          f'Pass augmentation={{"{name}": …}}.')  # fmt: skip

    def _extractor(self, policy: Any) -> Any:
        """The default features extractor of a policy or of its name."""
        policy = self.policy_aliases.get(policy, policy) if isinstance(policy, str) else policy
        if not inspect.isclass(policy):
            return None
        default = inspect.signature(policy).parameters.get("features_extractor_class")
        return None if default is None else default.default

    def _with_standardised_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Use a standardising features extractor if the policy flattens and the user has chosen none."""
        parameters = list(inspect.signature(super().__init__).parameters)
        given = dict(zip(parameters, args, strict=False)) | kwargs
        own = dict(given.get("policy_kwargs") or {})
        standardising = _STANDARDISING.get(self._extractor(given.get("policy")))
        if standardising is None or "features_extractor_class" in own:
            return kwargs
        if "policy_kwargs" in parameters[: len(args)]:
            return kwargs
        return kwargs | {"policy_kwargs": own | {"features_extractor_class": standardising}}

    def _with_n_step(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Use n-step returns if the transfer needs them and the user did not set `n_steps`."""
        assert self._polaug is not None
        parameters = inspect.signature(super().__init__).parameters
        custom_buffer = kwargs.get("replay_buffer_class") is not None or kwargs.get("optimize_memory_usage")
        if not issubclass(type(self), OffPolicyAlgorithm) or "n_steps" not in parameters or custom_buffer:
            return kwargs
        given = set(kwargs) | set(list(parameters)[: len(args)])
        if "n_steps" in given or not self._wants_n_step():
            return kwargs
        policy = kwargs.get("policy", args[0] if args else None)
        if self._extractor(policy) is CombinedExtractor:  # SB3 has no n-step returns for Dict observations
            return kwargs
        self._n_steps_are_ours = True
        return kwargs | {"n_steps": self._polaug.settings.n_step}

    def _wants_n_step(self) -> bool:
        """Whether the transfer needs n-step returns."""
        bridge = self._polaug
        return bridge is not None and transfer_class(bridge.settings.transfer, family_of(type(self))).n_step

    @property
    def explorer(self) -> Explorer | None:
        """The guide. None for a plain agent, and until the agent has an environment."""
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
            self._polaug.begin(self.n_envs)
            self._guide_episodes.clear()
            self._break_off()
        return result

    def learn(self, *args: Any, **kwargs: Any) -> Any:
        """As SB3's. Runs are logged as `PPO_PA` instead of `PPO`. Raises an error if the coach saw no step."""
        if self._polaug is None:
            return super().learn(*args, **kwargs)  # type: ignore[safe-super]  # abstract in SB3's base alone
        learn = super().learn  # type: ignore[safe-super]
        bound = inspect.signature(learn).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.arguments.get("tb_log_name") == _plain_name(type(self)):
            bound.arguments["tb_log_name"] += "_PA"
        trained = 0 if bound.arguments["reset_num_timesteps"] else self.num_timesteps
        seen = self._polaug.coach.steps if self._polaug.attached else 0
        result = learn(*bound.args, **bound.kwargs)
        if self.num_timesteps > trained:
            self._polaug.check_seen(seen)
        if self._polaug.attached:
            self._polaug.coach.catch_up()
        return result

    def _update_info_buffer(self, infos: list[dict[str, Any]], dones: Any = None) -> None:
        """`rollout/ep_rew_mean` covers the agent's episodes, `rollout/guide_ep_rew_mean` the guide's."""
        if self._polaug is None:
            return super()._update_info_buffer(infos, dones)
        guided = [info.get("actor") == "explorer" for info in infos]
        if True in guided:
            pairs = list(zip(infos, guided, strict=True))
            self._guide_episodes.extend(info["episode"] for info, by_guide in pairs if by_guide and "episode" in info)
            if self._guide_episodes:
                self._guide_mean = float(np.mean([episode["r"] for episode in self._guide_episodes]))
            infos = [{} if by_guide else info for info, by_guide in pairs]
        if self._guide_episodes:
            self.logger.record("rollout/guide_ep_rew_mean", self._guide_mean)
        return super()._update_info_buffer(infos, dones)

    def _break_off(self) -> None:
        """All environments have been reset: end the stored unfinished episodes."""

    def collect_rollouts(self, *args: Any, **kwargs: Any) -> Any:
        """As SB3's. Records the raw last observations of episodes."""
        if self._polaug is None:
            return super().collect_rollouts(*args, **kwargs)  # type: ignore[misc]  # SB3's base has none, its agents do
        with raw_endings(self) as self._polaug.endings:
            return super().collect_rollouts(*args, **kwargs)  # type: ignore[misc]

    def _init_callback(self, callback: Any, progress_bar: bool = False) -> Any:
        if self._polaug is not None:
            callbacks = callback if isinstance(callback, list) else [] if callback is None else [callback]
            callbacks = [c if isinstance(c, BaseCallback) else ConvertCallback(c) for c in callbacks]
            callback = [Watch(), *callbacks, *([DriverBar()] if progress_bar else [])]
            progress_bar = False
        return super()._init_callback(callback, progress_bar)

    # -- files ------------------------------------------------------------------------------------------------------

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_polaug", "_guide_episodes", "_guide_mean"]

    def save(self, path: Any, exclude: Any = None, include: Any = None) -> None:
        """As SB3's, with the augmentation as plain arrays in the same zip file. A crash leaves no partial file.

        `exclude=["explorer"]` saves the agent without the augmentation.
        """
        archive = io.BytesIO()
        with nullcontext() if self._polaug is None else self._polaug.settled():
            super().save(archive, exclude=exclude, include=include)
        state = None
        if self._polaug is not None and "explorer" not in (exclude or ()):
            state = self._polaug.state_dict() | {"agent": np.array(_plain_name(type(self)))}
        saving.write(path, archive, state)

    @classmethod
    def load(cls, path: Any, env: Any = None, *args: Any, augmentation: Any = DEFAULT, **kwargs: Any) -> Any:
        """As SB3's. Uses the saved settings unless `augmentation` is passed; None continues as a plain agent."""
        state = saving.read(path)
        saved, own = str((state or {}).get("agent", "")), _plain_name(cls)
        if saved not in ("", own):
            raise StateError(f"{path}: holds a {saved}, not a {own}. Load it with polaug.augment({saved}).load(...).")
        bridge: Bridge | None
        if augmentation is None:
            bridge = None
        elif augmentation is not DEFAULT:
            bridge = Bridge(Augmentation.of(augmentation), state)
        elif state is None:
            bridge = None  # a plain agent stays plain
            if not saving.by_augmented(path):
                warnings.warn(f"{path}: holds a plain {own}, and stays one. Pass augmentation=polaug.Augmentation() to "
                              "augment it, or augmentation=None to silence this warning.", stacklevel=2)  # fmt: skip
        else:
            try:
                bridge = Bridge(Augmentation.from_json(str(state["augmentation"])), state)
            except KeyError as fault:
                raise StateError(f"{path}: the augmentation's part has no {fault}. Load another file.") from fault
        if state is None:  # the user set `n_steps` of a plain agent
            kwargs["_n_steps_are_ours"] = False
        model = super().load(path, env, *args, **kwargs, _polaug=bridge, _guide_episodes=deque(maxlen=100))
        if bridge is not None and state is not None:
            bridge.loaded(state)
        return model


def _plain_name(agent: type) -> str:
    """The name of the class that was augmented."""
    return next(base.__name__ for base in agent.__mro__ if not issubclass(base, AugmentedAgent))
