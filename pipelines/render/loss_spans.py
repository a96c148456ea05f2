"""Spans of characters that bear the loss, with their classes. All training forms derive their masks from them.

The classes describe the parts of a next observation: `volatile` (replicates disagree on it), `frame` (fixed text, such
as the marker that opens an answer), `copied` (it occurs in the action or was shown before) and `new` (everything else).
They are measured where the recipe asks for it (`judge.spans`); otherwise the class of an observation is null.

For an answer of an MCP server that is shown as its object (`next_observation.envelope`), the spans of the text are
mapped to the object. The texts of the answer are strings of the object, with JSON escapes; a span covers the escapes of
its characters. The rest of the object is `frame` where it is only structure, else `new`. Words that replicates disagree
on are volatile wherever the object repeats them.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.pipelines.render.pieces import View
from trajmill.quality.control_strings import escape_places
from trajmill.quality.scrubbing.replaced import placeholder_spans
from trajmill.schemas.trajectory import without_surrogates

Classed: TypeAlias = tuple[int, int, str]
"""Code points [begin, end) of a text and their class."""

VOLATILE: Final = "volatile"
_LITERAL: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"(\s*+:)?', re.DOTALL)
_UNIT: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)
_SHOWN: Final = frozenset({"text", "toolResult"})
"""Members whose strings are texts of an answer."""

_FRAME: Final = re.compile(
    r'(?:[\s\[\]{},:"]|\b(?:content|contents|type|text|resource|isError|toolResult|structuredContent|false|null)\b)*+'
)
_BARE: Final = re.compile(r'[^\s\[\]{},:"]+')
_MISSED: Final = 8
"""Number of strings that match no text of an answer after which the search stops."""

_MOST: Final = 256
"""Largest number of volatile texts that are searched for elsewhere in an object."""


class Literal(NamedTuple):
    """A string in JSON text: the name of its member, its value, and its offsets."""

    key: str
    value: str
    begin: int
    end: int


def in_envelope(content: str, envelope: str, spans: Sequence[Classed]) -> list[Classed]:
    """Map the spans of an answer's text to its object. They cover the object in order, without overlap.

    Args:
        spans: spans that cover the content, in order.
    """
    literals = list(_literals(envelope))
    mapped_spans: list[Classed] = []
    mapped: set[Literal] = set()
    for literal, start in _texts(content, literals):
        mapped.add(literal)
        offsets = _offsets(envelope, literal)
        for begin, end, label in spans:
            low, high = max(begin, start) - start, min(end, start + len(literal.value)) - start
            if low < high:
                mapped_spans.append((offsets[low], offsets[high], label))
    if not mapped and content and (start := envelope.find(content)) >= 0:
        mapped_spans = [(start + begin, start + end, label) for begin, end, label in spans]
    else:
        again = {content[begin:end].strip() for begin, end, label in spans if label == VOLATILE}
        mapped_spans += _find_repeated(envelope, sorted(again - {""})[:_MOST], literals, mapped)
    return list(_fill_gaps(envelope, sorted(mapped_spans)))


def _literals(text: str) -> Iterator[Literal]:
    """Yield the strings of JSON text that are not member names, in order."""
    key, ends = "", -1
    for match in _LITERAL.finditer(text):
        if match[2] is not None:
            key, ends = match[1], match.end()
            continue
        own = key if ends >= 0 and not text[ends : match.start()].strip() else ""
        value = match[1] if "\\" not in match[1] else without_surrogates(json.loads(f'"{match[1]}"', strict=False))
        yield Literal(own, value, *match.span(1))


def _texts(content: str, literals: Sequence[Literal]) -> Iterator[tuple[Literal, int]]:
    """Yield the strings whose concatenation, with line feeds between them, is the content, and the offset of each."""
    at = missed = 0
    for literal in literals:
        if literal.key not in _SHOWN:
            continue
        offset = at
        while offset >= 0 and not _stands(content, literal.value, offset):
            line = content.find("\n", offset)
            offset = line + 1 if line >= 0 else -1
        missed += offset < 0
        if offset >= 0:
            yield literal, offset
            at = offset + len(literal.value) + 1
        if at > len(content) or missed > _MISSED:
            return


def _stands(content: str, value: str, at: int) -> bool:
    """Return True if the content has a value at an offset and the value ends at the end of a line."""
    end = at + len(value)
    return content.startswith(value, at) and (end == len(content) or content[end] == "\n")


def _offsets(text: str, literal: Literal) -> Sequence[int]:
    """Return the offset in the JSON text of each character of a string, and the end of the last character."""
    if literal.end - literal.begin == len(literal.value):
        return range(literal.begin, literal.end + 1)
    return [*(match.start() for match in _UNIT.finditer(text, literal.begin, literal.end)), literal.end]


def _find_repeated(
    text: str, words: Sequence[str], literals: Sequence[Literal], mapped: set[Literal]
) -> Iterator[Classed]:
    """Find words in an object outside the texts of its answer: in other strings, and as bare values."""
    if not words:
        return
    ordered = sorted(words, key=lambda word: (-len(word), word))
    asked = re.compile("|".join(map(_word_pattern, ordered)))
    end = 0
    for literal in literals:
        yield from _bare(text, end, literal.begin, words)
        end = literal.end
        if literal not in mapped and (matches := list(asked.finditer(literal.value))):
            offsets = _offsets(text, literal)
            yield from ((offsets[match.start()], offsets[match.end()], VOLATILE) for match in matches)
    yield from _bare(text, end, len(text), words)


def _word_pattern(word: str) -> str:
    """Return a pattern of a word that does not match inside a longer word."""
    before = r"(?<!\w)" if word[0].isalnum() else ""
    return f"{before}{re.escape(word)}" + (r"(?!\w)" if word[-1].isalnum() else "")


def _bare(text: str, begin: int, end: int, words: Sequence[str]) -> Iterator[Classed]:
    """Find numbers and other bare values of a stretch that equal one of the words."""
    for match in _BARE.finditer(text, begin, end):
        if match[0] in words:
            yield (*match.span(), VOLATILE)


def _fill_gaps(text: str, spans: Sequence[Classed]) -> Iterator[Classed]:
    """Yield the spans and the gaps between them: structure, or text that only the object holds."""
    done = 0
    for begin, end, label in [*spans, (len(text), len(text), "")]:
        if begin > done:
            yield done, begin, "frame" if _FRAME.fullmatch(text, done, begin) else "new"
        if end > begin:
            yield begin, end, label
        done = end


CLASSES: Final = ("volatile", "frame", "copied", "new")
CLASS_OF_LABEL: Final[Mapping[str, str]] = {
    "harness": "frame",
    "volatile": "volatile",
    "frame": "frame",
    "action": "copied",
    "history": "copied",
    "pre_existing": "copied",
}
"""Class of each label of `quality.spans`."""


_LEAST_VOLATILE: Final = 10
"""At least one in this many of a sample's volatile spans bears the loss, whatever the weight.

Otherwise their surroundings would not be learned.
"""

_WHOLE: Final = float(1 << 64)


class SpanWeights(NamedTuple):
    """Shares by which spans are drawn to bear the loss.

    Attributes:
        shares: share of the spans of each class; 1 for a class that is not named.
    """

    shares: Mapping[str, float]
    seed: int

    @classmethod
    def of(cls, mix: Mix) -> SpanWeights | None:
        """Return the weights of a recipe; None where whole answers bear the loss."""
        if mix.loss == "turns":
            return None
        return cls({str(name): share for name, share in mix.loss_weights.items()}, mix.seed)

    def chance(self, key: str, begin: int) -> float:
        """Return a number from 0 to 1 that depends only on the seed, the answer's key and the span's begin."""
        span_key = f"{self.seed}:{key}:{begin}"
        return int.from_bytes(hashlib.blake2b(span_key.encode(), digest_size=8).digest(), "big") / _WHOLE


class LossSpan(NamedTuple):
    """Code points [begin, end) of an assistant message and their class."""

    begin: int
    end: int
    label: str | None


FRAME: Final = LossSpan(0, len(MARKER), "frame")
"""Span of the marker that opens an answer."""


class Answer(NamedTuple):
    """An answer of the environment as a sample shows it, and its source.

    Attributes:
        text: the text below the marker.
        view: how it is shown.
        key: key of the turn: its trajectory and step.
        placeholders: whether it may hold placeholders.
        labels: measured spans of the logged text, in bytes; None if none were measured.
        content: the logged text.
        shown: that text, or the MCP object that contained it, before it is capped or escaped.
    """

    text: str
    view: View = View()
    key: str = ""
    placeholders: bool = False
    labels: Sequence[Mapping[str, Any]] | None = None
    content: str | None = None
    shown: str | None = None


def answer_spans(answer: Answer) -> list[LossSpan]:
    """Return the spans of an assistant message that bear the loss: all of it, in order, except placeholders."""
    spans = _every_span(answer)
    if not answer.placeholders:
        return spans
    invented = [(len(MARKER) + begin, len(MARKER) + end) for begin, end in placeholder_spans(answer.text)]
    return [piece for span in spans for piece in _outside(span, invented)]


def _outside(span: LossSpan, invented: Sequence[tuple[int, int]]) -> Iterator[LossSpan]:
    """Yield the parts of a span outside the placeholders."""
    at = span.begin
    for begin, end in invented:
        if begin >= span.end:
            break
        if at < begin:
            yield LossSpan(at, begin, span.label)
        at = max(at, end)
    if at < span.end:
        yield LossSpan(at, span.end, span.label)


def _every_span(answer: Answer) -> list[LossSpan]:
    head, end = len(MARKER), len(MARKER) + len(answer.text)
    view, labels, content, shown = answer.view, answer.labels, answer.content, answer.shown
    if labels is None or content is None or shown is None or view.capped(shown) is not shown:
        return [FRAME, LossSpan(head, end, None)] if head < end else [FRAME]
    spans = list(_classify(content, labels))
    if shown != content:
        spans = in_envelope(content, shown, spans)
    if view.escapes:
        spans = in_escaped(shown, spans)
    last = len(view.plain(shown))
    if spans[-1][2] == "new":
        last = spans.pop()[0]
    spans.append((last, end - head, "new"))  # such as an exit code
    return [FRAME, *(LossSpan(head + begin, head + end, label) for begin, end, label in spans if begin < end)]


def in_escaped(text: str, spans: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Map the spans of a text to the same text with escaped control strings. They cover the same characters.

    A blank that escaping inserts belongs to the character before it.
    """
    offsets = escape_places(text)
    moved = [
        (begin + bisect_right(offsets, begin), end + bisect_right(offsets, end), label) for begin, end, label in spans
    ]
    return moved if offsets else list(spans)


def _classify(content: str, labels: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, str]]:
    """Yield spans that cover an observation, in order."""
    data = b"" if content.isascii() else content.encode()
    done = 0
    for label in labels:
        begin, last = (
            (label["begin"], label["end"])
            if content.isascii()
            else (len(data[: label["begin"]].decode()), len(data[: label["end"]].decode()))
        )
        yield done, begin, "new"
        yield begin, last, CLASS_OF_LABEL[label["label"]]
        done = last
    yield done, len(content), "new"


def draw_spans(answers: Sequence[tuple[str, Sequence[LossSpan]]], weights: SpanWeights) -> list[list[LossSpan]]:
    """Draw the spans of each answer of a sample that bear the loss.

    A span without a class always bears it, and so does the marker that opens an answer.

    Args:
        answers: key and spans of each answer; no spans for an answer without loss.
    """
    drawn: list[list[LossSpan]] = []
    left: list[tuple[float, int, LossSpan]] = []
    volatile = 0
    for number, (key, spans) in enumerate(answers):
        drawn.append([])
        for span in spans:
            chance = weights.chance(key, span.begin)
            volatile += span.label == "volatile"
            if span.label is None or span == FRAME or chance < weights.shares.get(span.label, 1.0):
                drawn[number].append(span)
            elif span.label == "volatile":
                left.append((chance, number, span))
    missing = -(-volatile // _LEAST_VOLATILE) - (volatile - len(left))
    for _, number, span in sorted(left)[: max(missing, 0)]:
        drawn[number].append(span)
    return [sorted(spans) for spans in drawn] if missing > 0 else drawn
