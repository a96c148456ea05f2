"""Signal of answers whose only new content is placeholders of scrubbing, and of answers of tools that generate random
values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
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
        columns = batch.select(("action", "observation", "next_observation"))
        for row in np.flatnonzero(scrubbed & ~drawn).tolist():
            numbers[row] = _is_invented(columns.slice(row, 1).to_pylist()[0])
        return numbers


def _field(column: Any, name: str) -> list[Any]:
    values: list[Any] = column.field(name).to_pylist()
    return values


def _is_invented(row: dict[str, Any]) -> bool:
    """Return True if an answer has placeholders of its own, and all its other words occur in its action or the state
    before.
    """
    text = (row["next_observation"] or {}).get("content") or ""
    action, before = row["action"], row["observation"] or {}
    known = " ".join(filter(None, (action["arguments"], action["text"], before.get("content"))))
    words, has_own = set(_WORD.findall(known)), False
    # most answers say something new in their first lines, so the other lines need not be read
    for part in [text] if text.lstrip()[:1] in ("{", "[") else text.split("\n"):
        spans = placeholder_spans(part)
        has_own = has_own or any(part[begin:end] not in known for begin, end in spans)
        rest = list(part)
        for begin, end in spans:
            rest[begin:end] = " " * (end - begin)
        if not words.issuperset(_WORD.findall(" ".join(_leaves("".join(rest))))):
            return False
    return has_own


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
