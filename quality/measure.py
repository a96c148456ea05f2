"""Everything that is measured of a batch of transitions, once: hashes, group nodes, sizes and the recipe's signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quality import fingerprint
from quality.fingerprint import Lanes, struct_text, text_hashes
from quality.registry import signal
from quality.signal import Measured
from quality.signals.length import transition_tokens
from quality.tokens import TokenCounter, text_bytes
from schemas.verdict import measure_schema


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


PREFERENCES: Final = ("outcome", "complete", "longer")
"""By what one of several like trajectories is kept: its outcome is known; the log does not say that it was cut, and
holds what its last action led to; it has more steps."""


def ranks(view: Measured, prefer: Sequence[str]) -> npt.NDArray[np.uint64]:
    """A number a row: of like trajectories the one with the smallest is kept.

    Args:
        view: the rows.
        prefer: of `PREFERENCES`, what weighs most first.
    """
    batch = view.batch
    last = view.starts + view.lengths - 1
    cut = pc.fill_null(batch["truncated"], False).to_numpy(zero_copy_only=False)[last]
    lost = pc.fill_null(
        pc.equal(struct_text(batch, "next_observation", "truncation").cast(pa.string()), "recorder"), False
    )
    unseen = struct_text(batch, "next_observation", "content").is_null()
    incomplete = pc.or_(unseen, lost).to_numpy(zero_copy_only=False)[last] | cut
    bits = {
        "outcome": (batch["outcome"].is_null().to_numpy(zero_copy_only=False)[view.starts], 1),
        "complete": (incomplete, 1),
        "longer": ((1 << 32) - 1 - view.lengths, 32),
    }
    rank = np.zeros(len(view.starts), np.uint64)
    for name in prefer:
        value, width = bits[name]
        rank = (rank << np.uint64(width)) | value.astype(np.uint64)
    return np.repeat(rank, view.lengths)


def _places(batch: pa.RecordBatch, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A hash a trajectory of where it was read."""
    provenance = batch["provenance"].take(pa.array(starts))
    names = [provenance.field(name) for name in ("uri", "member")]
    offsets = provenance.field("offset").to_numpy(zero_copy_only=False).astype(np.uint64)
    place = fingerprint.combined([*(text_hashes(column) for column in names)])
    return fingerprint.mixed(place + offsets[:, None])[:, 0]


def measured(
    batch: pa.RecordBatch, signals: Sequence[str], counter: TokenCounter, prefer: Sequence[str] = PREFERENCES
) -> pa.RecordBatch:
    """What is measured of each row: a batch of `schemas.verdict.measure_schema(signals)`, aligned to `batch`.

    Args:
        batch: whole trajectories, of `schemas.encoded_schema()`.
        signals: names, in the order of the columns.
        counter: counts tokens under the recipe's tokenizer.
        prefer: see `ranks`.
    """
    view = Measured.of(batch, counter)
    rows = fingerprint.transition_hashes(batch)
    whole = fingerprint.trajectory_hashes(rows, view.starts, batch["step"].to_numpy())
    spread: Lanes = np.repeat(whole, view.lengths, axis=0)
    task = task_nodes(batch, spread[:, 0])
    own, parent = family_nodes(batch)
    content = struct_text(batch, "next_observation", "content")
    sizes = [text_bytes(struct_text(batch, *path)) for path in (("action", "text"), ("next_observation", "content"))]
    columns = [
        batch["trajectory_id"].cast(pa.string()),
        batch["step"],
        fingerprint.as_bytes(spread),
        fingerprint.as_bytes(rows),
        pa.array(task),
        pa.array(instance_nodes(batch, task)),
        pa.array(own),
        pa.array(parent),
        pa.array(ranks(view, prefer)),
        pa.array(np.repeat(_places(batch, view.starts), view.lengths)),
        content.is_valid(),
        pa.array(sizes[0] + sizes[1]),
        pa.array(transition_tokens(batch, counter)),
        *(pa.array(signal(name).measure(view)) for name in signals),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=measure_schema(signals))
