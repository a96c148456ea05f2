"""A trajectory that stands in several batches is measured as one that stands in one."""

import gc
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FUZZ
from tests.make import Outcome, Task, batch_of, call, trajectory
from tests.quality.test_contamination import index_of
from tests.quality.whole import histories, measured
from trajmill.quality import lookback
from trajmill.quality.contamination_matches import Exposing, find_matches
from trajmill.quality.fingerprint import struct_text
from trajmill.quality.lookback import Reaching
from trajmill.quality.measure import Measuring
from trajmill.quality.registry import signals
from trajmill.quality.replicate import Following
from trajmill.quality.signal import Measured
from trajmill.quality.sketch import SIZE, Sketching, make_sketches
from trajmill.quality.spans import Labelling
from trajmill.quality.tokens import TokenCounter
from trajmill.quality.variety import Varying
from trajmill.schemas import WAIT, Action, Context, Observation, Step, Trajectory

TOOLS = Context(action_space='["another"]')
NAMES = tuple(sorted(signals()))


def words(seed: int, count: int) -> str:
    return " ".join(f"w{number}" for number in np.random.default_rng(seed).integers(0, 1 << 30, count))


def pieces(batch: pa.RecordBatch, cuts: set[int]) -> list[pa.RecordBatch]:
    places = [0, *sorted(cut for cut in cuts if 0 < cut < batch.num_rows), batch.num_rows]
    return [batch.slice(a, b - a) for a, b in pairwise(places)]


def joined(kind: Measuring | Sketching | Following | Exposing, batches: list[pa.RecordBatch]) -> pa.Table:
    done = [part for batch in batches for part in kind.add(batch)]
    return pa.Table.from_batches([*done, *kind.rest()])


@settings(max_examples=8 * FUZZ)
@given(
    st.lists(st.lists(st.one_of(st.none(), st.text(max_size=9)), min_size=1, max_size=6), min_size=1),
    st.sets(st.integers(1, 30)),
)
def test_cuts_between_turns_change_nothing_that_is_measured(contents, cuts):
    trajectories = [
        trajectory(*texts, native_id=str(n), outcome=Outcome(True) if n % 2 else None, context=TOOLS)
        for n, texts in enumerate(contents)
    ]
    batch = batch_of(*trajectories)
    whole = pa.Table.from_batches([measured(batch, NAMES)])
    table = joined(Measuring(NAMES, TokenCounter()), pieces(batch, cuts))
    plain = [name for name in whole.column_names if not name.startswith("signal.")]
    assert table.select(plain).to_pydict() == whole.select(plain).to_pydict()
    for name in NAMES:
        column = f"signal.{name}"
        assert table[column].to_pylist() == pytest.approx(whole[column].to_pylist(), rel=1e-6)
    assert (
        joined(Sketching(), pieces(batch, cuts)).to_pydict()
        == pa.Table.from_batches([make_sketches(batch)]).to_pydict()
    )


@pytest.mark.parametrize("kind", [Measuring(NAMES, TokenCounter()), Labelling(), Varying()])
def test_the_texts_of_a_batch_go_as_soon_as_it_is_measured(kind):
    batch = batch_of(trajectory("a", "b\nb", None, "c"), trajectory("d", native_id="2", domain="web"))
    gc.collect()
    gc.disable()  # it runs so rarely that a long log would stand in memory whole
    try:
        assert sum(part.num_rows for part in (*kind.add(batch), *kind.rest())) == batch.num_rows
        assert not [item for item in gc.get_objects() if isinstance(item, Measured)]
    finally:
        gc.enable()


SHOWN = [
    None,
    "",
    "$ ",
    "Loading...",
    "Traceback (most recent call last):\nValueError: bad",
    "a line\nthat stays",
    "y" * 99,
]
DONE = [call("make"), call("ls", path="a line"), Action(WAIT, "wait 2"), Action("", "")]
long_trajectories = st.lists(
    st.tuples(st.sampled_from(DONE), st.sampled_from(SHOWN), st.sampled_from(["screen", "stream"]), st.booleans()),
    min_size=1,
    max_size=40,
)


def shown_in(rows) -> Trajectory:
    """A trajectory of (action, what it shows, its form, whether the next row begins with it)."""
    steps, before = [], None
    for turn, (action, text, form, stays) in enumerate(rows):
        after = Observation(text, form=form) if text is not None else None
        steps.append(Step(action, before, after, turn, 0))
        before = after if stays else Observation("$ ", form=form)
    return Trajectory("long", "terminal", steps, context=TOOLS)


@settings(max_examples=10 * FUZZ, deadline=None)
@given(long_trajectories, st.sets(st.integers(1, 45)), st.sampled_from([lookback.BYTES, 400, 1]))
def test_what_looks_at_other_rows_sees_the_same_wherever_a_trajectory_is_cut(rows, cuts, most):
    batch = batch_of(trajectory("a", native_id="before"), shown_in(rows), trajectory("Loading...", native_id="after"))
    with patch.object(lookback, "BYTES", most):
        whole = pa.Table.from_batches([measured(batch, NAMES)])
        table = joined(Measuring(NAMES, TokenCounter()), pieces(batch, cuts))
    for name in NAMES:
        column = f"signal.{name}"
        assert table[column].to_pylist() == pytest.approx(whole[column].to_pylist(), rel=1e-6), name


def test_history_is_known_over_any_number_of_cuts():
    shown = "a line of words that nobody could have known before it was shown"
    batch = batch_of(trajectory(shown, *["another"] * 12, shown))
    name = "history_predictability"
    cut = joined(Measuring([name], TokenCounter()), pieces(batch, set(range(14))))[f"signal.{name}"].to_pylist()
    assert cut[-1] < 0.5 < cut[0]


def beside(view: Measured) -> list[list[int]]:
    return [part["step"].to_pylist() for part in (view.before, view.after) if part is not None]


def test_of_a_long_trajectory_no_more_is_kept_than_signals_may_look_at():
    batch = batch_of(trajectory(*(words(number, 1000) for number in range(60))))
    reaching = Reaching(TokenCounter())
    views = [view for piece in pieces(batch, set(range(60))) for view in reaching.add(piece)]
    assert len(views) == 60
    assert list(reaching.rest()) == []
    middle = views[30]
    assert beside(middle) == [[*range(18, 30)], [*range(31, 43)]]
    texts = struct_text(middle.before, "next_observation", "content").dictionary
    assert len(texts) == 12


def test_no_more_text_is_kept_than_signals_may_look_at_but_for_the_nearest_row():
    batch = batch_of(trajectory(*(words(number, 1000) for number in range(9))))
    with patch.object(lookback, "BYTES", 1), patch.object(lookback, "HISTORY", 1):
        reaching = Reaching(TokenCounter())
        views = [view for piece in pieces(batch, set(range(9))) for view in reaching.add(piece)]
    assert beside(views[4]) == [[3], [5]]


@pytest.mark.parametrize("cuts", [{3}, {1, 2, 3, 4, 5}, {5}])
def test_a_sketch_that_holds_only_a_sample_is_the_same_sample_from_stretches(cuts):
    texts = [words(number, SIZE // 2) for number in range(6)]
    batch = batch_of(trajectory("a"), trajectory(*texts, native_id="long"), trajectory("b", native_id="c"))
    table = joined(Sketching(), pieces(batch, {cut + 1 for cut in cuts}))
    whole = make_sketches(batch)
    assert len({*whole["limit"].to_pylist()}) == 2
    assert table["limit"].to_pylist() == whole["limit"].to_pylist()
    for left, right in zip(table["shingles"].to_pylist(), whole["shingles"].to_pylist(), strict=True):
        assert sorted(left) == sorted(right)


@settings(max_examples=10 * FUZZ)
@given(
    st.lists(st.lists(st.one_of(st.none(), st.sampled_from(["a b c d", "e", "f g h i j"])), min_size=1), min_size=1),
    st.sets(st.integers(1, 30)),
)
def test_cuts_change_neither_histories_nor_what_is_shown_of_benchmarks(contents, cuts):
    batch = batch_of(*(trajectory(*texts, native_id=str(n), task=Task("e")) for n, texts in enumerate(contents)))
    whole = histories(batch)
    assert joined(Following(), pieces(batch, cuts)).to_pydict() == pa.Table.from_batches([whole]).to_pydict()
    index = index_of({"b:1": [["a b c d"]], "b:2": [["f g h i j"]]}, names=(("b:1", "id", "e"),))
    rows = joined(Exposing(index), pieces(batch, cuts)).to_pylist()
    assert {tuple(row.values()) for row in rows} == {
        tuple(match.values()) for match in find_matches(batch, index).to_pylist()
    }
