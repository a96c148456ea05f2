"""What follows from an action and what went before."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.quality.boilerplate import frames
from trajmill.quality.derivable import Deriving
from trajmill.quality.derivable.arithmetic import decimals, integer
from trajmill.quality.derivable.known_files import REMEMBERED_BYTES, KnownFiles
from trajmill.quality.derivable.shell_syntax import pipelines
from trajmill.quality.derivable.turns import Turn


def turn(name: str, given: dict[str, Any], after: str | None, *, exit_code: int | None = 0, **more: Any) -> Turn:
    told = {"text": "", "before": None, "failed": False, "cut": False, "is_service": False, **more}
    return Turn(
        name, given, told["text"], told["before"], after, exit_code, told["failed"], told["cut"], told["is_service"]
    )


def derived(*turns: Turn) -> list[str]:
    """What the last turn shows that is derivable."""
    deriving = Deriving()
    *_, last = [(one.after or "", deriving.told(one)) for one in turns]
    return [last[0][begin:end] for begin, end, label in last[1] if label == "derivable"]


def bash(command: str, after: str, exit_code: int | None = 0) -> Turn:
    return turn("bash", {"command": command}, after, exit_code=exit_code)


WRITTEN = bash("cat > a.txt <<'E'\nsome\nwords\nE", "")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("cat a.txt", "some\nwords"),
        ("wc -l a.txt", "2 a.txt"),
        ("wc -c < a.txt", "11"),
        ("sed -n '2p' a.txt", "words"),
        ("head -1 a.txt | tail -n 1", "some"),
        ("grep -c o a.txt", "2"),
        ("nl -ba a.txt", "     1\tsome\n     2\twords"),
        ("echo $((3 * 14)); cat a.txt", "42\nsome\nwords"),
        ("cp a.txt b.txt; cat a.txt", "some\nwords"),
    ],
)
def test_a_file_that_was_written_is_known(command, shown):
    assert derived(WRITTEN, bash(command, shown)) == [shown]
    assert derived(bash(command, shown)) != [shown]


@pytest.mark.parametrize(
    "between",
    [
        "python change.py",
        "sed -i s/a/b/ a.txt",
        "echo $X > a.txt",
        "make && true",
        "(rm a.txt)",
        "for f in *; do rm $f; done",
        "cat x | tee *.txt",
        "git checkout .",
        "echo `rm a.txt`",
        "find . -delete",
        "sort a.txt -o a.txt",
    ],
)
def test_a_file_is_not_known_any_more_once_anything_may_have_changed_it(between):
    assert derived(WRITTEN, bash(between, ""), bash("wc -l a.txt", "2 a.txt")) == []


@pytest.mark.parametrize("between", ["ls -la", "git status", "grep -rn x . | head", "cd / && ls", "echo hi > b.txt"])
def test_a_file_stays_known_while_things_are_looked_at(between):
    assert derived(WRITTEN, bash(between, ""), bash("wc -l a.txt", "2 a.txt")) == ["2 a.txt"]


def test_what_was_not_shown_just_so_is_not_derivable_and_nothing_is_known_then():
    assert derived(WRITTEN, bash("cat a.txt", "some\nother")) == []
    assert derived(WRITTEN, bash("cat a.txt", "some\nother"), bash("wc -l a.txt", "2 a.txt")) == []
    assert derived(bash("cat > a <<'E'\nx\nE", "bash: a: Permission denied", 1), bash("cat a", "x")) == []


def test_before_and_behind_what_is_not_known_whole_lines_are_derivable():
    assert derived(bash("echo $((1+1)); ./probe; echo $((2+2))", "2\nwho\nknows\n4")) == ["2\n", "4"]
    assert derived(bash("./probe; echo $((2+2))", "who\nknows14")) == []


def test_a_command_comes_back_behind_its_prompt():
    typed = '[{"keystrokes": "expr 2 + 3\\n", "duration": 0.1}]'
    one = turn("keystrokes", {}, "me@box:~$ expr 2 + 3\n5\nme@box:~$", text=typed, before="me@box:~$")
    assert derived(one) == ["me@box:~$ expr 2 + 3\n5\nme@box:~$"]
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
    files = KnownFiles()
    for number in range(40):
        files.put(f"f{number}", "x" * (REMEMBERED_BYTES // 10))
    assert sum(files.get(f"f{number}") is not None for number in range(40)) == 9
    files.put("large", "x" * REMEMBERED_BYTES)
    assert files.get("large") is None


def test_a_long_command_line_costs_no_more_than_a_short_one_a_character():
    large = bash("cat > a <<'E'\n" + "x y\n" * 50_000 + "E", "")
    begun = time.process_time()
    assert derived(large, bash("wc -w a;" * 8_000, "1")) == []
    assert derived(bash("seq 1 100000 | tail -1;" * 3_000, "1")) == []
    assert time.process_time() - begun < 20  # each command run whole would take a minute and more


@given(st.text("ab $()`'\"\\;|&<>{}#=~*\n-0E!", max_size=60))
def test_any_text_is_read_as_a_command_line_or_not_at_all(text):
    pipelines(text)
    Deriving().told(bash(text, text))


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


def test_sums_are_those_of_a_shell_and_of_a_calculator():
    assert integer("-7 / 2") == -3
    assert integer("-7 % 2") == -1
    assert integer("(1 + 2) * 3") == 9
    assert [integer(text) for text in ("1 / 0", "010", "1.5", "2 **", "9" * 30)] == [None] * 5
    assert decimals("375 - 128") == ("247", "247.0")
    assert "0.33" in decimals("1 / 3")


def checked(*turns: Turn) -> tuple[int, int]:
    """What of the last turn's answer could be checked, and what of it is wrong."""
    deriving = Deriving()
    for one in turns:
        deriving.told(one)
    return deriving.facts


@pytest.mark.parametrize(
    ("turns", "facts"),
    [
        ([WRITTEN, bash("cat a.txt", "some\nwords")], (1, 0)),
        ([WRITTEN, bash("cat a.txt", "some\nother words")], (1, 1)),
        ([WRITTEN, bash("cat a.txt", "cat: a.txt: Permission denied")], (0, 0)),
        ([WRITTEN, bash("cat a.txt", "some\nother", 1)], (0, 0)),
        ([bash("cat a.txt", "some")], (0, 0)),
        ([WRITTEN, bash("make; cat a.txt", "it is made")], (0, 0)),
        ([WRITTEN, turn("read_file", {"path": "a.txt"}, "some\nwords")], (1, 0)),
        ([WRITTEN, turn("read_file", {"path": "a.txt"}, "lies")], (1, 1)),
        ([WRITTEN, turn("read_file", {"path": "a.txt"}, "lies", cut=True)], (0, 0)),
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
        ([turn("get", {"id": 5}, '{"id": 6}', is_service=True), bash("ls", "x")], (0, 0)),
    ],
)
def test_an_answer_that_contradicts_what_was_known_is_a_wrong_fact(turns, facts):
    assert checked(*turns) == facts
