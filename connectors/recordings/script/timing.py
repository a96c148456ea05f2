r"""Timing files of script(1), classic and advanced, and the events into which they split a typescript.

Classic: lines `<seconds since the last> <bytes of output>`. Advanced (man scriptreplay, `--log-in` and `--log-io`): `H
0.0 NAME value`, `O <seconds> <bytes>`, `I <seconds> <bytes>`, `S <seconds> SIGWINCH ROWS=43 COLS=132`. Counts are
bytes, without the first and the last line of their log. With `--log-io` one log holds both streams in the order of the
lines.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Final, NamedTuple

from trajmill.connectors.reading.lines import LINE_BYTES
from trajmill.connectors.recordings.screen import check_size
from trajmill.connectors.recordings.script.typescripts import Typescript, typescripts_of
from trajmill.connectors.recordings.session import Event
from trajmill.schemas import ParseError

MAX_SECONDS: Final = 1e9

PIECE_BYTES: Final = 16 << 20
"""Largest piece of output in bytes; larger output is split into pieces with the same time."""

_SHORT: Final = "the timing goes on after the recording's end"
_SHORT_INPUT: Final = "the timing goes on after the input log's end"
_DELAY: Final = r"(\d{1,10}(?:[.,]\d{1,12})?)"
_CLASSIC: Final = re.compile(_DELAY + r"\s+(\d{1,12})", re.ASCII)
_COUNT: Final = re.compile(r"([IO])\s+" + _DELAY + r"\s+(\d{1,12})", re.ASCII)
_SIGNAL: Final = re.compile(r"S\s+" + _DELAY + r"\s+(SIG[A-Z0-9]+)(?:\s+(.*))?", re.ASCII)
_HEADER: Final = re.compile(r"H\s+" + _DELAY + r"\s+([A-Z_]+)(?:\s(.*))?", re.ASCII)
_WINDOW: Final = re.compile(r"ROWS=(\d{1,5})\s+COLS=(\d{1,5})", re.ASCII)


Record = tuple[int, float, str, int | tuple[int, int]]
"""(offset in the file, seconds since the last record, `O`, `I`, `S` or `r`, bytes or (columns, rows))."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A timing file, or the part of it that belongs to one recording.

    Attributes:
        stream: the file, opened for random access.
        begin: offset of the first record of the part.
        count: number of records.
        facts: values of the header lines, by name.
        totals: bytes of all records by their code.
        fault: why reading ended before the file did; None if it did not.
    """

    stream: BinaryIO
    begin: int
    count: int
    facts: dict[str, str]
    totals: dict[str, int]
    fault: ParseError | None = None

    def total(self, codes: str) -> int:
        """Return the bytes of all records of the codes."""
        return sum(self.totals.get(code, 0) for code in codes)

    def records(self) -> Iterator[Record]:
        """Return the records of the part; the stream must not be read elsewhere until the last of them."""
        return islice(
            (record for record in _read(self.stream, self.begin, {}) if not isinstance(record, _Bad)), self.count
        )

    @property
    def one_log(self) -> bool:
        """Whether the header states that input and output went into one log."""
        return "INPUT_LOG" in self.facts and self.facts["INPUT_LOG"] == self.facts.get("OUTPUT_LOG")


class _Bad(NamedTuple):
    """A line that is no record of a timing file."""

    offset: int
    line: bytes


def timing_of(stream: BinaryIO, uri: str, member: str) -> Timing:
    """Sum up the records of a timing file, up to the first line that is no record.

    Raises:
        ParseError: `bad_timing`, if the first line is no record, or the file is empty.
    """
    facts: dict[str, str] = {}
    totals: dict[str, int] = {}
    count, fault = 0, None
    for record in _read(stream, 0, facts):
        if isinstance(record, _Bad):
            detail = f"wanted seconds and bytes, met {record.line.decode('utf-8', 'replace').strip()[:60]!r}"
            fault = ParseError(uri, record.offset, "bad_timing", detail, member, record.line[:4096])
            break
        count += 1
        code, value = record[2:]
        if isinstance(value, int):
            totals[code] = totals.get(code, 0) + value
    if not count:
        raise fault or ParseError(uri, 0, "bad_timing", "a timing file without a record", member)
    return Timing(stream, 0, count, facts, totals, fault)


def _read(stream: BinaryIO, offset: int, facts: dict[str, str]) -> Iterator[Record | _Bad]:
    """Yield the records from an offset up to a line that is no record; header lines are stored in `facts`."""
    stream.seek(offset)
    while raw := stream.readline(LINE_BYTES):
        line = raw.decode("utf-8", "replace").strip()
        if line:
            records: list[Record] = []
            good = _take(line, offset, records, facts)
            yield from records
            if not good:
                yield _Bad(offset, raw.removesuffix(b"\n"))
                return
        offset += len(raw)


def _take(line: str, offset: int, records: list[Record], facts: dict[str, str]) -> bool:
    """Process a line; return False if it does not belong to a timing file."""
    if match := _CLASSIC.fullmatch(line):
        delay, code, value = _number(match[1]), "O", match[2]
    elif match := _COUNT.fullmatch(line):
        delay, code, value = _number(match[2]), match[1], match[3]
    elif match := _SIGNAL.fullmatch(line):
        window = _WINDOW.search(match[3] or "")
        size = check_size(int(window[2]), int(window[1])) if window else None
        # A signal without a size still takes time.
        records.append((offset, _number(match[1]), "r" if size else "S", size or 0))
        return True
    elif match := _HEADER.fullmatch(line):
        facts.setdefault(match[2], match[3] or "")
        return True
    else:
        return False
    records.append((offset, delay, code, int(value)))
    return delay <= MAX_SECONDS


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def fit_timing(
    timing: Timing, blocks: Sequence[Typescript], entered: bool, uri: str, member: str
) -> list[Timing | None]:
    """Return the timing of each recording of the file: of all if the sizes add up to them all, else only of the last.

    Input that was `entered` is in a log of its own. The sizes of an interrupted recording need not add up, since the
    recorder writes its two files one after the other.

    Raises:
        ParseError: `timing_mismatch`, if the timing fits neither.
    """
    codes = "OI" if not entered and timing.one_log else "O"
    total, last = timing.total(codes), blocks[-1]
    if len(blocks) > 1 and (parts := _parts(timing, codes, blocks)) is not None:
        return parts
    untimed: list[Timing | None] = [None] * (len(blocks) - 1)
    if total == last.size or not last.done:
        return [*untimed, timing]
    if timing.fault is not None:
        raise timing.fault
    detail = f"the timing is of {total} bytes, the recording has {last.size}"
    raise ParseError(uri, -1, "timing_mismatch", detail, member)


def _parts(timing: Timing, codes: str, blocks: Sequence[Typescript]) -> list[Timing | None] | None:
    """Split the timing among all recordings; None if the sizes do not match."""
    parts: list[Timing | None] = []
    records = timing.records()
    for block in blocks:
        begin, count, size = timing.begin, 0, 0
        while size < block.size and (record := next(records, None)) is not None:
            begin = begin if count else record[0]
            count += 1
            size += record[3] if record[2] in codes and isinstance(record[3], int) else 0
        if size != block.size:
            return None
        parts.append(Timing(timing.stream, begin, count, timing.facts, {}))
    return parts if next(records, None) is None else None


def iterate_timed_events(
    timing: Timing, block: Typescript, output: BinaryIO, entered: BinaryIO | None, uri: str, members: tuple[str, str]
) -> Iterator[Event]:
    """Yield the events of a recording, with its exit status as the last.

    Input has its offset in the input log if there is one. Input without a log is left out.

    Args:
        timing: timing of this recording.
        block: the part of the output log that holds its output.
        output: the output log, opened for random access.
        entered: the input log, if there is one.
        members: names of the output log and the input log.

    Raises:
        ParseError: the bytes end before the timing does, or the recorder was killed (`truncated`); or the timing file
            holds a line that is no record (`bad_timing`).
    """
    inputs = typescripts_of(entered, uri, members[1]) if entered is not None else []
    known = timing.one_log or bool(inputs)
    shown = _Part(output, block.begin, block.end, (uri, members[0], _SHORT))
    typed = shown
    if entered is not None:
        begin, end = (inputs[-1].begin, inputs[-1].end) if inputs else (0, 0)
        typed = _Part(entered, begin, end, (uri, members[1], _SHORT_INPUT))
    decoder = codecs.getincrementaldecoder("utf-8")
    decoders = {"O": decoder("replace").decode, "I": decoder("replace").decode}
    now = 0.0
    for offset, delay, code, value in timing.records():
        now += delay
        if not isinstance(value, int):
            yield offset, now, "r", f"{value[0]}x{value[1]}"
        elif code == "O" or (code == "I" and known):
            for at, data in (shown if code == "O" else typed).pieces(value):
                if text := decoders[code](data):
                    yield at, now, code.lower(), text
    if timing.fault is not None:
        raise timing.fault
    if shown.at < block.end:
        raise ParseError(uri, shown.at, "truncated", "the recording goes on after the timing's end", members[0])
    yield from block.ending(now, uri, members[0])


class _Part:
    """Bytes of a log between two offsets; `fault` is the URI, member and detail of the error if there are too few."""

    def __init__(self, stream: BinaryIO, begin: int, end: int, fault: tuple[str, str, str]) -> None:
        self.at = begin
        self._end = end
        self._stream = stream
        self._fault = fault
        stream.seek(begin)

    def pieces(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Yield the next bytes with their offset, in several pieces if they are many."""
        if self.at + size > self._end:
            uri, member, detail = self._fault
            raise ParseError(uri, self.at, "truncated", detail, member)
        while size > 0 and (data := self._stream.read(min(PIECE_BYTES, size))):
            at, self.at, size = self.at, self.at + len(data), size - len(data)
            yield at, data
