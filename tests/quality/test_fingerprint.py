import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, trajectory
from trajmill.quality.fingerprint import (
    as_bytes,
    as_lanes,
    text_hashes,
    trajectory_hashes,
    trajectory_starts,
    transition_hashes,
)
from trajmill.schemas import Action, Observation, Step, Trajectory


def hashes(batch):
    rows = transition_hashes(batch)
    return rows, trajectory_hashes(rows, trajectory_starts(batch), batch["step"].to_numpy())


def test_hashes_are_the_same_for_ever():
    rows, whole = hashes(batch_of(trajectory("a", "b")))
    assert as_bytes(rows)[0].as_py().hex() == "651b9def474206f395ed54ca49bda326"
    assert as_bytes(whole)[0].as_py().hex() == "088b5c50c21c0abc5b5dbb1f5531a4ec"


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=12))
def test_texts_hash_alike_exactly_where_they_are_equal(texts):
    lanes = text_hashes(pa.array(texts, pa.string()))
    pairs = list(map(tuple, lanes.tolist()))
    same = [[a == b for b in pairs] for a in pairs]
    assert same == [[a == b for b in texts] for a in texts]


def test_a_slice_hashes_like_the_whole():
    batch = batch_of(*(trajectory(f"a{n}", "b", native_id=str(n)) for n in range(4)))
    rows, whole = hashes(batch)
    part_rows, part_whole = hashes(batch.slice(2, 4))
    assert np.array_equal(rows[2:6], part_rows)
    assert np.array_equal(whole[1:3], part_whole)


def test_equal_content_of_other_ids_and_places_hashes_alike():
    left = hashes(batch_of(trajectory("a", "b", native_id="x"), uri="here"))[1]
    right = hashes(batch_of(trajectory("a", "b", native_id="y"), uri="there"))[1]
    assert np.array_equal(left, right)


def test_the_order_of_transitions_matters_to_the_trajectory():
    left = trajectory("a", "a", "b")
    right = trajectory("a", "b", "a")
    assert not np.array_equal(hashes(batch_of(left))[1], hashes(batch_of(right))[1])


def test_acts_that_logs_tell_in_other_words_are_the_same_where_their_text_is():
    text = '{"name": "click", "arguments": {"element": "#5"}}'
    actions = (("click", '{"element": "#5", "x": 9, "y": 1}'), ("tap", '{"selector": "a", "element": "#5"}'))
    steps = [[Step(Action(name, text, words), None, Observation("page"), 0, offset=0)] for name, words in actions]
    left, right = (transition_hashes(batch_of(Trajectory("t", "web", session))) for session in steps)
    assert np.array_equal(left, right)


def test_hashes_survive_the_way_through_bytes():
    lanes = text_hashes(pa.array(["a", "b", "c"]))
    column = as_bytes(lanes)
    assert np.array_equal(as_lanes(column), lanes)
    assert np.array_equal(as_lanes(column.slice(1)), lanes[1:])
