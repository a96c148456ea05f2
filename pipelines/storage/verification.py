"""Checking the folder of a run against its manifests: what is sealed, what is not, what is no longer as it was written.

Nothing is written. What the rows say is not judged here; that they are the rows that were written, is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from trajmill.pipelines.storage.folders import MARKER, Folder
from trajmill.pipelines.storage.ownership import Survey, survey
from trajmill.pipelines.storage.parquet import read_batches
from trajmill.pipelines.storage.units import MANIFEST, UNITS, files_of, read_manifest, units_of
from trajmill.schemas import ConfigError, ShardError
from trajmill.schemas.manifest import FileEntry, Manifest, summed_counts

_ORDER: Final = (
    "rejects/plan",
    "transitions",
    "rejects/normalize",
    "blobs",
    "measures",
    "verdicts",
    "spans",
    "replays",
    "rejects/judge",
    "draws",
)
_READERS: Final = 4


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a file: its name in the output folder, and what was met."""

    name: str
    what: str


@dataclass(frozen=True, slots=True)
class StageState:
    """A stage's folder.

    Attributes:
        name: relative to the output folder.
        sealed: whether its manifest is there and whole.
        units: of work that are done.
        files: that the manifests name.
        bytes: of them.
    """

    name: str
    sealed: bool
    units: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Verification:
    """What checking an output folder found.

    Attributes:
        out: the folder.
        stages: that have begun.
        faults: what is not as it was written; empty where all is.
        foreign: files that no run wrote, which keep a run from going on.
    """

    out: str
    stages: tuple[StageState, ...]
    faults: tuple[Fault, ...]
    foreign: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every stage that has begun is sealed, and every file is what was written."""
        return not self.faults and all(stage.sealed for stage in self.stages)


def verified_folder(out: str) -> Verification:
    """Check the files of one run against its manifests.

    Raises:
        ConfigError: no run wrote the folder.
        ShardError: a file cannot be read.
    """
    folder = Folder(out)
    found = survey(folder)
    if found.identity is None:
        raise ConfigError(f"{folder.path()} is no output folder of a run: there is no {MARKER}.")
    stages: list[StageState] = []
    faults: list[Fault] = []
    whole: dict[str, Manifest] = {}
    for stage in _stages(found):
        state, manifest, wrong = _checked(folder, stage, found)
        stages.append(state)
        faults += wrong
        if manifest is not None and not wrong:
            whole[stage] = manifest
    faults += _alignment(folder, whole)
    return Verification(folder.path(), tuple(stages), tuple(faults), tuple(found.foreign))


def _stages(found: Survey) -> list[str]:
    """The stages' folders that have begun, in the order of the flow."""
    manifests = {one for one in found.listed if one.endswith(f"/{MANIFEST}")}
    names = {one.rpartition("/")[0] for one in manifests | found.ours if one.endswith(".json")}
    stages = {name.replace(f"{UNITS}/", "", 1) for name in names if name}
    return sorted(stages, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))


def _checked(out: Folder, stage: str, found: Survey) -> tuple[StageState, Manifest | None, list[Fault]]:
    """A stage's state, its manifest where that is readable, and what is wrong in it."""
    folder = out / stage
    lead = units_of(folder).path()[len(out.path()) + 1 :]
    faults: list[Fault] = []
    manifests: list[Manifest] = []
    for name in sorted(one for one in found.ours if one.startswith(f"{lead}/")):
        manifest = read_manifest(out, name)
        if manifest is None:
            faults.append(Fault(name, "is no manifest that can be read"))
        else:
            manifests.append(manifest)
    sealed = read_manifest(folder, MANIFEST)
    if sealed is None and f"{stage}/{MANIFEST}" in found.ours:
        faults.append(Fault(f"{stage}/{MANIFEST}", "is no manifest that can be read"))
    entries = {file.name: file for one in (*manifests, *([sealed] if sealed else [])) for file in one.files}
    faults += [Fault(f"{stage}/{name}", what) for name, what in _damaged(folder, entries.values())]
    if sealed is not None:
        faults += _disagreement(stage, sealed, manifests)
    size = sum(file.bytes for file in entries.values())
    return StageState(stage, sealed is not None, len(manifests), len(entries), size), sealed, faults


def _damaged(folder: Folder, files: Iterable[FileEntry]) -> list[tuple[str, str]]:
    """(name, what is wrong) of the files that are not as their manifest says."""
    with ThreadPoolExecutor(_READERS) as pool:
        told = pool.map(lambda file: (file.name, _damage(folder, file)), sorted(files, key=lambda file: file.name))
        return [(name, what) for name, what in told if what]


def _damage(folder: Folder, file: FileEntry) -> str:
    size = folder.size(file.name)
    if size < 0:
        return "is missing"
    if size != file.bytes:
        return f"has {size} bytes, {file.bytes} were written"
    return "" if folder.sha256(file.name) == file.sha256 else "is damaged: its sha256 is not that of its manifest"


def _disagreement(stage: str, sealed: Manifest, units: Sequence[Manifest]) -> list[Fault]:
    """Where a stage's manifest is not the sum of its units'."""
    if list(sealed.files) == files_of(units) and sealed.counts == summed_counts(list(units)):
        return []
    return [Fault(f"{stage}/{MANIFEST}", "is not the sum of the manifests of its units")]


def _alignment(out: Folder, whole: dict[str, Manifest]) -> list[Fault]:
    """Where verdicts, and replays if there are any, do not lie beside their transitions row by row."""
    beside = [stage for stage in ("verdicts", "replays") if stage in whole]
    if "transitions" not in whole:
        return []
    rows = {file.name: file.rows for file in whole["transitions"].files}
    return [fault for stage in beside for fault in _alignment_of(out, stage, whole[stage], rows)]


def _alignment_of(out: Folder, stage: str, manifest: Manifest, rows: dict[str, int]) -> list[Fault]:
    faults = []
    for file in manifest.files:
        if rows.get(file.name) != file.rows:
            faults.append(Fault(f"{stage}/{file.name}", "has not the rows of its transitions"))
        elif not _same_rows(out, stage, file.name):
            faults.append(Fault(f"{stage}/{file.name}", "is of other rows than its transitions"))
    lacking = sorted(rows.keys() - {file.name for file in manifest.files})
    return faults + [Fault(f"{stage}/{name}", "is missing beside its transitions") for name in lacking]


def _same_rows(out: Folder, beside: str, name: str) -> bool:
    columns = ["trajectory_id", "step"]
    try:
        sides = [
            [value for batch in read_batches(out / stage, name, columns) for value in zip(*batch.columns, strict=True)]
            for stage in ("transitions", beside)
        ]
    except ShardError:
        return False
    return sides[0] == sides[1]
