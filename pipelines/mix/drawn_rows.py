"""Rows of drawn trajectories as Python values, with what judge wrote beside them: what samples are rendered from.

Only columns that rendering asks for are read. What stood before an action is mostly what the action before led to: that
text is known by its hash and not read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.render.costs import COST_HASHES
from trajmill.pipelines.render.turns import Rows
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import RowGroup, row_groups

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
_OF_ROWS: Final = frozenset(
    {"step", "turn", "num_segments", "interleaved", "scrubbed", _MOMENT, "action.name", "action.arguments"}
)
"""What texts of whole samples are not made of."""


def _structs(envelopes: bool) -> dict[str, tuple[str, ...]]:
    """The fields that are read of each struct."""
    return {
        name: (*fields, "envelope") if envelopes and name.endswith("observation") else fields
        for name, fields in _STRUCTS.items()
    }


class WholeRows(NamedTuple):
    """A row group of which some rows are asked for by columns.

    Attributes:
        first: the number of its first row in the file.
        batch: of all its rows, with the columns that the texts of turns are made of.
    """

    first: int
    batch: pa.RecordBatch


class ByColumns(Protocol):
    """What is asked for by columns of each row group."""

    def within(self, first: int, number: int) -> npt.NDArray[np.bool_]:
        """Which rows of a row group of so many, that begins with row `first` of the file; of a trajectory all."""

    def reads(self, first: int, number: int) -> Set[str]:
        """The leaves that are read of them besides those that texts of turns are made of."""


class _None:
    """Nothing is asked for by columns."""

    def within(self, _: int, number: int) -> npt.NDArray[np.bool_]:
        return np.zeros(number, np.bool_)

    def reads(self, _: int, __: int) -> Set[str]:
        return frozenset()


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
    for one in rows_and_wholes(transitions, name, beside, wanted, _None(), envelopes=envelopes):
        assert not isinstance(one, WholeRows)
        yield one


def rows_and_wholes(
    transitions: Folder,
    name: str,
    beside: pa.Table,
    wanted: npt.NDArray[np.bool_],
    by_columns: ByColumns,
    *,
    envelopes: bool = False,
) -> Iterator[Rows | WholeRows]:
    """The rows of trajectories as `drawn_rows` gives them, but for those that are asked for by columns.

    Args:
        transitions: folder of the transitions.
        name: of the file in it.
        beside: as of `drawn_rows`.
        wanted: which rows are asked for, in either way.
        by_columns: which of them by columns; their row groups come as such.
        envelopes: as of `drawn_rows`.
    """
    structs = _structs(envelopes)
    held: list[dict[str, Any]] = []
    for one in _rows(transitions, name, beside, wanted, by_columns, structs):
        if isinstance(one, WholeRows):
            yield one
            continue
        if held and _TRAJECTORY(one) != _TRAJECTORY(held[0]):
            yield held
            held = []
        held.append(one)
    if held:
        yield held


_TRAJECTORY: Final = itemgetter("ordinal", "segment")


def _rows(
    transitions: Folder,
    name: str,
    beside: pa.Table,
    wanted: npt.NDArray[np.bool_],
    by_columns: ByColumns,
    structs: Mapping[str, tuple[str, ...]],
) -> Iterator[dict[str, Any] | WholeRows]:
    """The rows that are wanted, of whatever trajectory: row groups may cut a long one."""
    for first, group in _numbered(row_groups(transitions, name)):
        asked, whole = wanted[first : first + group.num_rows], by_columns.within(first, group.num_rows)
        chosen = asked & ~whole
        if not asked.any():
            continue
        every = bool(chosen.all())
        told = beside.slice(first, group.num_rows)
        mine = (told if every else told.filter(pa.array(chosen))).combine_chunks()
        unread = np.flatnonzero(_unread(mine))
        states = len(unread) > 0 or bool(_unread(told)[whole].any())
        reads = by_columns.reads(first, group.num_rows) if not len(mine) else _OF_ROWS
        batch = group.read(_leaves(structs, reads, states=states))
        if whole.any():
            yield WholeRows(first, batch)
        if len(mine):
            yield from _python_rows(batch if every else batch.filter(pa.array(chosen)), mine, unread, structs)


def _numbered(groups: Iterable[RowGroup]) -> Iterator[tuple[int, RowGroup]]:
    """Row groups with the number of their first row."""
    first = 0
    for group in groups:
        yield first, group
        first += group.num_rows


def _leaves(structs: Mapping[str, tuple[str, ...]], more: Set[str], states: bool) -> list[str]:
    """What is read: what texts are made of, so much more of what rows want, and what stood before actions."""
    leaves = [*_COLUMNS, _MOMENT, *(f"{struct}.{field}" for struct, fields in structs.items() for field in fields)]
    return [leaf for leaf in leaves if (leaf in more or leaf not in _OF_ROWS) and (states or leaf not in _STATES)]


def _unread(told: pa.Table) -> npt.NDArray[np.bool_]:
    return is_unread(*(told[name].to_numpy() for name in COST_HASHES))


def is_unread(state: npt.NDArray[np.uint64], led: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Before which rows' actions stood a text, as far as it is shown at all, that the row before did not lead to.

    Args:
        state: hash of what stood before each action, 0 where it is not shown.
        led: hash of what each action led to.
    """
    before = np.zeros(len(state), np.uint64)
    before[1:] = led[:-1]
    return (state != 0) & (state != before)


def _python_rows(
    batch: pa.RecordBatch, told: pa.Table, unread: npt.NDArray[np.int64], structs: Mapping[str, tuple[str, ...]]
) -> Iterator[dict[str, Any]]:
    """The rows with only what rendering needs, made one by one; a text that rows share is one object."""
    columns: dict[str, Iterable[Any]] = {name: python_values(batch[name]) for name in _COLUMNS}
    columns[_MOMENT] = python_values(batch[_MOMENT].cast(pa.int64()))
    after: dict[str, list[Any]] = {}
    for struct, names in structs.items():
        read = [name for name in names if f"{struct}.{name}" not in _STATES]
        fields = {name: python_values(pc.struct_field(batch[struct], name)) for name in read}
        if struct == "next_observation":
            after = fields
        if struct == "observation":
            state = told["state_hash"].to_numpy()
            fields |= {
                name: _states(batch[struct], name, after[name], state, unread) for name in names if name in _SHOWN
            }
        columns[struct] = _dicts(fields, batch[struct])
    columns |= {
        name: python_values(told[name].combine_chunks()) for name in told.column_names if name not in COST_HASHES
    }
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
        for row, text in zip(unread.tolist(), python_values(texts), strict=True):
            found[row] = text
    return found


def python_values(column: pa.Array) -> list[Any]:
    """A column as Python values; a text that a dictionary holds is one object."""
    if pa.types.is_dictionary(column.type):
        index, held = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False), column.dictionary
        if len(held) > len(index):  # of a few rows that are taken out of many
            used, index = np.unique(np.append(index, -1), return_inverse=True)
            index, held = index[:-1] - 1, held.take(pa.array(used[1:]))
        texts = [*python_values(held), None]  # the last is that of -1
        return [texts[place] for place in index.tolist()]
    if pa.types.is_string(column.type) or (pa.types.is_primitive(column.type) and not column.null_count):
        found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return found
    return [None] * len(column) if column.null_count == len(column) else column.to_pylist()
