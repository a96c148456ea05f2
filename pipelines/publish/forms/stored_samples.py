"""Samples of a finished run's shards: documents of `cpt`, conversations of `sft`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trajmill.pipelines.mix.sample_columns import images_in
from trajmill.pipelines.storage.folders import MADE_AGAIN, Folder
from trajmill.pipelines.storage.parquet import read_batches
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.schemas import ConfigError, ShardError
from trajmill.schemas.manifest import Manifest

STAGE: Final = "shards"
_COMMON: Final = ("id", "domain", "source", "trajectory_id", "template")


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [begin, end) of a text that bear the loss."""

    begin: int
    end: int
    label: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message with the spans of its content under loss, in order; empty if it is no target."""

    role: str
    content: str
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """Columns that samples of `sft` and `cpt` share."""

    id: str
    domain: str
    source: str
    trajectory_id: str
    template: str


@dataclass(frozen=True, slots=True)
class Conversation(Sample):
    """A sample of `sft`."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Document(Sample):
    """A sample of `cpt`."""

    text: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A file of the dataset: its pool, domain, and name without folders and ending."""

    pool: str
    domain: str
    stem: str

    @property
    def name(self) -> str:
        """Name of the file in the dataset folder."""
        return f"{self.pool}/{self.domain}/{self.stem}.parquet"


class StoredShards:
    """The dataset folder of a finished run.

    Raises:
        ConfigError: the path holds no finished dataset.
    """

    def __init__(self, path: str) -> None:
        for folder in (Folder(path) / STAGE, Folder(path)):
            manifest = read_manifest(folder, MANIFEST)
            if manifest is not None and manifest.stage == "mix":
                self.folder, self.manifest = folder, manifest
                break
        else:
            raise ConfigError(f"There are no finished shards below '{path}'; a run's folder is wanted.")
        self._sha256 = {file.name: file.sha256 for file in self.manifest.files}

    @property
    def digest(self) -> str:
        """Digest of everything that the shards depend on."""
        return self.manifest.digest

    def files(self, pool: str) -> list[ShardFile]:
        """Return the Parquet files of a pool, sorted by name."""
        parts = [file.name.split("/") for file in self.manifest.files if file.name.endswith(".parquet")]
        files = [ShardFile(part[0], part[1], part[2].removesuffix(".parquet")) for part in parts if len(part) == 3]
        return sorted((file for file in files if file.pool == pool), key=lambda file: file.name)

    def tokens(self, pool: str) -> dict[str, int]:
        """Return the tokens of a pool by domain, from the counts of the manifest."""
        return _by_domain(self.manifest, f"tokens.{pool}.")

    def rows(self, file: ShardFile, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file, after checking its digest.

        Raises:
            ConfigError: the file lacks a column.
        """
        if self.folder.sha256(file.name) != self._sha256[file.name]:
            raise ShardError(f"{self.folder.path(file.name)} is not what the manifest says. {MADE_AGAIN}.")
        for batch in read_batches(self.folder, file.name):
            lacking = [column for column in columns if column not in batch.schema.names]
            if lacking:
                raise ConfigError(
                    f"{file.name} has no column {', '.join(lacking)}: an earlier version wrote it. Run it again."
                )
            yield from batch.select(list(columns)).to_pylist()

    def conversations(self, file: ShardFile) -> Iterator[Conversation]:
        """Yield the conversations of a file.

        Raises:
            ConfigError: the file lacks a column, or the samples show pictures.
        """
        if images_in(self.manifest.counts):
            raise ConfigError("The samples show pictures, which no form of tokens holds: trainers read `sft` as it is.")
        for row in self.rows(file, (*_COMMON, "messages", "spans")):
            spans: dict[int, list[Span]] = {}
            for span in row["spans"] or ():
                spans.setdefault(span["message"], []).append(Span(span["begin"], span["end"], span["label"]))
            messages = tuple(
                Message(message["role"], message["content"], tuple(spans.get(number, ())) if message["loss"] else ())
                for number, message in enumerate(row["messages"])
            )
            yield Conversation(**{column: row[column] for column in _COMMON}, messages=messages)

    def documents(self, file: ShardFile) -> Iterator[Document]:
        """Yield the documents of a file."""
        for row in self.rows(file, (*_COMMON, "text", "spans")):
            spans = tuple(Span(span["begin"], span["end"], span["label"]) for span in row["spans"] or ())
            yield Document(**{column: row[column] for column in _COMMON}, text=row["text"], spans=spans)


def _by_domain(manifest: Manifest, prefix: str) -> dict[str, int]:
    counts = {key.removeprefix(prefix): count for key, count in manifest.counts.items() if key.startswith(prefix)}
    return {domain: count for domain, count in sorted(counts.items()) if count}
