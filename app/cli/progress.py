"""Reporters of a run while it works: bars on a terminal, a line now and then elsewhere, JSON for a program.

All of them show the same `Progress`, which comes from manifests; `StageProgress` looks now and then how far the stage
at work has come, and lets voices tell it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Self

from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Column

from trajmill.app.console import Printer, text
from trajmill.pipelines.run_record.run_log import RunLog
from trajmill.pipelines.run_record.stage_progress import Progress, StageWatch
from trajmill.pipelines.run_record.summary import OVER, StageStart
from trajmill.schemas import ShardError

_REASONS: Final = 3
"""Reasons that are named while a stage works."""


class Voice:
    """Whoever tells how far a stage has come: `told` of `begins`, `moves` or `ends`.

    Attributes:
        period: seconds between two tellings.
    """

    period = 10.0

    def begin(self, found: Progress) -> None:
        """A stage begins."""
        self.told("begins", found)

    def move(self, found: Progress) -> None:
        """So far it has come."""
        self.told("moves", found)

    def end(self, found: Progress) -> None:
        """It is over."""
        self.told("ends", found)

    def told(self, what: str, found: Progress) -> None:
        """One of these."""

    def close(self) -> None:
        """Nothing more comes."""


def words(found: Progress) -> str:
    """The figures of a stage for a person: trajectories, what was dropped and why."""
    if not found.counts:
        return ""
    what, kept, entered = found.kept()
    told = [f"{kept:,} {what}" if kept == entered else f"{kept:,} of {entered:,} {what} kept"]
    reasons = found.dropped()
    if reasons:
        named = ", ".join(f"{reason} {number:,}" for reason, number in list(reasons.items())[:_REASONS])
        told.append(f"{sum(reasons.values()):,} dropped ({named}{', …' if len(reasons) > _REASONS else ''})")
    return ", ".join(told)


def duration(seconds: float) -> str:
    """A time in two units at most: `42 s`, `3 min 5 s`, `2 h 40 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _speed(found: Progress) -> str:
    return f"{found.rate / 1e6:,.1f} MB/s" if found.rate else ""


def _left(found: Progress) -> str:
    return f"about {duration(found.left)} left" if found.left is not None else ""


def line(found: Progress) -> str:
    """One line that says how far a stage has come."""
    if not found.units:
        return f"{found.stage}: {duration(found.seconds)} so far"
    told = (f"{found.done:,.0f} of {found.units:,} {found.unit}", _speed(found), words(found), _left(found))
    return f"{found.stage}: {', '.join(word for word in told if word)}"


def first_line(found: Progress) -> str:
    """One line that says that a stage begins, and with what."""
    if found.stage == "plan" or not found.units:
        return f"{found.stage}: begins"
    before = f"; {found.before:,} done before" if found.before else ""
    return f"{found.stage}: begins, {found.units:,} parts of {found.bytes / 1e6:,.1f} MB{before}"


def last_line(found: Progress) -> str:
    """One line that says that a stage is over, and what came of it."""
    told = words(found)
    return f"{found.stage}: done in {duration(found.seconds)}{', ' if told else ''}{told}"


class _Bars(Bars):
    """Bars, and below them what comes of the stage at work."""

    below = ""

    def get_renderables(self) -> Iterable[Any]:
        yield from super().get_renderables()
        yield text(self.below, "dim")


class Terminal(Voice):
    """A bar for each stage, and below the last one what was kept and dropped."""

    period = 0.5

    def __init__(self, console: Printer) -> None:
        columns = (
            TextColumn("{task.description}", markup=False, table_column=Column(min_width=9, no_wrap=True)),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[parts]}", markup=False, table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[note]}", markup=False, table_column=Column(no_wrap=True)),
        )
        self._bars = _Bars(*columns, console=console, redirect_stdout=False, redirect_stderr=False)
        self._task: TaskID | None = None
        self._bars.start()

    def begin(self, found: Progress) -> None:
        """See the base class: a bar more."""
        self._task = self._bars.add_task(found.stage, total=found.units or None, parts="", note="")
        self.move(found)

    def move(self, found: Progress) -> None:
        """The bar of the stage, moved."""
        if self._task is None:
            return
        before = f"{found.before:,} done before" if found.before else ""
        parts = f"{found.done:,.0f} of {found.units:,} {found.unit}" if found.units else ""
        note = ", ".join(word for word in (_speed(found), _left(found), before) if word)
        self._bars.below = words(found)
        self._bars.update(self._task, total=found.units or None, completed=found.done, parts=parts, note=note)

    def end(self, found: Progress) -> None:
        """The bar of the stage, full."""
        if self._task is not None:
            self._bars.update(self._task, total=max(1, found.units), completed=max(1, found.units))
            self.move(found)
            self._bars.update(self._task, completed=max(1, found.units))
            self._bars.stop_task(self._task)
            self._task = None

    def close(self) -> None:
        """Leaves the bars as they stand."""
        self._bars.below = ""
        self._bars.stop()


_LINES: Final = {"begins": first_line, "moves": line, "ends": last_line}


class Lines(Voice):
    """A line when a stage begins and ends, and every ten seconds between: for a log, a pipe, a cluster's console."""

    def __init__(self, console: Printer) -> None:
        self._console = console

    def told(self, what: str, found: Progress) -> None:
        self._console.print(_LINES[what](found), soft_wrap=True)


def event(kind: str, **values: Any) -> str:
    """One JSON object of one line: when, what happened, and its values."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "event": kind, **values}, ensure_ascii=True)


_EVENTS: Final = {"begins": "stage_begins", "moves": "progress", "ends": "stage_ends"}


class JsonLines(Voice):
    """The same for a program: `stage_begins`, `progress` every ten seconds, and `stage_ends`."""

    def __init__(self, console: Printer) -> None:
        self._console = console

    def told(self, what: str, found: Progress) -> None:
        counted, kept, entered = found.kept()
        left = None if found.left is None else round(found.left, 1)
        told = {"stage": found.stage, "parts": found.units, "parts_done": round(found.done, 2)}
        told |= {"parts_done_before": found.before, "bytes": found.bytes, "seconds": round(found.seconds, 3)}
        told |= {"bytes_per_second": round(found.rate), "seconds_left": left, "counted": counted}
        told |= {"entered": entered, "kept": kept, "dropped": found.dropped()}
        self._console.print(event(_EVENTS[what], **told), soft_wrap=True)


class Units(Voice):
    """A line for each unit that is done, for who asked for details; not for those that an earlier run did."""

    period = 1.0

    def __init__(self, console: Printer) -> None:
        self._console, self._done = console, 0

    def told(self, what: str, found: Progress) -> None:
        for unit in found.finished[self._done :] if what != "begins" else ():
            self._console.print(f"{found.stage}: {unit} is done", soft_wrap=True)
        self._done = len(found.finished)


class LogFile(Voice):
    """The lines of `Lines`, once a minute, into the log of the run, which the run itself closes."""

    period = 60.0

    def __init__(self, log: RunLog) -> None:
        self._log = log

    def told(self, what: str, found: Progress) -> None:
        self._log.add(_LINES[what](found), now=what != "moves")


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
