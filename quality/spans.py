"""Labels on spans of a next observation: the origin of its content, as far as it is cheap to find.

`harness`: the harness made the text. `volatile`: replicates disagree on it (see `quality.replicate`), so nothing before
it determines it. `frame`: fixed text of the tool or screen (see `quality.boilerplate`). `action`: a line of the action.
`history`: a line that the trajectory has shown before. `pre_existing`: a line of the initial state. If several hold,
the first in this order is the label. Text without a label is new; whether a model could know it is not decided here.

Spans are in bytes of the UTF-8 text, so that no reader needs to split words or lines in the same way.
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
from trajmill.quality.signal import Measured, MeasuredBatches
from trajmill.quality.texts import Texts
from trajmill.quality.values import action_values
from trajmill.quality.without_element_ids import TREE
from trajmill.schemas.verdict import KEY_FIELDS

LABELS: Final = ("harness", "volatile", "frame", "action", "history", "pre_existing")

VERSION: Final = 5
"""Version of the labels, raised with every change, so that spans are measured anew."""

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
"""One row a transition, aligned to the transitions; spans in order, without overlaps."""

SHORTEST: Final = 8
"""Fewest bytes of a line that gets a label. Shorter lines occur in many places by chance."""

TELLING: Final = 32
"""Fewest bytes of a line that counts as a copy of an earlier line by itself. A shorter line needs a neighbor that was
its neighbor there too.
"""

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)

OUTCOME: Final = 64
"""Fewest bytes of a one-line answer that counts as a copy of an earlier line. A shorter one reports how a call went."""

_NAME: Final = 3
"""Fewest characters of a name whose occurrence in an action is no coincidence."""

_BEHIND: Final = frozenset("_/-")
_WITHIN: Final = _BEHIND | {"."}
"""Characters that continue a name, as letters and digits do."""

_NUMBER: Final = re.compile(r"-?[\d.,:]*")

SEARCHED: Final = 200
"""Lines of an answer that are searched within the lines of the action."""

Span: TypeAlias = tuple[int, int, str]


class _Side:
    """Lines of the distinct texts of a column."""

    def __init__(self, texts: Texts, compared: Texts | None = None) -> None:
        lines = Lines.of(texts.texts)
        self._index, self._data = texts.index.tolist(), lines.data
        self._ends, self._starts, self._first = lines.ends(), lines.starts, lines.first
        # Lines are compared in a normalized form, which has the same number of lines.
        compared = compared or texts
        if compared is not texts:
            lines = Lines.of(compared.texts)
        self._compared, self._begins = compared.index.tolist(), lines.first
        self._size = lines.ends(trimmed=True) - lines.starts[:-1]
        self._hashes = lines.hashes(trimmed=True)
        is_long = self._size >= SHORTEST
        # Hashes of two consecutive lines of a text; the last line of a text has none.
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
        """Return the numbers of a row's lines in the form in which they are compared."""
        text_number = self._compared[row]
        return (
            slice(int(self._begins[text_number]), int(self._begins[text_number + 1]))
            if text_number >= 0
            else slice(0, 0)
        )

    def known(self, row: int) -> set[int]:
        """Return the hashes of a row's lines that are not too short."""
        return set(self._hashes[self._as_compared(row)][self.long(row)].tolist())

    def long(self, row: int) -> npt.NDArray[np.bool_]:
        """Flag the lines of a row that are not too short."""
        flags: npt.NDArray[np.bool_] = self._size[self._as_compared(row)] >= SHORTEST
        return flags

    def pairs(self, row: int) -> list[int]:
        """Return a hash of each line of a row and the next one; 0 if there is none, or one of them is too short."""
        return self._pairs[self._as_compared(row)].tolist()

    def hashes(self, row: int) -> list[int]:
        """Return the hashes of a row's lines."""
        return self._hashes[self._as_compared(row)].tolist()

    def places(self, row: int) -> list[tuple[int, int]]:
        """Return the begin and end of each line of a row, in bytes of its text."""
        chosen = self.of(row)
        begin = int(self._starts[chosen.start])
        starts, ends = self._starts[:-1][chosen] - begin, self._ends[chosen] - begin
        return list(zip(starts.tolist(), ends.tolist(), strict=True))

    def text(self, row: int) -> bytes:
        """Return the row's text."""
        chosen = self.of(row)
        return self._data[int(self._starts[chosen.start]) : int(self._starts[chosen.stop])].tobytes()


def join_spans(spans: Iterable[Span], apart: int = 1) -> list[Span]:
    """Join neighboring spans of one label.

    Args:
        spans: Spans without overlaps.
        apart: Largest gap between neighbors in bytes, such as 1 for a line feed between lines.
    """
    merged: list[Span] = []
    for begin, end, label in sorted(spans):
        if merged and merged[-1][2] == label and begin <= merged[-1][1] + apart:
            merged[-1] = (merged[-1][0], end, label)
        else:
            merged.append((begin, end, label))
    return merged


def layer_spans(*layers: Sequence[Span]) -> list[Span]:
    """Merge layers of spans without overlaps, in order. An earlier layer covers later ones.

    Args:
        layers: Layers of spans, each in order and without overlaps.
    """
    merged: list[Span] = []
    for layer in layers:
        free = [piece for span in layer for piece in _outside(span, merged)] if merged else layer
        merged = sorted([*merged, *free])
    return join_spans(merged, apart=0)


def _outside(span: Span, covering: Sequence[Span]) -> Iterator[Span]:
    """Yield the parts of a span that none of the others covers; those are in order and without overlaps."""
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
    """Spans of each row of a file as far as its trajectory determines them: batches of `SPANS_SCHEMA`, aligned to the
    transitions.

    Args:
        measured: Measured batches that are shared with other measurers.
    """

    def __init__(self, measured: MeasuredBatches | None = None) -> None:
        self._measured = measured or MeasuredBatches()
        self._seen: set[int] = set()
        self._pairs: set[int] = set()

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the spans of `batch`, of `encode_schema()`, which follows the batches added before."""
        if not batch.num_rows:
            return
        view = self._measured.measure(batch)
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
        """Return no batches: no span waits for later rows."""
        return iter(())


def _lay_frames(text: str, kind: str, lines: list[Span], values: str) -> list[Span]:
    """Return the spans of an observation's lines with the spans of its boilerplate on top, in bytes.

    Args:
        text: Text of the observation.
        kind: Kind of answer as of `quality.boilerplate`.
        lines: Spans of its lines, in bytes.
        values: Values of its action.
    """
    frame, content = frames(text, kind)
    # Values in a server's headers are never copies: a status or a type is one of a few.
    is_request = kind == REQUESTS
    repeated = [] if is_request else [(b, e, "action") for b, e in content if _stands_in(text[b:e], values)]
    filled = [(b, e, "") for b, e in content if (is_request or _NUMBER.fullmatch(text[b:e])) and b < e]
    fixed = [(begin, end, "frame") for begin, end in frame]
    merged = layer_spans(*(in_bytes(text, spans) for spans in (fixed, repeated, filled)), lines)
    return [span for span in merged if span[2]]


def _stands_in(word: str, values: str) -> bool:
    """Return True if a name or text occurs in the values of an action as a whole word, and is not a number."""
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
    """Return the values of the actions with quotes, backslashes or tabs, which `action_values` leaves out."""
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
    """Return the spans of a row's lines that occur in the action, in earlier observations or in the initial state.

    Args:
        row: Number of the row.
        after: Lines of the next observations.
        actions: Lines of the action's values.
        shown: Lines shown before, and pairs of them; None for the pairs if a line counts by itself, as on a screen.
        initial: Lines of the initial states.
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
    """Find short lines of a screen that have the same position in the screen before."""
    lines = zip(after.places(row), after.hashes(row), before.hashes(row), after.long(row).tolist(), strict=False)
    return [
        (begin, end, "history") for (begin, end), now, then, long in lines if now == then and begin < end and not long
    ]


def with_volatile(spans: Sequence[Span], text: str, flags: npt.NDArray[np.bool_] | None) -> list[Span]:
    """Add the spans of volatile words, which replace other labels.

    Args:
        spans: Spans of the row.
        text: Text of the next observation.
        flags: Flags of the volatile words, as `quality.replicate.Words` splits them; None: all words.
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
    """Return the spans of the batch's rows, one list a row, as a batch of `SPANS_SCHEMA`."""
    values = [[{"begin": b, "end": e, "label": label} for b, e, label in row] for row in spans]
    column = pa.array(values, SPANS_SCHEMA.field("spans").type)
    keys = [batch[field.name].cast(field.type) for field in KEY_FIELDS]
    return pa.RecordBatch.from_arrays([*keys, column], schema=SPANS_SCHEMA)
