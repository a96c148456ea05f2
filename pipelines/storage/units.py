"""Units of work. Each writes its files, then its own manifest; a unit that is done is not repeated.

A stage is a folder. The manifests of its units are beside it, in `_units/`. The stage's own manifest is written only
when all of them exist. `ownership` handles the leftovers of an earlier recipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from trajmill.pipelines.storage.folders import MADE_AGAIN, Folder
from trajmill.schemas import ShardError
from trajmill.schemas.manifest import PROGRAM_VERSION, FileEntry, Manifest, sum_counts
from trajmill.schemas.transition import SCHEMA_VERSION

UNITS: Final = "_units"
MANIFEST: Final = "manifest.json"


def units_of(stage: Folder) -> Folder:
    """Return the folder of the manifests of a stage's units, beside the stage's folder, which holds only its files."""
    return Folder(units_folder(stage.url.rstrip("/")), stage.hold)


def manifest_name(unit: str) -> str:
    """Return the name of a unit's manifest in the `units_of` its stage."""
    return f"{unit}.json"


def units_folder(stage: str) -> str:
    """Return the path of the manifests of a stage's units, from the path of the stage."""
    parent, _, name = stage.rpartition("/")
    return f"{parent}/{UNITS}/{name}" if parent else f"{UNITS}/{name}"


def manifest_names(stage: str, units: Iterable[str]) -> set[str]:
    """Return the names of all manifests of a stage, its own and its units', relative to the stage's root.

    Args:
        stage: the stage's folder, relative to the root, such as `rejects/judge`.
    """
    return {f"{stage}/{MANIFEST}", *(f"{units_folder(stage)}/{manifest_name(unit)}" for unit in units)}


def stage_names(root: Folder, stage: str, units: Iterable[str]) -> set[str]:
    """Return the names of all files of a finished stage, and of its manifests."""
    labels = list(units)
    files = {f"{stage}/{file.name}" for manifest in unit_manifests(root / stage, labels) for file in manifest.files}
    return files | manifest_names(stage, labels)


def read_manifest(folder: Folder, name: str) -> Manifest | None:
    """Read a manifest; None if there is none or it is not valid."""
    data = folder.found(name)
    try:
        return Manifest.from_json(data) if data is not None else None
    except (ValueError, KeyError, TypeError):
        return None


def require_manifest(stage: Folder) -> Manifest:
    """Read the manifest of a finished stage.

    Raises:
        ShardError: there is none, or it is not valid.
    """
    manifest = read_manifest(stage, MANIFEST)
    if manifest is None:
        raise ShardError(f"{stage.path(MANIFEST)} is missing or damaged.")
    return manifest


def done_units(stage: Folder, digests: Mapping[str, str]) -> set[str]:
    """Return the units that are done, as for `is_done`, with one or two listings of an object store."""
    if stage.is_local:
        return {unit for unit, digest in digests.items() if is_done(stage, unit, digest)}
    listed = units_of(stage).sizes()
    begun = {unit: digest for unit, digest in digests.items() if manifest_name(unit) in listed}
    sizes = stage.sizes() if begun else {}
    return {unit for unit, digest in begun.items() if is_done(stage, unit, digest, sizes)}


def is_done(stage: Folder, unit: str, digest: str, sizes: Mapping[str, int] | None = None) -> bool:
    """Return True if this version finished the unit: its manifest has that digest, and every file matches it.

    Local files are read for this check. Object stores verify their own content, so that only sizes are compared there.

    Args:
        sizes: sizes of the stage's files, if known already.
    """
    manifest = read_manifest(units_of(stage), manifest_name(unit))
    if manifest is None or manifest.digest != digest:
        return False
    if (manifest.schema_version, manifest.program_version) != (SCHEMA_VERSION, PROGRAM_VERSION):
        return False
    if any(_size(stage, file.name, sizes) != file.bytes for file in manifest.files):
        return False
    return not stage.is_local or all(stage.sha256(file.name) == file.sha256 for file in manifest.files)


def _size(stage: Folder, name: str, sizes: Mapping[str, int] | None) -> int:
    return stage.size(name) if sizes is None else sizes.get(name, -1)


def check_unit(stage: Folder, unit: str, only: str | None = None) -> None:
    """Check that the files of a finished unit match its manifest.

    Args:
        only: the one file to check; None for all.

    Raises:
        ShardError: a file does not match.
    """
    manifest = read_manifest(units_of(stage), manifest_name(unit))
    if manifest is None:
        raise ShardError(f"The manifest of {unit} in {units_of(stage).path()} is missing or damaged. {MADE_AGAIN}.")
    if only is not None and only not in {file.name for file in manifest.files}:
        raise ShardError(f"{stage.path(only)} is not among the files of {unit}. {MADE_AGAIN}.")
    for file in manifest.files:
        if only in (None, file.name):
            check_file(stage, file.name, file.sha256)


def check_file(stage: Folder, name: str, sha256: str) -> None:
    """Check that a file that is read for the first time is unchanged.

    Raises:
        ShardError: it is changed or missing.
    """
    digest = stage.sha256(name)
    if digest != sha256:
        fault = "is damaged: its sha256 is not that of its manifest" if digest else "is missing"
        raise ShardError(f"{stage.path(name)} {fault}. {MADE_AGAIN}.")


def finish_unit(stage: Folder, manifest: Manifest) -> Manifest:
    """Write the unit's manifest, which marks the unit as done."""
    units_of(stage).write(manifest_name(manifest.unit), manifest.to_json())
    return manifest


def unit_manifests(stage: Folder, units: Iterable[str]) -> list[Manifest]:
    """Read the manifests of the units, in the order given; units without one are left out."""
    manifests = (read_manifest(units_of(stage), manifest_name(unit)) for unit in units)
    return [manifest for manifest in manifests if manifest is not None]


def files_of(manifests: Iterable[Manifest]) -> list[FileEntry]:
    """List the files of units by name, each once. A file named by its content may belong to several."""
    return sorted({file for manifest in manifests for file in manifest.files}, key=lambda file: file.name)


def finish_stage(stage: Folder, name: str, digest: str, units: Sequence[str], **more: Any) -> Manifest:
    """Write the stage's manifest over all its units.

    Raises:
        ShardError: a unit is missing, so that nothing is sealed.
    """
    if not stage.is_local:
        units_of(stage).sizes()  # what others wrote since is read again
    sizes = None if stage.is_local else stage.sizes()
    manifests = unit_manifests(stage, units)
    lost = sorted(set(units) - {manifest.unit for manifest in manifests})
    if not lost:
        lost = [
            manifest_of_unit.unit
            for manifest_of_unit in manifests
            if any(_size(stage, file.name, sizes) != file.bytes for file in manifest_of_unit.files)
        ]
    if lost:
        raise ShardError(
            f"{len(lost)} of {len(units)} units of {name} are not in {stage.path()}, the first is {lost[0]}: what "
            "worked on them did not write there. Workers have to see the output folder under the same path or URL."
        )
    files = tuple(files_of(manifests))
    whole = Manifest(name, "", digest, SCHEMA_VERSION, files, sum_counts(manifests), **more)
    data = whole.to_json()
    if sizes is None or sizes.get(MANIFEST) != len(data) or stage.found(MANIFEST) != data:
        stage.write(MANIFEST, data)
    return whole
