"""Assembly of trajectories into record batches of the transition schema.

The `Assembler` turns many trajectories at once, column by column, into one dictionary-encoded `RecordBatch` and assigns
each trajectory its id. It does not check invariants: `invariants` does that for every batch, however it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import islice
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from trajmill.schemas.observation import Attachment, Observation
from trajmill.schemas.row_ids import KEY, RowIds
from trajmill.schemas.trajectory import (
    Context,
    Origin,
    Step,
    Trajectory,
    long_trajectory_id,
    trajectory_id,
    without_surrogates,
)
from trajmill.schemas.transition import SHARED_TEXT, encode_schema

SEGMENT_BYTES: Final = 128 << 20
"""Text size above which a trajectory is split at a turn. It bounds the size of a unit of work."""

BLOCK_BYTES: Final = 8 << 20
"""Text of one trajectory that the assembler processes at a time; see `Assembler.add_blocks`."""


class _Texts:
    """Growing dictionary of texts. Equal texts share one position."""

    __slots__ = ("_positions", "nbytes")

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self.nbytes = 0

    def position(self, text: str | None) -> int | None:
        if text is None:
            return None
        positions = self._positions
        known = positions.get(text)
        if known is None:
            known = positions[text] = len(positions)
            self.nbytes += len(text)
        return known

    def array(self) -> pa.Array:
        return _strings(self._positions)


def _text_bytes(step: Step) -> int:
    """Return roughly how much text the step adds, in characters."""
    seen = step.next_observation
    shown = 0 if seen is None else len(seen.content or "") + len(seen.envelope or "")
    action = step.action
    return len(action.text) + len(action.arguments or "") + len(action.sampled or "") + shown + 256


def blocks(steps: Iterable[Step], segment_bytes: int, block_bytes: int) -> list[tuple[int, int]]:
    """Return (first step, segment) of each block in which a trajectory is assembled.

    The first block begins at step 0. Each further block begins at the first step of a turn, where the block would
    exceed `block_bytes` or its segment would exceed `segment_bytes`; in the latter case a new segment begins too.
    """
    begins = [(0, 0)]
    size = whole = turn = 0
    for position, step in enumerate(steps):
        own = _text_bytes(step)
        size += own
        whole += own
        if step.turn != turn:
            turn = step.turn
            if position > begins[-1][0] and (whole > segment_bytes or size > block_bytes):
                over = whole > segment_bytes
                begins.append((position, begins[-1][1] + over))
                size = own
                whole = own if over else whole
    return begins


_SHARED: Final = ("content", "envelope")
_OBSERVATION_TEXT: Final = ("media_type", "form", "dialect", "origin", "truncation", "uri")
_WHOLE: Final = (
    ("environment", ("id", "instance_id", "kind", "version", "world_model", "sampling")),
    ("agent", ("name", "version", "model")),
    ("task", ("id", "instruction")),
    ("context", tuple(f.name for f in fields(Context))),
)
_STEP_VALUES: Final = (
    "turn",
    "call_index",
    "num_calls",
    "interleaved",
    "reward",
    "terminated",
    "truncated",
    "exit_code",
    "started_at",
    "duration_s",
    "time_limit_s",
    "timed_out",
)


class Assembler:
    """Builder of one record batch of `encode_schema()` from many trajectories.

    Args:
        segment_bytes: Text size above which a trajectory is split at a turn.
        block_bytes: Text of a trajectory that is processed at a time.
    """

    def __init__(self, segment_bytes: int = SEGMENT_BYTES, block_bytes: int = BLOCK_BYTES) -> None:
        self._segment_bytes = segment_bytes
        self._block_bytes = min(block_bytes, segment_bytes)
        self._schema = encode_schema()
        self._row_ids = RowIds()
        self.records = 0
        """Number of log records (lines, table rows, events) behind the rows added so far; see `add_blocks`."""
        self.attached: set[str] = set()
        """sha256 of the attachments of the trajectory that was added last."""
        self._clear()

    def _clear(self) -> None:
        self._values: dict[str, list[Any]] = {}
        self._texts: dict[str, _Texts] = {}
        self.num_rows = 0
        self.nbytes = 0

    def _extend(self, path: str, values: Iterable[Any]) -> None:
        column = self._values.get(path)
        if column is None:
            column = self._values[path] = []
        column.extend(values)

    def _encode(self, path: str, values: Sequence[str | None], dictionary: str | None = None) -> None:
        texts = self._dictionary(dictionary or path)
        before = texts.nbytes
        positions = {value: texts.position(value) for value in dict.fromkeys(values)}
        self._extend(path, map(positions.__getitem__, values))
        self.nbytes += texts.nbytes - before

    def _dictionary(self, name: str) -> _Texts:
        texts = self._texts.get(name)
        if texts is None:
            texts = self._texts[name] = _Texts()
        return texts

    def _repeat(self, path: str, value: str | None, count: int) -> None:
        self._extend(path, [self._dictionary(path).position(value)] * count)

    def add(self, trajectory: Trajectory, origin: Origin, parents: dict[str, str]) -> str:
        """Add one whole trajectory and return its id; see `add_blocks`."""
        key = ""
        for block_key in self.add_blocks(trajectory, origin, parents):
            key = block_key
        return key

    def add_blocks(self, trajectory: Trajectory, origin: Origin, parents: dict[str, str]) -> Iterator[str]:
        """Add one trajectory, a block of steps at a time, and yield its id after each block, so that `take` can follow.

        `records` counts the distinct positions along the trajectory: its first step, and each later change of member or
        offset.

        Args:
            trajectory: Trajectory with at least one step.
            parents: Native id → trajectory id of the trajectories that this log yielded before; the new one is added.
        """
        block_begins = blocks(trajectory.steps, self._segment_bytes, self._block_bytes)
        if len(block_begins) > 1:
            key = long_trajectory_id(origin.connector, trajectory)
        else:
            if not isinstance(trajectory.steps, list):
                trajectory = replace(trajectory, steps=list(trajectory.steps))
            try:
                key = trajectory_id(origin.connector, trajectory)
            except UnicodeEncodeError:
                trajectory = without_surrogates(trajectory)
                key = trajectory_id(origin.connector, trajectory)
        total = len(trajectory.steps)
        parent = parents.get(trajectory.parent) if trajectory.parent else None
        parents.setdefault(trajectory.native_id, key)
        rest = iter(trajectory.steps)
        self.attached = set()
        position: tuple[str, int] | None = None
        for (begin, segment), (end, _) in zip(block_begins, [*block_begins[1:], (total, 0)], strict=True):
            steps = trajectory.steps if len(block_begins) == 1 else list(islice(rest, end - begin))
            for step in steps:
                if (step.member, step.offset) != position:
                    position = step.member, step.offset
                    self.records += 1
            self._add_whole(trajectory, origin, key, parent, end - begin)
            self._extend("step", range(begin, end))
            self._extend("num_steps", [total] * (end - begin))
            self._extend("segment", [segment] * (end - begin))
            self._extend("num_segments", [block_begins[-1][1] + 1] * (end - begin))
            self._add_steps(steps)
            self._extend("scrubbed", [0] * (end - begin))
            self._encode("provenance.member", [step.member for step in steps])
            self._encode("provenance.sha256", [origin.digest(step.member) for step in steps])
            self._extend("provenance.offset", [step.offset for step in steps])
            self.num_rows += end - begin
            self.nbytes += 256 * (end - begin)
            yield key

    def _add_whole(self, trajectory: Trajectory, origin: Origin, key: str, parent: str | None, count: int) -> None:
        for path, text in (
            ("trajectory_id", key),
            ("native_id", trajectory.native_id),
            ("parent_trajectory_id", parent),
            ("relation", trajectory.relation),
            ("domain", trajectory.domain),
            ("source", origin.source),
            ("provenance.uri", origin.uri),
            ("provenance.connector", origin.connector),
            ("provenance.connector_version", origin.connector_version),
            ("provenance.licence", trajectory.licence or origin.licence),
        ):
            self._repeat(path, text, count)
        for column, names in _WHOLE:
            whole = getattr(trajectory, column)
            for name in names:
                self._repeat(f"{column}.{name}", getattr(whole, name), count)
        outcome = trajectory.outcome
        self._extend("outcome", [outcome is not None] * count)
        self._extend("outcome.resolved", [outcome.resolved if outcome else None] * count)
        self._extend("outcome.score", [outcome.score if outcome else None] * count)
        self._repeat("outcome.verifier", outcome.verifier if outcome else None, count)
        self._extend("parent_step", [trajectory.parent_step] * count)

    def _add_steps(self, steps: Sequence[Step]) -> None:
        for name in _STEP_VALUES:
            self._extend(name, map(attrgetter(name), steps))
        actions = [step.action for step in steps]
        self._encode("action.name", [action.name for action in actions])
        for name in ("arguments", "call_id", "text", "message", "reasoning", "sampled"):
            self._extend(f"action.{name}", map(attrgetter(name), actions))
        self.nbytes += sum(
            len(a.text) + len(a.arguments or "") + len(a.reasoning or "") + len(a.sampled or "") for a in actions
        )
        for side in ("observation", "next_observation"):
            seen: list[Observation | None] = list(map(attrgetter(side), steps))
            self._extend(side, [observation is not None for observation in seen])
            for name in _SHARED:
                self._encode(
                    f"{side}.{name}",
                    [getattr(observation, name) if observation else None for observation in seen],
                    name,
                )
            for name in _OBSERVATION_TEXT:
                self._encode(
                    f"{side}.{name}", [getattr(observation, name) if observation else None for observation in seen]
                )
            self._extend(f"{side}.is_error", [observation.is_error if observation else None for observation in seen])
            attachments = [observation.attachments if observation else () for observation in seen]
            self._extend(f"{side}.attachments", attachments)
            self.attached.update(attachment.sha256 for row in attachments if row for attachment in row)

    def take(self) -> pa.RecordBatch:
        """Return the rows collected so far as one batch, in the order of their addition, and empty the assembler."""
        shared: dict[str, pa.Array] = {}
        columns = {field.name: self._array(field, field.name, shared) for field in self._schema if field.name != KEY}
        columns[KEY] = self._row_ids.of(columns)
        self._clear()
        return pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)

    def _array(self, field: pa.Field, path: str, shared: dict[str, pa.Array]) -> pa.Array:
        kind = field.type
        values = self._values.get(path, [])
        if pa.types.is_struct(kind):
            children = [self._array(child, f"{path}.{child.name}", shared) for child in kind.fields]
            mask = pa.array([not present for present in values], pa.bool_()) if field.nullable else None
            return pa.StructArray.from_arrays(children, fields=list(kind.fields), mask=mask)
        if pa.types.is_dictionary(kind):
            name = path.rpartition(".")[2] if path in SHARED_TEXT else path
            if name not in shared:
                shared[name] = self._texts.get(name, _Texts()).array()
            return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), shared[name])
        if pa.types.is_list(kind):
            rows = [[_attachment_row(attachment) for attachment in row] for row in values] if any(values) else None
            empty = pa.array([0] * (len(values) + 1), pa.int32())
            return (
                pa.array(rows, kind) if rows else pa.ListArray.from_arrays(empty, pa.array([], kind.value_type), kind)
            )
        return _strings(values) if pa.types.is_string(kind) else pa.array(values, kind)


def _strings(values: Iterable[str | None]) -> pa.Array:
    """Return the texts as an array. A lone surrogate, which a log may hold in any column, becomes U+FFFD."""
    texts = list(values)
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array([without_surrogates(text) for text in texts], pa.string())


def _attachment_row(attachment: Attachment) -> dict[str, str | None]:
    values = {
        "sha256": attachment.sha256,
        "media_type": attachment.media_type,
        "role": attachment.role,
        "name": attachment.name,
    }
    return {name: value and without_surrogates(value) for name, value in values.items()}
