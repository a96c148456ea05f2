"""A served world as an interaction of verl's multi-turn rollouts; without verl a class of the same shape.

verl's list of interactions names `worlds.serve.verl_interaction.WorldInteraction` as the class, with `url`
under `config`, and each row of the training data says under `interaction_kwargs` which `scenario` it begins with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from trajmill.worlds.serve.rollouts import Rollout, Score, world_at
from trajmill.worlds.serve.serve_client import World

try:
    from verl.interactions.base import BaseInteraction
except ImportError:
    BaseInteraction = object


class WorldInteraction(BaseInteraction):
    """Answers an agent's messages by a served world.

    Args:
        config: `url`, and perhaps `name`, `max_turns` and `token_variable`.
        world: that is asked in the place of the one at `url`.
        score: of a session that is over; none gives 0.
    """

    def __init__(self, config: Mapping[str, Any], world: World | None = None, score: Score | None = None) -> None:
        if BaseInteraction is not object:
            super().__init__(config)
        self.config, self.name = config, str(config.get("name", "trajmill_world"))
        more = {"token_variable": config["token_variable"]} if "token_variable" in config else {}
        self._world = world or world_at(str(config["url"]), **more)
        self._most: int | None = config.get("max_turns")
        self._score = score
        self._open: dict[str, Rollout] = {}

    async def start_interaction(
        self, instance_id: str | None = None, scenario: Any = None, seed: int | None = None, **_: Any
    ) -> str:
        """Begins a session, and returns the id of the instance.

        Raises:
            ServeError: it cannot be begun.
        """
        own = instance_id or str(uuid4())
        rollout = Rollout(self._world, self._most)
        await rollout.begin(scenario, seed=seed)
        self._open[own] = rollout
        return own

    async def generate_response(
        self, instance_id: str, messages: list[dict[str, Any]], **_: Any
    ) -> tuple[bool, str, float, dict[str, Any]]:
        """(whether the rollout is over, what the agent is shown, 0, what else is known)."""
        shown = await self._open[instance_id].answered(messages)
        if shown.done:  # not every rollout of verl's ends what it began
            await self._open[instance_id].end()
        return shown.done, shown.text, 0.0, shown.info

    async def calculate_score(self, instance_id: str = "", **_: Any) -> float:
        """What the session is worth, which the world itself does not say."""
        rollout = self._open.get(instance_id)
        return 0.0 if self._score is None or rollout is None else self._score(rollout.session or "")

    async def finalize_interaction(self, instance_id: str = "", **_: Any) -> None:
        """Ends the session."""
        rollout = self._open.pop(instance_id, None)
        if rollout is not None:
            await rollout.end()
