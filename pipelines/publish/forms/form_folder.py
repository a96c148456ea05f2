"""The folder that a form is written to: every file named in its manifest, and nobody else's ever replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from trajmill.pipelines.storage.folders import Folder, sha256_of
from trajmill.pipelines.storage.parquet import write_parquet
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.schemas import SCHEMA_VERSION, ConfigError
from trajmill.schemas.manifest import FileEntry, Manifest

STAGE: Final = "export"


@dataclass(slots=True)
class Writing:
    """A file being written: the local path to write to, and how many rows it then has."""

    path: str
    rows: int = 0


class FormFolder:
    """A folder for one form; what an earlier export of ours left there is removed.

    Args:
        out: path of the folder.

    Raises:
        ConfigError: files lie there that no export of ours listed.
    """

    def __init__(self, out: str) -> None:
        self.folder = Folder(out)
        self.counts: Counter[str] = Counter()
        self._files: list[FileEntry] = []
        there = self.folder.names()
        before = read_manifest(self.folder, MANIFEST) if there else None
        ours = {MANIFEST, *(file.name for file in before.files)} if before and before.stage == STAGE else set()
        foreign = [name for name in there if name not in ours]
        if foreign:
            raise ConfigError(f"{out} holds {foreign[0]}, which is not replaced. Choose another --out, or empty it.")
        for name in sorted(there, key=lambda name: name != MANIFEST):  # what has no manifest is no finished export
            self.folder.remove(name)

    @contextmanager
    def writing(self, name: str) -> Iterator[Writing]:
        """A file that appears under its name, complete, when the block ends without error."""
        with self.folder.writing(name) as path:
            made = Writing(path)
            yield made
            entry = FileEntry(name, made.rows, Path(path).stat().st_size, sha256_of(path))
        self._files.append(entry)

    def write(self, name: str, data: bytes | str, rows: int = 0) -> None:
        """Writes a whole file."""
        with self.writing(name) as made:
            Path(made.path).write_bytes(data if isinstance(data, bytes) else data.encode())
            made.rows = rows

    def parquet(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Writes a Parquet file, a row group a batch."""
        self._files.append(write_parquet(self.folder, name, schema, batches, shard=True))

    def names(self, suffix: str = "") -> list[str]:
        """The files written so far that hold rows and end so, sorted."""
        return sorted(file.name for file in self._files if file.rows and file.name.endswith(suffix))

    def seal(self, form: str, digest: str, models: Mapping[str, str]) -> Manifest:
        """Writes the manifest: files, counts, and digests of tokenizer and chat template."""
        files = tuple(sorted(self._files, key=lambda file: file.name))
        counts = {name: count for name, count in sorted(self.counts.items()) if count}
        made = Manifest(STAGE, form, digest, SCHEMA_VERSION, files, counts, models=dict(models))
        self.folder.write(MANIFEST, made.to_json())
        return made
