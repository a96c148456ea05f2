"""The generations that a run adds one to, as its stages ask for them, and what a finished one adds to the ledgers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.engine.generations import Generation, ledgers_of
from pipelines.engine.ledgers import COPIES, ENVIRONMENTS, NODES, read_ledger
from pipelines.engine.parquet import read_batches
from pipelines.engine.storage import Folder
from pipelines.judge.earlier import Earlier
from pipelines.judge.packed_rows import identities
from pipelines.judge.reasons import BRIDGES_POOLS
from pipelines.mix.candidates import candidates, gathered
from pipelines.mix.mixture import Judged, draws_name, trained_environments
from pipelines.mix.placing import NODE_COLUMNS, Before, known_nodes, placed
from pipelines.mix.pools import of_kind
from pipelines.plan.known_inputs import KnownInputs
from pipelines.plan.plan import Plan
from pipelines.recipe.recipe import POOLS, Recipe
from quality.fingerprint import as_lanes


@dataclass(frozen=True, slots=True)
class EarlierGenerations:
    """What a run has to know of the generations before it.

    Attributes:
        earlier: as judging asks for them.
        drawn: as drawing does.
        inputs: as planning does.
        plan: what is read now; None until that is known.
    """

    earlier: Earlier
    drawn: Before
    inputs: KnownInputs
    plan: Plan | None = None

    @classmethod
    def of(cls, out: Folder, found: Sequence[Generation]) -> EarlierGenerations:
        """Those of a chain in an output folder."""
        ledgers = tuple(ledgers_of(out, one) for one in found)
        draws = tuple(out / (f"{one.folder}/draws" if one.folder else "draws") for one in found)
        drawn: Counter[str] = Counter()
        given: dict[str, Counter[str]] = {name: Counter() for name in POOLS}
        for one in found:
            drawn.update(one.drawn)
            for pool, domains in one.given.items():
                given[pool].update(domains)
        before = Before(len(found) + 1, ledgers, draws, drawn, given)
        return cls(Earlier(found[-1].digest, ledgers), before, KnownInputs(read_ledger(ledgers, "inputs")))

    def bridges(self, recipe: Recipe, judged: Judged) -> Mapping[str, tuple[int, ...]]:
        """Unit's label → first rows of the kept trajectories that would join two pools."""
        folders = judged.transitions, judged.verdicts, judged.measures
        found = gathered([candidates(unit, *folders) for unit in judged.units], [])
        return placed(recipe.mix, judged.units, found, judged.verdicts, judged.measures, self.drawn).bridges


@dataclass(frozen=True, slots=True)
class Added:
    """What a finished generation adds.

    Attributes:
        rows: kind of ledger → its rows.
        drawn: trajectories drawn by pool.
        given: trajectories given, by pool and domain.
    """

    rows: Mapping[str, npt.NDArray[np.void]]
    drawn: dict[str, int]
    given: dict[str, dict[str, int]]


def added(recipe: Recipe, judged: Judged, draws: Folder, ledgers: Sequence[Folder] = ()) -> Added:
    """What a generation adds, from its verdicts and draws.

    Args:
        recipe: that it was made by.
        judged: its stages.
        draws: what it drew.
        ledgers: of the generations before it, whose nodes keep what they have.
    """
    rows: dict[str, list[npt.NDArray[np.void]]] = {name: [] for name in ("trajectories", "transitions", "groups")}
    drawn: Counter[str] = Counter()
    given: dict[str, Counter[str]] = {name: Counter() for name in POOLS}
    environments = [np.zeros(0, np.uint64)]
    folders = judged.transitions, judged.verdicts, judged.measures
    places: dict[int, tuple[int, int]] = {}  # of judging's groups
    for unit in judged.units:
        found = candidates(unit, *folders)
        chosen = pa.Table.from_batches(read_batches(draws, draws_name(unit.label)))
        pool, copies = np.array(chosen["pool"].to_pylist(), object), chosen["copies"].to_numpy()
        group = np.array([int(name, 16) for name in chosen["group"].to_pylist()], np.uint64)
        number = np.array([POOLS.index(name) for name in pool.tolist()], np.uint64)
        for name, count in zip(POOLS, np.bincount(number.astype(int), minlength=len(POOLS)).tolist(), strict=True):
            given[name][unit.domain] += count
        drawn.update(pool[copies > 0].tolist())
        environments.append(trained_environments(found.environment, pool, copies))
        of_judging = np.array([int(name, 16) for name in found.group], np.uint64)
        places |= dict(zip(of_judging.tolist(), zip(group.tolist(), number.tolist(), strict=True), strict=True))
        for place, by in enumerate(recipe.mix.group_by):
            shared = found.shared(by)
            some = shared != 0
            rows["groups"].append(_nodes(of_kind(shared[some], place), group[some], number[some]))
        rows["groups"].append(_nodes(group, group, number))
    for unit in judged.units:
        for kind, part in _of_unit(unit.name, unit.label, judged, places):
            rows[kind].append(part)
    whole = {kind: np.concatenate([np.zeros(0, _KINDS[kind]), *parts]) for kind, parts in rows.items()}
    whole["groups"] = _first_known(whole["groups"], ledgers)
    seen = np.unique(np.concatenate(environments))
    whole["environments"] = seen[seen != 0].astype(ENVIRONMENTS[0]).view(ENVIRONMENTS)
    return Added(whole, dict(sorted(drawn.items())), {pool: dict(sorted(of.items())) for pool, of in given.items()})


_KINDS = {"trajectories": COPIES, "transitions": COPIES, "groups": NODES}


def _of_unit(
    name: str, label: str, judged: Judged, places: Mapping[int, tuple[int, int]]
) -> Iterator[tuple[str, npt.NDArray[np.void]]]:
    """The ledger rows of a unit's trajectories and transitions, and of the nodes of all whose group has a pool."""
    columns = ["trajectory_id", "step", "kept", "use", "group", "reason"]
    verdicts = pa.Table.from_batches(read_batches(judged.verdicts, name, columns)).combine_chunks()
    wanted = ["trajectory_hash", "transition_hash", *NODE_COLUMNS]
    measures = pa.Table.from_batches(read_batches(judged.measures, f"{label}.parquet", wanted)).combine_chunks()
    first = verdicts["step"].to_numpy() == 0
    for kind, column, chosen in (
        ("trajectories", "trajectory_hash", first & verdicts["kept"].to_numpy()),
        ("transitions", "transition_hash", np.array(verdicts["use"].to_pylist(), object) == "target"),
    ):
        rows = pa.array(np.flatnonzero(chosen))
        lanes = as_lanes(measures[column].take(rows).combine_chunks())
        found = np.zeros(len(rows), COPIES)
        found["high"], found["low"] = lanes[:, 0], lanes[:, 1]
        found["tie"] = identities(verdicts["trajectory_id"].take(rows).to_pylist())
        yield kind, found
    stays = first & (np.array(verdicts["reason"].to_pylist(), object) != BRIDGES_POOLS)
    group = [int(one, 16) for one in verdicts["group"].filter(pa.array(stays)).to_pylist()]
    has_pool = np.array([one in places for one in group], np.bool_)
    taken = [places[one] for one in group if one in places]
    of, pool = (np.array([one[side] for one in taken], np.uint64) for side in (0, 1))
    for column in NODE_COLUMNS:
        yield "groups", _nodes(measures[column].to_numpy()[stays][has_pool], of, pool)


def _nodes(
    node: npt.NDArray[np.uint64], group: npt.NDArray[np.uint64], pool: npt.NDArray[np.uint64]
) -> npt.NDArray[np.void]:
    rows = np.zeros(len(node), NODES)
    rows["node"], rows["group"], rows["pool"] = node, group, pool
    return rows


def _first_known(rows: npt.NDArray[np.void], ledgers: Sequence[Folder]) -> npt.NDArray[np.void]:
    """The rows of nodes that no ledger has, each node once."""
    rows = np.unique(rows)
    rows = rows[np.r_[True, rows["node"][1:] != rows["node"][:-1]]] if len(rows) else rows
    return rows[~np.isin(rows["node"], known_nodes(rows["node"], ledgers)["node"])]
