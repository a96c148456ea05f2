"""Looks now and then how far the stage at work has come, and lets voices tell it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Self

from trajmill.app.cli.progress_reporters import Voice
from trajmill.pipelines.run_record.stage_progress import StageWatch
from trajmill.pipelines.run_record.summary import OVER, StageStart
from trajmill.schemas import ShardError

_REST: Final = 50
"""Times what a look took, before the next one: there may be many units."""

_STORE_PERIOD_S: Final = 10.0
"""Between two listings of an object store."""


class StageProgress:
    """Tells what happens while it is entered; `tell` is what a `Run` calls when a stage begins.

    Args:
        voices: who tells it; without any, nothing is looked at.
    """

    def __init__(self, voices: Sequence[Voice]) -> None:
        self._voices = voices
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch_all, daemon=True)
        self._lock = threading.Lock()
        self._watch: StageWatch | None = None
        self._told = dict.fromkeys(range(len(voices)), 0.0)

    def __enter__(self) -> Self:
        if self._voices:
            self._watcher.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        if self._voices:
            self._watcher.join()
        if kind is None:
            self._complete()
        for voice in self._voices:
            voice.close()

    def tell(self, start: StageStart) -> None:
        """The stage before is over and this one begins."""
        self._complete()
        if start is OVER:
            return
        with self._lock:
            self._watch = watch = StageWatch(start)
            found = watch.look()
            for number, voice in enumerate(self._voices):
                voice.begin(found)
                self._told[number] = time.monotonic()

    def _complete(self) -> None:
        with self._lock:
            if self._watch is None:
                return
            watch, self._watch = self._watch, None
            with suppress(ShardError):  # the run itself tells that a folder cannot be read
                found = watch.look(is_over=True)
                for voice in self._voices:
                    voice.end(found)

    def _watch_all(self) -> None:
        shortest = rest = min(voice.period for voice in self._voices)
        while not self._stop.wait(rest):
            begun = time.monotonic()
            with self._lock, suppress(ShardError):  # whoever works there tells it
                if self._watch is not None:
                    local = self._watch.is_local
                    due = [n for n, voice in enumerate(self._voices) if begun - self._told[n] >= voice.period]
                    if due:
                        self._move(self._watch, due)
                    rest = shortest if local else max(shortest, _STORE_PERIOD_S)
            rest = max(rest, _REST * (time.monotonic() - begun))

    def _move(self, watch: StageWatch, due: Sequence[int]) -> None:
        found = watch.look()
        for number in due:
            self._voices[number].move(found)
            self._told[number] = time.monotonic()
