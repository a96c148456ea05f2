"""Alignment of the dumps of an event log with its actions, before and after each; `uiautomator` lists the three ways.

Only file names are compared; no file is opened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from trajmill.connectors.android.adb import base_name
from trajmill.connectors.android.entry import Captured, Entry, Lost, Moment, Paused, Performed
from trajmill.schemas import WAIT, ParseError

_NUMBER: Final = re.compile(r"([0-9]{1,9})(?:\.[A-Za-z]+)?$")


@dataclass(frozen=True, slots=True)
class Aligned:
    """An action with the files of the screens before and after it, and the seconds between them, where known.

    `later` is another screen captured after it and before the next action; None if there is none. If `later` shows
    something else, the screen after the action had not settled.
    """

    performed: Performed
    before: str | None
    after: str | None
    duration: float | None = None
    later: str | None = None


def align(entries: Sequence[Entry], files: Sequence[str], uri: str, log: str) -> list[Aligned]:
    """Align the actions of a log, in order, each with its screens.

    Args:
        files: the dumps, in natural order of their names.

    Raises:
        ParseError: `unaligned`: neither the log nor the number of dumps determines which dump belongs to which action.
    """
    entries = _without_lost(entries)
    performed = [entry for entry in entries if isinstance(entry, Performed)]
    named = any(entry.before or entry.after for entry in performed)
    captured = [entry for entry in entries if isinstance(entry, Captured)]
    if captured and not named:
        return align_by_capture(entries, _locate_captures(captured, files, uri, log))
    if named:
        return _by_name(performed, _Files(files), files)
    return _by_number(performed, files, uri, log)


def _without_lost(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries without captures that failed."""
    entries_left: list[Entry] = []
    for entry in entries:
        if not isinstance(entry, Lost):
            entries_left.append(entry)
        elif entries_left and isinstance(entries_left[-1], Captured):
            entries_left.pop()
    return entries_left


class _Files:
    """Dumps by the names a log may use for them: name, name without ending, or number; with or without a folder."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files: dict[str, str | None] = {}
        for file in files:
            base = base_name(file)
            stem = base.rpartition(".")[0]
            number = _NUMBER.search(stem)
            keys = {file, base, stem, *([str(int(number[1]))] if number else [])}
            for key in sorted(keys):
                # Two files share the name; the log does not state which one it means.
                self._files[key] = None if key in self._files and self._files[key] != file else file

    def find(self, reference: str | None) -> str | None:
        """Return the dump that a log refers to; None if there is no such file."""
        if reference is None:
            return None
        for key in (reference, base_name(reference)):
            if self._files.get(key) is not None:
                return self._files[key]
        return self._files.get(str(int(reference))) if reference.isdecimal() and len(reference) < 10 else None


def _by_name(performed: Sequence[Performed], known: _Files, files: Sequence[str]) -> list[Aligned]:
    befores = [known.find(action.before) for action in performed]
    afters = [known.find(action.after) for action in performed]
    used = {file for file in (*befores, *afters) if file}
    spare = [file for file in files if file not in used]
    pairs = []
    for index, action in enumerate(performed):
        before, after = befores[index], afters[index]
        if action.before is None:
            before = afters[index - 1] if index else _spare(spare, afters[:1], -1)
        if action.after is None:
            last = index == len(performed) - 1
            after = _spare(spare, befores[-1:], 1) if last else befores[index + 1]
        named = befores[index + 1] if index + 1 < len(performed) else None
        pairs.append(Aligned(action, before, after, later=named if named != after else None))
    return pairs


def _spare(spare: Sequence[str], beside: Sequence[str | None], side: int) -> str | None:
    """Return the only dump that no action names, if its number is right before (-1) or after (1) its neighbor's."""
    if len(spare) != 1 or not beside or beside[0] is None:
        return None
    spare_number, beside_number = _number(spare[0]), _number(beside[0])
    return (
        spare[0]
        if spare_number is not None and beside_number is not None and spare_number - beside_number == side
        else None
    )


def _number(file: str) -> int | None:
    match = _NUMBER.search(file)
    return int(match[1]) if match else None


def _by_number(performed: Sequence[Performed], files: Sequence[str], uri: str, log: str) -> list[Aligned]:
    numbers = [_number(file) for file in files]
    known_numbers = [number for number in numbers if number is not None]
    gap = len(known_numbers) != len(files) or any(b - a != 1 for a, b in pairwise(known_numbers))
    if gap and len(files) > 1:
        detail = f"the log names no dumps, and the numbers of the {len(files)} in the folder leave a gap"
        raise ParseError(uri, -1, "unaligned", detail, log)
    if performed and len(files) not in (len(performed), len(performed) + 1):
        detail = f"the log names no dumps: {len(files)} dumps and {len(performed)} actions; wanted as many, or one more"
        raise ParseError(uri, -1, "unaligned", detail, log)
    after = [*files[1:], None][: len(performed)]
    return [Aligned(*parts) for parts in zip(performed, files, after, strict=False)]


def _locate_captures(captured: Sequence[Captured], files: Sequence[str], uri: str, log: str) -> list[str | None]:
    """Find the dump of each capture, in order; None if its file was overwritten.

    A copy (`adb pull`, `mv`) gives the last capture into its source the name of its target.
    """
    known = _Files(files)
    names: list[str | None] = []
    holds: dict[str, int] = {}
    for entry in captured:
        if entry.renamed_from is None:
            if entry.file is not None:
                holds[entry.file] = len(names)
            names.append(entry.file)
        elif entry.renamed_from in holds and entry.file is not None:
            names[holds[entry.renamed_from]] = entry.file
    located = [known.find(name) for name in names]
    if any(located):
        last = {file: index for index, file in enumerate(located) if file}
        return [file if file and last[file] == index else None for index, file in enumerate(located)]
    if len(names) == len(files):
        return list(files)
    detail = f"{len(names)} screens were captured into files that are not here, beside {len(files)} other dumps"
    raise ParseError(uri, -1, "unaligned", detail, log)


@dataclass(slots=True)
class _Open:
    """An action whose next screen is not captured yet."""

    performed: Performed
    before: str | None
    after: str | None = None
    duration: float | None = None


def align_by_capture(entries: Sequence[Entry], files: Sequence[str | None]) -> list[Aligned]:
    """Align the actions with the screens captured around them; of consecutive captures the last one, which is settled.

    Args:
        files: the screen of each `Captured` that is no copy, in order; None if it is missing.
    """
    done: list[_Open] = []
    waiting: _Open | None = None
    shown: str | None = None
    paused: Paused | None = None
    fresh = False
    index = 0
    for entry in entries:
        if isinstance(entry, Performed):
            waiting = _Open(entry, shown if fresh else None)
            done.append(waiting)
            fresh, paused = False, None
        elif isinstance(entry, Paused):
            paused = entry if fresh else None
        elif isinstance(entry, Captured) and entry.renamed_from is None:
            if fresh and paused is not None:
                waiting = _Open(_wait(paused), shown)
                done.append(waiting)
            shown, fresh, paused = files[index], True, None
            index += 1
            if waiting is not None and (shown is not None or waiting.after is None):
                waiting.after, waiting.duration = shown, _seconds(waiting.performed.time, entry.time)
    return [Aligned(action.performed, action.before, action.after, action.duration) for action in done]


def _wait(paused: Paused) -> Performed:
    seconds = {"seconds": paused.seconds}
    return Performed(paused.offset, WAIT, seconds, seconds, time=paused.time)


def _seconds(start: Moment | None, end: Moment | None) -> float | None:
    """Return the seconds between two times of the same scale; None if they are reversed."""
    if start is None or end is None or start.is_utc != end.is_utc or end.seconds < start.seconds:
        return None
    return round(end.seconds - start.seconds, 6)
