"""Candidates of a draw: one record per kept trajectory, read from the files of the judge stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajmill.pipelines.judge.judging import Unit, measure_file
from trajmill.pipelines.judge.world_models import answering
from trajmill.pipelines.mix.coded_names import Coded, fitting, numbers_of
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.pools import merge_groups
from trajmill.pipelines.recipe.mixture import VALUES
from trajmill.pipelines.recipe.recipe import POOLS, Mix
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.quality.fingerprint import text_hashes
from trajmill.quality.sets import distinct
from trajmill.schemas import ConfigError
from trajmill.schemas.verdict import SIGNAL_PREFIX

Floats = npt.NDArray[np.float64]

ID: Final = "trajectory_id"


@dataclass(frozen=True, slots=True)
class GivenValues:
    """Columns of numbers by trajectory.

    Attributes:
        keys: hashes of the ids, ascending.
        columns: one number per key, by name with the prefix `VALUES`.
    """

    keys: npt.NDArray[np.uint64]
    columns: dict[str, Floats]

    def of(self, name: str, ids: pa.Array) -> Floats:
        """Return the numbers of trajectories; NaN for those that the file lacks."""
        keys = text_hashes(ids)[:, 0]
        positions = np.searchsorted(self.keys, keys)
        has_key = np.append(self.keys, 0)[positions] == keys if len(self.keys) else np.zeros(len(keys), np.bool_)
        return np.where(
            has_key & (positions < len(self.keys)), np.append(self.columns[name], np.nan)[positions], np.nan
        )


def read_values(path: str, names: Sequence[str]) -> GivenValues:
    """Read the columns of these names, each with the prefix `VALUES`.

    Raises:
        ConfigError: the file cannot be read, lacks a column, has text in place of a number, or two rows of one
            trajectory.
    """
    columns = [name.removeprefix(VALUES) for name in names]
    try:
        schema = pq.read_schema(path)
        lacking = [name for name in (ID, *columns) if name not in schema.names]
        if lacking:
            available = ", ".join(name for name in schema.names if name != ID)
            raise ConfigError(f"mix.values: {path} has no column {', '.join(lacking)}; it has: {available}.")
        table = pq.read_table(path, columns=[ID, *columns]).combine_chunks()
        ids = table[ID].combine_chunks().cast(pa.string())
        arrays = {name: table[name].combine_chunks().cast(pa.float64()) for name in columns}
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"mix.values: {path} cannot be read: {error}") from error
    if ids.null_count:
        raise ConfigError(f"mix.values: {path} has a row without a trajectory.")
    numbers = {name: column.to_numpy(zero_copy_only=False) for name, column in arrays.items()}
    keys = text_hashes(ids)[:, 0]
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(np.diff(keys[order].view(np.int64)) == 0)
    if len(again):
        raise ConfigError(f"mix.values: {path} has two rows of trajectory {ids[int(order[again[0]])]}.")
    return GivenValues(keys[order], {VALUES + name: column[order] for name, column in numbers.items()})


def weigh_keys(keys: npt.NDArray[np.uint64], weights: Floats) -> npt.NDArray[np.uint64]:
    """Return keys whose order is a random order weighted by `weights`. Items without weight come last.

    The order is that of -log(u) / weight, where u is the key as a share (Efraimidis and Spirakis 2006). The bits of
    positive floats have the same order as the floats.

    Args:
        keys: 64 bits of a hash of each item.
        weights: weight of each item; NaN and negative weights count as 0.
    """
    shares = (keys.astype(np.float64) + 0.5) / 2.0**64
    lots = -np.log(np.minimum(shares, 1 - 2.0**-53))
    weights = np.maximum(np.nan_to_num(weights, nan=0.0), 0.0)
    # items without weight keep their random order, after all others
    order = np.where(weights > 0, lots / np.maximum(weights, 1e-300), 1e302 + lots * 1e300)
    bits: npt.NDArray[np.uint64] = np.minimum(order, 1.7e308).view(np.uint64)
    return bits


def weights_by(values: dict[str, Floats], powers: dict[str, float]) -> Floats:
    """Return the product of values raised to their powers; negative values and NaN count as 0."""
    factors = [np.maximum(np.nan_to_num(values[name], nan=0.0), 0.0) ** power for name, power in powers.items()]
    product: Floats = np.prod(factors, axis=0)
    return product


WIDER: Final[Mapping[str, frozenset[str]]] = {
    "repository": frozenset({"swe"}),
    "site": frozenset({"web"}),
    "app": frozenset({"android", "os"}),
    "server": frozenset({"mcp"}),
}
"""Domains whose environments each key of `mix.group_by` denotes."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Kept trajectories of units in the order of their files, as arrays of one length.

    There may be millions, so nothing is an object, and ids stay in their files.

    Attributes:
        unit: number of the unit, ascending.
        draw_key: hash of the id, by which stages order their draws; empty if nothing is drawn.
        index_key: hash of the id, by which drawn trajectories are numbered; empty if nothing is drawn.
        kind: kind of the environment: real, code or model.
        world_model: name and revision of the world model that answered the trajectory; empty if none did.
        task: hash of the task; 0 if unknown. Empty if no bound needs tasks.
        environment: hash of the environment; 0 if unknown.
        tokens: tokens of the rendered trajectory; 0 until its pool is known.
        loss_tokens: the tokens under loss among them.
        text_bytes: bytes of actions and next observations.
        attachments: attachments of the screens before its actions. Empty if no sample shows any.
        signals: by name, the mean over the trajectory's targets.
    """

    unit: npt.NDArray[np.uint32]
    draw_key: npt.NDArray[np.uint64]
    index_key: npt.NDArray[np.uint64]
    group: npt.NDArray[np.uint64]
    domain: Coded
    source: Coded
    kind: Coded
    world_model: Coded
    task: npt.NDArray[np.uint64]
    environment: npt.NDArray[np.uint64]
    tokens: npt.NDArray[np.integer[Any]]
    loss_tokens: npt.NDArray[np.integer[Any]]
    text_bytes: npt.NDArray[np.integer[Any]]
    attachments: npt.NDArray[np.integer[Any]]
    signals: Mapping[str, npt.NDArray[np.float64]]

    def __len__(self) -> int:
        return len(self.unit)

    def shared(self, by: str, largest: float = 1.0) -> npt.NDArray[np.uint64]:
        """Return the hash of the environment that joins trajectories by a key of `mix.group_by`; 0 for none.

        Args:
            largest: largest share of a domain's trajectories that one environment may join.
        """
        named = np.where(self.domain.is_in(WIDER[by]), self.environment, np.uint64(0))
        if largest >= 1:
            return named
        _, number, count = np.unique(
            np.stack([self.domain.codes.astype(np.uint64), named]), axis=1, return_inverse=True, return_counts=True
        )
        in_domain = np.bincount(self.domain.codes)[self.domain.codes]
        return np.where(count[number.reshape(-1)] <= largest * in_domain, named, np.uint64(0))


_CODED: Final = ("domain", "source", "kind", "world_model")
_KINDS: Final[Mapping[str, Any]] = {
    "unit": np.uint32,
    **dict.fromkeys(("draw_key", "index_key", "group", "task", "environment"), np.uint64),
    **dict.fromkeys(("tokens", "loss_tokens", "text_bytes", "attachments"), np.uint32),
}
"""Smallest types of the candidates' columns, except names and signals."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Values of candidates that are needed besides their fixed columns.

    Attributes:
        seed: seed of the hashes for drawing; None if nothing is drawn.
        signals: names of the signals and given values that components use.
        tasks: whether a bound needs tasks.
        images: whether samples show attachments.
    """

    seed: int | None = None
    signals: Sequence[str] = ()
    tasks: bool = False
    given: GivenValues | None = None
    images: bool = False

    @classmethod
    def by(cls, mix: Mix) -> Wanted:
        """Collect the values that the stages of a recipe need.

        Raises:
            ConfigError: the file of values lacks a named column.
        """
        stages = mix.stages.values()
        components = [component for stage in stages for component in stage.components.values()]
        signals = {name for component in components for name in {**component.where, **(component.weigh or {})}}
        tasks = any(bound.by == "task" for stage in stages for bound in stage.bounds)
        values = sorted(name for name in signals if name.startswith(VALUES))
        given_values = None if mix.values is None else read_values(mix.values, values)
        return cls(mix.seed, sorted(signals), tasks, given_values, mix.images is not None)

    def keys(self, ids: pa.Array) -> dict[str, npt.NDArray[np.uint64]]:
        """Return the keys of these ids."""
        if self.seed is None:
            return dict.fromkeys(("draw_key", "index_key"), np.zeros(0, np.uint64))
        texts = ids.to_pylist()
        return {
            f"{purpose}_key": np.array([keyed_hash(f"{purpose}:{text}", self.seed) for text in texts], np.uint64)
            for purpose in ("draw", "index")
        }


NOTHING: Final = Wanted()


def gather_run_candidates(units: Iterable[Unit], stages: Folder) -> Candidates:
    """Gather the candidates of the units of a run whose stages are in a folder."""
    return gather_candidates(candidates(unit, stages) for unit in units)


def draws_name(label: str) -> str:
    """Return the name of a unit's file of draws, by its label."""
    return f"{label}.parquet"


def widen_groups(candidates: Candidates, mix: Mix) -> npt.NDArray[np.uint64]:
    """Return the group of each candidate, widened by the keys of `mix.group_by`."""
    if not mix.group_by or not len(candidates):
        return candidates.group
    return merge_groups(candidates.group, [candidates.shared(by, largest) for by, largest in mix.group_by.items()])


def training_environments(
    environment: npt.NDArray[np.uint64], pool: Coded, copies: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.uint64]:
    """Return the distinct environments of the candidates that are drawn for training; 0 is an unknown one."""
    trained = pool.is_in([name for name in POOLS if name != "eval"]) & (copies > 0)
    return distinct(environment[trained])


def gather_candidates(parts: Iterable[Candidates], signals: Sequence[str] = ()) -> Candidates:
    """Join the candidates of units in order; `signals` names the signals that each has."""
    columns = {name: _Column(kind) for name, kind in _KINDS.items()}
    means = {name: _Column(np.float64) for name in signals}
    coded = {name: (_Column(np.uint8), dict[str | None, int]()) for name in _CODED}
    for part in parts:
        for name, column in columns.items():
            column.add(getattr(part, name))
        for name, column in means.items():
            column.add(part.signals[name])
        for name, (column, numbers) in coded.items():
            mine: Coded = getattr(part, name)
            new_codes = np.array([numbers.setdefault(text, len(numbers)) for text in mine.names], np.int64)
            column.add(fitting(new_codes[mine.codes], len(numbers)))
    joined: dict[str, Any] = {name: column.values() for name, column in columns.items()}
    joined |= {name: Coded(column.values(), tuple(numbers)) for name, (column, numbers) in coded.items()}
    return Candidates(**joined, signals={name: column.values() for name, column in means.items()})


class _Column:
    """Values that are appended to one buffer, so that the arrays of units leave no holes in memory."""

    def __init__(self, kind: Any) -> None:
        self._kind, self._data = np.dtype(kind), bytearray()

    def add(self, values: npt.NDArray[Any]) -> None:
        """Append values. A larger dtype widens all values."""
        kind = np.promote_types(self._kind, values.dtype)
        if kind != self._kind:
            self._kind, self._data = kind, bytearray(self.values().astype(kind).tobytes())
        self._data.extend(values.astype(kind, copy=False).tobytes())

    def values(self) -> npt.NDArray[Any]:
        return np.frombuffer(self._data, self._kind)


def candidates(unit: Unit, stages: Folder, wanted: Wanted = NOTHING) -> Candidates:
    """Read the kept trajectories of a unit of a run whose stages are in a folder."""
    columns = ["step", "kept", "use", "group", "text_bytes", *(["trajectory_id"] if wanted.seed is not None else [])]
    given_values = wanted.given
    measured = [name for name in wanted.signals if given_values is None or name not in given_values.columns]
    columns += [SIGNAL_PREFIX + name for name in measured]
    judged = _read(stages / "verdicts", unit.name, columns)
    nodes = ["environment", *(["task"] if wanted.tasks else [])]
    varied = _read(stages / "measures", measure_file(unit.label, "variety"), nodes)
    screens = ["observation.attachments"] if wanted.images else []
    rows = _read(stages / "transitions", unit.name, ["source", "environment", *screens])
    is_kept = judged["kept"].to_numpy()
    judged, varied, rows = (table.filter(pa.array(is_kept)) for table in (judged, varied, rows))
    starts = np.flatnonzero(judged["step"].to_numpy() == 0)
    summed = _summing(starts, judged.num_rows)
    used = np.asarray(judged["use"].to_numpy(zero_copy_only=False), object)
    is_target = (used == "target").astype(np.int64)
    begins = pa.array(starts)
    kind = pc.struct_field(rows["environment"].combine_chunks(), "kind") if rows.num_rows else pa.array([], pa.string())
    models = _world_models(rows, starts)
    targets = np.maximum(summed(is_target), 1)
    ids = _take_texts(judged["trajectory_id"], begins) if wanted.seed is not None else pa.array([], pa.string())
    return Candidates(
        unit=np.full(len(starts), unit.number, np.uint32),
        **wanted.keys(ids),
        group=numbers_of(_take_texts(judged["group"], begins)),
        domain=Coded.alike(unit.domain, len(starts)),
        source=Coded.of(_take_texts(rows["source"], begins)),
        kind=Coded.of(pc.if_else(pa.array(models.is_in([""])), _take_texts(kind, begins), "model")),
        world_model=models,
        task=_first_known(varied["task"].to_numpy(), starts) if wanted.tasks else np.zeros(0, np.uint64),
        environment=_first_known(varied["environment"].to_numpy(), starts),
        tokens=np.zeros(len(starts), np.uint32),
        loss_tokens=np.zeros(len(starts), np.uint32),
        text_bytes=narrow(summed(judged["text_bytes"].to_numpy())),
        attachments=narrow(summed(_count_attachments(rows))) if wanted.images else np.zeros(0, np.uint32),
        signals={
            name: summed(np.nan_to_num(judged[SIGNAL_PREFIX + name].to_numpy()).astype(np.float64) * is_target)
            / targets
            for name in measured
        }
        | ({} if given_values is None else {name: given_values.of(name, ids) for name in given_values.columns}),
    )


def _count_attachments(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Count the attachments of the screen before each row's action."""
    counts = [len((observation or {}).get("attachments") or ()) for observation in rows["observation"].to_pylist()]
    return np.array(counts, np.int64)


def _world_models(rows: pa.Table, starts: npt.NDArray[np.int64]) -> Coded:
    """Return the first world model that answered a row of each trajectory; empty if none did."""
    if not rows.num_rows:
        return Coded.alike("", 0)
    names = answering(rows["environment"].combine_chunks())
    answered_rows = np.flatnonzero(names.is_valid())
    if not len(answered_rows):
        return Coded.alike("", len(starts))
    trajectories, first_rows = np.unique(np.searchsorted(starts, answered_rows, "right") - 1, return_index=True)
    models = np.full(len(starts), "", object)
    models[trajectories] = names.take(pa.array(answered_rows[first_rows])).to_pylist()
    return Coded.of(models.tolist())


@dataclass(frozen=True, slots=True)
class Identities:
    """Identities of the candidates of a unit, in their order.

    Attributes:
        task_node: node that joins trajectories of one task into a group; 0 for passages.
        instance_node: node that joins trajectories on one instance of an environment; 0 for passages.
    """

    ids: pa.Array
    task_node: npt.NDArray[np.uint64]
    instance_node: npt.NDArray[np.uint64]


def identities(unit: Unit, stages: Folder) -> Identities:
    """Read the identities of the kept trajectories of a unit."""
    judged = _read(stages / "verdicts", unit.name, ["step", "trajectory_id", "kept"])
    nodes = _read(stages / "measures", f"{unit.label}.parquet", ["task_node", "instance_node"])
    starts = np.flatnonzero(judged["kept"].to_numpy() & (judged["step"].to_numpy() == 0))
    task, instance = (nodes[name].to_numpy()[starts] for name in nodes.column_names)
    return Identities(_take_texts(judged["trajectory_id"], pa.array(starts)), task, instance)


def narrow(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.integer[Any]]:
    """Narrow numbers to four bytes each, if all of them fit."""
    return sizes.astype(np.uint32) if not len(sizes) or sizes.max() <= np.iinfo(np.uint32).max else sizes


def _read(folder: Folder, name: str, columns: Sequence[str]) -> pa.Table:
    return read_table(folder, name, columns)


def _summing(starts: npt.NDArray[np.int64], rows: int) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
    return lambda values: np.add.reduceat(values, starts) if rows else values[:0]


def _take_texts(column: pa.Array | pa.ChunkedArray, rows: pa.Array) -> pa.Array:
    texts = column.take(rows)
    plain = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    return plain.cast(pa.string())


def _first_known(values: npt.NDArray[np.uint64], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return the first nonzero value of each trajectory, else 0."""
    if not len(values):
        return values
    positions = np.where(values != 0, np.arange(len(values)), len(values))
    first_known = np.minimum.reduceat(positions, starts)
    return np.where(first_known < len(values), values[np.minimum(first_known, len(values) - 1)], np.uint64(0))
