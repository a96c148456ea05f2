"""Checking the generations of an output folder: the chain, the stages of each, ledgers, and what stands in `shards/`.

Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from trajmill.pipelines.generations.generations import GENERATIONS, Generation, chain, ledgers_of, stages_of
from trajmill.pipelines.generations.ledgers import read_ledger
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import rows_of
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.schemas import ConfigError, ShardError

if TYPE_CHECKING:
    from trajmill.pipelines.generations.verification import Fault, StageState, Verification

SHARDS: Final = "shards"
_CHANGED: Final = "is not as the manifest of its generation says"
Told = Callable[[str, str], "Fault"]


def with_generations(found: Verification, checked: Callable[[str], Verification], fault: Told) -> Verification:
    """The same with what generations hold, and what is wrong with them.

    Args:
        found: of the folder itself.
        checked: the check of the folder of one generation.
        fault: (name, what is wrong) → as it is told.
    """
    out = Folder(found.out)
    try:
        generations = chain(out)
    except ConfigError as error:
        return replace(found, faults=(*found.faults, fault(GENERATIONS, f"is no chain: {error.message}")))
    stages: list[StageState] = [*found.stages]
    faults = [*found.faults]
    for one in generations:
        if one.folder:
            inner = checked(stages_of(out, one).path())
            stages += [replace(stage, name=f"{one.folder}/{stage.name}") for stage in inner.stages]
            faults += [fault(f"{one.folder}/{wrong.name}", wrong.what) for wrong in inner.faults]
            faults += [fault(f"{one.folder}/{name}", "is of no run") for name in inner.foreign]
        faults += [fault(*wrong) for wrong in _files(out, one)]
    if generations and not faults:
        faults += [fault(*wrong) for wrong in (*_shards(out, generations), *_ledgers(out, generations))]
    return replace(found, stages=tuple(stages), faults=tuple(faults))


def _files(out: Folder, one: Generation) -> Iterator[tuple[str, str]]:
    """What of a generation's ledgers, and of its files among the shards, is not as its manifest says."""
    ledgers = ledgers_of(out, one)
    lead = ledgers.path()[len(out.path()) + 1 :]
    for entry in one.ledgers:
        if ledgers.sha256(entry.name) != entry.sha256:
            yield f"{lead}/{entry.name}", _CHANGED
        elif (rows := rows_of(ledgers, entry.name)) != entry.rows:
            yield f"{lead}/{entry.name}", f"has {rows} rows, {entry.rows} were written"
    for entry in one.shards:
        if (out / SHARDS).sha256(entry.name) != entry.sha256:
            yield f"{SHARDS}/{entry.name}", _CHANGED


def _shards(out: Folder, generations: Sequence[Generation]) -> Iterator[tuple[str, str]]:
    """Where the dataset is not that of all generations."""
    sealed = read_manifest(out / SHARDS, MANIFEST)
    there = {file for file in sealed.files if "/" in file.name} if sealed is not None else set()
    wanted = [file for one in generations for file in one.shards]
    if len(wanted) != len({file.name for file in wanted}):
        yield f"{SHARDS}/{MANIFEST}", "has a file that two generations made"
    if there != set(wanted):
        yield f"{SHARDS}/{MANIFEST}", "has not the files of all generations: --append completes it"


def _ledgers(out: Folder, generations: Sequence[Generation]) -> Iterator[tuple[str, str]]:
    """Where generations contradict each other: a node that has two places, or a group two pools."""
    folders = [ledgers_of(out, one) for one in generations]
    try:
        nodes = read_ledger(folders, "groups")
        pools = np.unique(nodes[["group", "pool"]])
        if len(np.unique(nodes["node"])) != len(nodes):
            yield GENERATIONS, "gives a node of a group two places"
        if len(np.unique(pools["group"])) != len(pools):
            yield GENERATIONS, "gives a group two pools"
    except ShardError as error:
        yield GENERATIONS, f"has a ledger that cannot be read: {error}"
