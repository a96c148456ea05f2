"""Replicates: rows with the same environment, history and action, and the agreement of their answers.

The parts on which replicates disagree (times, process ids, random ports) cannot be known from the history, so no model
can predict them: the share of words on which they agree is the *noise ceiling* of a score. The history of a row is the
first observation and every action with its answer, in order, with screens stripped of element numbers. Its environment
is its instance, otherwise its task.

Whole trajectories of equal content count once, since copies of one log are no replicates of each other; nor is the
beginning that a branch shares with its parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.quality.fingerprint import Lanes, combine_hashes, mixed, struct_text, text_hashes
from trajmill.quality.lines import Flags, Numbers
from trajmill.quality.screens import action_hashes, answer_hashes, as_compared
from trajmill.quality.segments import goes_on
from trajmill.quality.sets import holds
from trajmill.quality.shingle import Offsets, blocks, word_hashes, word_places
from trajmill.quality.signal import Measured, MeasuredBatches

REPLICATE_SCHEMA: Final = pa.schema(
    [
        pa.field("history", pa.uint64(), nullable=False, metadata={"doc": "hash of all before the answer, but where"}),
        pa.field("answer", pa.uint64(), nullable=False, metadata={"doc": "hash of the next observation's text"}),
    ]
)
"""One row a transition, aligned to the transitions."""

ROW: Final = np.dtype(
    [
        ("key", "<u8"), ("answer", "<u8"), ("content", "<u8"), ("rank", "<u8"), ("tie", "<u8"),
        ("origin", "<u8"), ("tool", "<u8"), ("unit", "<u4"), ("row", "<u4"),
    ]
)  # fmt: skip
"""Row that may have replicates: its key (environment, history, action), the hash of its answer, the hash of the whole
trajectory's content, rank, tie and provenance (the smallest comes first), its tool, and its position.
"""

TOOL: Final = np.dtype([("tool", "<u8"), ("groups", "<u4"), ("agreeing", "<u4"), ("unit", "<u4")])
"""Number of groups of replicates that a tool answered, of those with two equal answers, and a unit that has rows of the
tool.
"""

LEAST: Final = 3
"""Fewest groups at which a tool counts as random if no group has two equal answers."""

MOST: Final = 8
"""Replicates of one key that are compared: the first with each of the others."""

LARGEST: Final = 4000
"""Most lines and words of two texts that are aligned. For longer texts, a word agrees if the other text holds it
anywhere.
"""

_ODD: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
_LINE_FEED: Final = 10
_HASH: Final = ord("#")


class Following:
    """Hashes of each row of a file: batches of `REPLICATE_SCHEMA`, aligned to the transitions.

    A trajectory may continue in the next batch.

    Args:
        measured: Measured batches that are shared with other measurers.
    """

    def __init__(self, measured: MeasuredBatches | None = None) -> None:
        self._measured = measured or MeasuredBatches()
        self._done: Lanes = np.zeros((1, 2), np.uint64)
        self._first: Lanes = np.zeros((1, 2), np.uint64)

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the hashes of `batch`, of `encode_schema()`, which follows the batches added before."""
        if batch.num_rows:
            yield self._hashed(self._measured.measure(batch))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return no batches: no hash waits for later rows."""
        return iter(())

    def _hashed(self, measured: Measured) -> pa.RecordBatch:
        batch, starts, lengths = measured.once(as_compared).batch, measured.starts, measured.lengths
        answer = measured.once(answer_hashes)
        action = combine_hashes(
            [
                *(text_hashes(struct_text(batch, "action", name)) for name in ("name", "arguments")),
                measured.once(action_hashes),
                text_hashes(batch["interleaved"]),
            ]
        )
        step = batch["step"].to_numpy().astype(np.uint64)[:, None] + np.uint64(1)
        done = mixed(combine_hashes([action, answer]) + step * _ODD)
        before = np.cumsum(done, axis=0, dtype=np.uint64) - done
        before -= np.repeat(before[starts], lengths, axis=0)
        first = np.repeat(text_hashes(struct_text(batch, "observation", "content"))[starts], lengths, axis=0)
        if goes_on(batch):
            before[: lengths[0]] += self._done
            first[: lengths[0]] = self._first
        self._done, self._first = before[-1:] + done[-1:], first[-1:]
        history = combine_hashes([first, before, action])
        return pa.RecordBatch.from_arrays([pa.array(history[:, 0]), pa.array(answer[:, 0])], schema=REPLICATE_SCHEMA)


def keys(environment: Numbers, history: Numbers) -> Numbers:
    """Return the key of each row, from its environment's node and the hash of its history and action."""
    return mixed(environment * _ODD[0] ^ history)


def groups(rows: npt.NDArray[np.void]) -> Iterator[npt.NDArray[np.void]]:
    """Yield the replicates of each key that has several, one of each content, the best first; keys ascending.

    Args:
        rows: Rows of dtype `ROW`, including all of each key, in any order.
    """
    key = np.sort(rows["key"])
    rows = rows[holds(np.unique(key[1:][key[1:] == key[:-1]]), rows["key"])]  # most keys are of one row
    order = np.lexsort([rows[name] for name in ("row", "unit", "origin", "tie", "rank", "content", "key")])
    ranked = rows[order]
    new = np.ones(len(ranked), np.bool_)
    new[1:] = (ranked["key"][1:] != ranked["key"][:-1]) | (ranked["content"][1:] != ranked["content"][:-1])
    once = ranked[new]
    once = once[np.lexsort([once[name] for name in ("row", "unit", "origin", "tie", "rank", "key")])]
    begins = np.flatnonzero(np.append(True, once["key"][1:] != once["key"][:-1])) if len(once) else order
    ends = np.append(begins[1:], len(once))
    several = ends - begins > 1
    for begin, end in zip(begins[several], ends[several], strict=True):
        yield once[begin:end]


def random_tools(counts: npt.NDArray[np.void]) -> Numbers:
    """Return the tools that never gave the same answer twice to the same action in the same state.

    Args:
        counts: Counts of dtype `TOOL`, including all of each tool.
    """
    tools, tool_number = np.unique(counts["tool"], return_inverse=True)
    groups, agreeing = (np.bincount(tool_number, counts[name], len(tools)) for name in ("groups", "agreeing"))
    return tools[(groups >= LEAST) & (agreeing == 0)]


def beyond(rows: npt.NDArray[np.void], most: int) -> npt.NDArray[np.void]:
    """Return the rows after the first `most` of their key, by rank, tie and position; the same for any order of rows.

    Args:
        rows: Rows of dtype `ROW`, including all of each key.
        most: Rows of a key to skip, at least 1.
    """
    order = np.lexsort([rows[name] for name in ("row", "unit", "origin", "tie", "rank", "key")])
    ranked = rows[order]
    begins = np.ones(len(ranked), np.bool_)
    begins[1:] = ranked["key"][1:] != ranked["key"][:-1]
    first = np.maximum.accumulate(np.where(begins, np.arange(len(ranked)), 0))
    late: Flags = np.arange(len(ranked)) - first >= most
    result: npt.NDArray[np.void] = ranked[late]
    return result


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a text, as defined in `quality.shingle`.

    Attributes:
        hashes: Hashes of the words, in order.
        line: Line number of each word.
        places: Beginning and end of each word, in bytes; shape (words, 2).
    """

    hashes: Numbers
    line: Offsets
    places: Offsets

    @classmethod
    def of(cls, text: str, *, tree: bool = False) -> Words:
        """Return the words of one text; in a tree, all element numbers count as the same word."""
        for _, data, starts in blocks(pa.array([text], pa.string())):
            begin, end = word_places(data, starts)
            line = np.searchsorted(np.flatnonzero(data == _LINE_FEED), begin)
            hashes = word_hashes(data, begin, end)
            if tree:
                first = np.diff(line, prepend=-1) > 0
                hashes[first & (begin > 0) & (data[begin - 1] == _HASH)] = 0
            return cls(hashes, line, np.stack([begin, end], axis=1))
        none = np.zeros(0, np.int64)
        return cls(none.astype(np.uint64), none, none.reshape(0, 2))

    def pack(self) -> bytes:
        """Return hashes and lines as bytes."""
        return np.concatenate([self.hashes, self.line.astype(np.uint64)]).astype("<u8").tobytes()

    @classmethod
    def unpack(cls, data: bytes) -> Words:
        """Restore the words that `pack` encoded, without their places."""
        hashes, line = np.frombuffer(data, "<u8").reshape(2, -1)
        return cls(hashes, line.astype(np.int64), np.zeros((0, 2), np.int64))

    def volatile(self, other_words: Words) -> Flags:
        """Flag each word that the other text does not have in the same place.

        Lines are aligned first, then the words of lines that differ.
        """
        flags = np.ones(len(self.hashes), np.bool_)
        lines, other_lines = self._lines(), other_words._lines()
        sizes = ([len(line) for line in some] for some in (lines, other_lines))
        starts, other_starts = (np.concatenate([[0], np.cumsum(some)]).astype(int) for some in sizes)
        for kind, low, high, other_low, other_high in _align(lines, other_lines):
            begin, end = int(starts[low]), int(starts[high])
            if kind == "equal":
                flags[begin:end] = False
            elif kind == "replace":
                against = other_words.hashes[int(other_starts[other_low]) : int(other_starts[other_high])]
                for same, first, last, _, _ in _align(self.hashes[begin:end].tolist(), against.tolist()):
                    flags[begin + first : begin + last] = same != "equal"
        return flags

    def _lines(self) -> list[tuple[int, ...]]:
        bounds = np.flatnonzero(np.diff(self.line)) + 1
        return [tuple(words.tolist()) for words in np.split(self.hashes, bounds) if len(words)]


def _align(items: Sequence[Any], others: Sequence[Any]) -> Sequence[tuple[str, int, int, int, int]]:
    if len(items) > LARGEST or len(others) > LARGEST:
        other_items = set(others)
        return [("equal" if item in other_items else "delete", at, at + 1, 0, 0) for at, item in enumerate(items)]
    return SequenceMatcher(None, items, others, autojunk=False).get_opcodes()


def agreement(texts: Sequence[Words]) -> float:
    """Return the mean share of words, 0 to 1, on which the first text agrees with each of the others."""
    shares = []
    for text in texts[1:]:
        size = len(texts[0].hashes) + len(text.hashes)
        lost = int(texts[0].volatile(text).sum()) + int(text.volatile(texts[0]).sum())
        shares.append(1 - lost / size if size else 1.0)
    return sum(shares) / len(shares)
