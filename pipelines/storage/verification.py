"""Verification of a run's folder against its manifests: sealed and unsealed stages, and changed files.

Nothing is written. Only the integrity of rows is checked, not their meaning.
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
from trajmill.schemas.manifest import FileEntry, Manifest, sum_counts

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
    """Fault of a file: its name in the output folder, and a description."""

    name: str
    what: str


@dataclass(frozen=True, slots=True)
class StageState:
    """State of a stage's folder.

    Attributes:
        name: name relative to the output folder.
        sealed: whether its manifest exists and is valid.
        units: number of units that are done.
        files: number of files that the manifests name.
    """

    name: str
    sealed: bool
    units: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of checking an output folder.

    Attributes:
        stages: stages that have begun.
        faults: changed or missing files; empty if there are none.
        foreign: files that no run wrote, which keep a run from continuing.
    """

    out: str
    stages: tuple[StageState, ...]
    faults: tuple[Fault, ...]
    foreign: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """True if every stage that has begun is sealed, and every file is unchanged."""
        return not self.faults and all(stage.sealed for stage in self.stages)


def verify_folder(out: str) -> Verification:
    """Check the files of one run against its manifests.

    Raises:
        ConfigError: no run wrote the folder.
    """
    folder = Folder(out)
    content = survey(folder)
    if content.identity is None:
        raise ConfigError(f"{folder.path()} is no output folder of a run: there is no {MARKER}.")
    stages: list[StageState] = []
    faults: list[Fault] = []
    whole: dict[str, Manifest] = {}
    for stage in _stages(content):
        state, manifest, wrong = _check_stage(folder, stage, content)
        stages.append(state)
        faults += wrong
        if manifest is not None and not wrong:
            whole[stage] = manifest
    faults += _alignment(folder, whole)
    return Verification(folder.path(), tuple(stages), tuple(faults), tuple(content.foreign))


def _stages(content: Survey) -> list[str]:
    """List the folders of the stages that have begun, in the order of the flow."""
    manifests = {path for path in content.listed if path.endswith(f"/{MANIFEST}")}
    names = {path.rpartition("/")[0] for path in manifests | content.ours if path.endswith(".json")}
    stages = {name.replace(f"{UNITS}/", "", 1) for name in names if name}
    return sorted(stages, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))


def _check_stage(out: Folder, stage: str, content: Survey) -> tuple[StageState, Manifest | None, list[Fault]]:
    folder = out / stage
    lead = units_of(folder).path()[len(out.path()) + 1 :]
    faults: list[Fault] = []
    manifests: list[Manifest] = []
    for name in sorted(path for path in content.ours if path.startswith(f"{lead}/")):
        manifest = read_manifest(out, name)
        if manifest is None:
            faults.append(Fault(name, "is no manifest that can be read"))
        else:
            manifests.append(manifest)
    sealed = read_manifest(folder, MANIFEST)
    if sealed is None and f"{stage}/{MANIFEST}" in content.ours:
        faults.append(Fault(f"{stage}/{MANIFEST}", "is no manifest that can be read"))
    entries = {
        file.name: file
        for manifest_of_files in (*manifests, *([sealed] if sealed else []))
        for file in manifest_of_files.files
    }
    faults += [Fault(f"{stage}/{name}", fault) for name, fault in _find_damaged(folder, entries.values())]
    if sealed is not None:
        faults += _disagreement(stage, sealed, manifests)
    size = sum(file.bytes for file in entries.values())
    return StageState(stage, sealed is not None, len(manifests), len(entries), size), sealed, faults


def _find_damaged(folder: Folder, files: Iterable[FileEntry]) -> list[tuple[str, str]]:
    """Return (name, fault) of the files that do not match their manifest."""
    with ThreadPoolExecutor(_READERS) as pool:
        results = pool.map(lambda file: (file.name, _damage(folder, file)), sorted(files, key=lambda file: file.name))
        return [(name, fault) for name, fault in results if fault]


def _damage(folder: Folder, file: FileEntry) -> str:
    size = folder.size(file.name)
    if size < 0:
        return "is missing"
    if size != file.bytes:
        return f"has {size} bytes, {file.bytes} were written"
    return "" if folder.sha256(file.name) == file.sha256 else "is damaged: its sha256 is not that of its manifest"


def _disagreement(stage: str, sealed: Manifest, units: Sequence[Manifest]) -> list[Fault]:
    """Return the fault of a stage's manifest that is not the sum of its units' manifests."""
    if list(sealed.files) == files_of(units) and sealed.counts == sum_counts(list(units)):
        return []
    return [Fault(f"{stage}/{MANIFEST}", "is not the sum of the manifests of its units")]


def _alignment(out: Folder, whole: dict[str, Manifest]) -> list[Fault]:
    """Return the faults of verdicts and replays whose rows do not match those of their transitions."""
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
