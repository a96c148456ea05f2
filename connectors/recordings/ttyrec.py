r"""Recordings of ttyrec and of programs that write its format: games, servers, NLE.

>>> show(Ttyrec(), b"".join(struct.pack("<III", 1700000000 + at, 0, len(data)) + data for at, data in [
...     (0, b"\x1b[?2004h$ "),
...     (2, b"date +%Y"),
...     (3, b"\r\n\x1b[?2004l"),
...     (4, b"2023\r\n$ ")]))
before  | $
action  | [{"keystrokes": "date +%Y\n", "duration": 1.0}]
after   | $ date +%Y
        | 2023
        | $

Format: records of three little-endian 32-bit numbers (seconds and microseconds since 1970, bytes of data) and the data
that was sent to the terminal (ttyrec(1)). There is no header, no size and no end mark. Recordings may be joined end to
end (`ttyrec -a`) without a mark: the clock jumps, and if it steps back no time is counted. The size is the one that the
data itself requests (`ESC [ 8 ; rows ; columns t`) before it shows anything, else 80x24. A recording holds only output,
so typed lines are recognized by their echo; see `echo`.

NLE's ttyrec3 has one more byte in each record, the channel (0 output, 1 input, 2 score; nle/nle.py and
converter/ttyrec.h of NLE). A file is read in this form if the records' lengths add up with that byte and do not without
it. Each record of input is then one act, since the agent gives one key for each screen; scores are left out.

A record that states more than `MAX_BYTES` of data is refused (`bad_length`): the file has another byte order, or
another format.
"""

from __future__ import annotations

import codecs
import re
import struct
from collections.abc import Iterator
from typing import BinaryIO, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.recordings.acts import Act, Ending, shelf_of_acts, steps_of
from trajmill.connectors.recordings.recording import UNDATED, Recording, terminal_words, trajectories_of
from trajmill.connectors.recordings.screen import Screen, Titles, check_size
from trajmill.connectors.recordings.session import Event, Session
from trajmill.schemas import Context, ParseError, Reject, Trajectory

MAX_BYTES: Final = 1 << 20
"""Largest record in bytes. Recorders write the output of one read of the terminal, some kilobytes."""

COLUMNS: Final = 80
ROWS: Final = 24

_RECORD: Final = struct.Struct("<III")
_RECORD_3: Final = struct.Struct("<IIIB")
_SIZE: Final = re.compile(rb"\x1b\[8;(\d{1,4});(\d{1,4})t")
_NAMED: Final = re.compile(r"\.(?:ttyrec[23]?|tty)$", re.IGNORECASE)
_FIRST_DATED: Final = 500_000_000
"""Seconds since 1970 (1985) below which a clock does not give a date."""

_LAST_DATED: Final = 4_000_000_000
_PROBED: Final = 1 << 16


class Ttyrec(Connector):
    """Recordings in the format of ttyrec."""

    name: ClassVar[str] = "ttyrec"
    version: ClassVar[str] = "4"
    domains: ClassVar[tuple[str, ...]] = ("terminal",)
    title: ClassVar[str] = "ttyrec recordings of a terminal (and NLE's ttyrec3)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        named = _NAMED.search(uri) is not None
        is_entire = len(head) < _PROBED
        for record, words in ((_RECORD, "ttyrec"), (_RECORD_3, "ttyrec3")):
            count = _records(head, record, named)
            if count and named:
                return Sniff(0.9, f"named as a ttyrec, and begins with {count} records of {words}")
            if count > 2 or (count == 2 and is_entire):
                return Sniff(0.6, f"begins with {count} dated records of {words}")
        return Sniff(0.3, "named as a ttyrec, though it holds no record") if named and head else None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        with blob.open() as stream:
            probe = stream.read(_PROBED)
        if not probe:
            raise ParseError(blob.uri, 0, "empty", "a recording without a record")
        third = not _records(probe, _RECORD, True) and _records(probe, _RECORD_3, True) > 1
        if len(probe) >= _RECORD.size:
            columns, rows = _size(probe[(_RECORD_3 if third else _RECORD).size :])
            began = _RECORD.unpack_from(probe)
        else:
            raise ParseError(blob.uri, 0, "truncated", f"wanted a record of {_RECORD.size} bytes, met {len(probe)}")
        dated = _FIRST_DATED <= began[0] <= _LAST_DATED
        native_id = f"{began[0]}.{began[1]:06d}" if dated else UNDATED
        start = began[0] + began[1] / 1e6 if dated else None
        recording = Recording(native_id, columns, rows, start)
        with blob.open() as stream:
            if third:
                yield from _read_keys(stream, blob, recording, self.name)
                return
            session = Session(columns, rows)
            session.read(_events(stream, blob))
        yield from trajectories_of(session, recording, blob, self.name)


def _records(head: bytes, record: struct.Struct, named: bool) -> int:
    """Count the records at the beginning of the bytes, the last perhaps cut; 0 if they are no records.

    Every microsecond must be under a million and every length plausible; in a ttyrec3, every channel must be known and
    its data must fit. Without a matching file name, the clock must give a date and may not jump.
    """
    at, count, before = 0, 0, None
    while at + record.size <= len(head):
        seconds, micros, size, *channel = record.unpack_from(head, at)
        if micros > 999_999 or size > MAX_BYTES or (channel and channel[0] > 2):
            return 0
        if not named:
            known = before is None or abs(seconds - before) < 864_000
            if not known or not _FIRST_DATED <= seconds <= _LAST_DATED or not size:
                return 0
        before = seconds
        at += record.size + size
        count += 1
    # Bytes of another format seldom end where a record would; but a recording that was cut must be accepted.
    return count if at == len(head) or len(head) >= _PROBED or record is _RECORD else 0


def _size(data: bytes) -> tuple[int, int]:
    match = _SIZE.search(data[:256])
    return (check_size(int(match[2]), int(match[1])) if match else None) or (COLUMNS, ROWS)


def _read(stream: BinaryIO, blob: Blob, record: struct.Struct) -> Iterator[tuple[int, float, int, bytes]]:
    """Yield (offset, seconds since the first record, channel, data) of each record.

    Raises:
        ParseError: `truncated` or `bad_length`.
    """
    offset, now, before = 0, 0.0, None
    while header := stream.read(record.size):
        if len(header) < record.size:
            detail = f"wanted {record.size} bytes of a record, met {len(header)}"
            raise ParseError(blob.uri, offset, "truncated", detail, excerpt=header)
        seconds, micros, size, *channel = record.unpack(header)
        if size > MAX_BYTES or micros > 999_999:
            swapped = struct.unpack_from(">III", header)
            is_big_endian = swapped[1] <= 999_999 and swapped[2] <= MAX_BYTES
            detail = f"a record of {size} bytes at {micros} microseconds"
            detail += "; it would fit if the numbers were big-endian" if is_big_endian else ""
            raise ParseError(blob.uri, offset, "bad_length", detail, excerpt=header)
        data = stream.read(size)
        if len(data) < size:
            detail = f"wanted {size} bytes of data, met {len(data)}"
            raise ParseError(blob.uri, offset, "truncated", detail, excerpt=data[:4096])
        at = seconds + micros / 1e6
        now += max(0.0, at - before) if before is not None else 0.0
        before = at
        yield offset, now, channel[0] if channel else 0, data
        offset += record.size + size


def _events(stream: BinaryIO, blob: Blob) -> Iterator[Event]:
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    for offset, now, _, data in _read(stream, blob, _RECORD):
        text = decode(data)
        if text:
            yield offset, round(now, 6), "o", text


def _read_keys(stream: BinaryIO, blob: Blob, recording: Recording, connector: str) -> Iterator[Trajectory | Reject]:
    """Yield the one trajectory of a ttyrec3, with an act for each record of input."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    screen, titles, acts = Screen(recording.columns, recording.rows), Titles(), shelf_of_acts()
    now, error = 0.0, None
    try:
        for offset, now, channel, data in _read(stream, blob, _RECORD_3):
            if channel == 0:
                screen.write(titles.strip_titles(decode(data)))
            elif channel == 1 and data:
                strokes = [(data.decode("latin-1"), now, now)]
                acts.append(Act(offset, now, now, screen.seen(), strokes, {"source": "input"}))
    except ParseError as fault:
        error = fault
    if not acts:
        raise error or ParseError(blob.uri, -1, "no_transitions", "a recording without input")
    ending = Ending(now, screen.seen(), cut=error is not None, lost=error is not None)
    steps = steps_of(acts, ending, recording.began)
    context = Context(initial_state=terminal_words(recording))
    yield Trajectory(recording.native_id, "terminal", steps, context=context)
    if error is not None:
        yield Reject.of(error, connector=connector)
