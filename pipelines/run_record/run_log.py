"""The log of a run, `run.log` in its folder: what was told while it worked, with the time, for whoever looks later.

It names stages, counts and reasons, no log and no trajectory. A run that goes on adds to it. It stands in no dataset,
and no digest depends on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from trajmill.quality.scrub import scrub_text
from trajmill.schemas import ShardError

LOG: Final = "run.log"
LONGEST: Final = 1_000_000
"""Bytes of earlier lines that are kept."""

_PERIOD_S: Final = 30.0
"""Between two writings, if nothing important was said."""


class RunLog:
    """Lines with their times, kept until there is a folder to write them to."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._before = b""
        self._write: Callable[[bytes], object] | None = None
        self._written = 0.0
        self._lock = threading.Lock()

    def add(self, told: str, *, now: bool = True) -> None:
        """Adds a line.

        Args:
            told: what happened.
            now: whether it is written at once, or with the next ones.
        """
        with self._lock:
            self._lines.append(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {scrub_text(told)}\n")
            if now or time.monotonic() - self._written > _PERIOD_S:
                self._flush()

    def open(self, before: bytes | None, write: Callable[[bytes], object]) -> None:
        """There is a folder now.

        Args:
            before: what an earlier run left there.
            write: replaces the file by these bytes.
        """
        with self._lock:
            left = (before or b"")[-LONGEST:]
            self._before = left if left is before else left.partition(b"\n")[2]
            self._write = write
            self._flush()

    def close(self) -> None:
        """Writes what was not written yet; nothing is written later."""
        with self._lock:
            self._flush()
            self._write = None

    def _flush(self) -> None:
        if self._write is not None:
            with suppress(OSError, ShardError):  # the run itself tells that the folder cannot be written
                self._write(self._before + "".join(self._lines).encode("utf-8", "backslashreplace"))
            self._written = time.monotonic()
