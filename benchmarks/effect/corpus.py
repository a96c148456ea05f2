"""Corpus of a comparison: trajectories of a judged run with their groups, and the decisions of each arm about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from benchmarks.effect.arms import ALL_RAW, RAW, Arm
from trajmill.pipelines.generations.generations import chain
from trajmill.pipelines.judge.judging import Unit, measure_file
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import Turn, trajectories, turns
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table, read_transitions
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.schemas import ConfigError

Bools = npt.NDArray[np.bool_]

CUT: Final = "recorder_cut"
"""What rows say of an answer that the log lost a part of."""

LEAK: Final = "contaminated"
"""The reason of trajectories that are of no arm: what shows a benchmark may not be trained on, whatever it teaches."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions of an arm about the rows of a unit: which are kept, and their uses."""

    kept: Bools
    use: npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a unit, whatever arm they are of.

    Attributes:
        unit: that they are of.
        beside: what rendering asks for beside the transitions; without `use`.
        ordinal: of each row the number of its trajectory in the unit.
        text_bytes: of each trajectory, of actions and next observations.
        leaks: of each trajectory whether it shows an item of a benchmark.
        has_text: of each row whether its next observation holds text.
        decided: what the run itself decided.
    """

    unit: Unit
    beside: pa.Table
    ordinal: npt.NDArray[np.int64]
    groups: npt.NDArray[np.str_]
    text_bytes: npt.NDArray[np.int64]
    leaks: Bools
    has_text: Bools
    decided: Decided


def units_in(out: Folder) -> list[Unit]:
    """The units of a judged run.

    Raises:
        ConfigError: it is not judged, or was added to.
    """
    transitions = read_manifest(out / "transitions", MANIFEST)
    if transitions is None or read_manifest(out / "verdicts", MANIFEST) is None:
        raise ConfigError(f"{out.path()} holds no judged run. Run with --stop-after judge, or to the end, first.")
    if len(chain(out)) > 1:
        raise ConfigError(f"{out.path()} was added to. What it holds is compared after a run over all logs.")
    return [Unit(number, file.name, file.sha256) for number, file in enumerate(transitions.files)]


def rows_of(out: Folder, unit: Unit, *, spans: bool) -> Rows:
    """The rows of a unit; `spans` whether those of its answers are read too."""
    table = read_table(
        out / "verdicts", unit.name, ["step", "kept", "use", "reason", "group", "text_bytes", "has_text"]
    )
    costs = read_table(out / "measures", measure_file(unit.label, "costs"), ["segment"])
    step, segment = table["step"].to_numpy(), costs["segment"].to_numpy()
    begins = (step == 0) & (segment == 0)
    ordinal = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    columns = {name: costs[name] for name in costs.column_names} | {"ordinal": pa.chunked_array([ordinal])}
    columns[CUT] = _cut(out / "transitions", unit)
    if spans:
        columns["spans"] = read_table(out / "spans", unit.name, ["spans"])["spans"]
    leaks = np.array([reason == LEAK for reason in table["reason"].take(pa.array(starts)).to_pylist()], np.bool_)
    sizes = np.add.reduceat(table["text_bytes"].to_numpy(), starts) if len(starts) else np.zeros(0, np.int64)
    return Rows(
        unit,
        pa.table(columns),
        ordinal,
        np.array(table["group"].take(pa.array(starts)).to_pylist(), np.str_),
        sizes,
        leaks,
        table["has_text"].to_numpy(),
        Decided(table["kept"].to_numpy(), np.array(table["use"].to_pylist(), np.str_)),
    )


def _cut(transitions: Folder, unit: Unit) -> pa.ChunkedArray:
    """Of which rows the log lost a part of what was observed next."""
    read = read_table(transitions, unit.name, ["next_observation.truncation"])["next_observation"]
    return pc.equal(pc.fill_null(pc.struct_field(read, "truncation"), "none"), "recorder")


def decide_rows(arm: Arm, rows: Rows, verdicts: Folder | None) -> Decided:
    """Decide the rows of a unit: by the arm's own verdicts if it has any, else by the run's; raw arms keep all."""
    if verdicts is not None:
        table = read_table(verdicts, rows.unit.name, ["kept", "use"])
        decided = Decided(table["kept"].to_numpy(), np.array(table["use"].to_pylist(), np.str_))
    elif arm.name not in (RAW, ALL_RAW):
        decided = rows.decided
    else:
        decided = Decided(np.ones(len(rows.ordinal), np.bool_), np.where(rows.has_text, "target", "omit"))
    return Decided(decided.kept & ~rows.leaks[rows.ordinal], decided.use)


def chosen_groups(rows: Sequence[Rows], most_bytes: int) -> set[str]:
    """The groups of a domain that are looked at: in the order of their hashes, up to so many bytes of text."""
    sizes: dict[str, int] = {}
    for unit_rows in rows:
        for group, size, leaks in zip(
            unit_rows.groups.tolist(), unit_rows.text_bytes.tolist(), unit_rows.leaks.tolist(), strict=True
        ):
            if not leaks:
                sizes[group] = sizes.get(group, 0) + size
    chosen, total = set[str](), 0
    for group in sorted(sizes, key=lambda name: xxhash.xxh3_64_intdigest(f"group:{name}".encode())):
        if total >= most_bytes and chosen:
            break
        chosen.add(group)
        total += sizes[group]
    return chosen


@dataclass(frozen=True, slots=True)
class Shown:
    """A trajectory as an arm shows it: where it stands, its group, and its turns."""

    unit: int
    ordinal: int
    group: str
    turns: Sequence[Turn]


def shown(out: Folder, rows: Rows, decided: Decided, groups: set[str], view: View) -> Iterator[Shown]:
    """The trajectories of a unit that an arm keeps, of some groups, as samples show them."""
    of_groups = np.isin(rows.groups, np.array(sorted(groups), np.str_))
    wanted = decided.kept & of_groups[rows.ordinal]
    beside = rows.beside.append_column("use", pa.array(decided.use.tolist()))
    parts: dict[int, list[Turn]] = {}
    for part in trajectories(_rows(out, rows.unit, beside, wanted)):
        parts.setdefault(part[0]["ordinal"], []).extend(turns(part, view))
    for ordinal, kept_turns in parts.items():
        if kept_turns:
            yield Shown(rows.unit.number, ordinal, str(rows.groups[ordinal]), kept_turns)


def _rows(out: Folder, unit: Unit, beside: pa.Table, wanted: Bools) -> Iterator[dict[str, Any]]:
    """The rows of a unit that are wanted, with what lies beside them."""
    first = 0
    for batch in read_transitions(out / "transitions", unit.name):
        mine = pa.array(wanted[first : first + batch.num_rows])
        columns = beside.slice(first, batch.num_rows).filter(mine).to_pylist()
        yield from ({**row, **more} for row, more in zip(batch.filter(mine).to_pylist(), columns, strict=True))
        first += batch.num_rows
