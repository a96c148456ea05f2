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
from trajmill.pipelines.render.turns import BETWEEN, MARKER, Turn
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

    def chance(self, turn: Turn, begin: int) -> float:
        """A number from 0 to 1 that hangs on nothing but the place of the span: its trajectory, step and begin."""
        place = f"{self.seed}:{turn.row['trajectory_id']}:{turn.row['step']}:{begin}"
        return int.from_bytes(hashlib.blake2b(place.encode(), digest_size=8).digest(), "big") / _WHOLE


class LossSpan(NamedTuple):
    """Code points [begin, end) of a text, and their class."""

    begin: int
    end: int
    label: str | None


_FRAME: Final = LossSpan(0, len(MARKER), "frame")
"""The marker that opens an answer."""


def turn_spans(turn: Turn) -> list[LossSpan]:
    """The spans of a turn's assistant message, but for placeholders of scrubbing; none if it bears no loss."""
    if not turn.loss:
        return []
    spans = _every_span(turn)
    if not turn.row.get("scrubbed"):
        return spans
    invented = [(len(MARKER) + begin, len(MARKER) + end) for begin, end in replaced_spans(turn.observation)]
    return [piece for span in spans for piece in _outside(span, invented)]


def told_pieces(assistant: str) -> list[tuple[int, int]] | None:
    """What of an assistant message stands below its marker and is no placeholder; None if it holds none."""
    invented = [(len(MARKER) + begin, len(MARKER) + end) for begin, end in replaced_spans(assistant[len(MARKER) :])]
    whole = LossSpan(len(MARKER), len(assistant), None)
    return [piece[:2] for piece in _outside(whole, invented)] if invented else None


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
        yield span if at == span.begin else LossSpan(at, span.end, span.label)


def _every_span(turn: Turn) -> list[LossSpan]:
    """The spans of an assistant message that bears the loss: all of it, in order."""
    head, end = len(MARKER), len(MARKER) + len(turn.observation)
    labels: Sequence[Mapping[str, Any]] | None = turn.row.get("spans")
    after = turn.row["next_observation"]
    text = None if labels is None else turn.view.text(after)
    if labels is None or text is None or turn.view.capped(text) is not text:
        return [_FRAME, LossSpan(head, end, None)] if head < end else [_FRAME]
    spans = list(_classed(after["content"], labels))
    if text is not after["content"]:
        spans = in_envelope(after["content"], text, spans)
    if turn.view.escapes:
        spans = in_escaped(text, spans)
    last = len(turn.view.plain(text))
    if spans[-1][2] == "new":
        last = spans.pop()[0]
    spans.append((last, end - head, "new"))  # such as an exit code
    return [_FRAME, *(LossSpan(head + begin, head + end, label) for begin, end, label in spans if begin < end)]


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


def bearing_spans(shown: Sequence[Turn], weights: SpanWeights | None) -> list[list[LossSpan]]:
    """Of each turn of a sample the spans that bear the loss: all, or those that are drawn by weights.

    Without a class a span always bears it, and so does the marker that opens an answer.
    """
    every = [turn_spans(turn) for turn in shown]
    if weights is None:
        return every
    kept: list[list[LossSpan]] = []
    left: list[tuple[float, int, LossSpan]] = []
    volatile = 0
    for number, (turn, spans) in enumerate(zip(shown, every, strict=True)):
        kept.append([])
        for span in spans:
            chance = weights.chance(turn, span.begin)
            volatile += span.label == "volatile"
            if span.label is None or span is _FRAME or chance < weights.shares.get(span.label, 1.0):
                kept[number].append(span)
            elif span.label == "volatile":
                left.append((chance, number, span))
    missing = -(-volatile // _LEAST_VOLATILE) - (volatile - len(left))
    for _, number, span in sorted(left)[: max(missing, 0)]:
        kept[number].append(span)
    return [sorted(spans) for spans in kept] if missing > 0 else kept


def message_spans(shown: Sequence[Turn], weights: SpanWeights | None = None) -> list[dict[str, Any]]:
    """The spans of the messages that `turns.messages` makes: `message` is the number of the message, from 0."""
    return [
        {"message": 2 * number + 2, "begin": one.begin, "end": one.end, "label": one.label}
        for number, spans in enumerate(bearing_spans(shown, weights))
        for one in spans
    ]


def document_spans(system: str, shown: Sequence[Turn], weights: SpanWeights | None = None) -> list[dict[str, Any]]:
    """The spans of the text that `turns.document` makes."""
    found: list[dict[str, Any]] = []
    place = len(system)
    for turn, spans in zip(shown, bearing_spans(shown, weights), strict=True):
        place += len(BETWEEN) + len(turn.user) + len(BETWEEN)
        found += [{"begin": place + one.begin, "end": place + one.end, "label": one.label} for one in spans]
        place += len(MARKER) + len(turn.observation)
    return found
