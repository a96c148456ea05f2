"""Progress on a terminal: a bar a stage, moved by the units that are done on disk, so that it serves any runner."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Final, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from pipelines.account.summary import StageStart
from pipelines.engine.units import manifest_name
from pipelines.face.printing import Printer
from schemas import ShardError

_PERIOD_S: Final = 0.5
_REST: Final = 50
_STORE_PERIOD_S: Final = 10.0
"""Between two listings of an object store."""


class StageProgress:
    """Shows one bar for each stage while it is entered; `tell` is what a `Run` calls when a stage begins."""

    def __init__(self, console: Printer) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<10}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._current: tuple[TaskID, StageStart] | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        self._watcher.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._watcher.join()
        if kind is None:
            self._complete()
        self._progress.stop()

    def tell(self, start: StageStart) -> None:
        """Completes the bar of the stage before and begins one for this stage."""
        self._complete()
        note = f"{start.bytes / 1e6:,.1f} MB"
        if start.done:
            note += f", {start.done} done before"
        task = self._progress.add_task(start.stage, total=max(1, start.units), completed=start.done, note=note)
        self._current = (task, start)

    def _complete(self) -> None:
        if self._current is not None:
            task, start = self._current
            self._progress.update(task, completed=max(1, start.units))
            self._progress.stop_task(task)
            self._current = None

    def _watch(self) -> None:
        period = _PERIOD_S
        while not self._stop.wait(period):
            current = self._current
            if current is not None:
                task, start = current
                period = _PERIOD_S if start.manifests.is_local else _STORE_PERIOD_S
                begun = time.monotonic()
                with suppress(ShardError):  # whoever works there tells it
                    self._progress.update(task, completed=_done(start))
                period = max(period, _REST * (time.monotonic() - begun))  # there may be many units


def _done(start: StageStart) -> int:
    """How many units of a stage are done."""
    listed = set(start.manifests.names())
    return sum(manifest_name(label) in listed for label in start.labels)
