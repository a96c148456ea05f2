"""Bursts: which recorded keys are one act, and what is no key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.recordings.acts import Act
from trajmill.connectors.recordings.bursts import Bursts, edited_line, keys_of
from trajmill.connectors.recordings.screen import Screen


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


def typed(text: str, start: float, pause: float = 0.2) -> Sequence[tuple[float, str, str]]:
    """Keys typed one by one, each echoed."""
    rows = []
    for number, char in enumerate(text):
        rows += [(start + number * pause, "i", char), (start + number * pause + 0.01, "o", char)]
    return rows


def test_a_line_typed_key_by_key_is_one_act_however_long_it_takes() -> None:
    (act,) = acts_of((0.1, "o", "$ "), *typed("ls -l", 1, pause=30), (200, "i", "\r"), (200.1, "o", "\r\na"))
    assert (act.keys, act.start, act.end, act.before) == ("ls -l\r", 1, 200, "$")


def test_a_line_ends_with_enter_once_the_terminal_answered() -> None:
    assert keys((1, "i", "a\r"), (1.1, "o", "a\r\n"), (1.3, "i", "b\r")) == ["a\r", "b\r"]


def test_lines_sent_before_anybody_could_look_are_one_act_of_several_entries() -> None:
    (act,) = acts_of((1, "i", "a\r"), (1.01, "o", "a\r\n"), (1.05, "i", "b\r"), (1.06, "o", "b\r\n"))
    assert act.strokes == [("a\r", 1, 1), ("b\r", 1.05, 1.05)]


def test_a_silent_terminal_is_given_a_second() -> None:
    assert keys((1, "i", "a\r"), (1.9, "i", "b\r")) == ["a\rb\r"]
    assert keys((1, "i", "a\r"), (2.1, "i", "b\r")) == ["a\r", "b\r"]


@pytest.mark.parametrize("stop", ["\x03", "\x04", "\x1a", "\x1c"])
def test_control_keys_that_interrupt_end_an_act(stop: str) -> None:
    assert keys((1, "i", "ab" + stop), (1.1, "o", "^X\r\n$ "), (1.4, "i", "x")) == ["ab" + stop, "x"]


def test_a_key_that_a_program_answers_with_a_new_line_is_an_act() -> None:
    asked = [(0.1, "o", "Go on? "), (1, "i", "y"), (1.1, "o", "y\r\n$ ")]
    assert keys(*asked, (2, "i", "ls\r")) == ["y", "ls\r"]
    assert keys(*asked, (1.3, "i", "ls\r")) == ["yls\r"]


def test_completion_on_the_line_does_not_end_it() -> None:
    assert keys(*typed("cd D", 1), (3, "i", "\t"), (3.1, "o", "ocs/"), (9, "i", "\r")) == ["cd D\t\r"]


def test_in_a_full_screen_program_each_key_that_is_looked_at_is_an_act() -> None:
    pager = [(0.5, "o", "\x1b[?1049htext"), (1, "i", " "), (1.1, "o", "more"), (2, "i", "jj"), (2.1, "o", "even more")]
    assert keys(*pager, (2.3, "i", "j"), (2.4, "o", "x"), (3.1, "i", "q")) == [" ", "jjj", "q"]


def test_leaving_a_full_screen_program_ends_an_act_at_once() -> None:
    events = [(1, "o", "\x1b[?1049hx"), (2, "i", "q"), (2.1, "o", "\x1b[?1049l$ "), (2.3, "i", "l"), (2.4, "i", "s")]
    assert keys(*events) == ["q", "ls"]


def test_a_pasted_text_is_one_act_with_its_lines() -> None:
    pasted = [(1, "i", "\x1b[200~a\rb"), (1.5, "o", "\r\n"), (1.9, "i", "\rc\x1b[201~"), (2, "o", "c"), (3, "i", "\r")]
    (act,) = acts_of(*pasted, (3.1, "o", "\r\n"))
    assert len(act.strokes) == 1
    assert act.keys == "\x1b[200~a\rb\rc\x1b[201~\r"


def test_a_paste_that_never_ends_does_not_swallow_the_session() -> None:
    assert keys((1, "i", "\x1b[200~a\r"), (1.1, "o", "a\r\n"), (9, "i", "b\r")) == ["\x1b[200~a\r", "b\r"]


@pytest.mark.parametrize(
    "reply",
    [
        *("\x1b[?62;22c", "\x1b[>1;4000;29c", "\x1b[12;40R", "\x1b[?1;2$y", "\x1b[?0u", "\x1b[0n", "\x1b[8;24;80t"),
        *(
            "\x1b]11;rgb:0000/0000/0000\x1b\\",
            "\x1b]10;rgb:ff/ff/ff\x07",
            "\x1bP>|xterm(390)\x1b\\",
            "\x1b[I",
            "\x1b[O",
        ),
    ],
)
def test_what_the_terminal_answers_by_itself_is_no_key(reply: str) -> None:
    assert keys_of(f"a{reply}b") == "ab"
    assert acts_of((1, "o", "x"), (2, "i", reply)) == []


@pytest.mark.parametrize("key", ["\x1b", "\x1b[A", "\x1bOP", "\x1b[1;5C", "\x1b[3~", "\x1b[<0;10;5M", "\x1bb", "\x1b]"])
def test_keys_that_begin_with_escape_stay(key: str) -> None:
    assert keys_of(key) == key


def test_a_line_that_is_not_echoed_is_marked() -> None:
    hidden = [(0.1, "o", "Password: "), (1, "i", "s"), (1.2, "i", "3"), (1.5, "i", "\r"), (1.6, "o", "\r\nok\r\n$ ")]
    stars = [(0.1, "o", "PIN: "), (1, "i", "1"), (1.1, "o", "*"), (1.5, "i", "\r"), (1.6, "o", "\r\nok\r\n$ ")]
    shown = [(0.1, "o", "Name: "), (1, "i", "Al\r"), (1.6, "o", "Al\r\nok\r\n$ ")]
    echoed = [acts_of(*events)[0].facts.get("echoed") for events in (hidden, stars, shown)]
    assert echoed == [False, False, None]


def test_a_full_screen_program_need_not_echo() -> None:
    events = [(0.1, "o", "\x1b[?1049h"), (1, "i", ":q\r"), (1.1, "o", "\x1b[?1049l\r\n")]
    assert acts_of(*events)[0].facts == {"source": "input"}


def test_the_line_after_erasures_is_told_where_it_differs_from_the_keys() -> None:
    assert acts_of((1, "i", "lss\x7f\r"), (1.1, "o", "ls\r\n"))[0].facts["line"] == "ls"
    assert "line" not in acts_of((1, "i", "ls\r"), (1.1, "o", "ls\r\n"))[0].facts


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
    assert edited_line(text) == line


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
