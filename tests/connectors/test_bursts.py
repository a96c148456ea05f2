"""Bursts: which recorded keys are one act, and what is no key."""

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
