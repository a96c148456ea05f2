"""Spans of characters that bear the loss, each with its class: the one truth that every trainer's form is made from.

The classes are those of what a next observation is made of: `volatile` (replicates do not agree on it), `frame` (fixed
text, such as the marker that opens an answer), `copied` (it stands in the action or was shown before), `derivable` (a
verifier works it out), `new` (only the world knew). Which of them stands where is measured where the recipe asks for it
(`judge.spans`); elsewhere the class of what was observed is null.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.render.envelopes import in_envelope
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.pipelines.render.pieces import View
from trajmill.quality.control_strings import escape_places
from trajmill.quality.scrubbing.replaced import replaced_spans

CLASSES: Final = ("volatile", "frame", "copied", "derivable", "new")
CLASS_OF_LABEL: Final[Mapping[str, str]] = {
    "harness": "frame",
    "volatile": "volatile",
    "frame": "frame",
    "action": "copied",
    "history": "copied",
    "pre_existing": "copied",
    "derivable": "derivable",
}
"""The class of each label of `quality.spans`."""


_LEAST_VOLATILE: Final = 10
"""One in so many of a sample's volatile spans bears the loss whatever the weight: else what is around is not learnt."""

_WHOLE: Final = float(1 << 64)


class SpanWeights(NamedTuple):
    """By what spans are drawn that bear the loss.

    Attributes:
        shares: of the spans of each class; 1 where a class is not named.
        seed: of the draw.
    """

    shares: Mapping[str, float]
    seed: int

    @classmethod
    def of(cls, mix: Mix) -> SpanWeights | None:
        """Those of a recipe; None where whole answers bear the loss."""
        if mix.loss == "turns":
            return None
        return cls({str(name): share for name, share in mix.loss_weights.items()}, mix.seed)

    def chance(self, key: str, begin: int) -> float:
        """A number from 0 to 1 that hangs on nothing but the place of the span: its answer's key, and its begin."""
        place = f"{self.seed}:{key}:{begin}"
        return int.from_bytes(hashlib.blake2b(place.encode(), digest_size=8).digest(), "big") / _WHOLE


class LossSpan(NamedTuple):
    """Code points [begin, end) of an assistant message, and their class."""

    begin: int
    end: int
    label: str | None


FRAME: Final = LossSpan(0, len(MARKER), "frame")
"""The marker that opens an answer."""


class Answer(NamedTuple):
    """An answer of the world as a sample shows it, and where it comes from.

    Attributes:
        text: that stands below the marker.
        view: how it is shown.
        key: of the turn: its trajectory and step.
        scrubbed: whether placeholders may stand in it.
        labels: the spans that were measured of the logged text, in bytes; None where none were.
        content: the logged text.
        shown: that text or the object of MCP that it stood in, before it is capped or escaped.
    """

    text: str
    view: View = View()
    key: str = ""
    scrubbed: bool = False
    labels: Sequence[Mapping[str, Any]] | None = None
    content: str | None = None
    shown: str | None = None


def answer_spans(answer: Answer) -> list[LossSpan]:
    """The spans of an assistant message that bears the loss: all of it, in order, but for placeholders of scrubbing."""
    spans = _every_span(answer)
    if not answer.scrubbed:
        return spans
    invented = [(len(MARKER) + begin, len(MARKER) + end) for begin, end in replaced_spans(answer.text)]
    return [piece for span in spans for piece in _outside(span, invented)]


def _outside(span: LossSpan, invented: Sequence[tuple[int, int]]) -> Iterator[LossSpan]:
    """What is left of a span without what was invented."""
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
    spans = list(_classed(content, labels))
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
    """The spans of a text in the same text whose control strings are escaped; they cover the same characters.

    A blank that escaping puts in belongs to what stands before it.
    """
    places = escape_places(text)
    moved = [
        (begin + bisect_right(places, begin), end + bisect_right(places, end), label) for begin, end, label in spans
    ]
    return moved if places else list(spans)


def _classed(content: str, labels: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, str]]:
    """The spans of what was observed: all of it, in order."""
    data = b"" if content.isascii() else content.encode()
    done = 0
    for one in labels:
        begin, last = (
            (one["begin"], one["end"])
            if content.isascii()
            else (len(data[: one["begin"]].decode()), len(data[: one["end"]].decode()))
        )
        yield done, begin, "new"
        yield begin, last, CLASS_OF_LABEL[one["label"]]
        done = last
    yield done, len(content), "new"


def drawn_spans(answers: Sequence[tuple[str, Sequence[LossSpan]]], weights: SpanWeights) -> list[list[LossSpan]]:
    """Of each answer of a sample the spans that are drawn by weights to bear the loss.

    Without a class a span always bears it, and so does the marker that opens an answer.

    Args:
        answers: key and spans of each; none of one that bears no loss.
        weights: by which they are drawn.
    """
    kept: list[list[LossSpan]] = []
    left: list[tuple[float, int, LossSpan]] = []
    volatile = 0
    for number, (key, spans) in enumerate(answers):
        kept.append([])
        for span in spans:
            chance = weights.chance(key, span.begin)
            volatile += span.label == "volatile"
            if span.label is None or span == FRAME or chance < weights.shares.get(span.label, 1.0):
                kept[number].append(span)
            elif span.label == "volatile":
                left.append((chance, number, span))
    missing = -(-volatile // _LEAST_VOLATILE) - (volatile - len(left))
    for _, number, span in sorted(left)[: max(missing, 0)]:
        kept[number].append(span)
    return [sorted(spans) for spans in kept] if missing > 0 else kept
