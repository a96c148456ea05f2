"""Manifests: what a finished unit of work or a finished folder holds, written last, so that its presence means done."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any, Final

MANIFEST_VERSION: Final = 1
PROGRAM_VERSION: Final = version("trajmill")
"""Another version may read or judge otherwise, so what it left is not taken for done."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A finished file: its name relative to the manifest's folder, rows, bytes and sha256."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest of finished work: its files, digests and counts.

    Attributes:
        stage: plan, normalize, judge or mix.
        unit: the unit of work, such as `part-00003`; empty for a whole folder.
        digest: of everything the content depends on: recipe, inputs, versions. Equal digest, equal content.
        schema_version: of the transitions it was made under.
        program_version: of trajmill that made it; empty where it was not noted yet.
        files: in the order of their names.
        counts: numbers by name, added up over units.
        diversity: of the dataset, by domain and kind of thing, its effective numbers; absent where empty.
        mixture: of the dataset, what its pools and stages ask for and what they were given; absent where empty.
        models: sha256 of the files that the recipe names, tokenizer and models, by name; absent where empty.
        code: sha256 of the code that read a part on which connectors failed, which other code reads again; absent where
            empty.
    """

    stage: str
    unit: str
    digest: str
    schema_version: str
    files: tuple[FileEntry, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    diversity: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    mixture: dict[str, Any] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    program_version: str = PROGRAM_VERSION
    code: str = ""

    def to_json(self) -> bytes:
        """The manifest as JSON, the same bytes for the same content."""
        values = {"manifest_version": MANIFEST_VERSION, **asdict(self)}
        for name in ("diversity", "mixture", "models", "code"):
            if not values[name]:
                del values[name]
        return json.dumps(values, indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """The manifest that `to_json` wrote.

        Raises:
            ValueError: it is no manifest of this version.
        """
        values: dict[str, Any] = json.loads(data)
        if not isinstance(values, dict) or values.pop("manifest_version", None) != MANIFEST_VERSION:
            raise ValueError("not a manifest of this version")
        files = tuple(FileEntry(**entry) for entry in values.pop("files"))
        values.setdefault("program_version", "")
        return cls(files=files, **values)


def sum_counts(manifests: list[Manifest]) -> dict[str, int]:
    """Add up the counts of many units by name, names sorted."""
    total: dict[str, int] = {}
    for manifest in manifests:
        for name, count in manifest.counts.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))
