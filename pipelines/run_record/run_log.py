"""The log of a run, `run.log` in its folder: its messages with their times.

It names stages, counts and reasons, but no logs or trajectories. A continued run appends to it. It belongs to no
dataset, and no digest depends on it.
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
"""Largest number of bytes of earlier lines that are kept."""

_PERIOD_S: Final = 30.0
"""Seconds between two writes, if there is nothing important."""


class RunLog:
    """Lines with their times, kept until there is a folder to write them to."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._before = b""
        self._write: Callable[[bytes], object] | None = None
        self._written = 0.0
        self._lock = threading.Lock()

    def add(self, told: str, *, now: bool = True) -> None:
        """Add a line.

        Args:
            now: whether to write it at once, or with the next lines.
        """
        with self._lock:
            self._lines.append(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {scrub_text(told)}\n")
            if now or time.monotonic() - self._written > _PERIOD_S:
                self._flush()

    def open(self, before: bytes | None, write: Callable[[bytes], object]) -> None:
        """Start writing, once there is a folder.

        Args:
            before: log of an earlier run there.
            write: function that replaces the file by these bytes.
        """
        with self._lock:
            left = (before or b"")[-LONGEST:]
            self._before = left if left is before else left.partition(b"\n")[2]
            self._write = write
            self._flush()

    def close(self) -> None:
        """Write the pending lines. Nothing is written later."""
        with self._lock:
            self._flush()
            self._write = None

    def _flush(self) -> None:
        if self._write is not None:
            with suppress(OSError, ShardError):  # the run itself tells that the folder cannot be written
                self._write(self._before + "".join(self._lines).encode("utf-8", "backslashreplace"))
            self._written = time.monotonic()
