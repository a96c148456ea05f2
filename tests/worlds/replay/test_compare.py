"""What is equal, what differs each time, and what is another answer."""

from datetime import UTC, datetime

import pytest

from trajmill.worlds.replay.compare import (
    compare_answers,
    compare_cut_answer,
    compare_lines,
    differs_as_replays,
    screen_addition,
)

NOW = datetime(2026, 11, 24, 3, 0, 30, tzinfo=UTC)
VOLATILE = [
    ("done at 2026-05-01 10:11:12", "done at 2026-11-24 03:00:01"),
    ("Fri May  1 10:11:12 UTC 2026", "Tue Nov 24 03:00:01 UTC 2026"),
    ("-rw-r--r-- 1 dev dev 7 Nov 21 02:13 diary.txt", "-rw-r--r-- 1 dev dev 7 Nov 24 02:59 diary.txt"),
    ("it is 10:11", "it is 02:55:12"),
    ("begun 2026-05-01 10:11, read 08:00", "begun 2026-11-24 03:00, read 08:00"),
    ("5 passed in 0.03s", "5 passed in 0.11s"),
    ("real\t0m1.203s", "real\t0m0.900s"),
    ("at 0x7f3a2c001d40", "at 0x55e9304b06a0"),
    ("[1] 4021", "[1] 17"),
    ("[main (root-commit) f27f338] Begin", "[main (root-commit) c0466e6] Begin"),
    ("/tmp/tmp.AbCd12", "/tmp/tmp.ZyXw98"),
    (
        " 10:11:12 up 13:42,  0 user,  load average: 1.30, 0.09, 5.77",
        " 03:00:01 up 2 days, 3 min,  2 users,  load average: 0.00, 0.01, 0.05",
    ),
    ("1048576 bytes copied, 0.00039026 s, 2.7 GB/s", "1048576 bytes copied, 0.00710829 s, 148 MB/s"),
]
DIFFERENT = [
    ("5 passed in 0.03s", "4 passed in 0.03s"),
    ("total 12", "total 13"),
    ("state = 'on'", "state = 'off'"),
    ("index aa79ce0..1c60a9f 100644", "index aa79ce0..2c60a9f 100644"),
    ("a\nb", "b\na"),
    ("version 3.11.2", "version 3.11.4"),
    ("port 8080", "port 8081"),
    ("", "something"),
    ("line 12: error", "line 13: error"),
    ("10:00:02 node2 POST /order", "10:00:03 node2 POST /order"),
    ("2026-03-02 08:01:07 ERROR", "2026-03-02 08:01:09 ERROR"),
    ("10485761 big.bin", "10485760 big.bin"),
    ("da39a3ee5e6b4b0d3255bfef95601890afd80709  empty", "aa39a3ee5e6b4b0d3255bfef95601890afd80709  empty"),
]


@pytest.mark.parametrize(("logged", "replayed"), VOLATILE)
def test_what_differs_each_time_is_volatile(logged: str, replayed: str) -> None:
    comparison = compare_answers(logged, replayed, now=NOW)
    assert comparison.replayed == "volatile"
    assert comparison.difference


@pytest.mark.parametrize(("logged", "replayed"), DIFFERENT)
def test_what_says_something_else_differs(logged: str, replayed: str) -> None:
    assert compare_answers(logged, replayed, now=NOW).replayed == "differs"


def test_blanks_at_ends_and_how_a_shell_names_itself_are_nothing() -> None:
    assert compare_answers("a  \nb\n", "a\nb").replayed == "same"
    assert (
        compare_answers("/bin/bash: line 3: nope: command not found", "bash: nope: command not found").replayed
        == "same"
    )


def test_a_shell_at_a_path_that_none_has_says_something_else() -> None:
    replayed = "/bin/bash: line 4: ./greet.sh: Permission denied"
    assert compare_answers("/nib/bash: line 4: ./greet.sh: Permission denied", replayed).replayed == "differs"
    assert compare_answers("/usr/local/bin/bash: line 9: ./greet.sh: Permission denied", replayed).replayed == "same"


def test_the_order_of_a_file_system_is_volatile_where_a_command_lists_by_it() -> None:
    assert compare_answers("b\na", "a\nb", unordered=True).replayed == "volatile"
    assert compare_answers("b\na", "a\nc", unordered=True).replayed == "differs"


def test_a_difference_is_cut() -> None:
    comparison = compare_answers("\n".join(map(str, range(9000))), "\n".join(map(str, range(1, 9001))) + "x" * 5000)
    assert len(comparison.difference or "") <= 2000


def test_a_screen_is_compared_by_what_an_action_added() -> None:
    assert screen_addition("$ date\nnow\n$", "$ date\nnow\n$ ls\na.txt\n$") == " ls\na.txt\n$"
    assert screen_addition("one\ntwo\n$", "two\n$ ls\na\n$") == " ls\na\n$"
    assert screen_addition("one\n$", "top - load\nTasks") is None


WHOLE = "\n".join(f"line {number}" for number in range(100))
HEAD, TAIL = WHOLE[: WHOLE.index("\nline 20")], WHOLE[WHOLE.index("line 80") :]


@pytest.mark.parametrize(
    "shown",
    [
        f"{HEAD}\n\n... [60 lines truncated] ...\n\n{TAIL}",
        f"{HEAD}\nli…120 tokens truncated…e 79\n{TAIL}",
        f"{HEAD}\n[... Observation truncated due to length ...]\n{TAIL}",
        f"{HEAD}\n[480 characters elided]\n{TAIL}",
        f"{HEAD}\n<response clipped>",
        f"{HEAD}...",
    ],
)
def test_of_an_answer_that_was_cut_only_the_notice_may_differ(shown: str) -> None:
    comparison = compare_cut_answer(shown, WHOLE)
    assert comparison is not None
    assert comparison.replayed == "volatile"
    for old, new in (("line 3", "line x"), ("line 19", "line 91"), ("line 0", "line 1")):
        assert compare_cut_answer(shown.replace(old, new), WHOLE) is None
    if TAIL in shown:
        assert compare_cut_answer(shown.replace("line 80", "line 08"), WHOLE) is None
        assert compare_cut_answer(f"{shown}\nline 100", WHOLE) is None


def test_an_answer_that_was_cut_without_a_notice_begins_or_ends_the_whole() -> None:
    assert [getattr(compare_cut_answer(part, WHOLE), "replayed", None) for part in (HEAD, TAIL)] == ["same", "same"]
    for part in (f"{HEAD}\nall\nis\nwell", f"{HEAD}\n[60 passed]\n{TAIL}", "line 7\nline 8", "...", ""):
        assert compare_cut_answer(part, WHOLE) is None


@pytest.mark.parametrize(
    ("logged", "whole", "told"),
    [
        ("     1\tone\n     2\ttwo\n", True, "same"),
        ("     2→two", False, "same"),
        ("     1\tone\n     2\tzwei\n", True, "differs"),
        ("     1\tone\n", True, "differs"),
        ("     3\tthree\n", False, "differs"),
        ("     2\ttwo\n", True, "differs"),
        ("     1\tone\nand more\n     2\ttwo\n", True, "differs"),
        ("The file was written.", False, "same"),
    ],
)
def test_numbered_lines_are_those_of_the_file(logged: str, whole: bool, told: str) -> None:
    assert compare_lines(logged, ["one", "two", ""], whole).replayed == told


def test_nothing_stands_behind_the_lines_of_a_file_that_a_tool_only_shows() -> None:
    logged = "     1\tone\n     2\ttwo\n\nReview the changes."
    assert compare_lines(logged, ["one", "two", ""], whole=False).replayed == "same"
    assert compare_lines(logged, ["one", "two", ""], whole=False, alone=True).replayed == "differs"


@pytest.mark.parametrize(
    ("logged", "first", "second"),
    [
        ("the seed is 4711", "the seed is 17", "the seed is 998"),
        ("{'fig', 'pear', 'plum'}", "{'pear', 'plum', 'fig'}", "{'plum', 'fig', 'pear'}"),
        ("b\na\nc", "a\nb\nc", "c\nb\na"),
        ("key q8Xw ok", "key a1Bc ok", "key Zz99 ok"),
    ],
)
def test_what_two_replays_do_not_have_in_common_is_volatile(logged: str, first: str, second: str) -> None:
    assert differs_as_replays(logged, first, second)


@pytest.mark.parametrize(
    ("logged", "first", "second"),
    [
        ("the need is 4711", "the seed is 17", "the seed is 998"),
        ("the seed is none", "the seed is 17", "the seed is 998"),
        ("the seed is 17\nand more", "the seed is 17", "the seed is 998"),
        ("{'fig', 'pear', 'lime'}", "{'pear', 'plum', 'fig'}", "{'plum', 'fig', 'pear'}"),
        ("a\nb\nd", "a\nb\nc", "c\nb\na"),
        ("total 13", "total 12", "total 12"),
        ("", "17", "998"),
    ],
)
def test_what_both_replays_say_is_not_volatile(logged: str, first: str, second: str) -> None:
    assert not differs_as_replays(logged, first, second)
