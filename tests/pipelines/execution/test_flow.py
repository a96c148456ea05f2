"""The dataflow: transforms, exchanges, the runner and errors that pass it."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.testing.util import assert_that, equal_to

from trajmill.pipelines.execution import exchange
from trajmill.pipelines.execution.dispatch import run_over
from trajmill.pipelines.execution.exchange import Exchange, GatheredBlocks, Span, spill_or_pass
from trajmill.pipelines.execution.execution import IN_PROCESS, LOCAL, MOST_PARTITIONS, Execution
from trajmill.pipelines.execution.flow import (
    FlatMap,
    FlatMapTuple,
    Flatten,
    GroupByKey,
    LocalCollection,
    LocalGraph,
    Map,
    MapTuple,
    SideInput,
    Transform,
)
from trajmill.pipelines.execution.runner import BeamTransform, original
from trajmill.pipelines.execution.runner import run_over as run_beam
from trajmill.pipelines.judge.packed_rows import partition_records
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError, ContractError, ShardError
from trajmill.schemas.manifest import Manifest


class Counted(Transform):
    """Words → a file for each letter, that holds how often it stands in words that a side table lets through."""

    def __init__(self, folder):
        self.folder = folder

    def expand(self, elements):
        lengths = elements | "Lengths" >> Map(length_of)
        letters = elements | "Letters" >> FlatMap(letters_of)
        twice = (letters, letters) | "Twice" >> Flatten()
        doubled = twice | "Ask" >> FlatMap(if_long, SideInput(lengths))
        ones = doubled | "Ones" >> FlatMapTuple(one_of)
        return ones | "Group" >> GroupByKey() | "Write" >> MapTuple(self.write)

    def write(self, letter, ones):
        (self.folder / letter).write_text(str(sum(ones)))
        return letter


def length_of(word):
    return word, len(word)


def letters_of(word):
    return [(letter, word) for letter in word]


def if_long(pair, lengths):
    return [pair] * (lengths[pair[1]] > 2)


def one_of(letter, _):
    return [(letter, 1)]


@pytest.mark.parametrize("execution", [Execution(), Execution(2), Execution(beam=("--runner=FnApiRunner",))])
def test_a_transform_makes_the_same_in_this_process_in_workers_and_on_beam(tmp_path, execution):
    run_over(["ab", "abc", "caba"], Counted(tmp_path), execution)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "6", "b": "4", "c": "4"}


class Steps(Transform):
    """Numbers → files by process: one for each step that a number went through."""

    def __init__(self, folder):
        self.folder = folder

    def expand(self, elements):
        shared = elements | "Shared" >> Map(note_step, "shared", self.folder)
        twice = (
            shared | "First" >> Map(note_step, "first", self.folder) | "Second" >> Map(note_step, "second", self.folder)
        )
        return (shared, twice) | "Both" >> Flatten() | "Last" >> Map(note_step, "last", self.folder)


def note_step(number, step, folder):
    (folder / f"{step}-{number}").write_text(f"{time.monotonic_ns()} {os.getpid()}")
    return number


@pytest.mark.parametrize("workers", [1, 2])
def test_steps_of_one_consumer_follow_each_other_element_by_element_and_others_run_once(tmp_path, workers):
    run_over([1, 2, 3], Steps(tmp_path), Execution(workers))
    traces = {path.name: path.read_text().split() for path in tmp_path.iterdir()}
    order = sorted(traces, key=lambda name: int(traces[name][0]))
    processes = {process for _, process in traces.values()}
    assert (str(os.getpid()) in processes) == (workers == 1)
    assert len(traces) == 12
    for number in (1, 2, 3):
        assert traces[f"first-{number}"][1] == traces[f"second-{number}"][1]
    if workers == 1:
        assert order[3:9] == [f"{step}-{number}" for number in (1, 2, 3) for step in ("first", "second")]


def test_what_a_step_raises_here_is_raised_as_it_is():
    with pytest.raises(ZeroDivisionError):
        run_over([1], Map(lambda number: number / 0), Execution())


@pytest.mark.parametrize(("records", "workers", "partitions"), [(0, 1, 1), (3_000, 1, 4), (1, 3, 8), (10**9, 1, 4096)])
def test_partitions_grow_with_the_corpus_and_suit_all_workers(records, workers, partitions):
    assert Execution(workers=workers, records=1000).partitions_of(records) == partitions <= MOST_PARTITIONS


def test_partitions_that_are_given_are_taken():
    assert Execution(partitions=16).partitions_of(10**9) == 16


@pytest.mark.parametrize("partitions", [1, 2, 64, 4096])
def test_records_of_equal_hashes_share_a_partition_and_none_is_lost(partitions):
    keys = np.zeros(1000, [("hash", "<u8"), ("row", "<u4")])
    keys["hash"] = np.random.default_rng(0).integers(0, 1 << 64, 500, np.uint64)[np.arange(1000) % 500]
    keys["row"] = np.arange(1000)
    parts = {number: np.frombuffer(data, keys.dtype) for number, data in partition_records(keys, "hash", partitions)}
    assert set(parts) <= set(range(partitions))
    assert np.array_equal(np.sort(np.concatenate(list(parts.values())), order="row"), keys)
    hashes = [set(part["hash"].tolist()) for part in parts.values()]
    assert sum(map(len, hashes)) == len(set().union(*hashes)) == 500


PARTS = {0: [(7, b"a"), (9, b"b" * 1000)], 1: [(7, b"c"), (7, b"")], 2: []}


def produced(number):
    yield from PARTS[number]


@pytest.mark.parametrize("spilled", [True, False])
def test_every_block_arrives_at_its_key_by_either_road(tmp_path, spilled):
    folder = Folder(str(tmp_path)) if spilled else None
    with beam.Pipeline(options=Execution().options()) as pipeline:
        collected = (
            pipeline
            | beam.Create([(number, number) for number in PARTS])
            | BeamTransform(Exchange(produced, folder))
            | beam.MapTuple(lambda key, blocks: (key, sorted(blocks)))
        )
        assert_that(collected, equal_to([(7, [b"", b"a", b"c"]), (9, [b"b" * 1000])]))
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
    sent = [spill_or_pass(name, number, PARTS[number], folder) for name in ("a", "b") for number in PARTS]
    by_key: dict[int, list[bytes | Span]] = {}
    for key, value in (pair for part in sent for pair in part):
        by_key.setdefault(key, []).append(value)
    assert {key: sorted(GatheredBlocks(folder, values)) for key, values in by_key.items()} == {
        7: [b"", b"", b"a", b"a", b"c", b"c"],
        9: [b"b" * 1000] * 2,
    }
    assert bool(list(tmp_path.rglob("*.blocks"))) == spilled


@pytest.mark.parametrize("room", [0, 2, 1002, 1003])
def test_one_process_holds_blocks_while_there_is_room_and_spills_the_others(tmp_path, monkeypatch, room):
    monkeypatch.setattr(exchange, "HELD_BYTES", room)
    graph = LocalGraph()
    parts = LocalCollection[tuple[int, int]](graph, [(number, number) for number in PARTS])
    collection: Any = parts | Exchange(produced, Folder(str(tmp_path)))
    graph.run()
    assert isinstance(collection, LocalCollection)
    assert collection.elements is not None
    by_key = {key: sorted(map(bytes, blocks)) for key, blocks in collection.elements}
    assert by_key == {7: [b"", b"a", b"c"], 9: [b"b" * 1000]}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == {0: 1002, 2: 1000, 1002: 0, 1003: 0}[room]


def test_beam_runs_only_where_it_is_asked_for():
    assert Execution(workers=2).runner == LOCAL
    assert Execution(beam=("--experiments=a",)).options().view_as(StandardOptions).runner == IN_PROCESS
    assert Execution(beam=("--experiments=a",)).is_local


def test_flags_go_to_beam_and_win():
    execution = Execution(beam=("--runner=FlinkRunner", "--flink_master=localhost:8081"))
    assert execution.options().view_as(StandardOptions).runner == "FlinkRunner"
    assert not execution.is_local


@pytest.mark.parametrize("flag", ["--no_such_flag=1", "--runner=FnApiRuner", "--runner=PrismRunner"])
def test_a_flag_that_nobody_knows_is_refused(flag):
    with pytest.raises(ConfigError):
        Execution(beam=(flag,)).options()


def test_beams_runner_in_this_process_takes_no_workers():
    with pytest.raises(ConfigError):
        Execution(2, (f"--runner={IN_PROCESS}",)).options()


def note_process(number: int, folder: str) -> None:
    Path(folder, f"{os.getpid()}-{number}").touch()


def test_beams_runner_works_in_this_process(tmp_path):
    run_beam([1, 2], beam.Map(note_process, str(tmp_path)), Execution())
    assert {path.name for path in tmp_path.iterdir()} == {f"{os.getpid()}-1", f"{os.getpid()}-2"}


def made(number: int) -> Manifest:
    return Manifest(
        "normalize", f"part-{number}", "", "", counts={"trajectories": number, "rejected.record.bad_json": 1}
    )


def test_an_engine_counts_what_manifests_count(monkeypatch):
    results = []
    run_before = beam.Pipeline.run

    def run(self, *more):
        results.append(run_before(self, *more))
        return results[-1]

    monkeypatch.setattr(beam.Pipeline, "run", run)
    run_beam([2, 3], beam.Map(made), Execution())
    (result,) = results
    counters = {
        (counter.key.metric.namespace, counter.key.metric.name): counter.committed
        for counter in result.metrics().query()["counters"]
    }
    assert counters == {("normalize", "trajectories"): 5, ("normalize", "rejected.record.bad_json"): 2}


def test_nothing_is_run_over_nothing():
    run_beam([], beam.Map(lambda _: 1 / 0), Execution())


def test_a_worker_that_no_engine_starts_says_so():
    command = [sys.executable, "-m", "trajmill.pipelines.beam_worker"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--provision_endpoint" in done.stderr


def fail(error):
    raise error


@pytest.mark.parametrize(
    "error",
    [ConfigError("bad", "good"), ShardError("x cannot be read"), OSError(28, "full", "/x"), MemoryError(), KeyError(5)],
    ids=lambda error: type(error).__name__,
)
def test_an_error_under_the_local_runner_is_raised_as_it_was(error, caplog):
    with pytest.raises(type(error)) as caught:
        run_beam([1], beam.Map(lambda _: fail(error)), Execution())
    assert caught.value.args == error.args
    assert str(caught.value) == str(error)
    assert not caplog.records


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "Traceback …\ntrajmill.schemas.errors.ShardError: x cannot be read [while running 'Map']",
            ShardError,
            "x cannot be read",
        ),
        ("RuntimeError: trajmill.schemas.errors.ContractError: 5 went in", ContractError, "5 went in"),
        ("RuntimeError: OSError: [Errno 28] No space left [while running 'Map']", OSError, "[Errno 28] No space left"),
        ("Pipeline failed in state FAILED", RuntimeError, "Pipeline failed in state FAILED"),
    ],
)
def test_the_words_of_a_foreign_runner_are_searched_for_our_errors(text, kind, said):
    error = original(RuntimeError(text))
    assert type(error) is kind
    assert str(error) == said
