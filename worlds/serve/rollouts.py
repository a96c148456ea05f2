"""Rollouts of an agent in a served world: the action in what it says, and the prompt that it begins with."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from trajmill.synthesis.predictions import unthought
from trajmill.worlds.serve.requests import ServeError
from trajmill.worlds.serve.serve_client import RemoteWorld, World

_FENCED: Final = re.compile(r"```[a-z]*\n(.*?)\n?```", re.DOTALL)
_TAGGED: Final = re.compile(r"<(action|tool_call)>(.*?)</\1>", re.DOTALL)
TOKEN_VARIABLE: Final = "TRAJMILL_SERVE_TOKEN"  # noqa: S105 - the name of a variable


def action_in(message: str) -> str:
    """Find the action in a message: the last tagged one, else the last in a fence, else all but its thoughts."""
    said = unthought(message)
    tagged = [met[2] for met in _TAGGED.finditer(said)]
    fenced = [met[1] for met in _FENCED.finditer(said)]
    return (tagged or fenced or [said])[-1].strip()


def opening(observation: str, info: Mapping[str, Any]) -> str:
    """Build the message that an agent begins a session with: its task, its tools, and what it sees first."""
    parts = [info.get("instruction") or ""]
    if info.get("action_space"):
        parts.append(f"Tools:\n{info['action_space']}")
    if observation:
        parts.append(f"You see:\n{observation}")
    return "\n\n".join(part for part in parts if part)


class Shown(NamedTuple):
    """The answer that an agent is shown.

    Attributes:
        text: of it.
        done: if the session is over.
    """

    text: str
    done: bool


class Rollout:
    """One session of a served world, as an agent's messages go through it.

    Args:
        world: that is served.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.session: str | None = None
        self._is_open = False

    async def begin(self, scenario: Any, seed: int | None = None) -> None:
        """Begin the session, with the seed of its answers where one is given."""
        told = {} if seed is None else {"seed": seed}
        begun = await asyncio.to_thread(self._world.reset, {"scenario": scenario, **told})
        self.session, self._is_open = begun["session"], True

    async def answered(self, message: str) -> Shown:
        """Give the agent's message to the world and return what the agent is shown.

        Raises:
            ServeError: the endpoint fails, or the budget is spent.
        """
        body = {"session": self.session, "action": action_in(message)}
        try:
            found = await asyncio.to_thread(self._world.step, body)
        except ServeError as error:
            if error.status == 400:  # an action that cannot be read is the agent's fault, and it may try again
                return Shown(error.detail, False)
            raise
        return Shown(found["observation"], found["terminated"] or found["truncated"])

    async def end(self) -> None:
        """End the session, if it has not ended."""
        if self._is_open:
            self._is_open = False
            try:
                await asyncio.to_thread(self._world.close, {"session": self.session})
            except ServeError as error:
                if error.status not in (404, 410):
                    raise


def world_at(url: str, token_variable: str = TOKEN_VARIABLE) -> RemoteWorld:
    """Reach the world that is served at a URL, with the token that a variable holds."""
    return RemoteWorld(url, os.environ.get(token_variable, ""))
