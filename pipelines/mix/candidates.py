"""Candidates: what can be drawn, one record a kept trajectory, read from what judge wrote beside the transitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.engine.parquet import read_table
from pipelines.engine.storage import Folder
from pipelines.judge.judging import Unit
from pipelines.judge.measure_files import variety_name
from schemas.verdict import SIGNAL_PREFIX

WIDER: Final[Mapping[str, frozenset[str]]] = {
    "repository": frozenset({"swe"}),
    "site": frozenset({"web"}),
    "app": frozenset({"android", "os"}),
    "server": frozenset({"mcp"}),
}
"""Domains whose environments are what `mix.group_by` names."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The kept trajectories of units, one after the other in the order of their files; arrays of one length.

    Attributes:
        unit: the number of the unit.
        trajectory_id: as text.
        group: its name, as text.
        domain: its name.
        source: as the rows name it.
        kind: of the environment: real, code or model.
        task: hash; 0 is not known.
        environment: hash; 0 is not known.
        task_node: by which trajectories of one task are one group; 0 for passages.
        instance_node: by which those on one instance of an environment are; 0 for passages.
        tokens: of what it becomes, rendered; 0 until its pool is known.
        loss_tokens: of them, those under loss.
        text_bytes: of actions and next observations.
        signals: by name, the mean over the trajectory's targets.
    """

    unit: npt.NDArray[np.int64]
    trajectory_id: npt.NDArray[np.object_]
    group: npt.NDArray[np.object_]
    domain: npt.NDArray[np.object_]
    source: npt.NDArray[np.object_]
    kind: npt.NDArray[np.object_]
    task: npt.NDArray[np.uint64]
    environment: npt.NDArray[np.uint64]
    task_node: npt.NDArray[np.uint64]
    instance_node: npt.NDArray[np.uint64]
    tokens: npt.NDArray[np.int64]
    loss_tokens: npt.NDArray[np.int64]
    text_bytes: npt.NDArray[np.int64]
    signals: Mapping[str, npt.NDArray[np.float64]]

    def __len__(self) -> int:
        return len(self.unit)

    def shared(self, by: str) -> npt.NDArray[np.uint64]:
        """What trajectories share by a value of `mix.group_by`; 0 where they have none."""
        belongs = np.isin(self.domain.astype(str), sorted(WIDER[by]))
        return np.where(belongs, self.environment, np.uint64(0))


_KINDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("unit", "tokens", "loss_tokens", "text_bytes"), np.int64),
    **dict.fromkeys(("trajectory_id", "group", "domain", "source", "kind"), object),
    **dict.fromkeys(("task", "environment", "task_node", "instance_node"), np.uint64),
}
"""Columns of candidates but their signals."""

_NODES: Final = ("task_node", "instance_node")


def gathered(some: Sequence[Candidates], signals: Sequence[str]) -> Candidates:
    """All candidates of units, in their order; `signals` names those that each has."""
    columns = {
        name: np.concatenate([np.empty(0, kind), *(getattr(one, name) for one in some)])
        for name, kind in _KINDS.items()
    }
    means = {name: np.concatenate([np.empty(0), *(one.signals[name] for one in some)]) for name in signals}
    return Candidates(**columns, signals=means)


def candidates(
    unit: Unit, transitions: Folder, verdicts: Folder, measures: Folder, signals: Sequence[str] = ()
) -> Candidates:
    """The kept trajectories of a unit.

    Args:
        unit: the unit.
        transitions: folder of the transitions.
        verdicts: folder of their verdicts.
        measures: folder of what was measured of them.
        signals: names of the signals that components ask for.
    """
    columns = ["step", "trajectory_id", "kept", "use", "group", "text_bytes"]
    columns += [SIGNAL_PREFIX + name for name in signals]
    judged = _read(verdicts, unit.name, columns)
    varied = _read(measures, variety_name(unit.label), ["task", "environment"])
    nodes = _read(measures, f"{unit.label}.parquet", list(_NODES))
    rows = _read(transitions, unit.name, ["source", "environment"])
    kept = judged["kept"].to_numpy()
    judged, varied, nodes, rows = (table.filter(pa.array(kept)) for table in (judged, varied, nodes, rows))
    starts = np.flatnonzero(judged["step"].to_numpy() == 0)
    summed = _summing(starts, judged.num_rows)
    used = np.asarray(judged["use"].to_numpy(zero_copy_only=False), object)
    is_target = (used == "target").astype(np.int64)
    begins = pa.array(starts)
    kind = pc.struct_field(rows["environment"].combine_chunks(), "kind") if rows.num_rows else pa.array([], pa.string())
    targets = np.maximum(summed(is_target), 1)
    return Candidates(
        unit=np.full(len(starts), unit.number, np.int64),
        trajectory_id=_texts(judged["trajectory_id"], begins),
        group=_texts(judged["group"], begins),
        domain=np.full(len(starts), unit.name.split("/")[0], object),
        source=_texts(rows["source"], begins),
        kind=_texts(kind, begins),
        task=_first_known(varied["task"].to_numpy(), starts),
        environment=_first_known(varied["environment"].to_numpy(), starts),
        **{name: nodes[name].to_numpy()[starts] for name in _NODES},
        tokens=np.zeros(len(starts), np.int64),
        loss_tokens=np.zeros(len(starts), np.int64),
        text_bytes=summed(judged["text_bytes"].to_numpy()),
        signals={
            name: summed(np.nan_to_num(judged[SIGNAL_PREFIX + name].to_numpy()).astype(np.float64) * is_target)
            / targets
            for name in signals
        },
    )


def _read(folder: Folder, name: str, columns: Sequence[str]) -> pa.Table:
    return read_table(folder, name, columns)


def _summing(starts: npt.NDArray[np.int64], rows: int) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
    return lambda values: np.add.reduceat(values, starts) if rows else values[:0]


def _texts(column: pa.Array | pa.ChunkedArray, begins: pa.Array) -> npt.NDArray[np.object_]:
    taken = column.take(begins)
    plain = taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken
    encoded = plain.cast(pa.string()).dictionary_encode()  # equal texts are one object: there may be millions
    texts = np.array([*encoded.dictionary.to_pylist(), None], object)
    return texts[encoded.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)]


def _first_known(values: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Of each trajectory the first value that is not 0, else 0."""
    if not len(values):
        return values
    places = np.where(values != 0, np.arange(len(values)), len(values))
    first = np.minimum.reduceat(places, starts)
    return np.where(first < len(values), values[np.minimum(first, len(values) - 1)], np.uint64(0))
