"""A served world as a taskset and an environment of `verifiers.v1`, on which prime-rl trains now.

verifiers finds a taskset by the name of a module at the top, which imports what this one offers (docs/serving.md).
What a rollout is worth is for a subclass of `WorldTask` to say, or for a judge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf

from trajmill.worlds.serve.serve_client import RemoteWorld, Rollout

__all__ = ["WorldConfig", "WorldData", "WorldEnv", "WorldEnvConfig", "WorldTask", "WorldTaskset"]


class WorldConfig(vf.TasksetConfig):
    """Address of the served world.

    Attributes:
        url: of it.
        seed: of all rollouts' answers; None leaves it to the server, by which rollouts of a group differ.
    """

    url: str = ""
    seed: int | None = None


class WorldData(vf.TaskData):
    """A row: the scenario that its rollouts begin with."""

    scenario: str


class WorldTask(vf.Task[WorldData, vf.State, vf.TaskConfig]):
    """A scenario to be acted in."""


class WorldTaskset(vf.Taskset[WorldTask, WorldConfig]):
    """The scenarios of a served world."""

    def load(self) -> Iterator[WorldTask]:
        """Make a task of each, whose prompt is what an agent begins with."""
        world = RemoteWorld(self.config.url)
        for scenario in world.scenarios():
            rollout = Rollout(world, scenario)
            rollout.close()
            yield WorldTask(WorldData(id=scenario, prompt=rollout.opening, scenario=scenario), self.config.task)


class WorldEnvConfig(vf.EnvConfig):
    """Agents of the environment: by default a model without tools of its own, which writes its actions as text."""

    player: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})


class WorldEnv(vf.Env[WorldEnvConfig]):
    """Answers what an agent says by the served world, until either is done."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play a scenario.

        Raises:
            ServeError: the endpoint fails, or the budget is spent; which verifiers notes of the episode.
        """
        config = self.taskset.config
        rollout = await asyncio.to_thread(Rollout, RemoteWorld(config.url), task.data.scenario, config.seed)
        try:
            async with agents.player.interaction(task) as interaction:
                reply = await interaction.turn()
                while not reply.terminated:
                    shown = await asyncio.to_thread(rollout.answer, reply.last_reply)
                    if rollout.done:
                        break
                    reply = await interaction.turn(shown)
        finally:
            await asyncio.to_thread(rollout.close)
        interaction.trace.info["trajmill_session"] = rollout.begun["session"]
