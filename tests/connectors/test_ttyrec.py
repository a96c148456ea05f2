"""ttyrecs: how records are told from other bytes, and what clocks, sizes and channels do."""

import json
import struct

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.recordings.ttyrec import Ttyrec
from trajmill.schemas import ParseError, Reject, Trajectory

CONNECTOR = Ttyrec()
BEGAN = 1_900_000_000


def record(seconds: float, data: bytes | str, channel: int | None = None) -> bytes:
    content = data.encode() if isinstance(data, str) else data
    head = struct.pack("<III", BEGAN + int(seconds), round((seconds % 1) * 1e6), len(content))
    return head + (b"" if channel is None else bytes([channel])) + content


def parsed(data: bytes) -> list[Trajectory | Reject]:
    return list(CONNECTOR.parse(MemoryBlob("log", data)))


SESSION = (
    record(0, "\x1b[?2004h$ ")
    + record(1, "pwd\r\n\x1b[?2004l\r")
    + record(1.5, "/home\r\n\x1b[?2004h$ ")
    + record(4, "true\r\n\x1b[?2004l\r")
    + record(4, "\x1b[?2004h$ ")
)


def test_lines_are_told_from_their_echo_with_the_clock_of_the_records():
    (one,) = parsed(SESSION)
    assert isinstance(one, Trajectory)
    assert [json.loads(step.action.text) for step in one.steps] == [
        [{"keystrokes": "pwd\n", "duration": 3.0}],
        [{"keystrokes": "true\n", "duration": 0.0}],
    ]
    assert one.steps[0].started_at == (BEGAN + 1) * 1_000_000
    assert one.steps[0].offset == len(record(0, "\x1b[?2004h$ "))


def test_a_clock_that_steps_back_counts_as_no_time():
    later = SESSION + struct.pack("<III", BEGAN - 500, 0, 2) + b"\r\n"
    (one,) = parsed(later)
    assert isinstance(one, Trajectory)
    assert [step.duration_s for step in one.steps] == [3.0, 0.0]


def test_a_cut_record_ends_the_recording_with_its_offset():
    trajectory, reject = parsed(SESSION + record(9, "lost")[:-1])
    assert isinstance(trajectory, Trajectory)
    assert isinstance(reject, Reject)
    assert trajectory.steps[-1].truncated
    assert (reject.reason, reject.offset) == ("truncated", len(SESSION))


@pytest.mark.parametrize("length", [1 << 21, 0xFFFFFFFF])
def test_a_record_of_absurd_length_is_refused(length: int):
    with pytest.raises(ParseError) as caught:
        parsed(struct.pack("<III", BEGAN, 0, length) + b"text")
    assert caught.value.reason == "bad_length"


def test_big_endian_numbers_are_named_as_such():
    with pytest.raises(ParseError) as caught:
        parsed(struct.pack(">III", BEGAN, 0, 4) + b"text")
    assert "big-endian" in caught.value.detail


def test_each_key_of_a_ttyrec3_is_an_act_and_neither_scores_nor_titles_are_shown():
    (one,) = parsed(
        record(0, "door", 0)
        + record(0.1, "o", 1)
        + record(0.1, b"\x07\0\0\0", 2)
        + record(0.1, "\x1bka ti", 0)
        + record(0.1, "tle\x1b\\!", 0)
        + record(1, "q", 1)
    )
    assert isinstance(one, Trajectory)
    seen = [(step.action.text, step.next_observation and step.next_observation.content) for step in one.steps]
    assert seen == [
        ('[{"keystrokes": "o", "duration": 0.9}]', "door!"),
        ('[{"keystrokes": "q", "duration": 0.0}]', "door!"),
    ]


def test_a_file_without_the_name_is_taken_only_for_dated_records_that_come_out_even():
    assert CONNECTOR.sniff(SESSION, "log.bin") is not None
    assert CONNECTOR.sniff(bytes(600), "zeros.bin") is None
    assert CONNECTOR.sniff(b"<html>" * 50, "page") is None
    assert CONNECTOR.sniff(record(0, "once"), "log.bin") is None


def test_the_size_that_the_recording_asks_for_is_used():
    (one,) = parsed(record(0, "\x1b[8;5;20t\x1b[?2004h$ ") + SESSION[len(record(0, "\x1b[?2004h$ ")) :])
    assert isinstance(one, Trajectory)
    assert one.context.initial_state == "terminal of 20x5"
