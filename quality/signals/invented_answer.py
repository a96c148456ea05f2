"""Signal of answers whose only new content is placeholders of scrubbing, and of answers of tools that generate random
values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from trajmill.quality.scrubbing.replaced import placeholder_spans
from trajmill.quality.signal import Measured, Numbers, Signal

_DRAWS: Final = (
    r"(?i)(?:^|[_.\-/ :])(?:"
    r"(?:gen(?:erate)?|get|create|make|new|roll|pick|draw|random)[_\- ]?(?:(?:a|secure|strong|random)[_\- ])*"
    r"(?:password|passphrase|passcode|pin|otp|nonce|salt|uuid|guid|ulid|nanoid|dice"
    r"|random(?:[_\- ]?(?:number|int|integer|string|bytes|id|name|color|choice))?)"
    r"|uuid[1-8]?|guid|nanoid|coin[_\- ]?flip|flip[_\- ]?coin|(?:roll|throw)[_\- ]?dic?e)s?$"
)
"""Pattern of tools whose answers are random by nature: `generate_password`, `new_uuid`, `server__roll_dice`."""

_BEFORE: Final = ("observation", "content")
_WORD: Final = re.compile(r"\w+")
_LABEL: Final = re.compile(r"^[ \t>*#-]*[^\W\d][\w '/-]{0,40}[:=](?=\s|\Z)", re.MULTILINE)
"""Pattern of a label before a value on a line."""


class InventedAnswer(Signal):
    """1 if the next observation adds nothing that the environment knew: only placeholders of scrubbing, or a random
    value of a tool.

    Words of the action and of the observation before, names of JSON members and labels are not new. The name of a tool
    marks it as random; an error of such a tool is a genuine answer.
    """

    name: ClassVar[str] = "invented_answer"
    measures: ClassVar[str] = (
        "1: the next observation tells nothing anew but placeholders of scrubbing, or its tool draws answers by chance"
    )

    def measure(self, measured: Measured) -> Numbers:
        batch = measured.batch
        texts = measured.texts("next_observation", "content")
        drawn = measured.texts("action", "name").matching(_DRAWS) & texts.matching(r".")
        drawn &= ~np.array([is_error is True for is_error in _field(batch["next_observation"], "is_error")], np.bool_)
        numbers = drawn.astype(np.float32)
        scrubbed = batch["scrubbed"].fill_null(0).to_numpy(zero_copy_only=False) > 0
        known = [measured.texts(*path) for path in (("action", "arguments"), ("action", "text"), _BEFORE)]
        for row in np.flatnonzero(scrubbed & ~drawn & (texts.sizes() > 0)).tolist():
            numbers[row] = _is_invented(" ".join(column.text(row) for column in known), texts.text(row))
        return numbers


def _field(column: Any, name: str) -> list[Any]:
    values: list[Any] = column.field(name).to_pylist()
    return values


def _is_invented(known: str, text: str) -> bool:
    """Return True if an answer has placeholders of its own, and all its other words occur in its action or the state
    before.
    """
    listed, shown, has_own, tries = None, set[str](), False, _TRIES
    for part in [text] if text.lstrip()[:1] in ("{", "[") else _new_first(text.split("\n"), known):
        spans = placeholder_spans(part)
        has_own = has_own or any(part[begin:end] not in known for begin, end in spans)
        words = _WORD.findall(" ".join(_leaves(_blank(part, spans))))
        if tries > 0:  # most answers end here, without a list of the known words
            if not all(word in known for word in words[:tries]):
                return False
            shown.update(words)
            tries -= len(words)
        else:
            listed = set(_WORD.findall(known)) if listed is None else listed
            if not listed.issuperset(words):
                return False
    return has_own and shown.issubset(_WORD.findall(known) if listed is None else listed)


_TRIES: Final = 64
"""Words that are looked for in what is known before a list of its words is made."""


def _new_first(lines: Sequence[str], known: str) -> Iterator[str]:
    """Yield the lines that are not known before the others, since most answers say something new in the first of
    them.
    """
    known_lines = set(known.split("\n"))
    yield from (line for line in lines if line not in known_lines)
    yield from (line for line in lines if line in known_lines)


def _blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces, at = list[str](), 0
    for begin, end in spans:
        pieces += (text[at:begin], " " * (end - begin))
        at = end
    return "".join((*pieces, text[at:])) if spans else text


def _leaves(text: str) -> Iterator[str]:
    """Yield the values of JSON text, or a text without the labels of its lines."""
    try:
        values = [json.loads(text)] if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        values = None
    if values is None:
        yield _LABEL.sub("", text)
        return
    while values:
        value = values.pop()
        if isinstance(value, dict | list):
            values += value.values() if isinstance(value, dict) else value
        elif isinstance(value, str):
            yield value
        elif value is not None and not isinstance(value, bool):
            yield str(value)
