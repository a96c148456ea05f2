"""Client of a served world over HTTP, and rollouts of agents in one.

This module and the adapters for trainers need only the standard library, so that `pip install --no-deps trajmill` is
enough beside a trainer.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

TOKEN_VARIABLE: Final = "TRAJMILL_SERVE_TOKEN"  # noqa: S105 - the name of a variable
_FENCED: Final = re.compile(r"```[a-z]*\n(.*?)\n?```", re.DOTALL)
_TAGGED: Final = re.compile(r"<(action|tool_call)>(.*?)</\1>", re.DOTALL)


class ServeError(Exception):
    """Reason why a request failed.

    Args:
        status: HTTP status; 0 if the server cannot be reached.
        code: Word for programs.
        detail: Sentence for people.
        more: Further values of the answer.
    """

    def __init__(self, status: int, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.more = status, code, detail, more

    @property
    def body(self) -> dict[str, Any]:
        """Body of the answer."""
        return {"status": self.code, "detail": self.detail, **self.more}


class World(Protocol):
    """World that can be reset and stepped, as described in docs/serving.md; safe for concurrent threads."""

    def reset(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a session."""
        ...

    def step(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Take a step."""
        ...

    def close(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """End a session."""
        ...


class RemoteWorld:
    """World that `trajmill world serve` serves.

    Args:
        url: Printed address of the server.
        token: Token of the server; by default the value of the variable `TRAJMILL_SERVE_TOKEN`.
        timeout_s: Time limit of one step in seconds.

    Raises:
        ValueError: The url is not an HTTP address.
    """

    def __init__(self, url: str, token: str | None = None, timeout_s: float = 900.0) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"'{url}' is no address of a served world; wanted is one as http://127.0.0.1:8100.")
        self._token = os.environ.get(TOKEN_VARIABLE, "") if token is None else token
        self._url, self._timeout = url.rstrip("/"), timeout_s

    def reset(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a session.

        Raises:
            ServeError: The request failed; status 0 if the server cannot be reached.
        """
        return self._posted("/reset", body)

    def step(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Take a step; raises as `reset`."""
        return self._posted("/step", body)

    def close(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """End a session; raises as `reset`."""
        return self._posted("/close", body)

    def status(self) -> dict[str, Any]:
        """Return the status of the served world."""
        return self._asked(Request(f"{self._url}/status", headers=self._headers()))  # noqa: S310 - checked above

    def scenarios(self) -> list[str]:
        """Return the ids of all scenarios."""
        names: list[str] = []
        while True:
            asked = Request(f"{self._url}/scenarios?from={len(names)}", headers=self._headers())  # noqa: S310
            page = self._asked(asked)
            names += page["scenarios"]
            if not page["scenarios"] or len(names) >= page["all"]:
                return names

    def _headers(self) -> dict[str, str]:
        bearing = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return {"Content-Type": "application/json", **bearing}

    def _posted(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        data = json.dumps(dict(body)).encode()
        return self._asked(Request(self._url + path, data, self._headers(), method="POST"))  # noqa: S310

    def _asked(self, request: Request) -> dict[str, Any]:
        try:
            with urlopen(request, timeout=self._timeout) as answer:  # noqa: S310
                body: dict[str, Any] = json.loads(answer.read())
                return body
        except HTTPError as error:
            raise _to_serve_error(error) from error
        except (URLError, OSError, ValueError) as error:
            raise ServeError(0, "unreachable", f"{self._url} cannot be reached: {error}.") from error


def _to_serve_error(error: HTTPError) -> ServeError:
    try:
        body = json.loads(error.read())
        return ServeError(error.code, body.pop("status"), body.pop("detail"), **body)
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServeError(error.code, "refused", str(error))


def action_in(message: str) -> str:
    """Return the action in a message: the last tagged one, else the last in a fence, else all but its thoughts."""
    _, closed, behind = message.partition("</think>")
    visible = behind if closed else message
    tagged = [match[2] for match in _TAGGED.finditer(visible)]
    fenced = [match[1] for match in _FENCED.finditer(visible)]
    return (tagged or fenced or [visible])[-1].strip()


class Rollout:
    """One session of a served world, from an agent's side.

    Args:
        seed: Seed of its answers; None for the server's default.

    Attributes:
        begun: Answer to `/reset`.
        shown: Observations, in order.
        done: True if the session is over.

    Raises:
        ServeError: The session cannot begin.
    """

    def __init__(self, world: World, scenario: Any, seed: int | None = None) -> None:
        self._world = world
        self.begun = world.reset({"scenario": scenario, "seed": seed})
        self.shown: list[str] = []
        self.done = False

    @property
    def opening(self) -> str:
        """First message for an agent: its task, its tools, and its first observation."""
        info, observation = self.begun["info"], self.begun["observation"]
        parts = [info.get("instruction") or ""]
        if info.get("action_space"):
            parts.append(f"Tools:\n{info['action_space']}")
        if observation:
            parts.append(f"You see:\n{observation}")
        return "\n\n".join(part for part in parts if part)

    def step(self, action: Any) -> dict[str, Any]:
        """Take an action and return the answer to `/step`.

        Raises:
            ServeError: The action cannot be taken.
        """
        answer = self._world.step({"session": self.begun["session"], "action": action, "step": len(self.shown)})
        self.shown.append(answer["observation"])
        self.done = answer["terminated"] or answer["truncated"]
        return answer

    def answer(self, message: str) -> str:
        """Take the action of an agent's message and return the text for the agent.

        A message without a valid action is the agent's mistake: it receives the error text, and may try again.

        Raises:
            ServeError: The endpoint fails, or the budget is spent.
        """
        try:
            shown: str = self.step(action_in(message))["observation"]
        except ServeError as error:
            if error.status != 400:
                raise
            return error.detail
        return shown

    def close(self) -> None:
        """End the session, unless it has already ended.

        Raises:
            ServeError: The server cannot be reached.
        """
        try:
            self._world.close({"session": self.begun["session"]})
        except ServeError as error:
            if error.status not in (404, 410):
                raise
