"""All measures of a batch of transitions in one pass: hashes, group nodes, sizes and the recipe's signals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality import fingerprint
from trajmill.quality.fingerprint import Lanes, struct_text, text_hashes
from trajmill.quality.lookback import Reaching
from trajmill.quality.registry import signal
from trajmill.quality.screens import as_compared
from trajmill.quality.segments import Joining, goes_on, index_of
from trajmill.quality.settings import PREFERENCES
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.signals.length import transition_tokens
from trajmill.quality.tokens import TokenCounter, text_bytes
from trajmill.schemas.row_ids import KEY
from trajmill.schemas.verdict import REASON_PREFIX, SIGNAL_PREFIX, measure_schema


def _node(batch: pa.RecordBatch, columns: Sequence[pa.Array], word: str) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash a row of the columns; `word` separates kinds of nodes."""
    named = np.broadcast_to(text_hashes(pa.array([word])), (batch.num_rows, 2))
    return fingerprint.combine_hashes([named, *(text_hashes(column) for column in columns)])[:, 0]


def task_nodes(batch: pa.RecordBatch, alone: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return a hash a row that trajectories of one task share.

    The task is identified by its id within the source, otherwise by its instruction. `alone` is used if neither is
    known.
    """
    key, text = struct_text(batch, "task", "id"), struct_text(batch, "task", "instruction")
    by_id = _node(batch, [batch["source"], key], "task")
    by_text = _node(batch, [text], "instruction")
    known = [column.is_valid().to_numpy(zero_copy_only=False) for column in (key, text)]
    return np.where(known[0], by_id, np.where(known[1], by_text, alone))


_FOLDER: Final = r"^(/|~|[A-Za-z]:[\\/])"
"""Pattern of the beginning of an instance that is only a working folder."""


def instance_nodes(
    batch: pa.RecordBatch, task: npt.NDArray[np.uint64], *, folders: bool = True
) -> npt.NDArray[np.uint64]:
    """Return a hash a row that trajectories on one environment instance share; the task's own if no instance is known.

    Args:
        batch: Batch of transitions.
        task: Node of each row's task.
        folders: True if a working folder counts as an instance.
    """
    environment, instance = (struct_text(batch, "environment", name) for name in ("id", "instance_id"))
    known = instance.is_valid().to_numpy(zero_copy_only=False)
    if not folders:
        named = pc.match_substring_regex(instance.cast(pa.string()), _FOLDER)
        known = known & ~pc.fill_null(named, False).to_numpy(zero_copy_only=False)
    return np.where(known, _node(batch, [environment, instance], "instance"), task)


def family_nodes(batch: pa.RecordBatch) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return two hashes a row: of the trajectory's id, and of its parent's id (its own if it has no parent).

    Sub-agents and branches show much of their parent's content, so they belong to its group.
    """
    own = _node(batch, [batch["trajectory_id"]], "trajectory")
    parent = batch["parent_trajectory_id"]
    known = parent.is_valid().to_numpy(zero_copy_only=False)
    return own, np.where(known, _node(batch, [parent], "trajectory"), own)


def _facts(view: Measured) -> dict[str, npt.NDArray[np.uint64]]:
    """Return the facts about each trajectory that `ranks` needs, as far as the batch holds them. Smaller numbers are
    better.
    """
    batch = view.batch
    last = view.starts + view.lengths - 1
    cut = pc.fill_null(batch["truncated"], False).to_numpy(zero_copy_only=False)[last]
    lost = pc.fill_null(
        pc.equal(struct_text(batch, "next_observation", "truncation").cast(pa.string()), "recorder"), False
    )
    unseen = struct_text(batch, "next_observation", "content").is_null()
    incomplete = pc.or_(unseen, lost).to_numpy(zero_copy_only=False)[last] | cut
    unknown = batch["outcome"].is_null().to_numpy(zero_copy_only=False)[view.starts]
    return {
        "simulated": _flag_simulated(batch)[view.starts],
        "outcome": unknown.astype(np.uint64),
        "solved": _rank_outcomes(batch["outcome"].take(pa.array(view.starts))),
        "complete": incomplete.astype(np.uint64),
        "longer": _LONGEST - view.lengths.astype(np.uint64),
        "shorter": view.lengths.astype(np.uint64),
    }


def _rank_outcomes(outcomes: pa.StructArray) -> npt.NDArray[np.uint64]:
    """Rank outcomes: solved, not known, not solved; of equal ones a higher score first, none or NaN last."""
    solved = pc.if_else(pc.struct_field(outcomes, "resolved"), 0, 2).fill_null(1).to_numpy(zero_copy_only=False)
    scores = pc.struct_field(outcomes, "score").fill_null(np.nan).to_numpy(zero_copy_only=False) + np.float32(0)
    bits = scores.astype(np.float32).view(np.uint32)
    ascending = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))  # as the floats are, IEEE 754
    best = np.where(np.isnan(scores), 0, ascending >> 8).astype(np.uint64)
    return solved.astype(np.uint64) << np.uint64(_SCORE_BITS) | np.uint64((1 << _SCORE_BITS) - 1) - best


def _flag_simulated(batch: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """Flag the rows that a world model answered, as numbers."""
    kind = pc.equal(pc.struct_field(batch["environment"], "kind").cast(pa.string()), "model")
    return kind.to_numpy(zero_copy_only=False).astype(np.uint64)


_SCORE_BITS: Final = 24
_WIDTHS: Final = {"outcome": 1, "solved": 2 + _SCORE_BITS, "complete": 1, "longer": 32, "shorter": 32}
_LONGEST: Final = np.uint64((1 << 32) - 1)


def ranks(facts: Mapping[str, npt.NDArray[np.uint64]], prefer: Sequence[str]) -> npt.NDArray[np.uint64]:
    """A number a trajectory: of like ones that with the smallest is kept, and none that a model answered before others.

    Args:
        facts: by name of what can be preferred, the smaller the better, and `simulated`.
        prefer: what weighs most first; see `PREFERENCES`.
    """
    rank = facts["simulated"].copy()
    for name in prefer:
        rank = (rank << np.uint64(_WIDTHS[name])) | facts[name]
    return rank


def _origins(batch: pa.RecordBatch, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return a hash a trajectory of its provenance."""
    provenance = batch["provenance"].take(pa.array(starts))
    names = [provenance.field(name) for name in ("uri", "member")]
    offsets = provenance.field("offset").to_numpy(zero_copy_only=False).astype(np.uint64)
    origin = fingerprint.combine_hashes([*(text_hashes(column) for column in names)])
    return fingerprint.mixed(origin + offsets[:, None])[:, 0]


@dataclass(slots=True)
class _Stretch:
    """Measures of a batch; see `quality.segments.Stretch`.

    Attributes:
        batch: Columns of the batch that identify task and instance.
        lengths: Rows of each trajectory in this batch.
        rows: Hashes of the transitions.
        sums: Sums of each trajectory; see `fingerprint.trajectory_sums`.
        origins: Hash of each trajectory's provenance; see `_origins`.
        facts: Facts about each trajectory; see `ranks`.
        fixed: Columns by name that do not depend on the whole trajectory.
        numbers: Values of each signal, by name.
        reasons: Reasons of each signal that gives any, by name: a word a row, or None.
        evidence: Evidence of each signal that has any, by name: that of the first and the last trajectory, by their
            position; see `Signal.evidence`.
    """

    goes_on: bool
    starts: npt.NDArray[np.int64]
    batch: pa.RecordBatch
    lengths: npt.NDArray[np.int64]
    rows: Lanes
    sums: Lanes
    origins: npt.NDArray[np.uint64]
    facts: dict[str, npt.NDArray[np.uint64]]
    fixed: dict[str, pa.Array]
    numbers: dict[str, Numbers]
    reasons: dict[str, npt.NDArray[np.object_]]
    evidence: dict[str, dict[int, Any]]

    def finished(self, prefer: Sequence[str], *, folders: bool) -> pa.RecordBatch:
        """Convert the stretch to a batch of `measure_schema`."""
        spread: Lanes = np.repeat(fingerprint.mixed(self.sums), self.lengths, axis=0)
        task = task_nodes(self.batch, spread[:, 0])
        columns = {
            **self.fixed,
            "trajectory_hash": fingerprint.as_bytes(spread),
            "transition_hash": fingerprint.as_bytes(self.rows),
            "task_node": pa.array(task),
            "instance_node": pa.array(instance_nodes(self.batch, task, folders=folders)),
            "rank": pa.array(np.repeat(ranks(self.facts, prefer), self.lengths)),
            "origin": pa.array(np.repeat(self.origins, self.lengths)),
            **{SIGNAL_PREFIX + name: pa.array(values) for name, values in self.numbers.items()},
            **{REASON_PREFIX + name: pa.array(values, pa.string()) for name, values in self.reasons.items()},
        }
        schema = measure_schema(tuple(self.numbers), tuple(self.reasons))
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


_NODES: Final = ("source", "task", "environment")


def _stretch(view: Measured, signals: Mapping[str, Signal]) -> _Stretch:
    batch = view.batch
    rows = fingerprint.transition_hashes(view.once(as_compared).batch)
    own, parent = family_nodes(batch)
    content = struct_text(batch, "next_observation", "content")
    sizes = [text_bytes(struct_text(batch, *path)) for path in (("action", "text"), ("next_observation", "content"))]
    fixed = {
        KEY: batch[KEY],
        "trajectory_id": batch["trajectory_id"].cast(pa.string()),
        "step": batch["step"],
        "own_node": pa.array(own),
        "parent_node": pa.array(parent),
        "has_text": content.is_valid(),
        "text_bytes": pa.array(sizes[0] + sizes[1]),
        "tokens": pa.array(view.once(transition_tokens)),
    }
    return _Stretch(
        goes_on(batch),
        view.starts,
        batch.select(_NODES),
        view.lengths,
        rows,
        fingerprint.trajectory_sums(rows, view.starts, batch["step"].to_numpy()),
        _origins(batch, view.starts),
        _facts(view),
        fixed,
        {name: signal_of.measure(view) for name, signal_of in signals.items()},
        {name: _words(signal_of, view) for name, signal_of in signals.items() if tells(signal_of)},
        _evidence(view, signals),
    )


def _evidence(view: Measured, signals: Mapping[str, Signal]) -> dict[str, dict[int, Any]]:
    numbers = {0, len(view.starts) - 1} if len(view.starts) else set[int]()
    evidence = {name: signal_of.evidence(view) for name, signal_of in signals.items()}
    return {
        name: {number: evidence_of[number] for number in numbers}
        for name, evidence_of in evidence.items()
        if evidence_of is not None
    }


def tells(signal_of: Signal) -> bool:
    """Return True if a signal gives reasons for its numbers."""
    return type(signal_of).reasons is not Signal.reasons


def _words(signal_of: Signal, view: Measured) -> npt.NDArray[np.object_]:
    words = signal_of.reasons(view)
    return np.array(words.to_pylist() if words is not None else [None] * view.batch.num_rows, object)


def _join(stretches: Sequence[_Stretch], signals: Mapping[str, Signal]) -> None:
    where = [(stretch, index_of(number, stretch)) for number, stretch in enumerate(stretches)]
    first, last = where[0], where[-1]
    total = sum((stretch.sums[index] for stretch, index in where), np.zeros(2, np.uint64))
    rows = np.array([stretch.lengths[index] for stretch, index in where])
    facts = {
        "simulated": first[0].facts["simulated"][first[1]],
        "outcome": first[0].facts["outcome"][first[1]],
        "solved": first[0].facts["solved"][first[1]],
        "complete": last[0].facts["complete"][last[1]],
        "longer": _LONGEST - np.uint64(rows.sum()),
        "shorter": np.uint64(rows.sum()),
    }
    for stretch, index in where:
        stretch.sums[index] = total
        stretch.origins[index] = first[0].origins[first[1]]
        for name, value in facts.items():
            stretch.facts[name][index] = value
    for name, signal_of in signals.items():
        if signal_of.scope == "trajectory":
            _join_numbers(name, signal_of, where, rows)


def _join_numbers(
    name: str, signal_of: Signal, where: Sequence[tuple[_Stretch, int]], rows: npt.NDArray[np.int64]
) -> None:
    """Set the signal's one number and its reason on the rows of a trajectory in all its stretches."""
    spans = [
        (stretch, slice(stretch.starts[index], stretch.starts[index] + stretch.lengths[index]))
        for stretch, index in where
    ]
    words = [stretch.reasons[name][span.start] for stretch, span in spans if name in stretch.reasons]
    reason = next((word for word in words if word is not None), None)
    if name in where[0][0].evidence:
        number, reason = signal_of.settled([stretch.evidence[name][index] for stretch, index in where])
    else:
        number = signal_of.joined(np.array([stretch.numbers[name][span.start] for stretch, span in spans]), rows)
    for stretch, span in spans:
        stretch.numbers[name][span] = number
        if name in stretch.reasons:
            stretch.reasons[name][span] = reason


class Measuring:
    """Measurer of each row of a file: batches of `schemas.verdict.measure_schema(signals)`, aligned to the transitions.

    Args:
        signals: Signals in the order of the columns: names, or signals by name that were made with a recipe's settings.
        counter: Token counter with the recipe's tokenizer.
        prefer: Preferences; see `ranks`.
        folders: Use of working folders; see `instance_nodes`.
    """

    def __init__(
        self,
        signals: Sequence[str] | Mapping[str, Signal],
        counter: TokenCounter,
        prefer: Sequence[str] = PREFERENCES,
        *,
        folders: bool = True,
    ) -> None:
        signals_by_name = signals if isinstance(signals, Mapping) else {name: signal(name) for name in signals}
        self._signals, self._prefer, self._folders = signals_by_name, prefer, folders
        self._reaching = Reaching(counter)
        self._joining: Joining[_Stretch] = Joining(lambda stretches: _join(stretches, signals_by_name))

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the measures of complete trajectories; `batch`, of `encode_schema()`, follows the batches added
        before.
        """
        yield from self._finished(self._reaching.add(batch))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the measures of the rest, at the end of the file."""
        yield from self._finished(self._reaching.rest())
        for stretch in self._joining.rest():
            yield stretch.finished(self._prefer, folders=self._folders)

    def _finished(self, views: Iterator[Measured]) -> Iterator[pa.RecordBatch]:
        for view in views:
            for stretch in self._joining.add(_stretch(view, self._signals)):
                yield stretch.finished(self._prefer, folders=self._folders)
