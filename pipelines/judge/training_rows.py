"""Rows with a label, from which a classifier is trained: tables of labels, or a run's own verdicts and outcomes.

What a run says of its rows is a weak label: an outcome is of the whole trajectory, and a verdict is only as good as the
recipe's rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.connectors.published.tables import Table
from trajmill.pipelines.judge.reasons import LOST, LOST_ROWS, NO_TARGET, NO_TEXT
from trajmill.pipelines.plan.raw_files import list_raw
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, read_transitions, transition_files
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.quality.fingerprint import struct_text
from trajmill.quality.signal import Measured
from trajmill.quality.tokens import TokenCounter
from trajmill.quality.word_lines import lines_of, transition_lines, with_pairs, words
from trajmill.schemas import ConfigError, ParseError

Labels = Literal["column", "outcome", "verdict"]
GOOD: Final = frozenset({"good", "true", "1", "1.0", "yes"})
_LARGEST: Final = 4 << 30


@dataclass(frozen=True, slots=True, order=True)
class TrainingRow:
    """One row: its line of words (see `quality.word_lines`), whether it is good, and its group."""

    line: str
    good: bool
    group: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where labels come from.

    Attributes:
        path: a file, folder or glob of JSON Lines, JSON, Parquet or Arrow; for weak labels a run's folder.
        labels: `column` of a table, or weak: `outcome` of trajectories, `verdict` on transitions.
        column: of the label.
        good: labels, in lower case, that mean good; all others mean bad.
    """

    path: str
    labels: Labels = "column"
    column: str = "label"
    good: frozenset[str] = GOOD


def training_rows(source: Source, counts: Counter[str]) -> Iterator[TrainingRow]:
    """The rows of a source; counts what is read and what has no text or no label.

    Raises:
        ConfigError: there is nothing to read, a row has no such columns, or the run was not judged.
    """
    if source.labels == "column":
        yield from _of_tables(source, counts)
    else:
        yield from _of_run(source, counts)


def _of_tables(source: Source, counts: Counter[str]) -> Iterator[TrainingRow]:
    files = sorted(list_raw(source.path), key=lambda file: file.name)
    if not files:
        raise ConfigError(f"There is no file at '{source.path}'.")
    for file in files:
        with StoredBlob(file.name, {"": file.place}, _LARGEST) as blob:
            try:
                for number, row in Table(blob).rows():
                    if isinstance(row, ParseError):
                        raise row
                    counts["read"] += 1
                    yield from _of_row(row, f"{file.name}, row {number}", source, counts)
            except ParseError as error:
                raise ConfigError(f"Labels cannot be read: {error}") from error


def _of_row(row: Mapping[str, Any], where: str, source: Source, counts: Counter[str]) -> Iterator[TrainingRow]:
    if source.column not in row:
        raise ConfigError(f"{where} has no column '{source.column}' for the label; it has {', '.join(map(str, row))}.")
    action, shown = _text(row.get("action")), _text(row.get("next_observation"))
    if "text" not in row and not {"action", "next_observation"} <= row.keys():
        raise ConfigError(f"{where} has neither 'action' and 'next_observation' nor 'text'.")
    text = row.get("text")
    label = row[source.column]
    if label is None:
        counts["without_label"] += 1
        return
    if action is not None and shown is not None:
        (line,) = transition_lines(pa.array([action]), pa.array([shown]))
    elif isinstance(text, str):
        line = with_pairs(words(pa.array([text]))[0].as_py())
    else:
        counts["without_text"] += 1
        return
    groups = (row.get(name) for name in ("group", "trajectory_id"))
    group = next((str(one) for one in groups if one is not None), line)
    yield TrainingRow(line, str(label).lower() in source.good, group)


def _text(value: Any) -> str | None:
    """The text of an action or observation, given as such or as the struct of a transition."""
    if isinstance(value, dict):
        value = value.get("text", value.get("content"))
    return value if isinstance(value, str) else None


def _of_run(source: Source, counts: Counter[str]) -> Iterator[TrainingRow]:
    folder, names = transition_files(source.path)
    verdicts = Folder(folder.url.rstrip("/").removesuffix("transitions") + "verdicts")
    for name in names:
        if not verdicts.exists(name):
            raise ConfigError(f"'{source.path}' was not judged: there is no {verdicts.path(name)}.")
        judged = pa.Table.from_batches(read_batches(verdicts, name, ["kept", "use", "reason", "group"]))
        offset = 0
        for batch in read_transitions(folder, name):
            rows = judged.slice(offset, batch.num_rows).combine_chunks()
            offset += batch.num_rows
            counts["read"] += batch.num_rows
            good = _outcomes(batch) if source.labels == "outcome" else _verdicts(rows)
            yield from _with_lines(batch, good, rows["group"].to_pylist(), counts)


def _with_lines(
    batch: pa.RecordBatch, good: list[bool | None], groups: list[str], counts: Counter[str]
) -> Iterator[TrainingRow]:
    lines = lines_of(Measured.of(batch, TokenCounter()))
    texts = lines.texts.to_pylist()
    for text, label, group in zip(lines.index.tolist(), good, groups, strict=True):
        if text < 0:
            counts["without_text"] += 1
        elif label is None:
            counts["without_label"] += 1
        else:
            yield TrainingRow(texts[text], label, group)


def _outcomes(batch: pa.RecordBatch) -> list[bool | None]:
    """Of each row whether its task was solved, or scored above 0; None where neither is known."""
    solved, score = struct_text(batch, "outcome", "resolved"), struct_text(batch, "outcome", "score")
    found: list[bool | None] = pc.coalesce(solved, pc.greater(score, 0)).to_pylist()
    return found


def _verdicts(rows: pa.Table) -> list[bool | None]:
    """Of each row True if it is a target and False if a rule spoke; None where it is a duplicate or the like."""
    no_fault = {*LOST, *LOST_ROWS, NO_TARGET, NO_TEXT}
    return [
        True if use == "target" else None if reason in no_fault else False
        for use, reason in zip(rows["use"].to_pylist(), rows["reason"].to_pylist(), strict=True)
    ]
