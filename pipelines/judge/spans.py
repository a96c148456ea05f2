"""Spans of next observations, written to OUT/spans: character ranges with a class each, such as `copied` or `volatile`.

Measuring classifies each text by its own trajectory. Judging adds the class `volatile`: words on which replicates (rows
with the same history and action) disagree, found by exchanging the hashed words of such rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.judge.judging import Judging, Unit, measure_file
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, read_table, write_parquet
from trajmill.pipelines.storage.units import finish_unit
from trajmill.quality.fingerprint import mixed
from trajmill.quality.lines import Numbers
from trajmill.quality.replicate import Words
from trajmill.quality.spans import SPANS_SCHEMA, Span, spans_batch, with_volatile
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.manifest import Manifest

VOLATILE: Final = "volatile"
"""Name of the exchange that finds the words on which replicates disagree."""

RANDOM: Final = "random_tools"
"""Name of the exchange that finds the tools whose replicates never agree."""

MEMBER: Final = np.dtype([("rank", "<u8"), ("tie", "<u8"), ("unit", "<u4"), ("row", "<u4")])
"""Record of a row that is compared: its priority (rank, then tie; the smallest is the best), its unit and its row."""


def pack_member(row: npt.NDArray[np.void] | np.void, words: Words) -> bytes:
    """Pack a row that is compared, and its words; `row` has the fields of `MEMBER` among others."""
    member = np.zeros(1, MEMBER)
    for name in MEMBER.fields or ():
        member[name] = row[name]
    return member.tobytes() + words.pack()


def unpack_members(packed: Iterable[bytes]) -> tuple[npt.NDArray[np.void], list[Words]]:
    """Unpack the rows of a group and the words of each from the blocks of `pack_member`, the best row first."""
    blocks = list(packed)
    members = np.concatenate([np.frombuffer(data, MEMBER, 1) for data in blocks])
    order = np.argsort(members)
    return members[order], [Words.unpack(blocks[number][MEMBER.itemsize :]) for number in order.tolist()]


def volatile_words(packed: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Find the words of each row of a group of replicates that another row of the group lacks.

    Yields:
        The unit of a row, and its number with a bit for each word, packed.
    """
    members, words = unpack_members(packed)
    for number, member in enumerate(members):
        flags = np.zeros(len(words[number].hashes), np.bool_)
        for other_words in (*words[:number], *words[number + 1 :]):
            flags |= words[number].volatile(other_words)
        yield int(member["unit"]), np.array([member["row"], len(flags)], "<u4").tobytes() + np.packbits(flags).tobytes()


def _unpack_flags(packed: Iterable[bytes]) -> dict[int, npt.NDArray[np.bool_]]:
    flags = {}
    for data in packed:
        row, size = np.frombuffer(data, "<u4", 2).tolist()
        flags[row] = np.unpackbits(np.frombuffer(data, np.uint8, offset=8), count=size).astype(np.bool_)
    return flags


def tools_of(measures: Folder, label: str) -> Numbers:
    """Load the hash of each row's tool; for a shell the hash includes the program that it ran."""
    variety = read_table(measures, measure_file(label, "variety"), ["action", "command_head"])
    action, head = (column.to_numpy() for column in variety.columns)
    return mixed(action ^ mixed(head))


def write_spans(unit: Unit, judging: Judging, volatile: Iterable[bytes], tools: Iterable[bytes]) -> Manifest:
    """Write the spans of a unit, aligned to its transitions row by row, and return their manifest.

    Args:
        judging: folders and settings of the judge stage.
        volatile: results of `volatile_words` for rows of the unit.
        tools: hashes of tools whose next observations are volatile as a whole.
    """
    flags: dict[int, npt.NDArray[np.bool_] | None] = {**_unpack_flags(volatile)}
    if random := b"".join(tools):
        here = np.isin(tools_of(judging.measures, unit.label), np.frombuffer(random, "<u8"))
        flags |= dict.fromkeys(np.flatnonzero(here).tolist())
    entry = write_parquet(judging.spans, unit.name, SPANS_SCHEMA, _merge_volatile(unit, judging, flags))
    return finish_unit(judging.spans, Manifest("judge", unit.label, judging.digest, SCHEMA_VERSION, (entry,)))


def _merge_volatile(
    unit: Unit, judging: Judging, flags: dict[int, npt.NDArray[np.bool_] | None]
) -> Iterator[pa.RecordBatch]:
    texts = _texts(unit, judging, sorted(flags))
    offset = 0
    for batch in read_batches(judging.measures, measure_file(unit.label, "spans")):
        here = [row for row in texts if offset <= row < offset + batch.num_rows]
        if here:
            rows: list[Sequence[Span]] = [
                [(span["begin"], span["end"], span["label"]) for span in spans] for spans in batch["spans"].to_pylist()
            ]
            for row in here:
                rows[row - offset] = with_volatile(rows[row - offset], texts[row] or "", flags[row])
            yield spans_batch(batch, rows)
        else:
            yield batch
        offset += batch.num_rows


def _texts(unit: Unit, judging: Judging, rows: Sequence[int]) -> dict[int, str]:
    """Return the next observations of the given rows."""
    if not rows:
        return {}
    columns = read_table(judging.transitions, unit.name, ["next_observation.content"])
    taken = columns["next_observation"].take(pa.array(rows)).combine_chunks()
    return dict(zip(rows, pc.struct_field(taken, "content").to_pylist(), strict=True))
