"""Reading of a component's file: its passages are scrubbed, checked, counted and measured for later decisions.

The result depends only on the file and the recipe, and is written whole or not at all.

Texts longer than a component's bound are cut into pieces between paragraphs, lines or words. The concatenated pieces
are exactly the text, except for dropped pieces of blanks only. The cut depends only on the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.judge.evaluation_index import read_index
from trajmill.pipelines.mix.passages import as_transitions as shape
from trajmill.pipelines.mix.passages.passage import KEY_SCHEMA, Message, Passage, group_name, hashes, own_name
from trajmill.pipelines.mix.passages.preparation import READ, PassageUnit, Preparation, read_file
from trajmill.pipelines.mix.passages.reading import read_passages
from trajmill.pipelines.plan.raw_files import NOT_OPENED
from trajmill.pipelines.storage.parquet import ParquetSink
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.pipelines.storage.units import finish_unit
from trajmill.quality.contamination_matches import MATCH_SCHEMA, find_matches
from trajmill.quality.fingerprint import trajectory_starts
from trajmill.quality.registry import signal
from trajmill.quality.scrub import scrub, scrub_name, scrub_reject
from trajmill.quality.signal import Measured, Signal
from trajmill.quality.tokens import TokenCounter, text_bytes
from trajmill.schemas import REJECT_SCHEMA, SCHEMA_VERSION, Reject, reject_table
from trajmill.schemas.manifest import Manifest

_BORDERS: Final = ("\n\n", "\n", " ")
_REACH: Final = 4
"""Divisor of a piece's length. Borders are searched for within a quarter of a piece on both sides of the ideal cut."""


def cut_text(passage: Passage, most: int, counter: TokenCounter) -> list[Passage]:
    """Cut a text into pieces of at most so many tokens, which share the group of the whole.

    Args:
        most: largest number of tokens of a piece; a single character may have more.
    """
    (message,) = passage.messages
    document = int(hashes([passage.messages])[0][0, 0])
    pieces = [text for text in _pieces(message.content, most, counter) if text.strip()]
    return [
        replace(passage, messages=(Message(message.role, text),), window=number, document=document)
        for number, text in enumerate(pieces)
    ]


def _pieces(text: str, most: int, counter: TokenCounter) -> Iterator[str]:
    """Yield the pieces in order: roughly equal parts, of which those that are still too long are cut again."""
    waiting = [text]
    while waiting:
        piece = waiting.pop()
        tokens = int(counter.count(pa.array([piece], pa.string()))[0])
        if tokens <= most or len(piece) < 2:
            yield piece
        else:
            waiting += reversed(_split_evenly(piece, -(-tokens // most)))


def _split_evenly(text: str, count: int) -> list[str]:
    """Split the text into at most `count` parts at the best borders near equal lengths."""
    size = max(1, len(text) // count)
    cuts = {_border(text, size * number, size // _REACH) for number in range(1, count)}
    ends = [*sorted(cut for cut in cuts if 0 < cut < len(text)), len(text)]
    return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _border(text: str, position: int, reach: int) -> int:
    """Find the end of a part: after the nearest border of the best kind within reach, else at the position."""
    low, high = max(0, position - reach), min(len(text), position + reach)
    for border in _BORDERS:
        before, after = text.rfind(border, low, position), text.find(border, position, high)
        ends = [index + len(border) for index in (before, after) if index >= 0]
        if ends:
            return min(ends, key=lambda index: (abs(index - position), index))
    return position


CONTROL_TOKENS: Final = "control_tokens"
TOO_LONG: Final = "too_long"

Flags = npt.NDArray[np.bool_]


@dataclass
class _Reading:
    """Progress of reading a unit. Rows of matches are numbered consecutively.

    Attributes:
        sink: sink of rejects, which are written as they come, since most rows of a large file may be unwanted.
        rejects: rejects that are not yet written.
        counts: counts of rows, and of additional pieces of cut texts.
        pieces: number of texts and messages so far.
    """

    unit: PassageUnit
    preparing: Preparation
    sink: ParquetSink
    rejects: list[Reject] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    pieces: int = 0

    @cached_property
    def component(self) -> Any:
        return self.preparing.components[self.unit.component]

    @cached_property
    def uri(self) -> str:
        """The file's name in rows."""
        normalize = self.preparing.recipe.normalize
        return scrub_name(self.unit.uri, salt=normalize.scrub_salt or "", kinds=normalize.scrub)

    @cached_property
    def counter(self) -> TokenCounter:
        """Token counter of the recipe's tokenizer."""
        return TokenCounter(self.preparing.recipe.judge.tokenizer)

    @cached_property
    def bounds(self) -> list[tuple[str, Signal, float, float]]:
        """(reason, signal, smallest and largest value that pass) of the signals measured of each passage."""
        bounds = [
            (reason, measured_signal, least, np.inf) for reason, measured_signal, least in self.component.signals()
        ]
        if self.component.control_tokens == "drop":
            bounds.insert(0, (CONTROL_TOKENS, signal("control_tokens"), -np.inf, 0.0))
        return bounds

    def reject(self, reject: Reject) -> None:
        normalize = self.preparing.recipe.normalize
        salt, kinds = normalize.scrub_salt or "", normalize.scrub
        if reject.excerpt or reject.member:
            self.rejects.append(scrub_reject(reject, salt, kinds))
        else:
            self.rejects.append(replace(reject, uri=self.uri, detail=_scrub_words(reject.detail, salt, kinds)))
        if len(self.rejects) >= shape.BATCH_PASSAGES:
            self.flush()

    def flush(self) -> None:
        """Write the pending rejects."""
        table = reject_table(sorted(self.rejects, key=lambda reject: (reject.offset, reject.reason))).combine_chunks()
        for batch in table.to_batches():
            self.sink.write(batch)
        self.rejects.clear()

    def drop(self, passages: Sequence[Passage], dropped: Flags, reason: str, detail: str) -> None:
        rows = (passages[index].row for index in np.flatnonzero(dropped).tolist())
        self.rejects += [Reject("record", reason, detail, self.uri, offset=row) for row in rows]

    def passages(self) -> Iterator[Passage]:
        """Yield the passages of the file. Rows that are no passages become rejects."""
        limit = self.preparing.recipe.normalize.max_member_bytes
        if self.unit.fault:
            self.counts["rows"] += 1
            self.reject(Reject("input", self.unit.fault, NOT_OPENED[self.unit.fault], self.unit.uri))
            return
        with StoredBlob(self.unit.uri, {"": self.unit.place}, limit) as blob:
            for passage in read_passages(self.component, blob, simulated=self.preparing.simulated):
                self.counts["rows"] += 1
                if isinstance(passage, Reject):
                    self.reject(passage)
                else:
                    yield passage


@lru_cache(maxsize=256)
def _scrub_words(detail: str, salt: str, kinds: tuple[str, ...]) -> str:
    return scrub_name(detail, salt=salt, kinds=kinds)


def read_unit(unit: PassageUnit, preparing: Preparation) -> Manifest:
    """Read a unit, write the results, and return their manifest."""
    digest = preparing.unit_digest(unit)
    folder, component = preparing.read, preparing.components[unit.component]
    files: dict[str, tuple[Any, ...]] = {
        "payload": (read_file(unit.label), preparing.schema(unit)),
        "keys": (read_file(unit.label, "keys"), KEY_SCHEMA),
        "rejects": (read_file(unit.label, "rejects"), REJECT_SCHEMA),
    }
    if preparing.benchmarks:
        files["matches"] = (read_file(unit.label, "benchmarks"), MATCH_SCHEMA)
    sinks = {kind: ParquetSink(folder, *file) for kind, file in files.items()}
    reading = _Reading(unit, preparing, sinks["rejects"])
    try:
        for passages in shape.split_into_batches(reading.passages()):
            for kind, batch in _measure_batch(passages, reading):
                sinks[kind].write(batch)
        reading.flush()
    except BaseException:
        for sink in sinks.values():
            sink.abandon()
        raise
    entries = tuple(sink.close() for sink in sinks.values())
    counts = {f"{component.name}.{name}": number for name, number in sorted(reading.counts.items())}
    return finish_unit(folder, Manifest(READ, unit.label, digest, SCHEMA_VERSION, entries, counts))


def _measure_batch(passages: list[Passage], reading: _Reading) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (kind of file, rows for it) of a batch of passages."""
    preparing = reading.preparing
    normalize = preparing.recipe.normalize
    batch, _ = scrub(
        shape.as_transitions(passages), normalize.scrub, salt=normalize.scrub_salt or "", per_trajectory=False
    )
    batch, passages = _filter_passages(batch, shape.as_passages(batch, passages), reading)
    batch, passages, tokens = _bound_passages(batch, passages, reading)
    if not passages:
        return
    yield from _rows(batch, passages, tokens, reading)
    if preparing.benchmarks:
        matches = find_matches(batch, read_index(preparing.measures, preparing.benchmarks))
        row = matches["row"].to_numpy() + np.uint32(reading.pieces)
        yield "matches", matches.set_column(0, MATCH_SCHEMA.field(0), pa.array(row.astype(np.uint32)))
    reading.pieces += batch.num_rows


def _bound_passages(
    batch: pa.RecordBatch, passages: list[Passage], reading: _Reading
) -> tuple[pa.RecordBatch, list[Passage], npt.NDArray[np.int64]]:
    """Return the passages within the component's bound, with the tokens of each text.

    Longer ones are cut or dropped.
    """
    component, counter = reading.component, reading.counter
    tokens = counter.count(shape.texts_of(batch))
    lengths, most = shape.sum_per_passage(batch, tokens), component.max_tokens
    if most is None or not (lengths > most).any():
        return batch, passages, tokens
    if component.kind == "text" and component.overflow == "windows":
        cut = [
            window
            for passage, length in zip(passages, lengths.tolist(), strict=True)
            for window in (cut_text(passage, most, counter) if length > most else [passage])
        ]
        reading.counts["windows"] += len(cut) - len(passages)
        batch = shape.as_transitions(cut)
        return batch, cut, counter.count(shape.texts_of(batch))
    reading.drop(passages, lengths > most, TOO_LONG, f"longer than max_tokens, {most:,}")
    of_row = np.repeat(lengths <= most, [len(passage.messages) for passage in passages])
    return *_chosen(batch, passages, lengths <= most), tokens[of_row]


def _chosen(batch: pa.RecordBatch, passages: list[Passage], is_kept: Flags) -> tuple[pa.RecordBatch, list[Passage]]:
    return shape.filter_passages(batch, is_kept), [passages[index] for index in np.flatnonzero(is_kept).tolist()]


def _filter_passages(
    batch: pa.RecordBatch, passages: list[Passage], reading: _Reading
) -> tuple[pa.RecordBatch, list[Passage]]:
    """Return the passages that pass every measure. The first failed measure gives the reason."""
    for reason, measured_signal, least, most in reading.bounds:
        if not passages:
            break
        measured = measured_signal.measure(Measured.of(batch, reading.counter)).astype(np.float64)
        fails = (np.round(measured, 6) < least) | (np.round(measured, 6) > most)
        dropped = np.logical_or.reduceat(fails, trajectory_starts(batch))
        if dropped.any():
            reading.drop(passages, dropped, reason, "by what the component's section wants")
            batch, passages = _chosen(batch, passages, ~dropped)
    return batch, passages


def _rows(
    batch: pa.RecordBatch, passages: Sequence[Passage], tokens: npt.NDArray[np.int64], reading: _Reading
) -> Iterator[tuple[str, pa.RecordBatch]]:
    component = reading.component
    keys, exact = hashes([passage.messages for passage in passages])
    high, low = keys[:, 0], keys[:, 1]
    contents = [f"{int(a):016x}{int(b):016x}" for a, b in keys]
    ids = [
        f"{component.name}/{own_name(passage, content)}" for passage, content in zip(passages, contents, strict=True)
    ]
    learnt = shape.bearing(passages)
    columns: dict[str, Any] = {
        "id": ids,
        "source": [component.corpus] * len(passages),
        "licence": [passage.licence for passage in passages],
        "uri": [reading.uri] * len(passages),
        "row": [passage.row for passage in passages],
        "group": [group_name(component.corpus, passage, int(key)) for passage, key in zip(passages, high, strict=True)],
        "text_bytes": shape.sum_per_passage(batch, text_bytes(shape.texts_of(batch))),
        "tokens": shape.sum_per_passage(batch, tokens),
        "loss_tokens": shape.sum_per_passage(batch, np.where(learnt, tokens, 0)),
    }
    if component.kind == "text":
        columns["text"] = [passage.messages[0].content for passage in passages]
    else:
        columns["tools"] = [passage.tools for passage in passages]
        columns["messages"] = [
            [
                {
                    "role": message.role,
                    "content": message.content,
                    "loss": True if message.role == "assistant" else None,
                }
                for message in passage.messages
            ]
            for passage in passages
        ]
    columns["world_model"] = [passage.world_model for passage in passages]
    yield "payload", _batch(columns, reading.preparing.schema(reading.unit))
    pieces = [len(passage.messages) for passage in passages]
    key_columns = {"id": ids, "high": high, "low": low, "exact": exact[:, 0], "pieces": pieces, "row": columns["row"]}
    yield "keys", _batch(key_columns, KEY_SCHEMA)


def _batch(columns: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_passage_unit(unit: PassageUnit, preparing: Preparation) -> int:
    """Read a unit, and return its number alone, which is all that a runner has to carry."""
    read_unit(unit, preparing)
    return unit.number
