"""What does not stand in memory comes back as it was."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, steps_of, trajectory
from trajmill.schemas import Action, Attachment, Observation, Step, Trajectory
from trajmill.schemas import spool as spool_module
from trajmill.schemas.assembler import blocks
from trajmill.schemas.spool import Pile, Shelf, Spool, Steps
from trajmill.schemas.trajectory import long_trajectory_id, trajectory_id

TEXTS = st.one_of(st.none(), st.text(max_size=30), st.sampled_from(["\ud800", "\udc00x", "\x00"]))
SEEN = st.one_of(
    st.none(),
    st.builds(
        Observation,
        TEXTS,
        is_error=st.one_of(st.none(), st.booleans()),
        attachments=st.sampled_from([(), (Attachment("0" * 64, "image", None, "a.png"),)]),
    ),
)
STEPS = st.builds(
    Step,
    st.builds(Action, st.text(max_size=9), st.text(max_size=30), TEXTS, reasoning=TEXTS),
    SEEN,
    SEEN,
    st.integers(0, 9),
    st.integers(0, 1 << 40),
    reward=st.one_of(st.none(), st.floats(allow_nan=False)),
    duration_s=st.one_of(st.none(), st.floats(0, 1e9)),
)


@given(st.lists(STEPS, max_size=12), st.sampled_from([1, 3000, 1 << 20]))
def test_steps_come_back_in_order_and_whole(steps, held_bytes):
    spooled = Steps(steps, held_bytes)
    assert len(spooled) == len(steps)
    assert list(spooled) == steps
    assert list(spooled) == steps
    assert [spooled[index] for index in range(len(steps))] == steps
    assert spooled[-3:] == steps[-3:]
    assert spooled == steps
    assert spooled == Steps(steps)
    assert spooled != [*steps, steps_of("more")[0]]


@given(st.lists(st.tuples(st.integers(0, 19), st.integers()), max_size=40))
def test_what_is_put_back_anywhere_is_found_there(changes):
    plain = list(range(20))
    shelf = Shelf[int](list, list, lambda _: 1, 4)
    for number in plain:
        shelf.append(number)
    for index, value in changes:
        plain[index] = shelf[index] = value
    assert list(shelf) == plain


@given(st.lists(st.one_of(st.none(), st.integers()), max_size=60))
def test_what_is_taken_away_at_the_end_is_what_was_added_last(moves):
    plain: list[int] = []
    shelf = Shelf[int](list, list, lambda _: 1, 3)
    for move in moves:
        if move is not None:
            plain.append(move)
            shelf.append(move)
        elif plain:
            assert shelf.pop() == plain.pop()
        else:
            with pytest.raises(IndexError):
                shelf.pop()
    assert list(shelf) == plain


def test_no_more_is_held_than_was_said():
    spooled = Steps(held_bytes=20_000)
    most = 0
    for step in steps_of(*(f"{number:04}" * 250 for number in range(200))):
        spooled.append(step)
        most = max(most, spooled.held)
    assert most <= 10
    assert len(spooled) == 200


def test_items_that_grow_are_let_go_of():
    shelf = Shelf[str](list, list, len, 100)
    for _ in range(50):
        shelf.append("")
    for index in range(50):
        shelf[index] = "x" * 60
    assert shelf.held <= 2
    assert list(shelf) == ["x" * 60] * 50


def test_a_pile_gives_back_every_item_in_any_order(monkeypatch):
    monkeypatch.setattr(spool_module, "HELD_BYTES", 100)
    pile = Pile[str](str, str)
    for number in range(50):
        pile.append(f"item {number}", 30)
    assert pile.held <= 3
    assert [pile[index] for index in reversed(range(50))] == [f"item {number}" for number in reversed(range(50))]
    assert list(pile) == pile[:]
    with pytest.raises(IndexError):
        pile[50]


def test_an_observation_that_steps_share_is_one_object_again():
    steps = Steps(steps_of(*(str(number) * 2000 for number in range(9))), 25_000)
    assert steps.held < 9
    assert all(a.next_observation is b.observation for a, b in pairwise(steps[: 9 - steps.held]))


def test_a_spool_keeps_lone_surrogates():
    spool = Spool()
    places = [spool.put(value) for value in ("\ud800", (None, 1.5, "x"), ["\udfff"])]
    assert [spool.get(index) for index in reversed(places)] == [["\udfff"], (None, 1.5, "x"), "\ud800"]


@given(st.lists(st.one_of(st.none(), st.text(max_size=20)), min_size=1, max_size=8))
def test_the_id_of_a_long_trajectory_is_that_of_a_short_one(texts):
    log = trajectory(*texts)
    assert long_trajectory_id("c", log) == trajectory_id("c", log)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=30), st.integers(1, 2000), st.integers(1, 900))
def test_blocks_lie_within_segments_and_begin_turns(sizes, segment_bytes, block_bytes):
    steps = steps_of(*("x" * size for size in sizes))
    steps = [replace(step, turn=step.turn // 2) for step in steps]
    starts = blocks(steps, segment_bytes, block_bytes)
    assert starts[0] == (0, 0)
    for (begin, segment), (after, later) in pairwise(starts):
        assert begin < after
        assert later - segment in (0, 1)
        assert steps[after].turn != steps[after - 1].turn


@given(
    st.lists(st.one_of(st.none(), st.text(max_size=40)), min_size=1, max_size=12), st.sampled_from([1, 600, 1 << 20])
)
def test_rows_do_not_hang_on_blocks_nor_on_where_steps_are_kept(texts, block_bytes):
    log = trajectory(*texts)
    spooled = Trajectory("t", "terminal", Steps(log.steps, 1))
    whole = batch_of(log, segment_bytes=2000).to_pylist()
    assert batch_of(log, segment_bytes=2000, block_bytes=block_bytes).to_pylist() == whole
    assert batch_of(spooled, segment_bytes=2000, block_bytes=block_bytes).to_pylist() == whole
