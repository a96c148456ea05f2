"""The garbage collector is put back as it was, whatever happens in between."""

import gc
from collections.abc import Iterator

import pytest

from pipelines.engine.garbage_collection import rare_collections


@pytest.fixture(autouse=True)
def _as_python_begins() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_collections_are_rare_in_the_block_and_as_before_after_it() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with rare_collections():
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > frozen
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_a_failing_block_leaves_the_collector_as_it_was() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match=r"^inside$"), rare_collections():
        raise ValueError("inside")
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
