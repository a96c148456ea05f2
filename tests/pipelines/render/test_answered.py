"""What an action is told by: the head of its command, and what it writes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FUZZ
from trajmill.pipelines.render.answered import Answered, Known, _writes, pieces
from trajmill.schemas import json_text

NAMES = st.sampled_from(["command", "cmd", "code", "path", "id", "content", "text", "body", "other"])
TEXTS = st.sampled_from(
    ["", "ls -l", "a.py", "cat > b.py << E\none\nE", "cat >> c.py <<'END'\ntwo\nEND\n", "<<", '"text"']
)
VALUES = st.recursive(
    TEXTS | st.none() | st.integers(0, 9), lambda of: st.lists(of, max_size=3) | st.dictionaries(NAMES, of)
)


def turn(arguments: Any, tool: str = "run") -> Answered:
    return Answered("k", "terminal", "stream", tool, json_text(arguments), "", "")


@pytest.mark.parametrize(
    ("tool", "arguments", "head"),
    [
        ("run", {"command": "ls -l"}, "ls"),
        ("run", {"n": 1, "cmd": "cd /x && /usr/bin/git status"}, "git"),
        ("run", ["", "make test"], "make"),
        ("run", {"path": "ls"}, ""),
        ("run", {"path": "the command"}, ""),
        ("run", {"path": 'the "command"'}, ""),
        ("run", {"command": 3}, ""),
        ("keystrokes", {"keys": "vim a.py"}, "vim"),
    ],
)
def test_the_head_is_the_first_word_of_the_command(tool, arguments, head):
    assert turn(arguments, tool).head == ("terminal", tool, head)


@settings(max_examples=60 * FUZZ)
@given(arguments=VALUES)
def test_what_arguments_cannot_hold_is_looked_for_in_vain(arguments):
    assert turn(arguments).written == tuple(_writes(turn(arguments)))


def test_a_piece_is_a_text_between_quotes_or_a_box():
    assert [*pieces("""a "b c" 'd' [0,1][2,3] "" '' e""")] == ["b c", "d", "[0,1][2,3]", "", ""]


def test_what_is_known_at_a_time_is_what_was_shown_until_then():
    known = Known()
    known.saw("\n".join(f"line {number}" for number in range(40)))
    before = known.now()
    known.saw("more")
    assert known.has_words({"more"})
    assert not before.has_words({"more"})
    assert [*before.lines_with({"line"}, 2)] == [{"line", "0"}, {"line", "1"}]
