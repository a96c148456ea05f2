"""Manifest of a finished part or folder: its files with digests, and counts.

A manifest is written after all files that it lists, so where it is present, the work is complete.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any, Final

MANIFEST_VERSION: Final = 1
PROGRAM_VERSION: Final = version("trajmill")
"""Version of trajmill. Work that another version finished is done again, because its results may differ."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """Entry of a finished file: name relative to the manifest's folder, rows, bytes and sha256."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest of finished work: its files, digests and counts.

    Attributes:
        stage: plan, normalize, judge or mix.
        unit: the part, such as `part-00003`; empty for a whole folder.
        digest: digest of the recipe, inputs and versions that the content depends on. Equal digests mean equal content.
        schema_version: version of the transition schema.
        program_version: version of trajmill that did the work; empty in manifests of the first versions.
        files: sorted by name.
        counts: numbers by name; those of parts add up to those of the folder.
        diversity: effective numbers of the dataset by domain and kind; not written if empty.
        mixture: what pools and stages of the dataset ask for and what they got; not written if empty.
        models: file name → sha256 of the tokenizer and models that the recipe names; not written if empty.
        code: sha256 of the code under which a connector failed on the part, so that changed code reads it again; not
            written if empty.
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
        """Serialize as JSON; the same content gives the same bytes."""
        values = {"manifest_version": MANIFEST_VERSION, **asdict(self)}
        for name in ("diversity", "mixture", "models", "code"):
            if not values[name]:
                del values[name]
        return json.dumps(values, indent=1, sort_keys=True).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Parse a manifest that `to_json` wrote.

        Raises:
            ValueError: the data is no manifest of this version.
        """
        values: dict[str, Any] = json.loads(data)
        if not isinstance(values, dict) or values.pop("manifest_version", None) != MANIFEST_VERSION:
            raise ValueError("not a manifest of this version")
        files = tuple(FileEntry(**entry) for entry in values.pop("files"))
        values.setdefault("program_version", "")
        return cls(files=files, **values)


def sum_counts(manifests: list[Manifest]) -> dict[str, int]:
    """Add up the counts of several manifests by name, in sorted order."""
    total: dict[str, int] = {}
    for manifest in manifests:
        for name, count in manifest.counts.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))
