from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, trajectory
from trajmill.schemas.trajectory import trajectory_id


def test_the_id_depends_on_content_and_not_on_where_the_log_lies():
    ids = {batch_of(trajectory("a", "b"), uri=uri)["trajectory_id"][0].as_py() for uri in ("here", "there")}
    assert len(ids) == 1
    assert batch_of(trajectory("a", "c"))["trajectory_id"][0].as_py() not in ids


def test_the_id_depends_on_connector_and_native_id():
    one = trajectory("a")
    assert trajectory_id("x", one) != trajectory_id("y", one)
    assert trajectory_id("x", one) != trajectory_id("x", replace(one, native_id="u"))


@given(st.lists(st.text(max_size=4), min_size=2, max_size=4), st.data())
def test_moving_text_between_observations_changes_the_id(texts, data):
    cut = data.draw(st.integers(1, len(texts) - 1))
    joined = [*texts[: cut - 1], texts[cut - 1] + texts[cut], *texts[cut + 1 :]]
    assert trajectory_id("c", trajectory(*texts)) != trajectory_id("c", trajectory(*joined))
