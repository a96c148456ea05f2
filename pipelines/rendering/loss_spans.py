"""Spans of characters that bear the loss, each with its class: the one truth that every trainer's form is made from.

The classes are those of what a next observation is made of: `volatile` (replicates do not agree on it), `frame` (fixed
text, such as the marker that opens an answer), `copied` (it stands in the action or was shown before), `derivable`,
`new` (only the world knew). Which of them stands where is measured where the recipe asks for it (`judge.spans`);
elsewhere the class of what was observed is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pipelines.rendering.turns import BETWEEN, MARKER, Turn

CLASSES: Final = ("volatile", "frame", "copied", "derivable", "new")
_OF_LABELS: Final[Mapping[str, str]] = {
    "harness": "frame",
    "volatile": "volatile",
    "action": "copied",
    "history": "copied",
    "pre_existing": "copied",
}
"""The class of each label of `quality.spans`."""


class LossSpan(NamedTuple):
    """Code points [begin, end) of a text, and their class."""

    begin: int
    end: int
    label: str | None


_FRAME: Final = LossSpan(0, len(MARKER), "frame")
"""The marker that opens an answer."""


def turn_spans(turn: Turn) -> list[LossSpan]:
    """The spans of a turn's assistant message; none if it bears no loss."""
    if not turn.loss:
        return []
    head = len(MARKER)
    found = [_FRAME]
    content: str = turn.row["next_observation"]["content"]
    labels: Sequence[Mapping[str, Any]] | None = turn.row.get("spans")
    if labels is None or not turn.observation.startswith(content):
        found.append(LossSpan(head, len(turn.assistant), None))
    else:
        found += _classed(content, labels, head, len(turn.assistant))
    return [span for span in found if span.begin < span.end]


def _classed(content: str, labels: Sequence[Mapping[str, Any]], head: int, end: int) -> Iterator[LossSpan]:
    """The spans of what was observed; what stands below it, such as an exit code, is new."""
    data = b"" if content.isascii() else content.encode()
    done = head
    for one in labels:
        begin, last = (
            (one["begin"], one["end"])
            if content.isascii()
            else (len(data[: one["begin"]].decode()), len(data[: one["end"]].decode()))
        )
        yield LossSpan(done, head + begin, "new")
        yield LossSpan(head + begin, head + last, _OF_LABELS[one["label"]])
        done = head + last
    yield LossSpan(done, end, "new")


def message_spans(shown: Sequence[Turn]) -> list[dict[str, Any]]:
    """The spans of the messages that `turns.messages` makes: `message` is the number of the message, from 0."""
    return [
        {"message": 2 * number + 2, "begin": one.begin, "end": one.end, "label": one.label}
        for number, turn in enumerate(shown)
        for one in turn_spans(turn)
    ]


def document_spans(system: str, shown: Sequence[Turn]) -> list[dict[str, Any]]:
    """The spans of the text that `turns.document` makes."""
    found: list[dict[str, Any]] = []
    place = len(system)
    for turn in shown:
        place += len(BETWEEN) + len(turn.user) + len(BETWEEN)
        found += [{"begin": place + one.begin, "end": place + one.end, "label": one.label} for one in turn_spans(turn)]
        place += len(turn.assistant)
    return found
