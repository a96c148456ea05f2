"""Recordings of screens: the emulated terminal, bursts of output, ttyrecs, and generated logs of screens."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyghostty import ffi as theirs
from pyghostty import lib as known

from benchmarks.logs.screen_logs import LOGS, log
from tests.golden.make import LIBGHOSTTY, libghostty
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.recordings import emulator
from trajmill.connectors.recordings.acts import Act
from trajmill.connectors.recordings.bursts import Bursts, edit_line, keys_of
from trajmill.connectors.recordings.emulator import ffi, lib
from trajmill.connectors.recordings.screen import Screen, encode_text
from trajmill.connectors.recordings.ttyrec import Ttyrec
from trajmill.connectors.registry import connector
from trajmill.schemas import Trajectory

COLUMNS, ROWS = 20, 6


def test_lone_surrogates_become_the_replacement_character_and_pairs_are_joined() -> None:
    assert encode_text("a\ud83d\ude00b\ud83d").decode() == "a\U0001f600b\ufffd"


CONNECTOR = Ttyrec()
BEGAN = 1_900_000_000


def record(seconds: float, data: bytes | str, channel: int | None = None) -> bytes:
    content = data.encode() if isinstance(data, str) else data
    head = struct.pack("<III", BEGAN + int(seconds), round((seconds % 1) * 1e6), len(content))
    return head + (b"" if channel is None else bytes([channel])) + content


SESSION = (
    record(0, "\x1b[?2004h$ ")
    + record(1, "pwd\r\n\x1b[?2004l\r")
    + record(1.5, "/home\r\n\x1b[?2004h$ ")
    + record(4, "true\r\n\x1b[?2004l\r")
    + record(4, "\x1b[?2004h$ ")
)


def test_a_file_without_the_name_is_taken_only_for_dated_records_that_come_out_even():
    assert CONNECTOR.sniff(SESSION, "log.bin") is not None
    assert CONNECTOR.sniff(bytes(600), "zeros.bin") is None
    assert CONNECTOR.sniff(b"<html>" * 50, "page") is None
    assert CONNECTOR.sniff(record(0, "once"), "log.bin") is None


STRUCTS = ("GhosttyGridRef", "GhosttySelection", "GhosttyTerminalSelectionFormatOptions", "GhosttyPoint")
FUNCTIONS = (
    "ghostty_terminal_new",
    "ghostty_terminal_free",
    "ghostty_terminal_set",
    "ghostty_terminal_get",
    "ghostty_terminal_vt_write",
    "ghostty_terminal_resize",
    "ghostty_terminal_grid_ref",
    "ghostty_terminal_selection_format_buf",
)
VALUES = {
    "OUT_OF_SPACE": "OUT_OF_SPACE",
    "SCROLLBACK_MAX_LINES": "TERMINAL_OPT_SCROLLBACK_MAX_LINES",
    "CURSOR_X": "TERMINAL_DATA_CURSOR_X",
    "CURSOR_Y": "TERMINAL_DATA_CURSOR_Y",
    "PENDING_WRAP": "TERMINAL_DATA_CURSOR_PENDING_WRAP",
    "ACTIVE_SCREEN": "TERMINAL_DATA_ACTIVE_SCREEN",
    "ALTERNATE": "TERMINAL_SCREEN_ALTERNATE",
    "PLAIN": "FORMATTER_FORMAT_PLAIN",
    "ACTIVE": "POINT_TAG_ACTIVE",
}


def fields(ffi, name):
    return [(field, entry.offset, ffi.sizeof(entry.type)) for field, entry in ffi.typeof(name).fields]


def signature(ffi, function):
    ctype = ffi.typeof(function)
    sizes = [(ffi.sizeof(argument), argument.kind == "pointer", argument.kind == "struct") for argument in ctype.args]
    return sizes, 0 if ctype.result.kind == "void" else ffi.sizeof(ctype.result)


def test_the_module_of_the_emulator_is_made_of_what_is_declared():
    assert LIBGHOSTTY.read_text("utf-8") == libghostty()


def test_structs_functions_and_values_are_declared_as_pyghostty_declares_them():
    assert {name: fields(ffi, name) for name in STRUCTS} == {name: fields(theirs, name) for name in STRUCTS}
    mine = {name: signature(ffi, getattr(lib, name)) for name in FUNCTIONS}
    assert mine == {name: signature(theirs, getattr(known, name)) for name in FUNCTIONS}
    assert {name: getattr(emulator, name) for name in VALUES} == {
        name: getattr(known, f"GHOSTTY_{constant}") for name, constant in VALUES.items()
    }
    assert set(FUNCTIONS) == set(dir(lib)), "a function that is declared is compared here"


def acts_of(*events: tuple[float, str, str]) -> list[Act]:
    bursts = Bursts(Screen(30, 8))
    for offset, (now, code, data) in enumerate(events):
        if code == "i":
            bursts.input(offset, now, data)
        else:
            bursts.output(data)
    return list(bursts.finish())


def keys(*events: tuple[float, str, str]) -> list[str]:
    return [act.keys for act in acts_of(*events)]


def test_a_pasted_text_is_one_act_with_its_lines() -> None:
    pasted = [(1, "i", "\x1b[200~a\rb"), (1.5, "o", "\r\n"), (1.9, "i", "\rc\x1b[201~"), (2, "o", "c"), (3, "i", "\r")]
    (act,) = acts_of(*pasted, (3.1, "o", "\r\n"))
    assert len(act.strokes) == 1
    assert act.keys == "\x1b[200~a\rb\rc\x1b[201~\r"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ab\x7f\x7f\x7fc\r", "c"),
        ("one two\x17three\r", "one three"),
        ("one two  \x17\x17\n", ""),
        ("wrong\x15right\r", "right"),
        ("\x1b[200~pasted\x1b[201~ too\r", "pasted too"),
        ("ab\x1b[Dc\r", None),
        ("cd D\t\r", None),
        ("a\rb\r", None),
        ("no end", None),
        ("", None),
    ],
)
def test_lines_are_edited_by_erasing_keys_only(text: str, line: str | None) -> None:
    assert edit_line(text) == line


_events = st.lists(
    st.tuples(st.floats(0, 2), st.sampled_from("io"), st.text("ab\r\n\x03\x1b[?1049hl20~ ", max_size=6)), max_size=30
)


@given(_events)
def test_no_key_is_lost_or_told_twice(events: list[tuple[float, str, str]]) -> None:
    now, timed = 0.0, []
    for pause, code, data in events:
        now += pause
        timed.append((now, code, data))
    acts = acts_of(*timed)
    assert "".join(act.keys for act in acts) == "".join(keys_of(data) for _, code, data in timed if code == "i")
    times: list[Any] = [time for act in acts for _, begin, end in act.strokes for time in (begin, end)]
    assert times == sorted(times)


WITHOUT_SCREENS = {"android_control_jsonl", "agentnet"}


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_generated_log_is_read_without_a_reject(name: str) -> None:
    results = list(connector(name).parse(MemoryBlob("generated", log(name, 60_000))))
    steps = [step for result in results if isinstance(result, Trajectory) for step in result.steps]
    assert results
    assert all(isinstance(result, Trajectory) for result in results)
    assert steps
    screens = [step.observation for step in steps if step.observation is not None and step.observation.content]
    assert len(screens) == (0 if name in WITHOUT_SCREENS else len(steps))


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_log_is_generated_equal_every_time(name: str) -> None:
    assert log(name, 20_000) == log(name, 20_000)
