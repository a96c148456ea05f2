"""Rows of drawn trajectories as Python values, with what judge wrote beside them: what samples are rendered from.

Only columns that rendering asks for are read. What stood before an action is mostly what the action before led to: that
text is known by its hash and not read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.engine.parquet import row_groups
from pipelines.engine.storage import Folder
from pipelines.rendering.costs import COST_HASHES
from pipelines.rendering.turns import Rows

_COLUMNS: Final = (
    "row_id",
    "trajectory_id",
    "step",
    "turn",
    "num_segments",
    "domain",
    "source",
    "interleaved",
    "exit_code",
    "time_limit_s",
    "timed_out",
    "scrubbed",
)
_MOMENT: Final = "started_at"
_STRUCTS: Final[Mapping[str, tuple[str, ...]]] = {
    "context": ("action_space", "initial_state", "demonstrations", "simulation_instruction"),
    "action": ("name", "arguments", "text"),
    "next_observation": ("content", "origin", "form", "dialect"),
    "observation": ("content", "origin"),
}
_SHOWN: Final = ("content", "envelope")
_STATES: Final = tuple(f"observation.{name}" for name in _SHOWN)


def _structs(envelopes: bool) -> dict[str, tuple[str, ...]]:
    """The fields that are read of each struct."""
    return {
        name: (*fields, "envelope") if envelopes and name.endswith("observation") else fields
        for name, fields in _STRUCTS.items()
    }


def drawn_rows(
    transitions: Folder, name: str, beside: pa.Table, wanted: npt.NDArray[np.bool_], *, envelopes: bool = False
) -> Iterator[Rows]:
    """The rows of each trajectory, or of each segment of a split one, in the order of their file.

    Args:
        transitions: folder of the transitions.
        name: of the file in it.
        beside: of all its rows `ordinal` (the number of their trajectory among those that are kept), `segment`, `use`,
            what they cost (`COST_COLUMNS`, `COST_HASHES`) and, where they are measured,
            `spans`.
        wanted: which rows are asked for; of a trajectory, or of a segment of it, all or none.
        envelopes: whether the objects that answers of MCP stood in are read too.
    """
    structs = _structs(envelopes)
    for _, rows in groupby(_rows(transitions, name, beside, wanted, structs), key=itemgetter("ordinal", "segment")):
        yield list(rows)


def _rows(
    transitions: Folder,
    name: str,
    beside: pa.Table,
    wanted: npt.NDArray[np.bool_],
    structs: Mapping[str, tuple[str, ...]],
) -> Iterator[dict[str, Any]]:
    """The rows that are wanted, of whatever trajectory: row groups may cut a long one."""
    leaves = (*_COLUMNS, _MOMENT, *(f"{struct}.{field}" for struct, fields in structs.items() for field in fields))
    stateless = tuple(leaf for leaf in leaves if leaf not in _STATES)
    offset = 0
    for group in row_groups(transitions, name):
        chosen = wanted[offset : offset + group.num_rows]
        told = beside.slice(offset, group.num_rows)
        offset += group.num_rows
        if not chosen.any():
            continue
        every = bool(chosen.all())
        told = (told if every else told.filter(pa.array(chosen))).combine_chunks()
        unread = _unread(told)
        batch = group.read(leaves if len(unread) else stateless)
        yield from _python_rows(batch if every else batch.filter(pa.array(chosen)), told, unread, structs)


def _unread(told: pa.Table) -> npt.NDArray[np.int64]:
    """The rows before whose action stood a text that the row before did not lead to; where it is shown at all."""
    state, led = (told[name].to_numpy() for name in COST_HASHES)
    before = np.zeros(len(state), np.uint64)
    before[1:] = led[:-1]
    return np.flatnonzero((state != 0) & (state != before))


def _python_rows(
    batch: pa.RecordBatch, told: pa.Table, unread: npt.NDArray[np.int64], structs: Mapping[str, tuple[str, ...]]
) -> Iterator[dict[str, Any]]:
    """The rows with only what rendering needs, made one by one; a text that rows share is one object."""
    columns: dict[str, Iterable[Any]] = {name: _values(batch[name]) for name in _COLUMNS}
    columns[_MOMENT] = _values(batch[_MOMENT].cast(pa.int64()))
    after: dict[str, list[Any]] = {}
    for struct, names in structs.items():
        read = [name for name in names if f"{struct}.{name}" not in _STATES]
        fields = {name: _values(pc.struct_field(batch[struct], name)) for name in read}
        if struct == "next_observation":
            after = fields
        if struct == "observation":
            state = told["state_hash"].to_numpy()
            fields |= {
                name: _states(batch[struct], name, after[name], state, unread) for name in names if name in _SHOWN
            }
        columns[struct] = _dicts(fields, batch[struct])
    columns |= {name: _values(told[name].combine_chunks()) for name in told.column_names if name not in COST_HASHES}
    return _dicts(columns)


def _dicts(columns: Mapping[str, Iterable[Any]], struct: pa.StructArray | None = None) -> Iterator[Any]:
    """A dict a row; None where the struct of the columns is null."""
    # as a generator over `dict(zip(columns, row))` says it, in half the time
    rows: Iterator[dict[str, Any]] = map(dict, map(zip, repeat(tuple(columns)), zip(*columns.values(), strict=True)))
    if struct is None or not struct.null_count:
        return rows
    return (row if there else None for row, there in zip(rows, struct.is_valid().to_pylist(), strict=True))


def _states(
    before: pa.StructArray,
    name: str,
    after: Sequence[Any],
    state: npt.NDArray[np.uint64],
    unread: npt.NDArray[np.int64],
) -> list[Any]:
    """What stood before each action, as far as it may be shown; what the row before led to is the text of that row."""
    found = [text if known else None for text, known in zip([None, *after[:-1]], state != 0, strict=True)]
    if len(unread):
        texts = pc.struct_field(before, name).take(pa.array(unread))
        for row, text in zip(unread.tolist(), _values(texts), strict=True):
            found[row] = text
    return found


def _values(column: pa.Array) -> list[Any]:
    """A column as Python values; a text that a dictionary holds is one object."""
    if pa.types.is_dictionary(column.type):
        index, held = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False), column.dictionary
        if len(held) > len(index):  # of a few rows that are taken out of many
            used, index = np.unique(np.append(index, -1), return_inverse=True)
            index, held = index[:-1] - 1, held.take(pa.array(used[1:]))
        texts = [*_values(held), None]  # the last is that of -1
        return [texts[place] for place in index.tolist()]
    if pa.types.is_string(column.type) or (pa.types.is_primitive(column.type) and not column.null_count):
        found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return found
    return [None] * len(column) if column.null_count == len(column) else column.to_pylist()
