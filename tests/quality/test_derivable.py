"""What follows from an action and what went before."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.quality.boilerplate import frames
from trajmill.quality.derivable import Deriving
from trajmill.quality.derivable.arithmetic import written_sums
from trajmill.quality.derivable.known_texts import REMEMBERED_BYTES, KnownTexts
from trajmill.quality.derivable.turns import Turn


def turn(name: str, given: dict[str, Any], after: str | None, **more: Any) -> Turn:
    told = {"text": "", "before": None, "failed": False, "cut": False, "is_service": False, **more}
    return Turn(name, given, after=after, **told)


def derived(*turns: Turn) -> list[str]:
    """What the last turn shows that is derivable."""
    deriving = Deriving()
    *_, last = [(one.after or "", deriving.told(one)) for one in turns]
    return [last[0][begin:end] for begin, end, label in last[1] if label == "derivable"]


def write(path: str, text: str) -> Turn:
    return turn("write_file", {"path": path, "content": text}, "written")


def read(path: str, after: str, **more: Any) -> Turn:
    return turn("read_file", {"path": path}, after, **more)


WRITTEN = write("/w/a.txt", "some\nwords\n")


def test_a_file_that_was_written_is_known():
    assert derived(WRITTEN, read("/w/a.txt", "some\nwords")) == ["some\nwords"]
    assert derived(read("/w/a.txt", "some\nwords")) == []


def test_a_file_that_was_edited_is_known_as_the_edit_left_it():
    edit = turn("Edit", {"file_path": "/w/a.txt", "old_string": "words", "new_string": "letters"}, "done")
    assert derived(WRITTEN, edit, read("/w/a.txt", "some\nletters")) == ["some\nletters"]
    assert derived(WRITTEN, edit, read("/w/a.txt", "some\nwords")) == []


@pytest.mark.parametrize(
    "between",
    [
        turn("bash", {"command": "python change.py"}, ""),
        turn("unknown_tool", {}, "done"),
        turn("message", {}, None),
        turn("write_file", {"path": "/v/a.txt", "content": "other"}, "written"),
        turn("keystrokes", {}, "$", text='[{"keystrokes": "rm a.txt\\n"}]', before="$"),
    ],
)
def test_a_file_is_not_known_any_more_once_anything_may_have_changed_it(between):
    assert derived(WRITTEN, between, read("/w/a.txt", "some\nwords")) == []


@pytest.mark.parametrize("name", ["list_files", "grep_search", "think", "view"])
def test_a_file_stays_known_while_things_are_looked_at(name):
    assert derived(WRITTEN, turn(name, {}, "x"), read("/w/a.txt", "some\nwords")) == ["some\nwords"]


def test_a_command_comes_back_behind_its_prompt():
    typed = '[{"keystrokes": "expr 2 + 3\\n", "duration": 0.1}]'
    one = turn("keystrokes", {}, "me@box:~$ expr 2 + 3\n5\nme@box:~$", text=typed, before="me@box:~$")
    assert derived(one) == ["me@box:~$ expr 2 + 3"]
    python = turn("keystrokes", {}, ">>> expr 2 + 3\n5\n>>>", text=typed, before=">>>")
    assert derived(python) == []


def test_a_command_that_wraps_at_the_edge_of_the_screen_comes_back_too():
    line = "me@box:~$ ./probe " + "word " * 10 + "end"
    rows = [line[at : at + 30].rstrip() for at in range(0, len(line), 30)]
    typed = json.dumps([{"keystrokes": line.removeprefix("me@box:~$ ") + "\n"}])
    shown = "\n".join([*rows, "who knows", "me@box:~$"])
    one = turn("keystrokes", {}, shown, text=typed, before="me@box:~$")
    assert derived(one) == ["\n".join(rows)]


def test_a_record_has_the_members_that_it_had_and_those_that_were_written():
    made = turn("get_note", {"id": "n"}, '{"id": "n", "size": 1, "at": "x"}', is_service=True)
    changed = turn("set_note", {"id": "n", "size": 2}, '{"id": "n", "size": 2, "at": "x", "by": 1}', is_service=True)
    deriving = Deriving()
    deriving.told(made)
    told = [(changed.after[begin:end], label) for begin, end, label in deriving.told(changed)]  # type: ignore[index]
    assert told == [('{"id": "n"', "action"), (', "size": 2', "action"), (', "at": "x"', "derivable")]


def test_no_more_is_remembered_than_is_said():
    files = KnownTexts()
    for number in range(40):
        files.put(f"f{number}", "x" * (REMEMBERED_BYTES // 10))
    assert sum(files.get(f"f{number}") is not None for number in range(40)) == 9
    files.put("large", "x" * REMEMBERED_BYTES)
    assert files.get("large") is None


@given(st.text("[]#|+-=1 2\t→:\r\na", max_size=80), st.sampled_from(["", "http", "tree"]))
def test_frames_lie_in_the_text_in_order(text, kind):
    frame, held = frames(text, kind)
    assert all(0 <= begin < end <= len(text) for begin, end in frame)
    assert all(one[1] <= other[0] for one, other in pairwise(frame))
    assert all(0 <= begin <= end <= len(text) for begin, end in held)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = ["bash", "shell", "str_replace_editor", "Read", "Edit", "write_file", "read_file", "calculate", "get_x", "do"]
KEYS = [
    "command",
    "path",
    "file_path",
    "view_range",
    "old_str",
    "new_str",
    "insert_line",
    "content",
    "expression",
    "id",
]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(KEYS), VALUES), VALUES), max_size=6))
def test_arguments_of_any_shape_are_taken(calls):
    deriving = Deriving()
    for name, given_, after in calls:
        told = json.dumps(after)
        for begin, end, _ in deriving.told(turn(name, given_, told, is_service=True)):
            assert 0 <= begin < end <= len(told)


def test_sums_are_those_of_a_calculator():
    assert written_sums("375 - 128") == ("247", "247.0")
    assert written_sums("-(1 + 2) * 3") == ("-9", "-9.0")
    assert "0.33" in written_sums("1 / 3")
    assert [written_sums(text) for text in ("1 / 0", "2 **", "7 % 2", "9" * 30)] == [()] * 4


def checked(*turns: Turn) -> tuple[int, int]:
    """What of the last turn's answer could be checked, and what of it is wrong."""
    deriving = Deriving()
    for one in turns:
        deriving.told(one)
    return deriving.facts


@pytest.mark.parametrize(
    ("turns", "facts"),
    [
        ([WRITTEN, read("/w/a.txt", "some\nwords")], (1, 0)),
        ([WRITTEN, read("/w/a.txt", "lies")], (1, 1)),
        ([WRITTEN, read("/w/a.txt", "lies", cut=True)], (0, 0)),
        ([read("/w/a.txt", "some")], (0, 0)),
        ([turn("calculate", {"expression": "3 * 14"}, "42")], (1, 0)),
        ([turn("calculate", {"expression": "3 * 14"}, "44")], (1, 1)),
        ([turn("calculate", {"expression": "3 * 14"}, "Error: no such thing")], (0, 0)),
        ([turn("get", {"id": 5}, '{"id": 5, "size": 2}', is_service=True)], (1, 0)),
        ([turn("get", {"id": 5}, '{"id": 6, "size": 2}', is_service=True)], (1, 1)),
        (
            [
                turn("get", {"id": 5}, '{"id": 5, "size": 2, "at": 1}', is_service=True),
                turn("get", {"id": 5}, '{"id": 5, "size": 3, "at": 1, "new": 0}', is_service=True),
            ],
            (3, 1),
        ),
        ([turn("get", {"id": 5}, '{"id": 6}', is_service=True), turn("bash", {"command": "ls"}, "x")], (0, 0)),
    ],
)
def test_an_answer_that_contradicts_what_was_known_is_a_wrong_fact(turns, facts):
    assert checked(*turns) == facts
