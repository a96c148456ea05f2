"""Job of writing a form: the shards, the folder, the tokenizer, and the options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa
import yaml

from trajmill.pipelines.publish.forms.stored_samples import Conversation, Document, ShardFile, StoredShards
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing, Tokens
from trajmill.pipelines.storage.folders import Folder, sha256_of
from trajmill.pipelines.storage.parquet import write_parquet
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.schemas import SCHEMA_VERSION, ConfigError
from trajmill.schemas.manifest import FileEntry, Manifest

STAGE: Final = "export"


@dataclass(slots=True)
class Writing:
    """A file being written: the local path to write to, and its final number of rows."""

    path: str
    rows: int = 0


class FormFolder:
    """A folder for one form. Files of an earlier export are removed.

    Raises:
        ConfigError: the folder holds files that no export listed.
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
        """Open a file that appears under its name, complete, when the block ends without error."""
        with self.folder.writing(name) as path:
            output = Writing(path)
            yield output
            entry = FileEntry(name, output.rows, Path(path).stat().st_size, sha256_of(path))
        self._files.append(entry)

    def write(self, name: str, data: bytes | str, rows: int = 0) -> None:
        """Write a whole file."""
        with self.writing(name) as output:
            Path(output.path).write_bytes(data if isinstance(data, bytes) else data.encode())
            output.rows = rows

    def parquet(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Write a Parquet file, one row group per batch."""
        self._files.append(write_parquet(self.folder, name, schema, batches, shard=True))

    def names(self, suffix: str = "") -> list[str]:
        """Return the files with rows that were written so far and have this ending, sorted."""
        return sorted(file.name for file in self._files if file.rows and file.name.endswith(suffix))

    def seal(self, form: str, digest: str, models: Mapping[str, str]) -> Manifest:
        """Write the manifest: files, counts, and digests of tokenizer and chat template."""
        files = tuple(sorted(self._files, key=lambda file: file.name))
        counts = {name: count for name, count in sorted(self.counts.items()) if count}
        manifest = Manifest(STAGE, form, digest, SCHEMA_VERSION, files, counts, models=dict(models))
        self.folder.write(MANIFEST, manifest.to_json())
        return manifest


LEFT_OUT: Final = "left_out_"
"""Prefix of counts of the samples that a form leaves out, followed by the reason."""


@dataclass(frozen=True)
class Job:
    """One export.

    Attributes:
        out: the folder to write.
        opened: the tokenizer, if one was given.
        window: largest number of tokens of a sample; None sets no bound.
        targets: largest number of samples with a single target per trajectory.
    """

    shards: StoredShards
    out: FormFolder
    opened: Tokenizing | None = None
    window: int | None = None
    targets: int = 8

    @property
    def tokenizing(self) -> Tokenizing:
        """The tokenizer.

        Raises:
            ConfigError: none was given.
        """
        if self.opened is None:
            raise ConfigError("This form needs --tokenizer: a tokenizer.json, or a folder with one.")
        return self.opened

    def conversations(self, file: ShardFile) -> Iterator[tuple[Conversation, Tokens]]:
        """Yield the conversations of a file as tokens, cut to the window; count tokens, cuts and left-out samples."""
        counts, domain = self.out.counts, file.domain
        for sample in self.shards.conversations(file):
            whole = self.tokenizing.conversation(sample.messages)
            tokens = whole if self.window is None else whole.cut(self.window)
            if tokens is None:
                self.leave_out(domain, "over_window")
                continue
            counts[f"cut_to_window.{domain}"] += len(tokens.ids) < len(whole.ids)
            self._count(domain, tokens, *(message.content for message in sample.messages))
            yield sample, tokens

    def documents(self, file: ShardFile) -> Iterator[tuple[Document, Tokens]]:
        """Yield the documents of a file as tokens, with counts as in `conversations`."""
        for sample in self.shards.documents(file):
            tokens = self.tokenizing.document(sample.text, sample.spans)
            self._count(file.domain, tokens, sample.text)
            yield sample, tokens

    def leave_out(self, domain: str, reason: str) -> None:
        """Count a sample that the form leaves out. Together with `samples` this counts all samples of the shards."""
        self.out.counts[f"{LEFT_OUT}{reason}.{domain}"] += 1

    def _count(self, domain: str, tokens: Tokens, *texts: str) -> None:
        counts = {
            "samples": 1,
            "tokens": len(tokens.ids),
            "loss_tokens": int(tokens.loss.sum()),
            "straddlers": tokens.straddlers,
            "control_strings": sum(map(self.tokenizing.control_strings, texts)),
        }
        self.out.counts.update({f"{name}.{domain}": count for name, count in counts.items()})

    def weights(self, pool: str) -> dict[str, float]:
        """Return the share of each domain in the tokens of a pool, among the domains of its files."""
        domains = {file.domain for file in self.shards.files(pool)}
        tokens = {domain: count for domain, count in self.shards.tokens(pool).items() if domain in domains}
        total = sum(tokens.values())
        return {domain: round(count / total, 6) for domain, count in tokens.items()}

    def write_json(self, name: str, value: object) -> None:
        """Write a value as indented JSON."""
        self.out.write(name, orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")

    def write_yaml(self, name: str, value: object, *about: str) -> None:
        """Write a value as YAML below comment lines that explain its purpose."""
        head = "".join(f"# {line}\n" for line in about)
        self.out.write(name, head + yaml.safe_dump(value, sort_keys=False, allow_unicode=True))

    def copy_module(self, name: str) -> None:
        """Copy a module of this package beside the files, for readers without trajmill."""
        self.out.write(name, (Path(__file__).parent / name).read_bytes())
