"""Inspection of a raw log, a stage folder or a shard: counts, and one trajectory step by step.

The functions only read, and return plain values for `tables` to print.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import polars as pl
import pyarrow.parquet as pq

from trajmill.app.pages.index import DAMAGED
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.render.loss_spans import CLASS_OF_LABEL, CLASSES
from trajmill.pipelines.storage.paths import url_of
from trajmill.quality.scrub import scrub
from trajmill.quality.scrubbing.sensitive_values import sensitive_values
from trajmill.schemas import Assembler, ConfigError, ParseError, Reject, ShardError, scan_transitions
from trajmill.schemas.errors import first_line
from trajmill.schemas.invariants import check
from trajmill.schemas.row_ids import KEY
from trajmill.schemas.transition import VERSION_KEY

_DAMAGED: Final = (*DAMAGED, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class Found:
    """Contents of a path: its kind, counts, tables and the rows to show.

    Attributes:
        kind: `raw log`, `transitions`, `verdicts`, `rejects` or `shard`.
        tables: Further counts by title: (value, number).
        rows: Rows of one trajectory as Python values, or one sample; empty if there is none.
        title: Title of `rows`.
    """

    kind: str
    counts: dict[str, int]
    tables: dict[str, list[tuple[str, int]]]
    rows: list[dict[str, Any]]
    title: str


def inspect(path: str, trajectory: str | None = None, read_as: str | None = None) -> Found:
    """Read the contents of `path`: a run, a stage, a Parquet file or a raw log.

    Args:
        path: A raw log, or a folder or file that trajmill wrote.
        trajectory: Trajectory or sample to show, by id (or its beginning) or by number from 0; the first by default.
        read_as: Connector that reads a raw log, instead of the one that recognizes it.

    Raises:
        ConfigError: There is nothing at the path, it has no such trajectory, a file is damaged, or the format is
            unknown.
    """
    try:
        return _inspect_path(Path(path), path, trajectory, read_as)
    except (ParseError, ShardError) as error:
        raise ConfigError(f"'{path}' cannot be read: {error}") from error
    except _DAMAGED as error:
        raise ConfigError(f"'{_find_damaged_file(path)}' cannot be read: {first_line(error)}") from error


def _inspect_path(named: Path, path: str, trajectory: str | None, read_as: str | None) -> Found:
    if not named.exists():
        local = " Only what lies on this machine is inspected: copy it." if url_of(path) else ""
        raise ConfigError(f"There is nothing at '{path}'.{local}")
    files = [named] if named.is_file() else _tables(named)
    kinds = {file: _kind(file) for file in files if file.suffix == ".parquet"}
    if read_as is not None:
        return _raw(path, trajectory, read_as)
    if "transitions" in kinds.values():
        if len(set(kinds.values())) > 1 and not (named / "transitions").is_dir():
            first = next(file for file, kind in kinds.items() if kind == "transitions")
            raise ConfigError(f"'{path}' is not the folder of one run; there are transitions in '{first.parent}'.")
        return _transitions(path, trajectory)
    if kinds:
        return _rows(files, min(kinds.values()), trajectory)
    if named.is_file() and named.name.endswith("_test.jsonl"):
        return _samples(named, trajectory)
    return _raw(path, trajectory, None)


def _tables(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*.parquet") if file.is_file())


def _find_damaged_file(path: str) -> str:
    """Return the first Parquet file at a path that cannot be read completely; the path if there is none."""
    for file in _tables(Path(path)) if os.path.isdir(path) else []:
        try:
            with pq.ParquetFile(file) as reader:
                for _ in reader.iter_batches():
                    pass
        except _DAMAGED:
            return str(file)
    return path


def _kind(file: Path) -> str:
    metadata = pq.read_schema(file).metadata or {}
    if VERSION_KEY in metadata:
        return "transitions"
    if b"trajmill.verdict_schema" in metadata:
        return "verdicts"
    return "rejects" if b"trajmill.reject_schema" in metadata else "shard"


def _values(frame: pl.LazyFrame, column: pl.Expr) -> list[tuple[str, int]]:
    counted = (
        frame.select(column.alias("value")).group_by("value").len().sort(["len", "value"], descending=[True, False])
    )
    return [(str(value), number) for value, number in counted.head(12).collect().iter_rows()]


def _transitions(path: str, trajectory: str | None) -> Found:
    frame = scan_transitions(path)
    copies = frame.select(pl.col(KEY).str.extract("^(.*)-", 1)).unique(maintain_order=True).collect()
    keys = copies[KEY].to_list()
    key = _chosen_key(keys, trajectory)
    counts = {"trajectories": len(keys), "transitions": frame.select(pl.len()).collect().item()}
    tables = {
        "domain": _values(frame, pl.col("domain")),
        "connector": _values(frame, pl.col("provenance").struct.field("connector")),
        "action": _values(frame, pl.col("action").struct.field("name")),
    }
    rows = frame.filter(pl.col(KEY).str.starts_with(f"{key}-")).sort("step").collect().to_dicts()
    return Found("transitions", counts, tables, _with_classes(Path(path), rows), f"trajectory {key}")


def _with_classes(path: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add `classes` to the rows if their spans were measured: bytes of the next observation by class."""
    files = sorted([*path.glob("spans/*/*.parquet"), *path.parent.glob("spans/*/*.parquet")])
    if not files:
        return rows
    measured = pl.scan_parquet(files, glob=False).filter(pl.col(KEY).is_in([row[KEY] for row in rows]))
    spans = dict(measured.select(KEY, "spans").collect().iter_rows())
    for row in rows:
        content = (row["next_observation"] or {}).get("content")
        if content and row[KEY] in spans:
            row["classes"] = _classes(spans[row[KEY]], len(content.encode()))
    return rows


def _classes(spans: Sequence[Mapping[str, Any]], size: int) -> dict[str, int]:
    sizes = dict.fromkeys(CLASSES, 0)
    for span in spans:
        sizes[CLASS_OF_LABEL[span["label"]]] += span["end"] - span["begin"]
    sizes["new"] += size - sum(sizes.values())
    return {name: number for name, number in sizes.items() if number}


def _chosen_key(keys: Sequence[str], wanted: str | None) -> str:
    """Return the id and copy of the wanted trajectory; without a copy, the first one."""
    if not keys:
        raise ConfigError("There is no trajectory in it.")
    if wanted is None:
        return keys[0]
    if wanted.isdigit() and int(wanted) < len(keys):
        return keys[int(wanted)]
    matches = [key for key in keys if key.startswith(wanted)]
    if len({key.partition("-")[0] for key in matches}) != 1:
        raise ConfigError(f"{len(matches)} of {len(keys)} trajectories have an id that begins with '{wanted}'.")
    return matches[0]


def _samples(file: Path, wanted: str | None) -> Found:
    """Read a shard of evaluation samples: their number, and one of them.

    Raises:
        ConfigError: A line is not a JSON object.
    """
    number = int(wanted) if wanted and wanted.isdigit() else 0
    row, count = dict[str, Any](), 0
    with file.open("rb") as stream:
        for line in stream:
            try:
                value = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise ConfigError(f"'{file}' is damaged, line {count + 1} is no JSON: {error}") from error
            if not isinstance(value, dict):
                raise ConfigError(f"'{file}' is no shard, line {count + 1} is no JSON object.")
            row = value if count <= number else row
            count += 1
    return Found("shard", {"samples": count}, {}, [row] if count else [], "sample")


def _rows(files: Sequence[Path], kind: str, wanted: str | None) -> Found:
    chosen = [file for file in files if file.suffix == ".parquet" and _kind(file) == kind]
    counts = {"files": len(chosen), "rows": sum(pq.read_metadata(file).num_rows for file in chosen)}
    tables: dict[str, list[tuple[str, int]]] = {}
    full = [file for file in chosen if pq.read_metadata(file).num_rows]
    if not full:
        return Found(kind, counts, tables, [], "row")
    same = {tuple(pq.read_schema(file).names) for file in full}
    first = pl.concat([pl.scan_parquet(file, glob=False) for file in (full if len(same) == 1 else full[:1])])
    for column in ("unit", "reason", "use", "domain", "kept"):
        holding = [file for file in full if column in pq.read_schema(file).names]
        if holding:
            columns = pl.concat([pl.scan_parquet(file, glob=False).select(pl.col(column)) for file in holding])
            tables[column] = _values(columns, pl.col(column))
    if kind == "rejects" and wanted is None:
        rows = first.drop("excerpt", strict=False).collect().to_dicts()
        return Found(kind, counts, tables, rows, "rejects")
    number = int(wanted) if wanted and wanted.isdigit() else 0
    row = first.slice(number, 1).collect().to_dicts()
    return Found(kind, counts, tables, row, f"row {number}")


def _raw(path: str, trajectory: str | None, read_as: str | None) -> Found:
    recipe = Recipe(name="inspect", source="inspect")
    recipe = recipe if read_as is None else recipe.with_format(read_as)
    plan = make_plan(recipe, [path])
    counts = {"inputs": len(plan.inputs), "unrecognized": len(plan.unrecognized), "trajectories": 0, "transitions": 0}
    rejects, batches = Counter[str](), []
    for log in plan.inputs:
        assembler, parents, sensitive = Assembler(), dict[str, str](), dict[str, tuple[str, ...]]()
        for record, origin in read_input(log, recipe):
            if isinstance(record, Reject):
                rejects[record.reason] += 1
            else:
                sensitive[assembler.add(record, origin, parents)] = sensitive_values(record)
        batches.append(scrub(check(assembler.take()), sensitive=sensitive)[0])
    rows = [row for batch in batches for row in batch.to_pylist()]
    of = [row[KEY].rpartition("-")[0] for row in rows]
    keys = list(dict.fromkeys(of))
    counts |= {"trajectories": len(keys), "transitions": len(rows), "rejects": rejects.total()}
    tables = {"reject": sorted(rejects.items())} if rejects else {}
    tables["connector"] = sorted(Counter(log.connector for log in plan.inputs).items())
    if not keys:
        return Found("raw log", counts, tables, [], "trajectory")
    key = _chosen_key(keys, trajectory)
    chosen = [row for row, owner in zip(rows, of, strict=True) if owner == key]
    return Found("raw log", counts, tables, chosen, f"trajectory {key}")


def difference(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the lines that changed between two observations: `-` removed, `+` added, ` ` unchanged."""
    old, new = (_lines((observation or {}).get("content") or "") for observation in (before, after))
    yield from list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]


def _lines(content: str) -> list[str]:
    return content.removesuffix("\n").split("\n") if content else []
