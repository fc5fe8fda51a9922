"""The coach of all runners, in a separate process. Its guide sees the steps of all runners.

Runners that sample at the same time step together: each asks for its next driver and waits until all have asked. The
coach therefore works as with the same number of environments in one process, without merging and without stale states.
If a runner dies or has nothing to sample, the others continue without it after a short time.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from operator import itemgetter
from typing import Any

import numpy as np
import ray
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.target_network_api import TargetNetworkAPI
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from polaug.coach import Coach
from polaug.config import Augmentation
from polaug.explorers import Transitions
from polaug.features.spaces import mapped, stacked
from polaug.rllib.modules import Actions, pupil_of
from polaug.rllib.runner import EVALUATION, GUIDE, OWN
from polaug.state import State

Step = tuple[Any, Any, float, Any, bool, bool]
"""Observation, action, reward, next observation, terminated, truncated of one environment."""

PATIENCE = 0.5
"""Seconds before a runner that the others wait for is pinged."""

GATHERING = 10.0
"""Seconds that the first runners wait for the others, which start one after another."""

UNITS = 64
"""Layer width that `teach_rate` is meant for. The rate is lowered for wider layers, because Adam changes their outputs
more; RLlib's layers have 256 units."""


class Rounds:
    """The runners that step together, and their coach."""

    def __init__(self, coach: Coach) -> None:
        self.coach = coach
        self.members: list[int] = []
        self.asked: dict[int, tuple[Step | None, Any]] = {}
        """Latest step and current observation of the runners that wait for an answer."""

    def put(self, runner: int, step: Step | None, observation: Any) -> None:
        """Store what a runner reports. Without a step it is new, or it was reset in the middle of an episode."""
        if step is None:
            self.leave(runner)
        self.asked[runner] = (step, observation)

    def leave(self, runner: int) -> None:
        """Remove a runner and its episode. The episodes of the others go on."""
        self._regroup([member for member in self.members if member != runner])
        self.asked.pop(runner, None)

    def _regroup(self, members: list[int]) -> None:
        before, self.members = self.members, members
        if members != before:
            kept = {members.index(runner): before.index(runner) for runner in members if runner in before}
            self.coach.begin(len(members), kept)

    @property
    def missing(self) -> list[int]:
        """Members that have not asked yet."""
        return [runner for runner in self.members if runner not in self.asked]

    def answer(self) -> dict[int, tuple[int, Any]]:
        """Show the steps of the members to the coach. Returns driver and action for each runner that has asked."""
        asked, self.asked = self.asked, {}
        steps = [step for runner in self.members if (step := asked[runner][0]) is not None]
        if steps:
            self.coach.observe(transitions_of(steps), teach=False)
        self._regroup(sorted(asked))
        coach = self.coach
        actions: Any = [None] * len(asked)
        if coach.drivers.any():
            actions = coach.guide_actions(stacked([asked[runner][1] for runner in self.members]))
        drivers = np.where(coach.drivers, GUIDE, np.where(coach.evaluating, EVALUATION, OWN)).tolist()
        return {runner: (driver, action if driver == GUIDE else None)
                for runner, driver, action in zip(self.members, drivers, actions, strict=True)}  # fmt: skip


class Desk:
    """A Ray actor with the coach, a copy of the module that it teaches, and the runners' rounds."""

    def __init__(
        self, algorithm: str, config: Any, spaces: dict[str, Any], weights: Any, settings: Augmentation, seed: int
    ) -> None:
        torch.set_num_threads(1)
        self._config = config
        observation_space, action_space = spaces[INPUT_ENV_SINGLE_SPACES]
        self._module = config.get_rl_module_spec(spaces=spaces, inference_only=False).build()
        if isinstance(self._module, TargetNetworkAPI):
            self._module.make_target_networks()
        self._module.set_state(weights[DEFAULT_MODULE_ID])
        self._pipeline = config.build_env_to_module_connector(spaces=spaces, device="cpu")
        self._plain = config._env_to_module_connector is None
        pupil = pupil_of(algorithm, self._module, float(config.gamma), Actions(action_space, config), self._inputs)
        widest = max(layer.out_features for layer in self._module.modules() if isinstance(layer, torch.nn.Linear))
        rate = settings.teach_rate * min(1.0, UNITS / widest)
        settings = dataclasses.replace(settings, teach_rate=rate)
        coach = Coach(pupil, observation_space, action_space, settings, seed=seed)
        self._rounds = Rounds(coach)
        self._handles: dict[int, Any] = {}
        self._pings: dict[int, Any] = {}
        self._expected = max(config.num_env_runners, 1)
        self._waiting: dict[int, asyncio.Future[tuple[int, Any]]] = {}
        self._fault: Exception | None = None

    # -- runners ----------------------------------------------------------------------------------------------------

    async def ask(self, runner: int, handle: Any, step: Step | None, observation: Any) -> tuple[int, Any]:
        """Driver and action of a runner's next step, once all sampling runners have asked."""
        if self._fault is not None:
            return OWN, None
        self._handles[runner] = handle
        self._pings.pop(runner, None)
        self._rounds.put(runner, step, observation)
        future = self._waiting[runner] = asyncio.get_running_loop().create_future()
        self._answer_if_complete()
        waited = 0.0
        while not future.done():
            await asyncio.wait([future], timeout=PATIENCE)
            waited += PATIENCE
            if not future.done():
                self._leave_behind()
                if waited >= GATHERING:
                    self._expected = 1
                self._answer_if_complete()
        answer: tuple[int, Any] = future.result()
        return answer

    def _leave_behind(self) -> None:
        """Remove runners that answer a ping or are dead: a runner that samples is busy and does not answer."""
        for runner in self._rounds.missing:
            if runner not in self._pings and self._handles[runner] is not None:
                self._pings[runner] = self._handles[runner].ping.remote()
            elif runner in self._pings and ray.wait([self._pings[runner]], timeout=0)[0]:
                self._pings.pop(runner)
                self._rounds.leave(runner)

    def _answer_if_complete(self) -> None:
        if not self._rounds.missing and len(self._rounds.asked) >= self._expected:
            self._answer()

    def _answer(self) -> None:
        self._expected = 1  # the runners have gathered
        try:
            answers = self._rounds.answer()
        except Exception as fault:
            # Not raised in the runners: RLlib would restart them forever. `due` raises it in the algorithm.
            self._fault = fault
            answers = dict.fromkeys(self._waiting, (OWN, None))
        for runner, answer in answers.items():
            self._waiting.pop(runner).set_result(answer)

    # -- teaching ---------------------------------------------------------------------------------------------------

    async def due(self) -> bool:
        """Whether teaching is due. Raises an error that occurred while runners stepped."""
        if self._fault is not None:
            raise self._fault
        return self._rounds.coach.teaching_due

    async def teach(self, weights: Any, connectors: Any) -> Any:
        """Teach as often as the steps allow, and return the new weights."""
        coach = self._rounds.coach
        self._module.set_state(weights[DEFAULT_MODULE_ID])
        if connectors:
            self._pipeline.set_state(connectors)
        for _ in range(coach.teachings_due):
            coach.teach()
        return {DEFAULT_MODULE_ID: self._module.get_state()}

    def _inputs(self, observations: Any) -> Any:
        """The module's input, computed from raw observations by the runners' pipeline."""
        if self._plain and isinstance(observations, np.ndarray) and observations.ndim == 2:
            return torch.as_tensor(observations, dtype=torch.float32)
        if isinstance(observations, dict):
            n = len(next(iter(observations.values())))
            return self._piped([mapped(itemgetter(k), observations) for k in range(n)])
        different, where = np.unique(observations, axis=0, return_inverse=True)  # the pipeline is slow
        return self._piped(list(different))[torch.from_numpy(where.reshape(-1))]

    def _piped(self, rows: list[Any]) -> Any:
        episodes = [SingleAgentEpisode(observations=[row], infos=[{}]) for row in rows]
        batch = self._pipeline(rl_module=self._module, episodes=episodes, batch={}, explore=False, shared_data={})
        return batch[Columns.OBS]

    # -- state ---------------------------------------------------------------------------------------------------

    async def statistics(self) -> dict[str, float]:
        """Scalars to log."""
        return self._rounds.coach.statistics() | {"steps": float(self._rounds.coach.steps)}

    async def state_dict(self) -> State:
        """The state of the coach and its guide."""
        return self._rounds.coach.state_dict()

    async def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`. Runners start new episodes."""
        self._rounds.coach.load_state_dict(state)
        self._rounds = Rounds(self._rounds.coach)

    async def pid(self) -> int:
        """Process id."""
        return os.getpid()

    async def explorer_state(self) -> State:
        """The state of the guide."""
        return self._rounds.coach.guide.state_dict()


def transitions_of(steps: list[Step]) -> Transitions:
    """One step of each environment."""
    observations, actions, rewards, following, terminated, truncated = zip(*steps, strict=True)
    return Transitions(stacked(observations), np.stack(actions), np.array(rewards), stacked(following),
                       np.array(terminated), np.array(truncated))  # fmt: skip
