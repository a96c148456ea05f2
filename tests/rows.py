"""What a connector makes of logs, as plain values: the form of golden files."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from trajmill.connectors.connector import Blob, Connector, MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import Input
from trajmill.pipelines.plan.raw_files import RawFile
from trajmill.pipelines.plan.recognition import Recognizer
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.paths import Place
from trajmill.schemas import TRANSITION_SCHEMA, Assembler, Origin, Reject, Trajectory
from trajmill.schemas.invariants import check
from trajmill.schemas.row_ids import KEY

RECIPE = Recipe(name="golden", source="golden")


def blob_at(path: Path) -> MemoryBlob:
    """The blob of a fixture: a file, or a folder whose files are its members."""
    if path.is_file():
        return MemoryBlob(path.name, path.read_bytes())
    members = {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
    return MemoryBlob(path.name, members)


def split_records(records: Iterable[Trajectory | Reject]) -> tuple[list[Trajectory], list[Reject]]:
    """(trajectories, rejects) of what a connector yields."""
    every = list(records)
    return [entry for entry in every if isinstance(entry, Trajectory)], [
        entry for entry in every if isinstance(entry, Reject)
    ]


def parsed(connector: Connector, blob: Blob) -> tuple[list[dict[str, Any]], list[Reject]]:
    """(rows, rejects) of a blob; a `ParseError` is raised as it comes."""
    assembler = Assembler()
    rejects = assembled(connector, blob, assembler)
    return _unscrubbed(check(assembler.take()).to_pylist()), rejects


def assembled(connector: Connector, blob: Blob, assembler: Assembler, uri: str = "") -> list[Reject]:
    """The rejects of a blob, whose trajectories the assembler takes in; a `ParseError` is raised as it comes.

    The rows are those of an input that is called `uri`, by which blobs of one assembler are told apart.
    """
    parents, rejects = dict[str, str](), []
    origin = Origin(uri or blob.uri, "fixture", connector.name, connector.version, blob.digest)
    for record in connector.parse(blob):
        if isinstance(record, Reject):
            rejects.append(record)
        else:
            assembler.add(record, origin, parents)
    return rejects


def _unscrubbed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without the column that only scrubbing fills, and without the key, which the others make."""
    for row in rows:
        assert row.pop("scrubbed") == 0
        del row[KEY]
    return rows


def line(row: dict[str, Any]) -> str:
    """A row as the line of a golden file."""

    def plain(value: Any) -> str:
        assert isinstance(value, datetime)
        return value.isoformat()

    return json.dumps(row, sort_keys=True, ensure_ascii=False, default=plain)


DEFAULTS: dict[str, Any] = {
    "call_index": 0, "context.origin": "logged", "environment.kind": "real", "num_calls": 1, "num_segments": 1,
    "provenance.member": "", "segment": 0, "source": "fixture",
    **{
        f"{side}.{name}": value
        for side in ("observation", "next_observation")
        for name, value in {"media_type": "text/plain", "origin": "environment", "truncation": "none"}.items()
    },
}  # fmt: skip
"""What golden lines of fixtures leave out, so that they can be read, beside nulls and empty lists."""


def golden_line(row: dict[str, Any]) -> str:
    """A row as the line of a fixture's golden file: what is null, empty or usual is left out."""
    return line(_told(row))


def _told(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    converted = {
        key: _told(value, f"{prefix}{key}.") if isinstance(value, dict) else value for key, value in row.items()
    }
    return {
        key: value
        for key, value in converted.items()
        if value is not None and value != [] and not (prefix + key in DEFAULTS and value == DEFAULTS[prefix + key])
    }


def golden_row(text: str) -> dict[str, Any]:
    """The row that a golden line stands for; its time is a text."""
    fields = [field for field in TRANSITION_SCHEMA if field.name not in ("scrubbed", KEY)]
    return _whole(json.loads(text), fields)


def _whole(values: dict[str, Any], fields: Iterable[pa.Field], prefix: str = "") -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in fields:
        value = values.get(field.name, DEFAULTS.get(prefix + field.name))
        if pa.types.is_struct(field.type) and value is not None:
            value = _whole(value, field.type.fields, f"{prefix}{field.name}.")
        row[field.name] = [] if value is None and pa.types.is_list(field.type) else value
    return row


def recognized(files: Iterable[Path], root: Path) -> tuple[list[Input], list[Reject]]:
    """(inputs, rejects) of these files below a folder and of no others that lie there."""
    named = sorted((str(path.relative_to(root)), path) for path in files)
    raw = [RawFile(name, Place(str(path)), path.stat().st_size, "") for name, path in named]
    result = Recognizer(connectors(), RECIPE.normalize.max_member_bytes, strict=True).recognize_once(raw)
    return result.inputs, result.rejects


def summary(files: Iterable[Path], root: Path) -> dict[str, Any]:
    """What all logs among the files come to: counts, rejects by reason, and a digest over every row in order."""
    inputs, unrecognized = recognized(files, root)
    digest, rejects, accepted = hashlib.sha256(), Counter[str](), 0
    counts: Counter[str] = Counter()
    for log in inputs:
        assembler, parents = Assembler(), dict[str, str]()
        for record, origin in read_input(log, RECIPE):
            if isinstance(record, Reject):
                rejects[record.reason] += 1
            else:
                assembler.add(record, origin, parents)
                counts["trajectories"] += 1
        rows = _unscrubbed(check(assembler.take()).to_pylist())
        accepted += bool(rows)
        counts["transitions"] += len(rows)
        for row in rows:
            digest.update(line(row).encode() + b"\n")
    rejects.update(reject.reason for reject in unrecognized)
    return {
        "files": sum(len(log.members) for log in inputs) + len(unrecognized),
        "inputs": len(inputs) + len(unrecognized),
        "accepted": accepted,
        "trajectories": counts["trajectories"],
        "transitions": counts["transitions"],
        "rejects": dict(sorted(rejects.items())),
        "digest": digest.hexdigest(),
    }
