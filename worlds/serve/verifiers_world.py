"""A served world as a taskset and an environment of `verifiers.v1`, on which prime-rl trains now.

verifiers finds a taskset by the name of a module at the top, which imports what this one offers (docs/serving.md).
What a rollout is worth is for a subclass of `WorldTask` to say, or for a judge. This module needs the package.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf

from trajmill.worlds.serve.rollouts import TOKEN_VARIABLE, Rollout, opening, world_at

__all__ = ["WorldConfig", "WorldData", "WorldEnv", "WorldEnvConfig", "WorldTask", "WorldTaskset"]


class WorldConfig(vf.TasksetConfig):
    """Where the world is served.

    Attributes:
        url: of it.
        seed: of all rollouts' answers; None leaves it to the server, by which rollouts of a group differ.
        token_variable: holds the token that it wants.
    """

    url: str = ""
    seed: int | None = None
    token_variable: str = TOKEN_VARIABLE


class WorldData(vf.TaskData):
    """A row: the scenario that its rollouts begin with."""

    scenario: str


class WorldTask(vf.Task[WorldData, vf.State, vf.TaskConfig]):
    """A scenario to be acted in."""


class WorldTaskset(vf.Taskset[WorldTask, WorldConfig]):
    """The scenarios of a served world."""

    def load(self) -> Iterator[WorldTask]:
        """A task for each, whose prompt is what an agent begins with."""
        world = world_at(self.config.url, self.config.token_variable)
        for scenario in world.scenarios():
            begun = world.reset({"scenario": scenario})
            world.close({"session": begun["session"]})
            prompt = opening(begun["observation"], begun["info"])
            yield WorldTask(WorldData(id=scenario, prompt=prompt, scenario=scenario), self.config.task)


class WorldEnvConfig(vf.EnvConfig):
    """Who acts: by default a model without tools of its own, which says its actions."""

    player: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})


class WorldEnv(vf.Env[WorldEnvConfig]):
    """Answers what an agent says by the served world, until either is done."""

    async def run(self, task: Any, agents: Any) -> None:
        """Plays a scenario.

        Raises:
            ServeError: the endpoint fails, or the budget is spent; which verifiers notes of the episode.
        """
        told = self.taskset.config
        rollout = Rollout(world_at(told.url, told.token_variable))
        await rollout.begin(task.data.scenario, told.seed)
        try:
            async with agents.player.interaction(task) as interaction:
                said = await interaction.turn()
                while not said.terminated:
                    shown = await rollout.answered(said.last_reply)
                    if shown.done:
                        break
                    said = await interaction.turn(shown.text)
        finally:
            await rollout.end()
        interaction.trace.info["trajmill_session"] = rollout.session
