"""What a conversation is made of: how it is packed, and what goes with what."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.conversation.items import Items
from trajmill.connectors.conversation.turns import (
    Call,
    Gap,
    Result,
    Said,
    System,
    Text,
    Thought,
    Turn,
    Unlogged,
    packed,
    seconds_between,
    unpacked,
)
from trajmill.schemas import Attachment, Observation, Spool, spool

TEXTS = st.text(max_size=6)
TIMES = st.none() | st.integers(0, 2**50) | st.datetimes() | st.datetimes(timezones=st.just(UTC))
ATTACHED = st.tuples() | st.tuples(st.builds(Attachment, st.just("0" * 64), st.just("image")))
SEEN = st.builds(Observation, st.none() | TEXTS, attachments=ATTACHED)
CALLS = st.builds(
    Call, TEXTS, st.none() | TEXTS, st.none() | TEXTS, st.integers(0, 9), at=TIMES, shown=st.none() | SEEN,
    seen=st.none() | st.tuples(st.none() | SEEN), notes=st.tuples() | st.tuples(TEXTS),
)  # fmt: skip
TURNS = st.builds(
    Turn,
    st.integers(0, 9),
    at=TIMES,
    calls=st.lists(CALLS, max_size=2),
    texts=st.lists(TEXTS, max_size=2),
    thoughts=st.lists(TEXTS, max_size=2),
    mark=st.none() | st.integers(),
)
SAID = st.builds(Said, st.sampled_from(["user", "harness"]), TEXTS, ATTACHED, at=TIMES)
ITEMS = st.one_of(TURNS, SAID, SEEN, st.just(Gap()))
PARTS = st.one_of(
    CALLS,
    SAID,
    st.builds(Text, TEXTS, st.integers(0, 9), TIMES),
    st.builds(Thought, TEXTS, st.integers(0, 9), TIMES),
    st.builds(Result, st.none() | TEXTS, st.none(), TEXTS, st.integers(0, 9), attachments=ATTACHED, at=TIMES),
    st.builds(System, TEXTS),
    st.builds(Unlogged, st.integers(0, 9)),
)


@given(one=ITEMS | PARTS)
def test_whatever_was_said_comes_back_from_the_file_as_it_went(one):
    file = Spool()
    assert unpacked(file.get(file.put(packed(one)))) == one


@given(found=st.lists(ITEMS, max_size=8))
def test_items_are_the_same_whether_they_stand_in_memory_or_in_the_file(found):
    items = Items()
    for one in found:
        items.append(one)
        items.grow(spool.HELD_BYTES)
    assert list(items) == found


def test_a_turn_with_an_open_call_stays_in_memory_and_may_be_answered_later():
    items, call = Items(), Call("slow", None, "1", 0)
    items.append(Turn(0, calls=[call]))
    items.append(Turn(1, texts=["Meanwhile."]))
    items.append(Turn(2, texts=["Still."]))
    items.grow(2 * spool.HELD_BYTES)
    assert items.held == 2  # the open one and the last
    call.shown = Observation("at last")
    first = next(iter(items))
    assert isinstance(first, Turn)
    assert first.calls[0].shown == Observation("at last")


def test_times_of_two_kinds_are_not_compared():
    zoned, bare = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1)
    assert seconds_between(zoned, bare) is None
    assert seconds_between(5, zoned) is None
    assert seconds_between(bare, bare.replace(second=2)) == 2
    assert seconds_between(1_500_000, 1_000_000) is None
