"""The screen: what it shows, against pyte as the oracle on all that both emulate, and what it must survive."""

from __future__ import annotations

import re
from typing import Any

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajmill.connectors.recordings.screen import Screen, Titles, checked_size, encoded, visible

COLUMNS, ROWS = 20, 6


def written(text: str, columns: int = COLUMNS, rows: int = ROWS) -> Screen:
    screen = Screen(columns, rows)
    screen.write(text)
    return screen


def rows_of(screen: Any) -> str:
    """What pyte shows, in the form of the dialect. It keeps a cell after each wide character, as an empty text."""
    return "\n".join(row.rstrip() for row in screen.display).rstrip("\n")


def test_rows_lose_their_trailing_blanks_and_the_screen_its_trailing_rows() -> None:
    assert written("one  \r\n\r\n  two \r\n\r\n").text() == "one\n\n  two"


def test_a_screen_to_which_nothing_was_written_has_not_been_seen() -> None:
    assert written("").seen() is None
    assert written("\x1b[2J").seen() == ""


def test_an_escape_sequence_split_over_two_writes_stays_whole() -> None:
    screen = written("ab\x1b[")
    assert screen.text() == "ab"
    screen.write("1;1Hx")
    assert screen.text() == "xb"


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("\x1bk~/mill\x1b\\$ ", "$ "),
        ("a\x1bkone\x07b\x1bk\x1b\\c\x1bktwo\x1b\\\x1b[1md", "abc\x1b[1md"),
        ("\x1bk never ended \x1b[2J", "\x1bk never ended \x1b[2J"),
        ("\x1bk" + "x" * 5000 + "\x1b\\", "\x1bk" + "x" * 5000 + "\x1b\\"),
        ("ends in \x1bk a title", "ends in "),
        ("no title", "no title"),
    ],
)
def test_window_titles_of_screen_and_tmux_are_taken_out_wherever_output_is_divided(output: str, shown: str) -> None:
    for size in (1, 2, 3, len(output)):
        titles = Titles()
        pieces = [titles.taken_from(output[place : place + size]) for place in range(0, len(output), size)]
        assert "".join(pieces) == shown


def test_only_the_last_rows_are_visible() -> None:
    assert written("".join(f"{n}\r\n" for n in range(9)) + "end").text() == "4\n5\n6\n7\n8\nend"


def test_the_alternate_screen_hides_the_primary_one_and_gives_it_back() -> None:
    screen = written("shell$ vim\x1b[?1049h\x1b[2J\x1b[Heditor")
    assert (screen.alternate, screen.text()) == (True, "editor")
    screen.write("\x1b[?1049l")
    assert (screen.alternate, screen.text()) == (False, "shell$ vim")


def test_a_wider_screen_joins_the_rows_that_a_line_wrapped_over() -> None:
    screen = written("x" * 25)
    assert screen.text() == "x" * 20 + "\n" + "x" * 5
    screen.resize(30, 6)
    assert screen.text() == "x" * 25


def test_the_line_ends_at_the_cursor_and_keeps_the_blanks_written_before_it() -> None:
    screen = written("out\r\n$ echo  a b\b")
    assert (screen.line(), screen.whole_line()) == ("$ echo  a ", "$ echo  a b")
    assert written("out\r\n$ ").line() == "$ "
    assert written("out\r\n").line() == ""


def test_the_line_spans_the_rows_it_wrapped_over() -> None:
    text = "$ " + "0123456789" * 3
    screen = written("out\r\n" + text)
    assert screen.line() == screen.whole_line() == text
    screen.write("\b\b\b")
    assert (screen.line(), screen.whole_line()) == (text[:-3], text)


def test_a_full_row_is_told_from_one_with_a_cell_left() -> None:
    assert written("x" * 20).wraps
    assert not written("x" * 19).wraps


def test_exit_statuses_reported_by_the_shell_are_taken_once() -> None:
    screen = written("\x1b]133;D;0\x07$ \x1b]133;D;130\x1b\\")
    assert screen.take_statuses() == [0, 130]
    assert screen.take_statuses() == []


def test_lone_surrogates_become_the_replacement_character_and_pairs_are_joined() -> None:
    assert encoded("a\ud83d\ude00b\ud83d").decode() == "a\U0001f600b\ufffd"


def test_files_named_by_graphics_sequences_are_neither_read_nor_removed(tmp_path: Any) -> None:
    picture = tmp_path / "tty-graphics-protocol-picture"
    picture.write_bytes(bytes(12))
    path = re.sub(r"=*$", "", __import__("base64").b64encode(str(picture).encode()).decode())
    for medium in ("f", "t"):
        assert written(f"\x1b_Ga=T,f=24,s=2,v=2,t={medium};{path}\x1b\\shown").text() == "shown"
    assert picture.exists()


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (-1, 5), (True, 5), (5.0, 5), ("80", 24), (4097, 1), (2000, 2000)])
def test_sizes_that_no_terminal_has_are_refused(size: tuple[Any, Any]) -> None:
    assert checked_size(*size) is None


def test_visible_leaves_out_escape_sequences_and_control_characters() -> None:
    assert visible("\x1b[1;31ma\x1b[0m\x1b]0;title\x07b\x1b(B\r\n\tc\x9b\x7f\x1bPx\x1b\\é") == "abcé"


_narrow = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30)
_place = st.tuples(st.integers(1, ROWS), st.integers(1, COLUMNS)).map(lambda at: f"\x1b[{at[0]};{at[1]}H")
# A full row leaves the cursor in a state after which terminals differ on relative moves: these follow a placed cursor.
# Inserted and deleted rows are left out: pyte 0.8.2 forgets to delete a row when the one that takes its place is blank.
_moves = st.tuples(_place, st.integers(1, 9), st.sampled_from("ABCDEFGdXP@")).map("{0[0]}\x1b[{0[1]}{0[2]}".format)
_index = st.tuples(_place, st.sampled_from("DM")).map("{0[0]}\x1b{0[1]}".format)
_erase = st.tuples(_place, st.integers(0, 2), st.sampled_from("KJ")).map("{0[0]}\x1b[{0[1]}{0[2]}".format)
_colour = st.sampled_from(["\x1b[0m", "\x1b[1;31m", "\x1b[38;5;200m", "\x1b[48;2;1;2;3m", "\x1b[7m", "\x1b[m"])
_lines = st.sampled_from(["\r\n", "\r", "\r\n\r\n\r\n", "\x1b[?25l", "\x1b[?25h"])
_region = st.tuples(st.integers(1, ROWS - 1), _place).map(lambda r: f"\x1b[{r[0]};{ROWS}r{r[1]}")
_save = st.tuples(_place, _place).map(lambda at: f"{at[0]}\x1b7{at[1]}.\x1b8!")
_plain = (_narrow, _place, _erase, _colour, _lines)
# pyte brings a moved or restored cursor back into the scrolling region, terminals do not: the two do not meet.
_moved = st.lists(st.one_of(*_plain, _moves, _index, _save), max_size=30)
_output = st.lists(st.one_of(*_plain, _region), max_size=30) | _moved
# Wide characters stand on rows of their own: pyte lets them straddle an edge and leaves halves of them behind.
_wide = st.text(st.sampled_from("漢字テスト한국🍺"), max_size=6)
_wide_row = st.tuples(_wide, _colour, st.text(st.sampled_from("ab é"), max_size=7)).map("".join)
_wide_rows = st.lists(st.tuples(_wide_row, st.sampled_from(["\r\n", "\r\n\r\n"])).map("".join), max_size=12)


@settings(max_examples=32, deadline=None)
@given(_output.map("".join))
def test_any_mix_of_text_moves_colours_and_scrolling_shows_what_pyte_shows(output: str) -> None:
    oracle = pyte.Screen(COLUMNS, ROWS)
    pyte.Stream(oracle).feed(output)
    assert written(output).text() == rows_of(oracle)


@settings(max_examples=20, deadline=None)
@given(_wide_rows.map("".join))
def test_wide_characters_show_as_in_pyte(output: str) -> None:
    oracle = pyte.Screen(COLUMNS, ROWS)
    pyte.Stream(oracle).feed(output)
    assert written(output).text() == rows_of(oracle)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=10), st.integers(1, 30), st.integers(1, 9))
def test_any_text_at_any_size_gives_rows_that_fit(pieces: list[str], columns: int, rows: int) -> None:
    screen = written("".join(pieces), columns, rows)
    assert screen.text().count("\n") < rows
    assert screen.whole_line().startswith(screen.line().rstrip()[:1])
    screen.resize(rows, columns)
    assert screen.text().count("\n") < columns
