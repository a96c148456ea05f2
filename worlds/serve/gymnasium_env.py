"""A served world as a Gymnasium environment, whose observations and actions are texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium

from trajmill.worlds.serve.serve_client import Rollout, World

Reward: TypeAlias = Callable[[str, str, Mapping[str, Any]], float]
"""Reward function of an action, the following observation, and further facts about the step."""


class Texts(gymnasium.Space[str]):
    """Space of all texts."""

    def __init__(self) -> None:
        super().__init__(None, str)

    def contains(self, x: object) -> bool:
        """Return True if the value is a text."""
        return isinstance(x, str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return a fixed text, which is no action that a world knows."""
        return "wait"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Texts)

    def __hash__(self) -> int:
        return hash(Texts)


class WorldEnv(gymnasium.Env[str, str]):
    """Served world, one session at a time.

    Args:
        scenarios: Scenarios, of which a reset takes one by its seed, unless its options name a `scenario`.
        reward: Reward of a step; a world gives none.
    """

    def __init__(self, world: World, scenarios: Sequence[Any], reward: Reward | None = None) -> None:
        self.observation_space = self.action_space = Texts()
        self._world, self._scenarios, self._reward = world, scenarios, reward
        self._rollout: Rollout | None = None

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a session, and return the first observation and the facts about the session."""
        super().reset(seed=seed)
        self.close()
        scenario = self._scenarios[int(self.np_random.integers(len(self._scenarios)))]
        if options is not None:
            scenario = options.get("scenario", scenario)
        self._rollout = Rollout(self._world, scenario, int(self.np_random.integers(1 << 31)))
        begun = self._rollout.begun
        return begun["observation"], {**begun["info"], "session": begun["session"]}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take an action, and return (observation, reward, terminated, truncated, info)."""
        if self._rollout is None:
            raise gymnasium.error.ResetNeeded("Call reset before step.")
        answer = self._rollout.step(action)
        shown, info = answer["observation"], answer["info"]
        reward = 0.0 if self._reward is None else self._reward(action, shown, info)
        return shown, reward, answer["terminated"], answer["truncated"], info

    def close(self) -> None:
        """End the open session, if there is one."""
        if self._rollout is not None:
            self._rollout.close()
            self._rollout = None
