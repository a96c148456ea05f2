"""Units of work: each writes its files, then its own manifest; a unit that is done is not done again.

A stage is a folder. Its units' manifests lie beside it, in `_units/`; when all are there the stage's own manifest is
written, and files that no manifest names, such as those of an earlier recipe, are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any, Final

from pipelines.storage import Folder
from schemas.manifest import PROGRAM_VERSION, Manifest, summed_counts
from schemas.transition import SCHEMA_VERSION

UNITS: Final = "_units"
MANIFEST: Final = "manifest.json"


def units_of(stage: Folder) -> Folder:
    """The folder of the manifests of a stage's units: beside the stage's own, which holds nothing but its files."""
    parent, _, name = stage.url.rstrip("/").rpartition("/")
    return Folder(f"{parent}/{UNITS}/{name}")


def manifest_name(unit: str) -> str:
    """The file of a unit's manifest in `units_of` its stage."""
    return f"{unit}.json"


def read_manifest(folder: Folder, name: str) -> Manifest | None:
    """A manifest, or None if there is none or it is not readable as one."""
    if not folder.exists(name):
        return None
    try:
        return Manifest.from_json(folder.read(name))
    except (ValueError, KeyError, TypeError):
        return None


def is_done(stage: Folder, unit: str, digest: str) -> bool:
    """Whether this version finished the unit: its manifest has that digest, and every file named in it is there."""
    manifest = read_manifest(units_of(stage), manifest_name(unit))
    if manifest is None or manifest.digest != digest:
        return False
    if (manifest.schema_version, manifest.program_version) != (SCHEMA_VERSION, PROGRAM_VERSION):
        return False
    return all(stage.size(file.name) == file.bytes for file in manifest.files)


def finish_unit(stage: Folder, manifest: Manifest) -> Manifest:
    """Writes the unit's manifest, which says that the unit is done."""
    units_of(stage).write(manifest_name(manifest.unit), manifest.to_json())
    return manifest


def unit_manifests(stage: Folder, units: Iterable[str]) -> list[Manifest]:
    """The manifests of the units, in the order given; units without one are left out."""
    found = (read_manifest(units_of(stage), manifest_name(unit)) for unit in units)
    return [manifest for manifest in found if manifest is not None]


def _keep_only(folder: Folder, wanted: Set[str]) -> None:
    for found in folder.names():
        if found not in wanted:
            folder.remove(found)


def finish_stage(
    stage: Folder,
    name: str,
    digest: str,
    units: Sequence[str],
    others: Sequence[str] = (),
    **more: Any,
) -> Manifest:
    """Writes the stage's manifest over all its units and removes files that none of them names.

    Args:
        stage: the stage's folder.
        name: the stage.
        digest: of everything the stage depends on.
        units: all units, each done.
        others: files of the folder that no unit wrote and that stay.
        more: further values of the manifest.
    """
    manifests = unit_manifests(stage, units)
    files = sorted((file for manifest in manifests for file in manifest.files), key=lambda file: file.name)
    _keep_only(stage, {*(file.name for file in files), MANIFEST, *others})
    _keep_only(units_of(stage), {manifest_name(unit) for unit in units})
    whole = Manifest(name, "", digest, SCHEMA_VERSION, tuple(files), summed_counts(manifests), **more)
    stage.write(MANIFEST, whole.to_json())
    return whole
