"""Everything that is measured of a batch of transitions, once: hashes, group nodes, sizes and the recipe's signals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quality import fingerprint
from quality.fingerprint import Lanes, struct_text, text_hashes
from quality.registry import signal
from quality.signal import Measured, Numbers
from quality.signals.length import transition_tokens
from quality.tokens import TokenCounter, text_bytes
from schemas.verdict import SIGNAL_PREFIX, measure_schema


def _node(batch: pa.RecordBatch, columns: Sequence[pa.Array], word: str) -> npt.NDArray[np.uint64]:
    """A 64-bit hash a row of the columns under a word that sets apart what they are."""
    named = np.broadcast_to(text_hashes(pa.array([word])), (batch.num_rows, 2))
    return fingerprint.combined([named, *(text_hashes(column) for column in columns)])[:, 0]


def task_nodes(batch: pa.RecordBatch, alone: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A hash a row that trajectories of one task share.

    The task is told by its id within the source, else by its instruction; `alone` stands where neither is known.
    """
    key, text = struct_text(batch, "task", "id"), struct_text(batch, "task", "instruction")
    by_id = _node(batch, [batch["source"], key], "task")
    by_text = _node(batch, [text], "instruction")
    known = [column.is_valid().to_numpy(zero_copy_only=False) for column in (key, text)]
    return np.where(known[0], by_id, np.where(known[1], by_text, alone))


def instance_nodes(batch: pa.RecordBatch, task: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A hash a row that trajectories on one environment instance share; the task's own where none is known."""
    environment, instance = (struct_text(batch, "environment", name) for name in ("id", "instance_id"))
    known = instance.is_valid().to_numpy(zero_copy_only=False)
    return np.where(known, _node(batch, [environment, instance], "instance"), task)


def family_nodes(batch: pa.RecordBatch) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Hashes a row of the trajectory's id and of its parent's (its own where it has none).

    Sub-agents and branches show much of what their parent shows, so they belong to its group.
    """
    own = _node(batch, [batch["trajectory_id"]], "trajectory")
    parent = batch["parent_trajectory_id"]
    known = parent.is_valid().to_numpy(zero_copy_only=False)
    return own, np.where(known, _node(batch, [parent], "trajectory"), own)


def _ranks(batch: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """Of equal trajectories one whose outcome is known is worth more."""
    return batch["outcome"].is_null().to_numpy(zero_copy_only=False).astype(np.uint64)


def _places(batch: pa.RecordBatch, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A hash a trajectory of where it was read."""
    provenance = batch["provenance"].take(pa.array(starts))
    names = [provenance.field(name) for name in ("uri", "member")]
    offsets = provenance.field("offset").to_numpy(zero_copy_only=False).astype(np.uint64)
    place = fingerprint.combined([*(text_hashes(column) for column in names)])
    return fingerprint.mixed(place + offsets[:, None])[:, 0]


@dataclass(slots=True)
class _Part:
    """What is measured of a batch, as long as its last trajectory may go on in the next batch.

    Attributes:
        batch: its columns that tell task and instance.
        starts: as of `Measured`.
        lengths: rows of each trajectory in this batch.
        rows: hashes of the transitions.
        sums: of each trajectory; see `fingerprint.trajectory_sums`.
        places: of each trajectory; see `_places`.
        fixed: columns that do not hang on the whole trajectory, by name.
        numbers: of each signal, by name.
    """

    batch: pa.RecordBatch
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    rows: Lanes
    sums: Lanes
    places: npt.NDArray[np.uint64]
    fixed: dict[str, pa.Array]
    numbers: dict[str, Numbers]

    @property
    def goes_on(self) -> bool:
        """Whether the first row belongs to a trajectory of the batch before."""
        return self.batch.num_rows > 0 and self.batch["step"][0].as_py() > 0

    def finished(self) -> pa.RecordBatch:
        """The part as a batch of `measure_schema`."""
        spread: Lanes = np.repeat(fingerprint.mixed(self.sums), self.lengths, axis=0)
        task = task_nodes(self.batch, spread[:, 0])
        columns = {
            **self.fixed,
            "trajectory_hash": fingerprint.as_bytes(spread),
            "transition_hash": fingerprint.as_bytes(self.rows),
            "task_node": pa.array(task),
            "instance_node": pa.array(instance_nodes(self.batch, task)),
            "place": pa.array(np.repeat(self.places, self.lengths)),
            **{SIGNAL_PREFIX + name: pa.array(found) for name, found in self.numbers.items()},
        }
        schema = measure_schema(tuple(self.numbers))
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


_NODES: Final = ("step", "source", "task", "environment")


def _part(batch: pa.RecordBatch, signals: Sequence[str], counter: TokenCounter) -> _Part:
    view = Measured.of(batch, counter)
    rows = fingerprint.transition_hashes(batch)
    own, parent = family_nodes(batch)
    content = struct_text(batch, "next_observation", "content")
    sizes = [text_bytes(struct_text(batch, *path)) for path in (("action", "text"), ("next_observation", "content"))]
    fixed = {
        "trajectory_id": batch["trajectory_id"].cast(pa.string()),
        "step": batch["step"],
        "own_node": pa.array(own),
        "parent_node": pa.array(parent),
        "rank": pa.array(_ranks(batch)),
        "has_text": content.is_valid(),
        "text_bytes": pa.array(sizes[0] + sizes[1]),
        "tokens": pa.array(transition_tokens(batch, counter)),
    }
    return _Part(
        batch.select(_NODES),
        view.starts,
        view.lengths,
        rows,
        fingerprint.trajectory_sums(rows, view.starts, batch["step"].to_numpy()),
        _places(batch, view.starts),
        fixed,
        {name: signal(name).measure(view) for name in signals},
    )


def _join(parts: Sequence[_Part]) -> None:
    """Gives every part the numbers of the whole trajectory that begins last in the first and goes on in the others."""
    where = [(part, len(part.starts) - 1 if number == 0 else 0) for number, part in enumerate(parts)]
    total = sum((part.sums[index] for part, index in where), np.zeros(2, np.uint64))
    rows = np.array([part.lengths[index] for part, index in where])
    spans = [slice(part.starts[index], part.starts[index] + part.lengths[index]) for part, index in where]
    for part, index in where:
        part.sums[index] = total
        part.places[index] = parts[0].places[-1]
    for name in parts[0].numbers:
        one = signal(name)
        if one.scope == "trajectory":
            told = np.array([part.numbers[name][span.start] for part, span in zip(parts, spans, strict=True)])
            for part, span in zip(parts, spans, strict=True):
                part.numbers[name][span] = one.joined(told, rows)


def measured_in_order(
    batches: Iterable[pa.RecordBatch], signals: Sequence[str], counter: TokenCounter
) -> Iterator[pa.RecordBatch]:
    """What is measured of each row of a file, batch by batch: of `schemas.verdict.measure_schema(signals)`, aligned.

    Args:
        batches: of `schemas.encoded_schema()`, in their order; a trajectory may go on from one to the next.
        signals: names, in the order of the columns.
        counter: counts tokens under the recipe's tokenizer.
    """
    waiting: list[_Part] = []
    for batch in batches:
        part = _part(batch, signals, counter)
        if part.goes_on and waiting:
            waiting.append(part)
            if len(part.starts) == 1:
                continue
            _join(waiting)
            yield from (one.finished() for one in waiting[:-1])
        else:
            yield from _ended(waiting)
        waiting = [part]
    yield from _ended(waiting)


def _ended(parts: Sequence[_Part]) -> Iterator[pa.RecordBatch]:
    if len(parts) > 1:
        _join(parts)
    return (one.finished() for one in parts)


def measured(batch: pa.RecordBatch, signals: Sequence[str], counter: TokenCounter) -> pa.RecordBatch:
    """What is measured of a batch of whole trajectories; see `measured_in_order`."""
    return next(measured_in_order([batch], signals, counter))
