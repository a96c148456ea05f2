"""What multi-turn rollouts of trainers share: the action in what an agent says, and the prompt that it begins with."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trajmill.synthesis.predictions import unthought
from trajmill.worlds.serve.requests import ServeError
from trajmill.worlds.serve.serve_client import RemoteWorld, World

_FENCED: Final = re.compile(r"```[a-z]*\n(.*?)\n?```", re.DOTALL)
_TAGGED: Final = re.compile(r"<(action|tool_call)>(.*?)</\1>", re.DOTALL)
TOKEN_VARIABLE: Final = "TRAJMILL_SERVE_TOKEN"  # noqa: S105 - the name of a variable

Score = Callable[[str], float]
"""Of a session's id, when it is over."""


def action_in(message: str) -> str:
    """The action in what an agent says: the last tagged one, else the last in a fence, else all but its thoughts."""
    said = unthought(message)
    tagged = [met[2] for met in _TAGGED.finditer(said)]
    fenced = [met[1] for met in _FENCED.finditer(said)]
    return (tagged or fenced or [said])[-1].strip()


def said_last(messages: Sequence[Mapping[str, Any]]) -> str:
    """What the agent said last; empty if it has said nothing."""
    contents = [one.get("content") for one in messages if one.get("role") == "assistant"]
    return contents[-1] if contents and isinstance(contents[-1], str) else ""


def calls_last(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The calls of the agent's last message in the form of OpenAI, as actions; none where it called nothing so."""
    said = [one for one in messages if one.get("role") == "assistant"]
    found = []
    for call in (said[-1].get("tool_calls") or ()) if said else ():
        function = call.get("function") if isinstance(call, Mapping) else getattr(call, "function", None)
        told = function if isinstance(function, Mapping) else vars(function) if function is not None else {}
        found.append({"name": str(told.get("name") or ""), "arguments": _arguments(told.get("arguments"))})
    return found


def _arguments(told: object) -> Any:
    """Arguments as values; what is no JSON stays as it is, and is told to be none when it is asked for."""
    try:
        return json.loads(told) if isinstance(told, str) else told
    except (ValueError, RecursionError):
        return told


def opening(observation: str, info: Mapping[str, Any]) -> list[dict[str, str]]:
    """The messages that an agent begins a session with: its task, its tools, and what it sees first."""
    parts = [info.get("instruction") or ""]
    if info.get("action_space"):
        parts.append(f"Tools:\n{info['action_space']}")
    if observation:
        parts.append(f"You see:\n{observation}")
    return [{"role": "user", "content": "\n\n".join(part for part in parts if part)}]


class Shown(NamedTuple):
    """What an agent is shown after it spoke.

    Attributes:
        text: of it.
        done: whether the session is over.
        info: what else is known; `origin` is `environment`, or `harness` where the world was not asked.
    """

    text: str
    done: bool
    info: dict[str, Any]


class Rollout:
    """One session of a served world, as an agent's messages go through it.

    Args:
        world: that is served.
        most: turns after which it is over; None is any number.
    """

    def __init__(self, world: World, most: int | None = None) -> None:
        self._world, self._most = world, most
        self.session: str | None = None
        self.turns = 0
        self._is_open = False

    async def begin(self, scenario: Any, **more: Any) -> tuple[str, dict[str, Any]]:
        """Begins it: (what is seen first, what is known of it)."""
        told = {name: value for name, value in more.items() if value is not None}
        begun = await asyncio.to_thread(self._world.reset, {"scenario": scenario, **told})
        self.session, self._is_open = begun["session"], True
        return begun["observation"], begun["info"]

    async def answered(self, messages: Sequence[Mapping[str, Any]]) -> Shown:
        """What follows the agent's last message; several calls in it are done at once, in their order.

        Raises:
            ServeError: the endpoint fails, or the budget is spent.
        """
        actions: list[Any] = list(calls_last(messages)) or [action_in(said_last(messages))]
        texts: list[str] = []
        found: dict[str, Any] = {}
        for number, action in enumerate(actions):
            body = {"session": self.session, "action": action, "together": number > 0}
            try:
                found = await asyncio.to_thread(self._world.step, body)
            except ServeError as error:
                if error.status == 400:  # an action that cannot be read is the agent's fault, and it may try again
                    return Shown(error.detail, self._over(), {"origin": "harness", **error.body})
                raise
            texts.append(found["observation"])
            if found["truncated"]:
                break
        done = found["terminated"] or found["truncated"]
        return Shown("\n\n".join(texts), self._over() or done, {"origin": "environment", **found["info"]})

    def _over(self) -> bool:
        self.turns += 1
        return self._most is not None and self.turns >= self._most

    async def end(self) -> None:
        """Ends it, if it has not ended."""
        if self._is_open:
            self._is_open = False
            try:
                await asyncio.to_thread(self._world.close, {"session": self.session})
            except ServeError as error:
                if error.status not in (404, 410):
                    raise


def world_at(url: str, token_variable: str = TOKEN_VARIABLE) -> RemoteWorld:
    """The world that is served at a url, with the token that a variable holds."""
    return RemoteWorld(url, os.environ.get(token_variable, ""))
