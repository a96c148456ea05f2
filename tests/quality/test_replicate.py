"""Replicates: which rows share a history, which words of their answers differ, and who is beyond a cap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, steps_of, trajectory
from tests.quality.whole import histories
from trajmill.quality.replicate import LARGEST, ROW, Words, agreement, beyond, groups, keys
from trajmill.schemas import Trajectory

LISTING = "total 8\n-rw-r--r-- 1 root root 12 Jan 1 {time} notes.txt\npid {pid} is listening on port {port}\ndone"


def cut(text: str, *others: str) -> list[str]:
    """The volatile words of a text, neighbouring ones with what stands between them."""
    words = Words.of(text)
    flags = np.any([words.volatile(Words.of(text)) for text in others], axis=0)
    steps = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    ends = zip(np.flatnonzero(steps == 1), np.flatnonzero(steps == -1) - 1, strict=True)
    return [text.encode()[words.places[first, 0] : words.places[last, 1]].decode() for first, last in ends]


def share(*texts: str) -> float:
    return agreement([Words.unpack(Words.of(text).pack()) for text in texts])


def test_planted_times_pids_and_ports_are_the_only_volatile_words():
    left = LISTING.format(time="10:21", pid=4711, port=50123)
    right = LISTING.format(time="10:22", pid=912, port=38001)
    assert cut(left, right) == ["21", "4711", "50123"]
    assert cut(right, left) == ["22", "912", "38001"]
    assert cut(left, left.replace("4711", "5"), left.replace("50123", "6")) == ["4711", "50123"]
    words = 2 + 3 + 6 + 2 + 2 + 7 + 1
    assert share(left, right) == pytest.approx(1 - 3 / words)
    assert share(left, right, left) == pytest.approx(1 - 1.5 / words)


def test_lines_that_only_one_has_are_volatile_whole():
    assert cut("é b\nwarning: slow\nc", "é b\nc") == ["warning: slow"]
    assert cut("a b\nc", "a b\nwarning: slow\nc") == []
    assert cut("same", "same") == []


def test_texts_of_nothing_agree_and_those_that_share_nothing_do_not():
    assert share("", "") == share(" \n", "-") == 1
    assert share("one two", "three four") == share("one", "") == 0


@given(
    st.lists(st.sampled_from(["a", "b", "c", "\n"]), max_size=30),
    st.lists(st.sampled_from(["a", "b", "\n"]), max_size=30),
)
def test_what_is_not_volatile_stands_in_the_other_in_the_same_order(left: list[str], right: list[str]):
    words, against = Words.of(" ".join(left)), Words.of(" ".join(right))
    rest = iter(against.hashes.tolist())
    assert all(any(word == later for later in rest) for word in words.hashes[~words.volatile(against)].tolist())
    assert not words.volatile(words).any()


def test_texts_too_long_to_align_are_still_compared():
    text = "\n".join(f"line {number}" for number in range(LARGEST + 5))
    assert cut(text, text.replace("line 77\n", "line x77\n")) == ["line 77"]


def hashes(*seen: str, first: str | None = None) -> list[tuple[int, int]]:
    batch = batch_of(trajectory("other", "before"), Trajectory("t", "terminal", steps_of(*seen, first=first)))
    table = histories(batch)
    return list(zip(table["history"].to_pylist()[2:], table["answer"].to_pylist()[2:], strict=True))


def test_a_history_is_equal_up_to_the_first_answer_that_differs():
    left, right = hashes("a", "b", "c", "d"), hashes("a", "b", "x", "d")
    assert [a[0] == b[0] for a, b in zip(left, right, strict=True)] == [True, True, True, False]
    assert [a[1] == b[1] for a, b in zip(left, right, strict=True)] == [True, True, False, True]
    assert hashes("a", "b", first="start")[0][0] != left[0][0]
    assert hashes("b", "a", "c")[2][0] != left[2][0]
    assert len({history for history, _ in left}) == 4


def test_another_environment_is_another_key():
    history = np.array([5, 5], np.uint64)
    assert len(set(keys(np.array([1, 2], np.uint64), history).tolist())) == 2


def rows(*values: tuple[int, int, int]) -> np.ndarray:
    array = np.zeros(len(values), ROW)
    for number, (key, content, rank) in enumerate(values):
        array[number] = (key, 0, content, rank, 100 - number, 0, 0, 0, number)
    return array


def test_equal_trajectories_are_one_replicate_and_lonely_rows_none():
    replicates = list(groups(rows((1, 7, 0), (1, 7, 0), (1, 8, 0), (2, 7, 0), (2, 7, 1), (3, 9, 0))))
    assert [(int(group["key"][0]), sorted(group["content"].tolist())) for group in replicates] == [(1, [7, 8])]


def test_beyond_the_cap_go_the_worst_whatever_the_order():
    sample_rows = rows((1, 1, 5), (1, 2, 0), (1, 3, 0), (2, 4, 0), (1, 5, 9))
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        assert beyond(sample_rows[order], 2)["row"].tolist() == [0, 4]
    assert beyond(sample_rows, 1)["row"].tolist() == [1, 0, 4]
    assert not len(beyond(sample_rows, 4))
