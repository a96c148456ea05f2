r"""The recordings in a typescript of script(1): their beginnings and ends, and the facts in their first and last lines.

`script -a` appends to a file, so one file may hold several recordings, and a killed recorder leaves no last line. The
recorded output may itself contain such lines, but a terminal ends them with `\r\n`, script with `\n` alone. Only in a
file that was checked out with other line ends does the very first line end with `\r\n`, and so do all others. The
notices that script shows on the screen (`Script done.`) are ordinary output. `script -r` of macOS and BSD writes
another format, which is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from io import SEEK_END
from typing import BinaryIO, Final

from trajmill.connectors.recordings.session import Event
from trajmill.schemas import ParseError

START: Final = re.compile(rb"Script started on ([^\r\n]{4,4000})\r?\n")
RECORDINGS: Final = 100_000
"""Largest number of recordings in one file; more are refused."""

_STARTED: Final = b"Script started on "
_DONE: Final = re.compile(rb"(?:\r?\n)?Script done on ([^\r\n]{4,4000})\r?\n")
_LINE: Final = 4096
"""Bound on the length of a first or last line."""
_CHUNK: Final = 1 << 20
_ATTRIBUTES: Final = re.compile(r"(.*?)(?: \[(.*)\])?", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r'([A-Z_]{2,30})="(.*?)"(?= [A-Z_]{2,30}="|$)')


@dataclass(frozen=True, slots=True)
class Typescript:
    """One recording of a file.

    Attributes:
        date: its beginning, as stated in the first line.
        began: that time in seconds since 1970 UTC; None if the line states no time zone.
        facts: COMMAND, TERM, TTY, COLUMNS and LINES, as far as the first line has them.
        begin: offset of the first byte of output in the file.
        end: end of the last byte of output.
        done: whether a last line states that the recording ended.
        status: exit status of the command; None if the last line does not state it.
    """

    date: str
    began: float | None
    facts: dict[str, str]
    begin: int
    end: int
    done: bool
    status: str | None

    @property
    def size(self) -> int:
        """Number of bytes of output."""
        return self.end - self.begin

    def ending(self, now: float, uri: str, member: str) -> Iterator[Event]:
        """Yield the exit status as an event.

        Raises:
            ParseError: `truncated`, if there is no last line because the recorder was killed.
        """
        if not self.done:
            raise ParseError(uri, self.end, "truncated", "the recording has no line 'Script done on …'", member)
        if self.status is not None:
            yield self.end, now, "x", self.status


def typescripts_of(stream: BinaryIO, uri: str, member: str) -> list[Typescript]:
    """Return the recordings in the file, in order; empty if it does not begin with a recording.

    Args:
        stream: the file, opened for random access.
        member: the file's name in the log.

    Raises:
        ParseError: `too_many_recordings`.
    """
    starts = _starts(stream)
    if len(starts) > RECORDINGS:
        detail = f"more than {RECORDINGS} lines 'Script started on …'"
        raise ParseError(uri, starts[-1][0], "too_many_recordings", detail, member)
    size = stream.seek(0, SEEK_END)
    blocks = []
    for number, (_, begin, line) in enumerate(starts):
        limit = starts[number + 1][0] if number + 1 < len(starts) else size
        end, done = _done(stream, begin, limit, is_converted=begin > starts[number][0] + len(_STARTED) + len(line) + 1)
        date, facts = _attributes(line)
        status = None if done is None else _attributes(done)[1].get("COMMAND_EXIT_CODE")
        blocks.append(
            Typescript(
                date=date, began=_seconds(date), facts=facts, begin=begin, end=end, done=done is not None, status=status
            )
        )
    return blocks


def _starts(stream: BinaryIO) -> list[tuple[int, int, bytes]]:
    """Return begin, end and text of each first line; empty if the file does not begin with one.

    The search ends after more than `RECORDINGS` lines.
    """
    starts: list[tuple[int, int, bytes]] = []
    stream.seek(0)
    is_converted = False
    base, buffered = 0, b""
    while data := stream.read(_CHUNK):
        buffered += data
        passed = max(0, len(buffered) - _LINE)
        for start in START.finditer(buffered):
            is_converted = start[0].endswith(b"\r\n") if not starts else is_converted
            if start[0].endswith(b"\r\n") == is_converted:
                starts.append((base + start.start(), base + start.end(), start[1]))
            if len(starts) > RECORDINGS:
                return starts
            passed = max(passed, start.end())
        if not starts or starts[0][0]:
            return []
        base, buffered = base + passed, buffered[passed:]
    return starts


def _done(stream: BinaryIO, begin: int, limit: int, *, is_converted: bool) -> tuple[int, bytes | None]:
    """Return the end of the recording between two offsets, and the text of its last line, None if it has none."""
    base = max(begin, limit - _LINE)
    stream.seek(base)
    data = stream.read(limit - base)
    at = data.rfind(b"Script done on ")
    feed = b"\r\n" if is_converted else b"\n"
    start = at - len(feed) if at >= len(feed) and data[at - len(feed) : at] == feed else at
    match = _DONE.fullmatch(data, start) if at >= 0 else None
    is_own = match is not None and match[0].endswith(b"\r\n") == is_converted
    return (base + start, match[1]) if match is not None and is_own else (limit, None)


def _attributes(line: bytes) -> tuple[str, dict[str, str]]:
    """Return the date of a first or last line, and the values in its brackets by name."""
    match = _ATTRIBUTES.fullmatch(line.decode("utf-8", "replace"))
    date, inside = (match[1], match[2] or "") if match else ("", "")
    return date.strip(), dict(_ATTRIBUTE.findall(inside))


def _seconds(date: str) -> float | None:
    try:
        when = datetime.fromisoformat(date)
    except ValueError:
        return None
    return when.timestamp() if when.tzinfo is not None and when.year > 1970 else None
