"""Labels on spans of a next observation: where what it shows can be known from, as far as that is cheap to tell.

`harness`: the harness made the text. `volatile`: replicates do not agree on it (see `quality.replicate`), so nothing
that stood before tells it. `frame`: fixed text of the tool or screen (see `quality.boilerplate`). `action`: a line of
the action. `history`: a line that the trajectory has shown before. `pre_existing`: a line of the initial state.
Where several hold, the first in this order is told. A text without a label is new, and whether a model could know it
is not told here.

Spans are bytes of the UTF-8 text, so that no reader needs to know how words or lines were cut.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.boilerplate import REQUESTS, TREES, frames, in_bytes, may_have_frames, without_gutters
from trajmill.quality.fingerprint import mixed
from trajmill.quality.lines import Lines
from trajmill.quality.replicate import Words
from trajmill.quality.screens import as_compared, whole_screens
from trajmill.quality.segments import goes_on
from trajmill.quality.signal import Measured
from trajmill.quality.texts import Texts
from trajmill.quality.tokens import TokenCounter
from trajmill.quality.values import action_values
from trajmill.quality.without_element_ids import TREE
from trajmill.schemas.verdict import KEY_FIELDS

LABELS: Final = ("harness", "volatile", "frame", "action", "history", "pre_existing")

VERSION: Final = 5
"""Of what is told; raised with every change of it, so that spans are measured anew."""

SPAN: Final = pa.struct(
    [
        pa.field("begin", pa.int32(), nullable=False, metadata={"doc": "first byte"}),
        pa.field("end", pa.int32(), nullable=False, metadata={"doc": "byte after the last"}),
        pa.field("label", pa.string(), nullable=False, metadata={"options": ",".join(LABELS)}),
    ]
)
SPANS_SCHEMA: Final = pa.schema(
    [
        *KEY_FIELDS,
        pa.field("spans", pa.list_(pa.field("item", SPAN, nullable=False)), nullable=False),
    ],
    metadata={b"trajmill.spans_schema": str(VERSION).encode()},
)
"""One row a transition, aligned to the transitions; spans in order, none over another."""

SHORTEST: Final = 8
"""Bytes of a line below which it stands in many places by chance, and nothing is told of it."""

TELLING: Final = 32
"""Bytes of a line below which it copies one that was shown before only beside a neighbour that stood there too."""

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)

OUTCOME: Final = 64
"""Bytes of an answer of one line below which it tells how a call went, and copies no answer that told the same."""

_NAME: Final = 3
"""Characters of a name that stands in an action as a whole, and not by chance."""

_BEHIND: Final = frozenset("_/-")
_WITHIN: Final = _BEHIND | {"."}
"""Characters that continue a name, as letters and digits do."""

_NUMBER: Final = re.compile(r"-?[\d.,:]*")

SEARCHED: Final = 200
"""Lines of an answer that are looked for within the lines of the action."""

Span: TypeAlias = tuple[int, int, str]


class _Side:
    """The lines of the distinct texts of a column."""

    def __init__(self, texts: Texts, compared: Texts | None = None) -> None:
        lines = Lines.of(texts.texts)
        self._index, self._data = texts.index.tolist(), lines.data
        self._ends, self._starts, self._first = lines.ends(), lines.starts, lines.first
        # Lines are told from each other in the form in which they are compared, which has as many.
        compared = compared or texts
        if compared is not texts:
            lines = Lines.of(compared.texts)
        self._compared, self._begins = compared.index.tolist(), lines.first
        self._size = lines.ends(trimmed=True) - lines.starts[:-1]
        self._hashes = lines.hashes(trimmed=True)
        is_long = self._size >= SHORTEST
        # A pair of lines that follow one another in a text; the last line of a text begins none.
        self._pairs = np.zeros(len(self._hashes), np.uint64)
        if len(self._hashes) > 1:
            self._pairs[:-1] = mixed(self._hashes[:-1] * _ODD + self._hashes[1:])
            self._pairs[:-1][~(is_long[:-1] & is_long[1:])] = 0
            self._pairs[lines.first[1:] - 1] = 0

    def of(self, row: int) -> slice:
        """Return the numbers of a row's lines."""
        text_number = self._index[row]
        return (
            slice(int(self._first[text_number]), int(self._first[text_number + 1])) if text_number >= 0 else slice(0, 0)
        )

    def _as_compared(self, row: int) -> slice:
        """The numbers of a row's lines in the form in which they are compared."""
        text_number = self._compared[row]
        return (
            slice(int(self._begins[text_number]), int(self._begins[text_number + 1]))
            if text_number >= 0
            else slice(0, 0)
        )

    def known(self, row: int) -> set[int]:
        """The hashes of a row's lines that are not too short."""
        return set(self._hashes[self._as_compared(row)][self.long(row)].tolist())

    def long(self, row: int) -> npt.NDArray[np.bool_]:
        """Flag the lines of a row that are not too short."""
        flags: npt.NDArray[np.bool_] = self._size[self._as_compared(row)] >= SHORTEST
        return flags

    def pairs(self, row: int) -> list[int]:
        """Of each line of a row a hash of it and the next one; 0 if there is none, or one of them is too short."""
        return self._pairs[self._as_compared(row)].tolist()

    def hashes(self, row: int) -> list[int]:
        """Those of a row's lines."""
        return self._hashes[self._as_compared(row)].tolist()

    def places(self, row: int) -> list[tuple[int, int]]:
        """Return where each line of a row begins and ends, in bytes of its text."""
        chosen = self.of(row)
        begin = int(self._starts[chosen.start])
        starts, ends = self._starts[:-1][chosen] - begin, self._ends[chosen] - begin
        return list(zip(starts.tolist(), ends.tolist(), strict=True))

    def text(self, row: int) -> bytes:
        """The row's text."""
        chosen = self.of(row)
        return self._data[int(self._starts[chosen.start]) : int(self._starts[chosen.stop])].tobytes()


def join_spans(spans: Iterable[Span], apart: int = 1) -> list[Span]:
    """Join neighbours of one label among the spans, which do not overlap, in order.

    Args:
        spans: the spans.
        apart: bytes that may stand between neighbours, such as a line feed between lines.
    """
    merged: list[Span] = []
    for begin, end, label in sorted(spans):
        if merged and merged[-1][2] == label and begin <= merged[-1][1] + apart:
            merged[-1] = (merged[-1][0], end, label)
        else:
            merged.append((begin, end, label))
    return merged


def layer_spans(*layers: Sequence[Span]) -> list[Span]:
    """Layer the spans in order, none over another: where several stand, the one of the first layer does.

    Args:
        layers: each with spans in order, none over another.
    """
    merged: list[Span] = []
    for layer in layers:
        free = [piece for span in layer for piece in _outside(span, merged)] if merged else layer
        merged = sorted([*merged, *free])
    return join_spans(merged, apart=0)


def _outside(span: Span, covering: Sequence[Span]) -> Iterator[Span]:
    """Yield the parts of a span that none of the others covers; they are in order, none over another."""
    at, last, label = span
    number = bisect_left(covering, (at,))
    number -= number > 0 and covering[number - 1][1] > at
    for begin, end, _ in islice(covering, number, None):
        if begin >= last:
            break
        if at < begin:
            yield at, begin, label
        at = max(at, end)
    if at < last:
        yield at, last, label


class Labelling:
    """The spans of each row of a file that the trajectory itself tells: batches of `SPANS_SCHEMA`, aligned to it."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._pairs: set[int] = set()

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The spans of `batch`, of `encoded_schema()`; it follows those before."""
        if not batch.num_rows:
            return
        view = Measured.of(batch, TokenCounter())
        columns = [
            view.texts("next_observation", "content"),
            view.once(action_values),
            view.texts("observation", "content"),
        ]
        compared = view.once(as_compared)
        bare = [compared.texts(side, "content") for side in ("next_observation", "observation")]
        bare = [texts.mapped(without_gutters(texts.texts)) for texts in bare]
        after, action, before = (
            _Side(*texts) for texts in ((columns[0], bare[0]), (columns[1],), (columns[2], bare[1]))
        )
        initial = _Side(view.texts("context", "initial_state"))
        harness = view.texts("next_observation", "origin").matching("^harness$").tolist()
        begins = set(view.starts.tolist()) - ({0} if goes_on(batch) else set())
        quoted = _Side(_with_quotes(view))
        whole = whole_screens(view).tolist()
        outcome = (
            view.texts("next_observation", "form").matching("^response$")
            & (columns[0].sizes() < OUTCOME)
            & ~columns[0].matching(r"\n.")
        ).tolist()
        is_tree = view.texts("next_observation", "dialect").matching(f"{TREE}$")
        is_request = view.texts("action", "name").matching("^http_request$")
        kinds = np.where(is_request, REQUESTS, np.where(is_tree, TREES, "")).tolist()
        framed = columns[0].spread(may_have_frames(columns[0].texts), False).tolist()
        spans = []
        for row in range(batch.num_rows):
            if row in begins:
                self._seen, self._pairs = before.known(row), set(before.pairs(row))
            if harness[row]:
                size = len(after.text(row))
                spans.append([(0, size, "harness")] if size else [])
            else:
                seen = set() if outcome[row] else self._seen
                lines = _lines_told(row, after, (action, quoted), (seen, None if whole[row] else self._pairs), initial)
                if whole[row]:
                    lines = layer_spans(lines, _find_unmoved(row, after, before))
                if framed[row]:
                    text, values = (side.text(row).decode("utf-8", "replace") for side in (after, action))
                    lines = _lay_frames(text, kinds[row], lines, values)
                spans.append(lines)
            self._seen |= after.known(row)
            self._pairs.update(after.pairs(row))
        yield spans_batch(batch, spans)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Nothing: no span waits for what comes after."""
        return iter(())


def _lay_frames(text: str, kind: str, lines: list[Span], values: str) -> list[Span]:
    """Lay the frames of an observation over what its lines tell, in bytes.

    Args:
        text: of the observation.
        kind: as `quality.boilerplate` tells kinds apart.
        lines: what its lines tell, in bytes.
        values: the values of its action.
    """
    frame, content = frames(text, kind)
    # Of what a server tells about its answer nothing is a copy: a status or a type is one of few.
    is_request = kind == REQUESTS
    repeated = [] if is_request else [(b, e, "action") for b, e in content if _stands_in(text[b:e], values)]
    filled = [(b, e, "") for b, e in content if (is_request or _NUMBER.fullmatch(text[b:e])) and b < e]
    fixed = [(begin, end, "frame") for begin, end in frame]
    merged = layer_spans(*(in_bytes(text, spans) for spans in (fixed, repeated, filled)), lines)
    return [span for span in merged if span[2]]


def _stands_in(word: str, values: str) -> bool:
    """Return True if a name or text stands in the values of an action as a whole, and is no number."""
    if len(word) < _NAME or _NUMBER.fullmatch(word):
        return False
    at = values.find(word)
    while at >= 0:
        before, after = values[max(at - 1, 0) : at], values[at + len(word) : at + len(word) + 1]
        if not (before.isalnum() or before in _WITHIN) and not (after.isalnum() or after in _BEHIND):
            return True
        at = values.find(word, at + 1)
    return False


def _with_quotes(measured: Measured) -> Texts:
    """Return the values of those actions that hold quotes, backslashes or tabs, which `action_values` leaves out."""
    texts = measured.texts("action", "arguments")
    has_escapes = pc.match_substring_regex(texts.texts, r"\\[\\\"tbfr/]")
    exact = [_exact(text) for text in texts.texts.filter(has_escapes).to_pylist()]
    empty = pa.array([""] * len(texts.texts), pa.string())
    return texts.mapped(pc.replace_with_mask(empty, has_escapes, pa.array(exact, pa.string())))


def _exact(text: str) -> str:
    try:
        return "\n".join(_values(json.loads(text)))
    except (ValueError, RecursionError):
        return ""


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for element in value.values() if isinstance(value, dict) else value:
            yield from _values(element)
    elif isinstance(value, str):
        yield value.encode("utf-8", "replace").decode()


def _lines_told(
    row: int, after: _Side, actions: Sequence[_Side], shown: tuple[set[int], set[int] | None], initial: _Side
) -> list[Span]:
    """Return the spans of a row's lines that the action, what was shown before or the initial state holds.

    Args:
        row: its number.
        after: what is shown.
        actions: the values of the action.
        shown: lines that were shown before, and pairs of lines; None if a line is told by itself, as of a screen.
        initial: the initial state.
    """
    long = after.long(row).tolist()
    if not any(long):
        return []
    done, stood = actions[0].known(row).union(*(action.known(row) for action in actions[1:])), initial.known(row)
    words, text = b"\n".join(action.text(row) for action in actions), after.text(row)
    seen, pairs = shown
    follows = after.pairs(row) if pairs is not None else []
    known_spans = []
    for number, (known, (begin, end), hashed) in enumerate(
        zip(long, after.places(row), after.hashes(row), strict=True)
    ):
        if not known:
            continue
        if hashed in done or (number < SEARCHED and text[begin:end].strip() in words):
            known_spans.append((begin, end, "action"))
        elif hashed in seen and (
            pairs is None
            or len(text[begin:end].strip()) >= TELLING
            or any(pair and pair in pairs for pair in follows[max(number - 1, 0) : number + 1])
        ):
            known_spans.append((begin, end, "history"))
        elif hashed in stood:
            known_spans.append((begin, end, "pre_existing"))
    return join_spans(known_spans)


def _find_unmoved(row: int, after: _Side, before: _Side) -> list[Span]:
    """Find short lines of a screen that stand at their place in the screen before."""
    lines = zip(after.places(row), after.hashes(row), before.hashes(row), after.long(row).tolist(), strict=False)
    return [
        (begin, end, "history") for (begin, end), now, then, long in lines if now == then and begin < end and not long
    ]


def with_volatile(spans: Sequence[Span], text: str, flags: npt.NDArray[np.bool_] | None) -> list[Span]:
    """Add the spans of volatile words, which cut into what else is told.

    Args:
        spans: of the row.
        text: the next observation.
        flags: of each of its words, as `quality.replicate.Words` tells them, whether it is volatile; None: all of them.
    """
    words = Words.of(text)
    flags = np.ones(len(words.hashes), np.bool_) if flags is None else flags
    runs = [list(group) for volatile, group in groupby(range(len(flags)), lambda at: bool(flags[at])) if volatile]
    changed = [(int(words.places[run[0], 0]), int(words.places[run[-1], 1]), "volatile") for run in runs]
    if any(label == "harness" for _, _, label in spans):
        return list(spans)
    uncovered = [piece for span in spans for piece in _outside(span, changed)]
    return sorted([*uncovered, *changed])


def spans_batch(batch: pa.RecordBatch, spans: Sequence[Sequence[Span]]) -> pa.RecordBatch:
    """The spans of the batch's rows, one list a row, as a batch of `SPANS_SCHEMA`."""
    values = [[{"begin": b, "end": e, "label": label} for b, e, label in row] for row in spans]
    column = pa.array(values, SPANS_SCHEMA.field("spans").type)
    keys = [batch[field.name].cast(field.type) for field in KEY_FIELDS]
    return pa.RecordBatch.from_arrays([*keys, column], schema=SPANS_SCHEMA)
