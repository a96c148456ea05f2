"""Clients of a served world: over HTTP, or in the process that serves it; both take and give what `Sessions` does.

With the standard library alone, so that a trainer's environment needs nothing of ours but this package.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from trajmill.schemas import ConfigError
from trajmill.worlds.serve.requests import ServeError

if TYPE_CHECKING:
    from trajmill.worlds.serve.sessions import Sessions


class World(Protocol):
    """Whatever can be reset and stepped, as `Sessions` says; may be used by many threads at once."""

    def reset(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Begins a session."""
        ...

    def step(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Takes a step."""
        ...

    def close(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Ends a session."""
        ...


class RemoteWorld:
    """A world that `trajmill world serve` serves.

    Args:
        url: that it printed.
        token: that it wants, if it does.
        timeout_s: for one step.

    Raises:
        ConfigError: the url is none of HTTP.
    """

    def __init__(self, url: str, token: str = "", timeout_s: float = 900.0) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ConfigError(f"'{url}' is no address of a served world; wanted is one as http://127.0.0.1:8100.")
        self._url, self._token, self._timeout = url.rstrip("/"), token, timeout_s

    def reset(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """As of `Sessions`.

        Raises:
            ServeError: it is not done; of status 0 where the server cannot be reached.
        """
        return self._posted("/reset", body)

    def step(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """As `reset`."""
        return self._posted("/step", body)

    def close(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """As `reset`."""
        return self._posted("/close", body)

    def status(self) -> dict[str, Any]:
        """What is going on there."""
        return self._asked(Request(f"{self._url}/status", headers=self._headers()))  # noqa: S310 - checked above

    def scenarios(self) -> list[str]:
        """The ids of all scenarios."""
        found: list[str] = []
        while True:
            asked = Request(f"{self._url}/scenarios?from={len(found)}", headers=self._headers())  # noqa: S310
            told = self._asked(asked)
            found += told["scenarios"]
            if not told["scenarios"] or len(found) >= told["all"]:
                return found

    def _headers(self) -> dict[str, str]:
        bearing = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return {"Content-Type": "application/json", **bearing}

    def _posted(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        data = json.dumps(dict(body)).encode()
        return self._asked(Request(self._url + path, data, self._headers(), method="POST"))  # noqa: S310

    def _asked(self, request: Request) -> dict[str, Any]:
        try:
            with urlopen(request, timeout=self._timeout) as answer:  # noqa: S310
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except HTTPError as error:
            raise _told(error) from error
        except (URLError, OSError, ValueError) as error:
            raise ServeError(0, "unreachable", f"{self._url} cannot be reached: {error}.") from error


def _told(error: HTTPError) -> ServeError:
    try:
        body = json.loads(error.read())
        return ServeError(error.code, body.pop("status"), body.pop("detail"), **body)
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServeError(error.code, "refused", str(error))


class LocalWorld:
    """Sessions in this process, in an event loop of their own.

    Args:
        sessions: that are served; they are ended by `end`.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="served-world", daemon=True)
        self._thread.start()

    def reset(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """As of `Sessions`."""
        return self._done(self._sessions.reset(body))

    def step(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """As of `Sessions`."""
        return self._done(self._sessions.step(body))

    def close(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """As of `Sessions`."""
        return self._done(self._sessions.close(body))

    def end(self) -> None:
        """Ends all sessions, and the loop."""
        self._loop.call_soon_threadsafe(self._sessions.close_all)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _done(self, asked: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()
