from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from trajmill.pipelines.execution import exchange
from trajmill.pipelines.execution.exchange import Exchange, Span, carried, fetched
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.execution.flow import LocalCollection, LocalGraph
from trajmill.pipelines.execution.runner import BeamTransform
from trajmill.pipelines.storage.folders import Folder

PARTS = {0: [(7, b"a"), (9, b"b" * 1000)], 1: [(7, b"c"), (7, b"")], 2: []}


def produced(number):
    yield from PARTS[number]


@pytest.mark.parametrize("spilled", [True, False])
def test_every_block_arrives_at_its_key_by_either_road(tmp_path, spilled):
    folder = Folder(str(tmp_path)) if spilled else None
    with beam.Pipeline(options=Execution().options()) as pipeline:
        found = (
            pipeline
            | beam.Create([(number, number) for number in PARTS])
            | BeamTransform(Exchange(produced, folder))
            | beam.MapTuple(lambda key, blocks: (key, sorted(blocks)))
        )
        assert_that(found, equal_to([(7, [b"", b"a", b"c"]), (9, [b"b" * 1000])]))
    assert bool(list(tmp_path.iterdir())) == spilled


def test_spilled_blocks_can_be_read_twice(tmp_path):
    from trajmill.pipelines.execution.exchange import GatheredBlocks, spill

    folder = Folder(str(tmp_path))
    spans = [span for _, span in spill(0, PARTS[0], folder)]
    blocks = GatheredBlocks(folder, spans)
    assert list(blocks) == list(blocks) == [b"a", b"b" * 1000]


@pytest.mark.parametrize("spilled", [True, False])
def test_what_is_carried_is_fetched_as_it_was(tmp_path, spilled):
    folder = Folder(str(tmp_path)) if spilled else None
    sent = [carried(name, number, PARTS[number], folder) for name in ("a", "b") for number in PARTS]
    by_key: dict[int, list[bytes | Span]] = {}
    for key, value in (one for part in sent for one in part):
        by_key.setdefault(key, []).append(value)
    assert {key: sorted(fetched(values, folder)) for key, values in by_key.items()} == {
        7: [b"", b"", b"a", b"a", b"c", b"c"],
        9: [b"b" * 1000] * 2,
    }
    assert bool(list(tmp_path.rglob("*.blocks"))) == spilled


@pytest.mark.parametrize("room", [0, 2, 1002, 1003])
def test_one_process_holds_blocks_while_there_is_room_and_spills_the_others(tmp_path, monkeypatch, room):
    monkeypatch.setattr(exchange, "HELD_BYTES", room)
    graph = LocalGraph()
    parts = LocalCollection[tuple[int, int]](graph, [(number, number) for number in PARTS])
    made: Any = parts | Exchange(produced, Folder(str(tmp_path)))
    graph.run()
    assert isinstance(made, LocalCollection)
    assert made.elements is not None
    found = {key: sorted(map(bytes, blocks)) for key, blocks in made.elements}
    assert found == {7: [b"", b"a", b"c"], 9: [b"b" * 1000]}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == {0: 1002, 2: 1000, 1002: 0, 1003: 0}[room]
