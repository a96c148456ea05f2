"""A served world in this process, without HTTP."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from typing import Any

from trajmill.worlds.serve.sessions import Sessions


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

    def _done(self, call: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()
