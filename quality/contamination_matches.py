"""Matches of a batch of trajectories with the benchmarks of an index: runs of words, answers, names and canaries.

This module only measures. `choose_items` decides on contamination once the number of tasks that show each run is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.contamination import Hits, Index, canary_hits, checkout_name, few_words, name_hash, pattern_hits
from trajmill.quality.fingerprint import struct_text, text_hashes, trajectory_starts
from trajmill.quality.lines import Flags, Numbers
from trajmill.quality.segments import goes_on
from trajmill.quality.sets import expand_lists
from trajmill.quality.shingle import Offsets

SHOWN, ALONE, ANSWERED, NAMED, CANARY = range(5)
"""Kinds of a match: a run, a run that stands alone, an item whose answer follows its question, an item with the id or
checkout of the trajectory, an item whose canary occurs in the trajectory.
"""

MATCH_SCHEMA: Final = pa.schema(
    [
        pa.field("row", pa.uint32(), nullable=False, metadata={"doc": "the trajectory's first, in the unit"}),
        pa.field("kind", pa.uint8(), nullable=False, metadata={"doc": "0 run, 1 alone, 2 answered, 3 name, 4 canary"}),
        pa.field("value", pa.uint64(), nullable=False, metadata={"doc": "hash of the run, or number of the item"}),
    ]
)
"""Distinct matches; rows ascending."""

ROW_TEXTS: Final = (
    ("next_observation", "content"),
    ("next_observation", "envelope"),
    ("action", "text"),
    ("action", "message"),
    ("interleaved", ""),
)
WHOLE_TEXTS: Final = (
    ("task", "instruction"),
    ("context", "initial_state"),
    ("context", "demonstrations"),
    ("context", "simulation_instruction"),
)
"""Searched texts of a row, and of a whole trajectory: those that samples can show."""

HIDDEN_TEXTS: Final = (
    ("action", "arguments"),
    ("action", "reasoning"),
    ("context", "agent_system"),
    ("context", "action_space"),
)
"""Texts that are searched for canaries only."""

Matches = npt.NDArray[np.void]
_MATCH: Final = np.dtype([("row", "<u4"), ("kind", "u1"), ("value", "<u8")])


def _column(batch: pa.RecordBatch, path: tuple[str, str]) -> pa.Array:
    return struct_text(batch, *path) if path[1] else batch[path[0]]


def _distinct(column: pa.Array, rows: Offsets) -> tuple[pa.StringArray, Offsets, Offsets]:
    """Return the distinct texts of a column at the rows, and the row and text of each use; nulls are left out."""
    chosen = column.take(pa.array(rows))
    if not pa.types.is_dictionary(chosen.type):
        chosen = chosen.dictionary_encode()
    indices = chosen.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    used, text = np.unique(indices[indices >= 0], return_inverse=True)
    return chosen.dictionary.take(pa.array(used)), rows[indices >= 0], text


def _rows_with_new_observation(batch: pa.RecordBatch) -> Offsets:
    """Return the rows whose observation differs from both observations of the row before."""
    here = struct_text(batch, "observation", "content").cast(pa.string())
    before = struct_text(batch, "next_observation", "content").cast(pa.string())
    again = np.zeros(batch.num_rows, np.bool_)
    for earlier in (before, here):
        same = pc.fill_null(pc.equal(here[1:], earlier[:-1]), False)
        again[1:] |= same.to_numpy(zero_copy_only=False)
    again[trajectory_starts(batch)] = False
    return np.flatnonzero(~again & here.is_valid().to_numpy(zero_copy_only=False))


def _searched_columns(batch: pa.RecordBatch, starts: Offsets) -> Iterator[tuple[pa.Array, Offsets, bool]]:
    """Yield (column, rows to search, flag of a text of the whole trajectory) for all texts that samples can show."""
    every = np.arange(batch.num_rows)
    for path in ROW_TEXTS:
        yield _column(batch, path), every, False
    yield struct_text(batch, "observation", "content"), _rows_with_new_observation(batch), False
    for path in WHOLE_TEXTS:
        yield _column(batch, path), starts, True


def _rows_using(text: Offsets, rows: Offsets, chosen: Offsets) -> tuple[Offsets, Offsets]:
    """Return (position in `chosen`, row) of every row that uses one of the texts `chosen`."""
    order = np.argsort(text, kind="stable")
    offsets = np.searchsorted(text[order], np.arange(int(text.max(initial=-1)) + 2))
    return expand_lists(rows[order], offsets, chosen)


class Exposing:
    """Matches of the trajectories of a file with an index: batches of `MATCH_SCHEMA`, rows within the file.

    A trajectory may continue in the next batch. An answer is searched in the batch of its question.

    Args:
        index: Index of the benchmarks.
    """

    def __init__(self, index: Index) -> None:
        self._index, self._rows, self._first = index, 0, 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the matches of `batch`, of `encode_schema()`, which follows the batches added before."""
        if not batch.num_rows:
            return
        matches = find_matches(batch, self._index)
        row = matches["row"].to_numpy()
        placed = np.where((row == 0) & goes_on(batch), self._first, row + self._rows).astype(np.uint32)
        last = int(trajectory_starts(batch)[-1])
        self._first = self._first if last == 0 and goes_on(batch) else last + self._rows
        self._rows += batch.num_rows
        yield matches.set_column(0, MATCH_SCHEMA.field(0), pa.array(placed))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return no batches: no match waits for later rows."""
        return iter(())


def find_matches(batch: pa.RecordBatch, index: Index) -> pa.RecordBatch:
    """Return the matches of a batch with the index, of `MATCH_SCHEMA`, rows within the batch.

    Args:
        batch: Batch of `schemas.transition.encode_schema()`; its first trajectory may have begun before.
        index: Index of the benchmarks.
    """
    starts = trajectory_starts(batch)
    row, run, alone, whole = _runs_shown(batch, index, starts)
    hashes = index.runs.hashes
    matches = [
        _matches(starts, row, SHOWN, hashes[run]),
        _matches(starts, row[alone], ALONE, hashes[run[alone]]),
        *_answer_matches(batch, index, starts, row, run, whole),
        *_name_matches(batch, index, starts),
        *_canaries(batch, index, starts),
    ]
    every = np.unique(np.concatenate(matches))
    return pa.RecordBatch.from_arrays([pa.array(every[name]) for name in ("row", "kind", "value")], schema=MATCH_SCHEMA)


def _matches(starts: Offsets, row: Offsets, kind: int, value: npt.NDArray[Any]) -> Matches:
    matches = np.zeros(len(row), _MATCH)
    matches["row"], matches["kind"], matches["value"] = starts[np.searchsorted(starts, row, "right") - 1], kind, value
    return np.unique(matches)


def _runs_shown(batch: pa.RecordBatch, index: Index, starts: Offsets) -> tuple[Offsets, Offsets, Flags, Flags]:
    """Return (row, run, flag of standing alone, flag of a text of the whole trajectory) of all runs found."""
    none, no = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    columns = [(none, none, no, no)]
    for column, rows, whole in _searched_columns(batch, starts) if len(index.runs.hashes) else ():
        texts, used, text = _distinct(column, rows)
        hits = Hits.of(texts, index.runs)
        position, row = _rows_using(text, used, hits.text)
        columns.append((row, hits.run[position], hits.alone[position], np.full(len(row), whole)))
    row, run, alone, of_whole = (np.concatenate(some) for some in zip(*columns, strict=True))
    return row, run, alone, of_whole


def _answer_matches(
    batch: pa.RecordBatch, index: Index, starts: Offsets, row: Offsets, run: Offsets, whole: Flags
) -> list[Matches]:
    """Match items whose answer occurs in the row of the question or the next one; anywhere, if the whole trajectory's
    texts hold the question.
    """
    if not len(index.answer_item):
        return []
    has_answer = np.zeros(len(index.items), np.bool_)
    has_answer[index.answer_item] = True
    offsets, texts = index.texts_of
    use, text = expand_lists(texts, offsets, run)
    item = index.owner[text]
    wanted = has_answer[item]
    at, item, anywhere = row[use][wanted], item[wanted], whole[use][wanted]
    ends = np.append(starts[1:], batch.num_rows)[np.searchsorted(starts, at, "right") - 1]
    until = np.where(anywhere, ends, np.minimum(at + 2, ends))
    wide = np.unique(np.stack([at, until, item], axis=1), axis=0)
    range_number = np.repeat(np.arange(len(wide)), wide[:, 1] - wide[:, 0])
    rows = _join_ranges(wide[:, 0], wide[:, 1])
    asked = np.unique(_pair_number(rows, wide[:, 2][range_number], len(index.items)))
    shown = _answers_shown(batch, index, np.unique(rows))
    both = np.intersect1d(asked, shown, assume_unique=True)
    found_row, found_item = np.divmod(both, len(index.items))
    return [_matches(starts, found_row, ANSWERED, found_item)]


def _pair_number(row: Offsets, item: Offsets, count: int) -> Offsets:
    return row * count + item


def _answers_shown(batch: pa.RecordBatch, index: Index, rows: Offsets) -> Offsets:
    """Return (row, item) as one number each, ascending, for each answer of whose runs the row shows at least half."""
    pairs = [np.zeros((0, 2), np.int64)]
    for path in ROW_TEXTS:
        texts, used, text = _distinct(_column(batch, path), rows)
        hits = Hits.of(texts, index.answers)
        position, row = _rows_using(text, used, hits.text)
        pairs.append(np.stack([row, hits.run[position]], axis=1))
    row_runs = np.unique(np.concatenate(pairs), axis=0)
    offsets, items = index.items_of
    use, item = expand_lists(items, offsets, row_runs[:, 1])
    shown, number = np.unique(_pair_number(row_runs[use, 0], item, len(index.items)), return_counts=True)
    size = np.bincount(index.answer_item, minlength=len(index.items))
    return shown[2 * number >= size[shown % len(index.items)]]


def _name_matches(batch: pa.RecordBatch, index: Index, starts: Offsets) -> Iterator[Matches]:
    """Match items whose id, id pattern or checkout is that of the trajectory, and short tasks with the same
    instruction.
    """
    instance = struct_text(batch, "environment", "instance_id")
    for column in (batch["native_id"], struct_text(batch, "task", "id"), instance) if index.patterns else ():
        texts, used, text = _distinct(column, starts)
        at, item = pattern_hits(texts.cast(pa.string()), index)
        position, row = _rows_using(text, used, at)
        yield _matches(starts, row, NAMED, item[position])
    if not len(index.names):
        return
    for column in (batch["native_id"], struct_text(batch, "task", "id"), instance):
        yield _known(index, starts, starts, name_hash(text_hashes(column.take(pa.array(starts)))[:, 0], "id"))
    texts, used, text = _distinct(instance, starts)
    checkouts = [checkout_name(*checkout.rpartition("@")[::2]) for checkout in texts.to_pylist()]
    hashes = name_hash(text_hashes(pa.array(checkouts, pa.string()))[:, 0], "checkout")
    yield _known(index, starts, used, hashes[text])
    texts, used, text = _distinct(struct_text(batch, "task", "instruction"), starts)
    words = few_words(texts.cast(pa.string()))
    has_words = words[text] != 0
    yield _known(index, starts, used[has_words], name_hash(words[text][has_words], "task"))


def _known(index: Index, starts: Offsets, rows: Offsets, hashes: Numbers) -> Matches:
    low, high = (np.searchsorted(index.names, hashes, side) for side in ("left", "right"))
    owner = np.repeat(np.arange(len(hashes)), high - low)
    return _matches(starts, rows[owner], NAMED, index.name_item[_join_ranges(low, high)])


def _join_ranges(low: Offsets, high: Offsets) -> Offsets:
    """Return the numbers from each `low` up to its `high` (excluded), one range after the other."""
    sizes = high - low
    return np.arange(int(sizes.sum())) + np.repeat(low - (np.cumsum(sizes) - sizes), sizes)


def _canaries(batch: pa.RecordBatch, index: Index, starts: Offsets) -> Iterator[Matches]:
    if index.pattern is None or not _may_match(batch, index.pattern):
        return
    every = np.arange(batch.num_rows)
    hidden = [(_column(batch, path), every if path[0] == "action" else starts, False) for path in HIDDEN_TEXTS]
    for column, rows, _ in [*_searched_columns(batch, starts), *hidden]:
        texts, used, text = _distinct(column, rows)
        at, item = canary_hits(texts, index)
        position, row = _rows_using(text, used, at)
        yield _matches(starts, row, CANARY, item[position])


def _may_match(batch: pa.RecordBatch, pattern: str) -> bool:
    """Check whether a searched text matches, used by a row or not. Equal dictionaries are scanned once."""
    scanned: list[pa.Array] = []
    for path in (*ROW_TEXTS, ("observation", "content"), *WHOLE_TEXTS, *HIDDEN_TEXTS):
        column = _column(batch, path)
        texts = column.dictionary if pa.types.is_dictionary(column.type) else column
        if not any(texts.equals(known) for known in scanned):
            if pc.any(pc.match_substring_regex(texts, pattern)).as_py():
                return True
            scanned.append(texts)
    return False


def tasks_showing(matches: pa.Table, task: Numbers) -> tuple[Numbers, Numbers]:
    """Return distinct pairs (run, task) of the runs that a unit's trajectories show.

    Args:
        matches: Matches of `MATCH_SCHEMA`.
        task: Node of each row's task.
    """
    kind, row, value = (matches[name].to_numpy() for name in ("kind", "row", "value"))
    shown = kind == SHOWN
    pairs = np.unique(np.stack([value[shown], task[row[shown]]], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def choose_items(
    matches: pa.Table, index: Index, weights: npt.NDArray[np.float64], least: float
) -> tuple[Offsets, Offsets, npt.NDArray[np.float64]]:
    """Return (row, item, score) of each contaminated trajectory with its best-matching item; rows ascending.

    A trajectory is contaminated by a name or a canary (scores 2 and 3), by a text with a score of at least `least`, or
    by half of that if the answer follows. A text of fewer words than a run counts only if it stands alone or is
    answered.

    Args:
        matches: Matches of a unit, of `MATCH_SCHEMA`.
        index: Index of the benchmarks.
        weights: Weights of the index's runs.
        least: Smallest score of contamination, 0 to 1.
    """
    every = np.zeros(matches.num_rows, _MATCH)
    for name in ("row", "kind", "value"):
        every[name] = matches[name].to_numpy()
    every = np.unique(every)  # what two batches show of one trajectory counts once
    row, kind, value = every["row"].astype(np.int64), every["kind"], every["value"]
    certain = kind >= NAMED
    columns_of_items = [(row[certain], value[certain].astype(np.int64), np.where(kind[certain] == CANARY, 3.0, 2.0))]
    count = len(index.items)
    answered = _pair_number(row[kind == ANSWERED], value[kind == ANSWERED].astype(np.int64), count)
    for wanted in (SHOWN, ALONE):
        some = kind == wanted
        run = np.searchsorted(index.runs.hashes, value[some])
        at, text, score = index.scores(weights, row[some], run)
        whole, item = index.whole[text], index.owner[text]
        helped = np.isin(_pair_number(at, item, count), answered)
        if wanted == ALONE:
            enough = whole & (score >= least)
        else:
            enough = np.where(whole, helped & (score >= least), score >= np.where(helped, least / 2, least))
        columns_of_items.append((at[enough], item[enough], score[enough]))
    at, item, score = (np.concatenate(some) for some in zip(*columns_of_items, strict=True))
    order = np.lexsort([item, -score, at])
    _, first = np.unique(at[order], return_index=True)
    best = order[first]
    return at[best], item[best], score[best]
