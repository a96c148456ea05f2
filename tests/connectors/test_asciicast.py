"""Asciicasts: goldens, refusals, and what must hold for recordings cut, mangled or real."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rows import golden_line
from tests.rows import parsed as rows_in
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.recordings.asciicast import Asciicast
from trajmill.connectors.recordings.cast_events import read_cast
from trajmill.connectors.recordings.screen import Screen
from trajmill.schemas import ParseError, Reject, Step, Trajectory

FIXTURES = Path(__file__).parents[1] / "fixtures" / "asciicast"
INPUTS = sorted((FIXTURES / "input").iterdir())
BAD = sorted(path for path in (FIXTURES / "bad").iterdir() if path.suffix != ".reason")
HEADER = {"version": 2, "width": 40, "height": 10}
CONNECTOR = Asciicast()


def recording(*events: Sequence[Any], header: dict[str, Any] | None = None) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in (header or HEADER, *events)).encode()


def parsed(data: bytes) -> tuple[list[Trajectory], list[Reject]]:
    found = list(CONNECTOR.parse(MemoryBlob("log", data)))
    return [one for one in found if isinstance(one, Trajectory)], [one for one in found if isinstance(one, Reject)]


def steps_of(data: bytes) -> list[Step]:
    trajectories, rejects = parsed(data)
    assert (len(trajectories), rejects) == (1, [])
    return list(trajectories[0].steps)


def keys_of(steps: Iterable[Step]) -> list[str]:
    return ["".join(row["keystrokes"] for row in json.loads(step.action.text)) for step in steps]


def seen(step: Step) -> str | None:
    return step.next_observation.content if step.next_observation else None


def reason_of(data: bytes) -> str:
    with pytest.raises(ParseError) as caught:
        parsed(data)
    return caught.value.reason


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


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_recordings_come_out_as_their_golden_file_says(path: Path) -> None:
    rows = rows_of(path.name, path.read_bytes())
    assert [golden_line(row) for row in rows] == (FIXTURES / "expected" / f"{path.name}.jsonl").read_text().splitlines()


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.name)
def test_bad_recordings_are_refused_with_their_reason(path: Path) -> None:
    assert reason_of(path.read_bytes()) == path.with_name(f"{path.name}.reason").read_text().strip()


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_offsets_lead_to_the_record_of_the_first_key(path: Path) -> None:
    data = path.read_bytes()
    for trajectory in parsed(data)[0]:
        for step in trajectory.steps:
            keys = json.loads(step.action.arguments or "")["keystrokes"][0]["keystrokes"]
            event = json.JSONDecoder().raw_decode(data[step.offset :].decode())[0]
            assert event[-1].startswith(keys[0]) or keys in ("\f", "\x03", "\x04") or "(i-search)" in event[-1]


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_what_stood_before_an_action_is_what_the_one_before_it_led_to(path: Path) -> None:
    for trajectory in parsed(path.read_bytes())[0]:
        for before, after in zip(trajectory.steps, trajectory.steps[1:], strict=False):
            assert before.next_observation is after.observation


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(INPUTS), st.data())
def test_a_recording_cut_at_any_byte_raises_nothing_but_parse_errors(path: Path, data: st.DataObject) -> None:
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    error = refusal_of(whole[:cut])
    assert error is None or -1 <= error.offset <= cut


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(INPUTS), st.data())
def test_a_mangled_recording_raises_nothing_but_parse_errors(path: Path, data: st.DataObject) -> None:
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    error = refusal_of(bytes(whole))
    assert error is None or error.reason


_codes = st.sampled_from(["o", "o", "o", "i", "r", "m", "x", "?"])
_data = st.text(st.sampled_from("ab $>\r\n\b\x03\x04\x1b[]?2004hl1049^CHJm0;:\ud800é漢"), max_size=12) | st.just("9x9")
_events = st.lists(st.tuples(st.floats(0, 3), _codes, _data).map(list), max_size=40)


@settings(max_examples=60, deadline=None)
@given(_events, st.integers(2, 3))
def test_any_events_give_valid_rows_or_a_parse_error(events: list[list[Any]], version: int) -> None:
    header = {"version": version, "width": 9, "height": 4, "term": {"cols": 9, "rows": 4}}
    error = refusal_of(recording(*events, header=header))
    assert error is None or error.reason in ("no_input", "no_transitions", "bad_size", "bad_event")


def test_a_killed_recorder_keeps_what_came_before_and_marks_the_last_screen() -> None:
    data = recording([0.1, "o", "$ "], [1, "i", "ls\r"], [1.1, "o", "ls\r\na\r\n"]) + b'[1.2, "o", "b\\r'
    trajectories, rejects = parsed(data)
    (step,) = trajectories[0].steps
    assert (seen(step), step.truncated, step.terminated) == ("$ ls\na", True, None)
    assert step.next_observation is not None
    assert step.next_observation.truncation == "recorder"
    assert [(one.reason, one.offset) for one in rejects] == [("truncated", data.rindex(b"[1.2"))]


def test_what_an_action_led_to_is_unknown_where_nothing_came_after_it() -> None:
    events = [[0.1, "o", "$ "], [1, "i", "ls\r"], [1.1, "o", "ls\r\n$ "], [2, "i", "x\r"]]
    assert [seen(step) for step in steps_of(recording(*events))] == ["$ ls\n$", None]


def test_the_first_observation_is_null_only_if_nothing_was_shown() -> None:
    assert steps_of(recording([0.1, "i", "ls\r"], [0.2, "o", "a"]))[0].observation is None
    shown = steps_of(recording([0.1, "o", "\x1b[2J"], [0.2, "i", "ls\r"], [0.3, "o", "a"]))[0].observation
    assert shown is not None
    assert shown.content == ""


def test_a_clock_that_steps_back_counts_as_no_time_and_changes_no_order() -> None:
    events = [[5.0, "i", "a\r"], [5.1, "o", "a\r\n"], [4.9, "o", "b\r\n"], [5.3, "i", "c\r"], [5.4, "o", "c"]]
    steps = steps_of(recording(*events, header={**HEADER, "timestamp": 1000}))
    assert [seen(step) for step in steps] == ["a\nb", "a\nb\nc"]
    assert [step.duration_s for step in steps] == pytest.approx([0.5, 0.1])
    assert [step.started_at for step in steps] == [1_005_000_000, 1_005_500_000]


def test_version_3_states_the_time_since_the_event_before() -> None:
    header = {"version": 3, "term": {"cols": 40, "rows": 10}, "timestamp": 1000}
    steps = steps_of(recording([1, "i", "a\r"], [1, "o", "a\r\n"], [1, "i", "b\r"], [1, "o", "b"], header=header))
    assert [step.started_at for step in steps] == [1_001_000_000, 1_003_000_000]
    assert [step.duration_s for step in steps] == [2.0, 1.0]


def test_without_a_timestamp_times_of_day_and_ids_are_left_open() -> None:
    trajectory = parsed(recording([1, "i", "a\r"], [2, "o", "a"]))[0][0]
    assert (trajectory.native_id, trajectory.steps[0].started_at) == ("undated", None)


def test_an_id_hangs_on_the_content_and_not_on_the_path() -> None:
    data = INPUTS[0].read_bytes()
    assert {row["trajectory_id"] for row in rows_of("a", data)} == {
        row["trajectory_id"] for row in rows_of("b/c", data)
    }


def test_escape_sequences_split_over_events_stay_whole() -> None:
    whole = steps_of(recording([1, "o", "ab\x1b[1;1Hx"], [2, "i", "q\r"], [3, "o", "y"]))
    split = steps_of(recording([1, "o", "ab\x1b[1"], [1.5, "o", ";1Hx"], [2, "i", "q\r"], [3, "o", "y"]))
    assert [seen(step) for step in whole] == [seen(step) for step in split] == ["xy"]


@pytest.mark.parametrize("typed", [False, True])
def test_titles_that_a_shell_sets_in_screen_or_tmux_are_on_no_screen(typed: bool) -> None:
    title, prompt = "\x1bk~/mill\x1b\\", "\r\x1b[J% \x1b[K\x1b[?2004h"
    keys = [[1.2, "i", "l"], [1.4, "i", "s\r"]] if typed else []
    events = [
        [0.1, "o", title],
        [0.2, "o", prompt],
        *keys,
        [1.5, "o", "ls"],
        [2.0, "o", "\x1b[?2004l\r\r\n"],
        [2.1, "o", "\x1bkl"],
        [2.2, "o", "s\x1b"],
        [2.3, "o", "\\mill.py\r\n" + title + prompt],
    ]
    (step,) = steps_of(recording(*events))
    assert seen(step) == "% ls\nmill.py\n%"


def test_resizes_change_the_screen_from_then_on() -> None:
    steps = steps_of(recording([1, "o", "x" * 12], [2, "r", "10x5"], [3, "i", "q\r"], [4, "o", "!"]))
    assert steps[0].observation is not None
    assert steps[0].observation.content == "x" * 10 + "\nxx"


def test_unknown_codes_markers_blank_lines_and_comments_are_passed_over() -> None:
    header = {"version": 3, "term": {"cols": 40, "rows": 10}}
    data = recording([1, "o", "$ "], [1, "m", ""], [0, "z", 5], [1, "i", "a\r"], [1, "o", "a"], header=header)
    assert keys_of(steps_of(data.replace(b"\n", b"\r\n\n# comment\n"))) == ["a\n"]


def test_comments_are_bad_events_before_version_3() -> None:
    assert reason_of(recording() + b'# comment\n[1, "i", "a\\r"]\n') == "bad_json"


def test_the_exit_status_is_that_of_the_act_that_ended_the_session() -> None:
    header = {"version": 3, "term": {"cols": 40, "rows": 10}}
    left = steps_of(recording([1, "i", "ls\r"], [1, "o", "a"], [1, "i", "exit 3\r"], [1, "x", "3"], header=header))
    assert [(step.exit_code, step.terminated) for step in left] == [(None, None), (3, True)]
    ended = steps_of(recording([1, "i", "ls\r"], [1, "o", "a"], [1, "x", "0"], header=header))
    assert [(step.exit_code, step.terminated) for step in ended] == [(None, True)]


def test_exit_statuses_that_the_shell_reported_are_those_of_the_commands() -> None:
    done = "\x1b]133;D;{}\x07$ "
    steps = steps_of(
        recording(
            *([0.1, "o", "$ "], [1, "i", "false\r"], [1.1, "o", "false\r\n" + done.format(1)]),
            *([2, "i", "a\rb\r"], [2.1, "o", "a\r\n" + done.format(0) + "b\r\n" + done.format(2)]),
            *([3, "i", "true\r"], [3.1, "o", "true\r\n" + done.format(0)]),
        )
    )
    assert [step.exit_code for step in steps] == [1, None, 0]


def test_leaving_a_nested_shell_does_not_end_the_session() -> None:
    inner = steps_of(recording([1, "o", "> "], [2, "i", "exit\r"], [3, "o", "exit\r\n$ "]))
    outer = steps_of(recording([1, "o", "> "], [2, "i", "\x04"], [3, "o", "\r\nexit\r\n"]))
    assert (inner[0].terminated, outer[0].terminated) == (None, True)


def test_a_recording_longer_than_a_block_is_read_as_a_short_one() -> None:
    lines = [[n / 10, "o", f"line {n} é\r\n"] for n in range(12_000)]
    steps = steps_of(recording(*lines, [1300, "i", "q\r"], [1301, "o", "\x1b[2Jend"]))
    assert steps[0].observation is not None
    assert steps[0].observation.content == "\n".join(f"line {n} é" for n in range(11_991, 12_000))
    assert steps[0].offset == len(recording(*lines))


def test_lines_that_only_together_look_like_events_are_told_apart() -> None:
    joined = recording([1, "i", "a\r"]) + b'[2, "o", "b"],[3, "o", "c"]\n[4, "o"\n'
    trajectories, rejects = parsed(joined)
    assert len(trajectories[0].steps) == 1
    assert [(one.reason, one.offset) for one in rejects] == [("bad_json", joined.index(b",[3"))]


def test_version_1_is_read_up_to_its_cut() -> None:
    whole = (FIXTURES / "input" / "version_1.json").read_bytes()
    trajectories, rejects = parsed(whole[: whole.rindex(b"exit")])
    assert keys_of(trajectories[0].steps) == ["date\n"]
    assert [one.reason for one in rejects] == ["truncated"]


def test_where_input_was_lost_another_trajectory_continues_the_first() -> None:
    trajectories, rejects = parsed((FIXTURES / "input" / "bracketed_paste_v2.cast").read_bytes())
    assert [one.native_id for one in trajectories] == ["undated", "undated/1", "undated/2"]
    assert [(one.parent, one.parent_step, one.relation) for one in trajectories] == [
        (None, None, None),
        ("undated", 1, "continuation"),
        ("undated/1", 1, "continuation"),
    ]
    assert [one.reason for one in rejects] == ["unrecorded_input", "hidden_input"]
    ids = [
        row["parent_trajectory_id"]
        for row in rows_of("a", (FIXTURES / "input" / "bracketed_paste_v2.cast").read_bytes())
    ]
    assert ids[0] is None
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    ("head", "uri", "score"),
    [
        (recording(), "a/b", 0.95),
        (b'\xef\xbb\xbf{"version":3,"term":{"cols":80,"rows":24}}', "x.cast", 0.95),
        (b'{"version": 1, "width": 80, "height": 24, "stdout": [[0.1, "a"', "x.json", 0.9),
        (b'{"version": 2}', "x.json", None),
        (b'{"version": 2}', "x.cast", 0.3),
        (b'{"version": 2, "cells": []}', "notebook.json", None),
        (b"", "x.log", None),
        (b"\x1f\x8b\x08", "x.cast", 0.3),
        (b"[" * 4096, "x.json", None),
    ],
)
def test_recordings_are_recognized_by_their_header(head: bytes, uri: str, score: float | None) -> None:
    told = CONNECTOR.sniff(head, uri)
    assert (told.score if told else None) == score


@pytest.mark.corpus
def test_real_recordings_come_out_as_counted(corpus: Callable[[str], list[Path]]) -> None:
    files = corpus("asciicast")
    found: Counter[str] = Counter()
    for path in files:
        try:
            for one in CONNECTOR.parse(MemoryBlob(path.name, path.read_bytes())):
                found.update([one.reason] if isinstance(one, Reject) else {"trajectory": 1, "step": len(one.steps)})
        except ParseError as error:
            found[error.reason] += 1
    assert len(files) == 49
    kept, refused = {"trajectory": 8, "step": 22}, {"no_input": 25, "no_transitions": 2}
    assert found == kept | refused | {"bad_event": 10, "bad_json": 2, "bad_size": 2}


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
