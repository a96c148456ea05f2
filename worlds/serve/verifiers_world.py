"""A served world as a taskset and an environment of `verifiers.v1`, which prime-rl uses for training.

verifiers finds a taskset by the name of a top-level module, which re-exports the names of this one (docs/serving.md).
The reward of a rollout is defined by a subclass of `WorldTask`, or by a judge.
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
        url: Address of the server.
        seed: Seed of all rollouts' answers; None for the server's default, with which rollouts of a group differ.
    """

    url: str = ""
    seed: int | None = None


class WorldData(vf.TaskData):
    """Row: the scenario of its rollouts."""

    scenario: str


class WorldTask(vf.Task[WorldData, vf.State, vf.TaskConfig]):
    """Scenario to act in."""


class WorldTaskset(vf.Taskset[WorldTask, WorldConfig]):
    """Scenarios of a served world."""

    def load(self) -> Iterator[WorldTask]:
        """Yield a task for each scenario, with the agent's first message as the prompt."""
        world = RemoteWorld(self.config.url)
        for scenario in world.scenarios():
            rollout = Rollout(world, scenario)
            rollout.close()
            yield WorldTask(WorldData(id=scenario, prompt=rollout.opening, scenario=scenario), self.config.task)


class WorldEnvConfig(vf.EnvConfig):
    """Agents of the environment: by default a model without tools of its own, which writes its actions as text."""

    player: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})


class WorldEnv(vf.Env[WorldEnvConfig]):
    """Environment that answers an agent's messages by the served world, until either is done."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play a scenario.

        Raises:
            ServeError: The endpoint fails, or the budget is spent; verifiers records it in the episode.
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
