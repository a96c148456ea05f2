"""Progress reporters of a run: bars on a terminal, occasional lines elsewhere, JSON for a program.

All of them show the same `Progress`, which is read from manifests. `StageProgress` polls the stage in progress and
passes its state to the reporters.
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

from trajmill.app.console import Printer, quantity, text
from trajmill.pipelines.run_record.run_log import RunLog
from trajmill.pipelines.run_record.stage_progress import Progress, StageWatch
from trajmill.pipelines.run_record.summary import OVER, StageStart
from trajmill.schemas import ShardError

_REASONS: Final = 3
"""Reasons that are named while a stage runs."""


class Voice:
    """Base of reporters of a stage's progress.

    Attributes:
        period: Seconds between two reports.
    """

    period = 10.0

    def told(self, step: str, state: Progress) -> None:
        """Report that a stage `begins`, `moves` or `ends`."""

    def close(self) -> None:
        """Close the reporter."""


def words(state: Progress) -> str:
    """Format the counts of a stage: trajectories kept, and those dropped by reason."""
    if not state.counts:
        return ""
    unit, survivors, entered = state.kept()
    parts = [quantity(entered, unit) if survivors == entered else f"{survivors:,} of {quantity(entered, unit)} kept"]
    reasons = state.dropped()
    if reasons:
        named = ", ".join(f"{reason} {number:,}" for reason, number in list(reasons.items())[:_REASONS])
        parts.append(f"{sum(reasons.values()):,} dropped ({named}{', …' if len(reasons) > _REASONS else ''})")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Format a time in at most two units: `42 s`, `3 min 5 s`, `2 h 40 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _speed(state: Progress) -> str:
    return f"{state.rate / 1e6:,.1f} MB/s" if state.rate else ""


def _left(state: Progress) -> str:
    return f"about {duration(state.left)} left" if state.left is not None else ""


def line(state: Progress) -> str:
    """Format the progress of a stage as one line."""
    if not state.units:
        return f"{state.stage}: {duration(state.seconds)} so far"
    parts = (f"{state.done:,.0f} of {state.units:,} {state.unit}", _speed(state), words(state), _left(state))
    return f"{state.stage}: {', '.join(word for word in parts if word)}"


def first_line(state: Progress) -> str:
    """Format the beginning of a stage as one line."""
    if state.stage == "plan" or not state.units:
        return f"{state.stage}: begins"
    before = f"; {state.before:,} done before" if state.before else ""
    return f"{state.stage}: begins, {quantity(state.units, 'parts')} of {state.bytes / 1e6:,.1f} MB{before}"


def last_line(state: Progress) -> str:
    """Format the end of a stage as one line."""
    counts = words(state)
    return f"{state.stage}: done in {duration(state.seconds)}{', ' if counts else ''}{counts}"


class _Bars(Bars):
    """Bars, with the counts of the current stage below them."""

    below = ""

    def get_renderables(self) -> Iterable[Any]:
        yield from super().get_renderables()
        yield text(self.below, "dim")


class Terminal(Voice):
    """Reporter for a terminal: a bar for each stage, and the kept and dropped counts below the last one."""

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

    def told(self, step: str, state: Progress) -> None:
        if step == "begins":
            self._task = self._bars.add_task(state.stage, total=state.units or None, parts="", note="")
        if self._task is None:
            return
        before = f"{state.before:,} done before" if state.before else ""
        parts = f"{state.done:,.0f} of {state.units:,} {state.unit}" if state.units else ""
        note = ", ".join(word for word in (_speed(state), _left(state), before) if word)
        self._bars.below = words(state)
        self._bars.update(self._task, total=state.units or None, completed=state.done, parts=parts, note=note)
        if step == "ends":
            self._bars.update(self._task, completed=max(1, state.units))
            self._bars.stop_task(self._task)
            self._task = None

    def close(self) -> None:
        """Stop updating, and leave the bars on the screen."""
        self._bars.below = ""
        self._bars.stop()


_LINES: Final = {"begins": first_line, "moves": line, "ends": last_line}


class Lines(Voice):
    """Reporter for logs, pipes and consoles of clusters: a line when a stage begins and ends, and every ten seconds
    between.
    """

    def __init__(self, console: Printer) -> None:
        self._console = console

    def told(self, step: str, state: Progress) -> None:
        self._console.print_line(_LINES[step](state))


def event(kind: str, **values: Any) -> str:
    """Format an event as one line of JSON: time, name and values."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "event": kind, **values}, ensure_ascii=True)


_EVENTS: Final = {"begins": "stage_begins", "moves": "progress", "ends": "stage_ends"}


class JsonLines(Voice):
    """Reporter for programs, in JSON: `stage_begins`, `progress` every ten seconds, and `stage_ends`."""

    def __init__(self, console: Printer) -> None:
        self._console = console

    def told(self, step: str, state: Progress) -> None:
        counted, survivors, entered = state.kept()
        left = None if state.left is None else round(state.left, 1)
        fields = {"stage": state.stage, "parts": state.units, "parts_done": round(state.done, 2)}
        fields |= {"parts_done_before": state.before, "bytes": state.bytes, "seconds": round(state.seconds, 3)}
        fields |= {"bytes_per_second": round(state.rate), "seconds_left": left, "counted": counted}
        fields |= {"entered": entered, "kept": survivors, "dropped": state.dropped()}
        self._console.print_line(event(_EVENTS[step], **fields))


class Units(Voice):
    """Reporter for `--verbose`: a line for each finished unit, except those of earlier runs."""

    period = 1.0

    def __init__(self, console: Printer) -> None:
        self._console, self._done = console, 0

    def told(self, step: str, state: Progress) -> None:
        for unit in state.finished[self._done :] if step != "begins" else ():
            self._console.print_line(f"{state.stage}: {unit} is done")
        self._done = len(state.finished)


class LogFile(Voice):
    """Reporter that writes the lines of `Lines` once a minute to the run's log, which the run itself closes."""

    period = 60.0

    def __init__(self, log: RunLog) -> None:
        self._log = log

    def told(self, step: str, state: Progress) -> None:
        self._log.add(_LINES[step](state), now=step != "moves")


_REST: Final = 50
"""Pause between two polls, as a multiple of the time of a poll. It bounds the cost of polling many units."""

_STORE_PERIOD_S: Final = 10.0
"""Seconds between two listings of an object store."""


class StageProgress:
    """Context manager that reports progress; a `Run` calls `tell` when a stage begins.

    Args:
        voices: Reporters; without any, nothing is polled.
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
        """End the previous stage and begin this one."""
        self._complete()
        if start is OVER:
            return
        with self._lock:
            self._watch = watch = StageWatch(start)
            state = watch.look()
            for number, voice in enumerate(self._voices):
                voice.told("begins", state)
                self._told[number] = time.monotonic()

    def _complete(self) -> None:
        with self._lock:
            if self._watch is None:
                return
            watch, self._watch = self._watch, None
            with suppress(ShardError):  # the run itself tells that a folder cannot be read
                state = watch.look(is_over=True)
                for voice in self._voices:
                    voice.told("ends", state)

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
        state = watch.look()
        for number in due:
            self._voices[number].told("moves", state)
            self._told[number] = time.monotonic()
