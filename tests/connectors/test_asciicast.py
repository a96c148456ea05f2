"""Asciicasts: goldens, refusals, and what must hold for recordings cut, mangled or real."""

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rows import parsed as rows_in
from tests.rows import split_records
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.recordings.asciicast import Asciicast
from trajmill.connectors.recordings.cast_events import read_cast
from trajmill.connectors.recordings.screen import Screen
from trajmill.schemas import ParseError, Reject, Step, Trajectory

HEADER = {"version": 2, "width": 40, "height": 10}
CONNECTOR = Asciicast()


def recording(*events: Sequence[Any], header: dict[str, Any] | None = None) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in (header or HEADER, *events)).encode()


def parsed(data: bytes) -> tuple[list[Trajectory], list[Reject]]:
    return split_records(CONNECTOR.parse(MemoryBlob("log", data)))


def steps_of(data: bytes) -> list[Step]:
    trajectories, rejects = parsed(data)
    assert (len(trajectories), rejects) == (1, [])
    return list(trajectories[0].steps)


def refusal_of(data: bytes) -> ParseError | None:
    """The error that ends reading, if one does; whatever is read must keep the invariants of the schema."""
    try:
        rows_of("log", data)
    except ParseError as error:
        return error
    return None


def rows_of(name: str, data: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = rows_in(CONNECTOR, MemoryBlob(name, data))[0]
    return rows


_codes = st.sampled_from(["o", "o", "o", "i", "r", "m", "x", "?"])
_data = st.text(st.sampled_from("ab $>\r\n\b\x03\x04\x1b[]?2004hl1049^CHJm0;:\ud800é漢"), max_size=12) | st.just("9x9")
_events = st.lists(st.tuples(st.floats(0, 3), _codes, _data).map(list), max_size=40)


@given(_events, st.integers(2, 3))
def test_any_events_give_valid_rows_or_a_parse_error(events: list[list[Any]], version: int) -> None:
    header = {"version": version, "width": 9, "height": 4, "term": {"cols": 9, "rows": 4}}
    error = refusal_of(recording(*events, header=header))
    assert error is None or error.reason in ("no_input", "no_transitions", "bad_size", "bad_event")


def test_a_recording_longer_than_a_block_is_read_as_a_short_one() -> None:
    lines = [[n / 10, "o", f"line {n} é\r\n"] for n in range(12_000)]
    steps = steps_of(recording(*lines, [1300, "i", "q\r"], [1301, "o", "\x1b[2Jend"]))
    assert steps[0].observation is not None
    assert steps[0].observation.content == "\n".join(f"line {n} é" for n in range(11_991, 12_000))
    assert steps[0].offset == len(recording(*lines))


@pytest.mark.corpus
def test_screens_of_real_recordings_are_those_of_pyte(corpus: Callable[[str], list[Path]]) -> None:
    assert sum(map(_compared_screens, corpus("asciicast"))) > 100


def _compared_screens(path: Path) -> int:
    """How many screens of a recording were compared, up to its end or its first bad event."""
    blob = MemoryBlob(path.name, path.read_bytes()[:100_000])
    compared = 0
    with contextlib.suppress(ParseError), blob.open() as stream:
        header, events = read_cast(stream, blob)
        screen, oracle = Screen(header.columns, header.rows), pyte.Screen(header.columns, header.rows)
        oracle_stream = pyte.Stream(oracle)
        for number, (_, _, code, data) in enumerate(events):
            if code == "o":
                screen.write(data)
                oracle_stream.feed(data)
            elif code == "r":
                columns, rows = map(int, data.split("x"))
                screen.resize(columns, rows)
                oracle.resize(rows, columns)
            if number % 10 == 0:
                assert screen.text() == "\n".join(row.rstrip() for row in oracle.display).rstrip("\n")
                compared += 1
    return compared
