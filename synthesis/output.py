"""Output folder of synthesis: its ownership, its files, and the manifest, which is written last.

DIR/synthesis.json            the command and its settings; written first
DIR/<domain>/….parquet        the results
DIR/README.md                 the dataset card, by which `datasets` finds the files
DIR/manifest.json             the files, with rows, bytes and sha256; written last, so that its presence means done
DIR/.replies/<2>/<64>.json    the cached answers of models, by which a killed run continues
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trajmill.pipelines.recipe.templates import template
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.paths import JUNK
from trajmill.pipelines.storage.units import MANIFEST
from trajmill.schemas import SCHEMA_VERSION, ConfigError
from trajmill.schemas.manifest import FileEntry, Manifest

MARKER: Final = "synthesis.json"
REPLIES: Final = ".replies"
CARD: Final = "README.md"


@dataclass(frozen=True, slots=True)
class Output:
    """Folder for the results of one command under one set of settings.

    Attributes:
        command: `reason` or `instruct`.
        settings: Settings that decide the results, except their number: models, sampling, bounds and the run's shards.
    """

    folder: Folder
    command: str
    settings: Mapping[str, Any]

    @property
    def replies(self) -> Folder:
        """Default folder of cached answers."""
        return self.folder / REPLIES

    def take(self) -> None:
        """Claim the folder, or continue in it; remove an earlier manifest, since its files are written again.

        Raises:
            ConfigError: The folder holds other files, or results of other settings.
        """
        names = [name for name in self.folder.names() if JUNK.isdisjoint(name.split("/"))]
        mine = self._marker()
        if names and MARKER not in names:
            raise ConfigError(f"{self.folder.path()} holds files, which are not replaced. Choose another --out.")
        if MARKER in names:
            before = self._read()
            different = sorted(key for key in {*mine, *before} if mine.get(key) != before.get(key))
            if different:
                raise ConfigError(
                    f"{self.folder.path()} holds what other settings made ({', '.join(different)}). Choose another "
                    f"--out; --cache {self.replies.path()} takes over what was answered."
                )
        self.folder.write(MARKER, json.dumps(mine, indent=1, sort_keys=True).encode() + b"\n")
        self.folder.remove(MANIFEST)

    def seal(self, files: Sequence[FileEntry], counts: Mapping[str, int]) -> Manifest:
        """Write the card and then the manifest, which marks the folder as done."""
        total = sum(file.rows for file in files)
        values = {"command": self.command, "rows": total, "settings": sorted(self.settings.items())}
        self.folder.write(CARD, template("synthesis/card.md.j2").render(**values).encode())
        digest = hashlib.sha256(json.dumps(self._marker(), sort_keys=True).encode()).hexdigest()
        ordered = tuple(sorted(files, key=lambda file: file.name))
        manifest = Manifest(self.command, "", digest, SCHEMA_VERSION, ordered, dict(sorted(counts.items())))
        self.folder.write(MANIFEST, manifest.to_json())
        return manifest

    def _marker(self) -> dict[str, Any]:
        marker: dict[str, Any] = json.loads(json.dumps({"command": self.command, **self.settings}))
        return marker

    def _read(self) -> dict[str, Any]:
        try:
            marker = json.loads(self.folder.read(MARKER))
        except ValueError:
            marker = None
        return marker if isinstance(marker, dict) else {}
