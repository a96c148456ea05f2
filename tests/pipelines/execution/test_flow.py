"""Steps are done here as Beam does them."""

import os
import time

import numpy as np
import pytest

from trajmill.pipelines.execution.dispatch import run_over
from trajmill.pipelines.execution.execution import MOST_PARTITIONS, Execution
from trajmill.pipelines.execution.flow import (
    FlatMap,
    FlatMapTuple,
    Flatten,
    GroupByKey,
    Map,
    MapTuple,
    SideInput,
    Transform,
)
from trajmill.pipelines.judge.packed_rows import partitioned


class Counted(Transform):
    """Words → a file for each letter, that holds how often it stands in words that a side table lets through."""

    def __init__(self, folder):
        self.folder = folder

    def expand(self, elements):
        lengths = elements | "Lengths" >> Map(length_of)
        letters = elements | "Letters" >> FlatMap(letters_of)
        twice = (letters, letters) | "Twice" >> Flatten()
        asked = twice | "Ask" >> FlatMap(if_long, SideInput(lengths))
        ones = asked | "Ones" >> FlatMapTuple(one_of)
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
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"a": "6", "b": "4", "c": "4"}


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
    told = {path.name: path.read_text().split() for path in tmp_path.iterdir()}
    order = sorted(told, key=lambda name: int(told[name][0]))
    processes = {process for _, process in told.values()}
    assert (str(os.getpid()) in processes) == (workers == 1)
    assert len(told) == 12
    for number in (1, 2, 3):
        assert told[f"first-{number}"][1] == told[f"second-{number}"][1]
    if workers == 1:
        assert order[3:9] == [f"{step}-{number}" for number in (1, 2, 3) for step in ("first", "second")]


def test_what_a_step_raises_here_is_raised_as_it_is():
    with pytest.raises(ZeroDivisionError):
        run_over([1], Map(lambda one: one / 0), Execution())


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
    found = {number: np.frombuffer(data, keys.dtype) for number, data in partitioned(keys, "hash", partitions)}
    assert set(found) <= set(range(partitions))
    assert np.array_equal(np.sort(np.concatenate(list(found.values())), order="row"), keys)
    hashes = [set(some["hash"].tolist()) for some in found.values()]
    assert sum(map(len, hashes)) == len(set().union(*hashes)) == 500
