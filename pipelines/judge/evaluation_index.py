"""The index of a recipe's benchmarks, which is built once per run before any measuring and kept beside the measures.

The file holds hashes, names of items and canaries; see `quality.contamination`. It depends only on the recipe and the
content of the benchmarks' files, so verdicts depend on its digest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trajmill.connectors.published.agentworldbench import COLUMNS, items
from trajmill.connectors.published.tables import Table
from trajmill.pipelines.plan.raw_files import list_raw
from trajmill.pipelines.recipe.judgement import Benchmark
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table, write_parquet
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.pipelines.storage.units import finish_unit
from trajmill.quality.contamination import Index, Runs, checkout_name, few_words, name_hash
from trajmill.quality.fingerprint import text_hashes
from trajmill.schemas import SCHEMA_VERSION, ConfigError, ParseError
from trajmill.schemas.manifest import Manifest

NAME: Final = "benchmarks.parquet"
UNIT: Final = "benchmarks"
"""Name of the index as a unit of the measures."""

LARGEST: Final = 8 << 30
TELLING: Final = 50
"""Number of words from which the evaluated answer of AgentWorldBench is searched for by itself.

Shorter answers are too common.
"""

_KINDS: Final = ("text", "answer", "id", "checkout", "task", "canary", "pattern")
_ENDINGS: Final = re.compile(r"\.(?:jsonl?|ndjson|parquet|arrow)(?:\.(?:gz|zst|bz2|xz))?")
_GUID: Final = re.compile(r"canary GUID:?\s+([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[0-9_.:-]*")

INDEX_SCHEMA: Final = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False, metadata={"doc": "benchmark:id"}),
        pa.field("text", pa.int32(), nullable=False, metadata={"doc": "number of the text or answer; -1: none"}),
        pa.field("kind", pa.string(), nullable=False, metadata={"options": ",".join(_KINDS)}),
        pa.field("whole", pa.bool_(), nullable=False, metadata={"doc": "whether the run is a whole short text"}),
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("canary", pa.string(), metadata={"doc": "or pattern", "null": "kind is neither"}),
    ]
)


@dataclass(slots=True)
class _Rows:
    """Rows of the index as they are collected."""

    columns: list[list[Any]] = field(default_factory=lambda: [[] for _ in INDEX_SCHEMA])
    texts: int = 0
    canaries: set[str] = field(default_factory=set)

    def add(self, item: str, kind: str, hashes: Sequence[int], whole: bool = False, canary: str | None = None) -> None:
        number = self.texts if kind in ("text", "answer") and hashes else -1
        self.texts += number >= 0
        for value in hashes:
            row = (item, number, kind, whole, value, canary)
            for column, cell in zip(self.columns, row, strict=True):
                column.append(cell)

    def add_text(self, item: str, strings: Sequence[str], kind: str = "text") -> None:
        runs = Runs.of(strings, 1) if kind == "answer" else Runs.of(strings)
        self.add(item, kind, runs.hashes.tolist(), runs.whole)
        if kind == "text" and len(strings) == 1 and (words := few_words(pa.array(strings, pa.string()))).all():
            self.add(item, "task", name_hash(words, "task").tolist())

    def add_name(self, item: str, kind: str, name: str) -> None:
        self.add(item, kind, name_hash(text_hashes(pa.array([name]))[:, 0], kind).tolist())


def write_index(benchmarks: Sequence[Benchmark], folder: Folder) -> str:
    """Write the index of the benchmarks into the folder and return its digest; empty if there are no benchmarks.

    Raises:
        ConfigError: a benchmark's file is missing or unreadable, lacks a column, or holds nothing to search for.
    """
    if not benchmarks:
        return ""
    rows = _Rows()
    for benchmark in sorted(benchmarks, key=lambda entry_benchmark: entry_benchmark.name):
        before = len(rows.columns[0])
        for canary in benchmark.canary:
            rows.add(f"{benchmark.name}:canary", "canary", [0], canary=canary.lower())
        for name in benchmark.ids:
            rows.add_name(f"{benchmark.name}:{name}", "id", name)
        for pattern in benchmark.id_patterns:
            rows.add(f"{benchmark.name}:{pattern}", "pattern", [0], canary=pattern)
        if benchmark.path is not None:
            for blob in _blobs(benchmark.path):
                with blob:
                    _read(benchmark, blob, rows)
        if len(rows.columns[0]) == before:
            raise ConfigError(f"Benchmark '{benchmark.name}' holds nothing to look for at '{benchmark.path}'.")
    columns = [pa.array(column, field.type) for column, field in zip(rows.columns, INDEX_SCHEMA, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, schema=INDEX_SCHEMA)
    entry = write_parquet(folder, NAME, INDEX_SCHEMA, [batch])
    finish_unit(folder, Manifest("judge", UNIT, entry.sha256, SCHEMA_VERSION, (entry,)))
    return entry.sha256


def _blobs(path: str) -> Iterator[StoredBlob]:
    files = list_raw(path)
    tables = [file for file in files if _ENDINGS.search(file.name) is not None] or files
    for file in sorted(tables, key=lambda file: file.name):
        yield StoredBlob(file.name, {"": file.place}, LARGEST)


def _read(benchmark: Benchmark, blob: StoredBlob, rows: _Rows) -> None:
    try:
        table_rows = Table(blob).rows()
        first = next(table_rows, None)
        if first is None:
            return
        if not benchmark.texts and isinstance(first[1], dict) and first[1].keys() >= COLUMNS:
            _read_world_bench(benchmark, blob, rows)
            return
        known: set[str] = set()
        for number, row in chain([first], table_rows):
            if isinstance(row, ParseError):
                raise row
            known |= _paths(row)
            _add_item(benchmark, f"{blob.uri}:{number}", row, rows)
    except ParseError as error:
        raise ConfigError(f"Benchmark '{benchmark.name}' cannot be read: {error}") from error
    for column in benchmark.columns:
        if column not in known:
            message = f"Benchmark '{benchmark.name}' has no column '{column}' in {blob.uri}"
            nearest = get_close_matches(column, known, 1)
            raise ConfigError(f"{message}; it has {', '.join(sorted(known))}.", *nearest)
    if not benchmark.columns:
        raise ConfigError(f"Benchmark '{benchmark.name}' names no column: of {', '.join(sorted(known))}, what is what?")


def _read_world_bench(benchmark: Benchmark, blob: StoredBlob, rows: _Rows) -> None:
    """Read AgentWorldBench.

    The actions and answers of a sample are one text, and a long evaluated answer is another.
    """
    for sample in items(blob):
        item = f"{benchmark.name}:{sample.domain}/{sample.id}"
        rows.add_text(item, sample.texts)
        if sample.turn < len(sample.responses) and len(sample.responses[sample.turn].split()) >= TELLING:
            rows.add_text(item, [sample.responses[sample.turn]])
        _add_canaries(item, sample.texts, rows)


def _add_item(benchmark: Benchmark, where: str, row: Mapping[str, Any], rows: _Rows) -> None:
    ids = _strings(_at(row, benchmark.id)) if benchmark.id is not None else []
    item = f"{benchmark.name}:{ids[0] if ids else where}"
    for column in benchmark.texts:
        rows.add_text(item, _strings(_at(row, column)))
    if benchmark.answer is not None:
        rows.add_text(item, _strings(_at(row, benchmark.answer)), "answer")
    if ids and _NUMBER.fullmatch(ids[0]) is None:  # a number is no name: other corpora count their tasks too
        rows.add_name(item, "id", ids[0])
    if benchmark.repo is not None and benchmark.base_commit is not None:
        checkouts = zip(_strings(_at(row, benchmark.repo)), _strings(_at(row, benchmark.base_commit)), strict=False)
        for name in (checkout_name(*checkout) for checkout in checkouts):
            if name is not None:
                rows.add_name(item, "checkout", name)
    _add_canaries(item, _strings(row), rows)


def _add_canaries(item: str, strings: Sequence[str], rows: _Rows) -> None:
    for canary in sorted({canary.lower() for text in strings for canary in _GUID.findall(text)}):
        if canary not in rows.canaries:
            rows.canaries.add(canary)
            rows.add(item, "canary", [0], canary=canary)


def _at(row: Mapping[str, Any], column: str) -> Any:
    value: Any = row
    for name in column.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _paths(row: Mapping[str, Any], lead: str = "") -> set[str]:
    paths = {lead + name for name in row}
    for name, value in row.items():
        if isinstance(value, dict):
            paths |= _paths(value, f"{lead}{name}.")
    return paths


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for element in value for text in _strings(element)]
    return [] if value is None or isinstance(value, bool) else [str(value)]


@cache
def read_index(folder: Folder, digest: str) -> Index:
    """Read the index from the folder. A worker reads it once for each digest."""
    assert digest
    table = read_table(folder, NAME, INDEX_SCHEMA.names)
    names = sorted(set(table["item"].to_pylist()))
    number = {name: number for number, name in enumerate(names)}
    item = np.array([number[name] for name in table["item"].to_pylist()], np.int64)
    kind = np.array(table["kind"].to_pylist())
    text, whole, hashes = (table[name].to_numpy() for name in ("text", "whole", "hash"))
    _, first, of_run = np.unique(text[kind == "text"], return_index=True, return_inverse=True)
    named = np.isin(kind, ("id", "checkout", "task"))
    order = np.lexsort([item[named], hashes[named]])
    answers = kind == "answer"
    entries = [*zip(kind.tolist(), table["canary"].to_pylist(), item.tolist(), strict=True)]
    return Index(
        items=tuple(names),
        owner=item[kind == "text"][first],
        whole=whole[kind == "text"][first],
        run_text=of_run.astype(np.int64),
        run_hash=hashes[kind == "text"],
        answer_item=item[answers],
        answer_hash=hashes[answers],
        names=hashes[named][order],
        name_item=item[named][order],
        canaries=tuple((text, owner) for entry_kind, text, owner in entries if entry_kind == "canary"),
        patterns=tuple((text, owner) for entry_kind, text, owner in entries if entry_kind == "pattern"),
    )
