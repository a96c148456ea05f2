"""Pace: at most so many requests a minute, whichever thread sends them and whether or not they are repeated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Pace:
    """Lets requests pass at even distances.

    Args:
        per_minute: requests that pass in a minute; None lets all pass at once.
        clock: seconds that only grow.
        sleep: waits for seconds.
    """

    def __init__(
        self,
        per_minute: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._distance = 60 / per_minute if per_minute else 0.0
        self._clock, self._sleep = clock, sleep
        self._next = float("-inf")
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Returns when one more request may be sent."""
        if not self._distance:
            return
        with self._lock:
            now = self._clock()
            mine = max(now, self._next)
            self._next = mine + self._distance
        if mine > now:
            self._sleep(mine - now)
