"""Verification of an output folder with all generations: files, ledgers, the dataset, and the separation of pools.

Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from trajmill.pipelines.generations.generations import (
    GENERATIONS,
    Generation,
    chain,
    ledgers_of,
    read_ledger,
    stages_of,
)
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import unlike_checksums
from trajmill.pipelines.storage.parquet import rows_of
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.pipelines.storage.verification import Fault, Verification, verify_folder
from trajmill.schemas import ConfigError, ShardError

_SHARDS: Final = "shards"
_CHANGED: Final = "is not as the manifest of its generation says"
_OTHER: Final = "is not what was written: its sha256 is another"


def verify(out: str) -> Verification:
    """Read every file of the output folder and of its generations, except the report, and list the faults.

    Raises:
        ConfigError: no run wrote the folder.
    """
    verification = _with_generations(verify_folder(out))
    known_names = {fault.name for fault in verification.faults}
    more = [Fault(name, _OTHER) for name in unlike_checksums(Folder(out)) if name not in known_names]
    return replace(verification, faults=(*verification.faults, *more))


def _with_generations(verification: Verification) -> Verification:
    """Add the stages and faults of the generations to those of the folder itself."""
    out = Folder(verification.out)
    try:
        generations = chain(out)
    except ConfigError as error:
        return replace(verification, faults=(*verification.faults, Fault(GENERATIONS, f"is no chain: {error.message}")))
    stages, faults = [*verification.stages], [*verification.faults]
    for generation in generations:
        name = generation.folder
        if name:
            inner = verify_folder(stages_of(out, generation).path())
            stages += [replace(stage, name=f"{name}/{stage.name}") for stage in inner.stages]
            faults += [Fault(f"{name}/{fault.name}", fault.what) for fault in inner.faults]
            faults += [Fault(f"{name}/{file}", "is of no run") for file in inner.foreign]
        faults += _generation_faults(out, generation)
    if generations and not faults:
        faults += [*_shard_faults(out, generations), *_ledger_faults(out, generations)]
    return replace(verification, stages=tuple(stages), faults=tuple(faults))


def _generation_faults(out: Folder, generation: Generation) -> Iterator[Fault]:
    """List the ledgers and shard files of a generation that differ from its manifest."""
    ledgers = ledgers_of(out, generation)
    lead = ledgers.path()[len(out.path()) + 1 :]
    for entry in generation.ledgers:
        if ledgers.sha256(entry.name) != entry.sha256:
            yield Fault(f"{lead}/{entry.name}", _CHANGED)
        elif (rows := rows_of(ledgers, entry.name)) != entry.rows:
            yield Fault(f"{lead}/{entry.name}", f"has {rows} rows, {entry.rows} were written")
    for entry in generation.shards:
        if (out / _SHARDS).sha256(entry.name) != entry.sha256:
            yield Fault(f"{_SHARDS}/{entry.name}", _CHANGED)


def _shard_faults(out: Folder, generations: Sequence[Generation]) -> Iterator[Fault]:
    """Compare the files of the dataset with those of all generations."""
    sealed = read_manifest(out / _SHARDS, MANIFEST)
    there = {file for file in sealed.files if "/" in file.name} if sealed is not None else set()
    wanted = [file for generation in generations for file in generation.shards]
    if len(wanted) != len({file.name for file in wanted}):
        yield Fault(f"{_SHARDS}/{MANIFEST}", "has a file that two generations made")
    if there != set(wanted):
        yield Fault(f"{_SHARDS}/{MANIFEST}", "has not the files of all generations: --append completes it")


def _ledger_faults(out: Folder, generations: Sequence[Generation]) -> Iterator[Fault]:
    """Find nodes with two places, and groups with two pools."""
    folders = [ledgers_of(out, generation) for generation in generations]
    try:
        nodes = read_ledger(folders, "places")
        pools = np.unique(nodes[["group", "pool"]])
        if len(np.unique(nodes["node"])) != len(nodes):
            yield Fault(GENERATIONS, "gives a node of a group two places")
        if len(np.unique(pools["group"])) != len(pools):
            yield Fault(GENERATIONS, "gives a group two pools")
    except ShardError as error:
        yield Fault(GENERATIONS, f"has a ledger that cannot be read: {error}")
