"""A served world as a Gymnasium `Env` of texts; without that package a class of the same shape.

Observations and actions are texts: an action is what `requests.action_of` reads, such as the JSON of a call. The world
gives no reward; whoever trains says what one is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Final, TypeAlias

from trajmill.worlds.serve.requests import ServeError
from trajmill.worlds.serve.serve_client import World

try:
    import gymnasium
except ImportError:
    gymnasium = None

_Env: Any = object if gymnasium is None else gymnasium.Env
_Space: Any = object if gymnasium is None else gymnasium.Space
_SEEDS: Final = 1 << 31

Reward: TypeAlias = Callable[[str, str, Mapping[str, Any]], float]
"""Of an action, the observation that followed, and what else is known of the step."""


class Texts(_Space):
    """The space of all texts."""

    def __init__(self) -> None:
        if gymnasium is not None:
            super().__init__(None, str)

    def contains(self, x: object) -> bool:
        """Whether it is a text."""
        return isinstance(x, str)

    def sample(self, *_: Any, **__: Any) -> str:
        """A text, which is no action that a world knows."""
        return "wait"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Texts)

    def __hash__(self) -> int:
        return hash(Texts)


class WorldEnv(_Env):
    """A served world, one session at a time.

    Args:
        world: that is served.
        scenarios: ids, or scenarios themselves, of which a reset takes one by its seed.
        reward: of a step; none gives 0.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
    observation_space: Any = Texts()
    action_space: Any = Texts()
    render_mode = None

    def __init__(self, world: World, scenarios: Sequence[Any] = (), reward: Reward | None = None) -> None:
        self._world, self._scenarios, self._reward = world, list(scenarios), reward
        self._session: str | None = None
        self._steps = 0
        self._random = Random(0)  # noqa: S311 - which scenario comes next

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begins a session: (what is seen first, what is known of it).

        Args:
            seed: of the choice of the scenario, and of the model's answers.
            options: `scenario`, which then is not chosen, and whatever else `/reset` takes.

        Raises:
            ServeError: it cannot be begun.
        """
        self.close()
        if gymnasium is not None:
            super().reset(seed=seed)
        if seed is not None:
            self._random = Random(seed)  # noqa: S311
        told = dict(options or {})
        if "scenario" not in told:
            if not self._scenarios:
                raise ServeError(400, "no_scenario", "Give scenarios, or one by options={'scenario': …}.")
            told["scenario"] = self._random.choice(self._scenarios)
        begun = self._world.reset({"seed": self._random.randrange(_SEEDS) if seed is None else seed, **told})
        self._session, self._steps = begun["session"], 0
        return begun["observation"], begun["info"]

    def step(self, action: str | Mapping[str, Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """(observation, reward, terminated, truncated, what else is known).

        Raises:
            ServeError: it cannot be taken; where the budget is spent, of status 402.
        """
        if self._session is None:
            raise ServeError(409, "no_session", "Call reset before step.")
        found = self._world.step({"session": self._session, "action": action, "step": self._steps})
        self._steps += 1
        if found["truncated"]:
            self._session = None  # which the world has ended
        shown, info = found["observation"], found["info"]
        said = action if isinstance(action, str) else str(action.get("text") or action.get("name"))
        reward = found["reward"] if self._reward is None else self._reward(said, shown, info)
        return shown, float(reward), found["terminated"], found["truncated"], info

    def close(self) -> None:
        """Ends the session that is open, if one is."""
        if self._session is not None:
            own, self._session = self._session, None
            try:
                self._world.close({"session": own})
            except ServeError as error:
                if error.status not in (404, 410):  # which has ended by itself
                    raise
