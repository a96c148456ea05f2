"""Result objects from a server of the Model Context Protocol as JSON text: the envelopes of their texts.

If the log contains the message as JSON text on one line (a line of a capture, the body of an HTTP answer, an event of a
stream), the object is cut out of it, byte for byte. If a recorder spread it over several lines, or made it a part of
its own document, the common JSON writer writes it, since the white space is not the server's. Opaque values (images,
sound, sealed values of an API) become references, by the same rule as in contents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from trajmill.connectors.conversation.mcp_content import without_data
from trajmill.connectors.conversation.references import LEAST, may_hold, referring
from trajmill.connectors.reading.json_text import is_shallow_text, shallow_json
from trajmill.connectors.reading.values import JsonError, first_value, json_value
from trajmill.schemas import Attachment

_RESULT: Final = re.compile(r'"result"\s*:\s*(?=\{)')
_TRIES: Final = 8
"""Number of positions in a text at which the result is looked for."""

_LITERAL: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_HOLDS: Final = ('"data"', '"blob"')
"""Members of blocks with base64 of any length."""


def envelope(result: dict[str, Any], text: str | None) -> tuple[str | None, tuple[Attachment, ...]]:
    """Return the JSON text of a result, None if it is nested too deeply, and the attachments that it refers to.

    Args:
        text: Its JSON in the log, used only if it is one line; None if it has no text of its own.
    """
    sent_text = None if text is None or "\n" in text or "\r" in text else text
    result_text = shallow_json(result) if sent_text is None else sent_text
    if result_text is None or (sent_text is not None and not is_shallow_text(sent_text, result)):
        return None, ()
    blocks = any(name in result_text for name in _HOLDS)
    if not blocks and "\\/" not in result_text and not may_hold(result_text):
        return result_text, ()
    attached: list[Attachment] = []
    references = _references(result, attached) if blocks else {}

    def named(value: str) -> str:
        if value in references:
            return references[value]
        shown, more = referring(value)
        attached.extend(more)
        return shown

    least = min((LEAST, *map(len, references)))
    return _with_literals(result_text, named, least), tuple(attached)


def cut_out(result: dict[str, Any], message: str | bytes | None) -> str | None:
    """Return the part of a text that is a result's JSON; None if there is none.

    Args:
        result: Member `result` of a response.
        message: Text in the log that contains the response as JSON, possibly among other text.
    """
    if message is None:
        return None
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else message
    for match in islice(_RESULT.finditer(text), _TRIES):
        begin = match.end()
        for end in _ends(text, begin):
            candidate = text[begin:end]
            if _says(candidate, result):
                return candidate
    return None


def _ends(text: str, begin: int) -> Iterator[int]:
    """Yield the possible ends of the value at `begin`: usually before the end of the message, else its own end."""
    last = text.rstrip()
    if last.endswith("}"):
        yield len(last[:-1].rstrip())
    try:
        yield first_value(text, begin)[1]
    except JsonError:
        return


def _says(text: str, result: dict[str, Any]) -> bool:
    """Check whether a text is the JSON of a result."""
    try:
        return bool(json_value(text) == result)
    except JsonError:
        return False


def _references(result: dict[str, Any], attached: list[Attachment]) -> dict[str, str]:
    """Map the base64 strings in the blocks of a result to their references."""
    names: dict[str, str] = {}
    pairs: list[tuple[Any, Any]] = [(result, without_data(result, attached))]
    while pairs:
        value, replaced = pairs.pop()
        if isinstance(value, dict):
            pairs += [(value[key], replaced[key]) for key in value]
        elif isinstance(value, list):
            pairs += list(zip(value, replaced, strict=True))
        elif isinstance(value, str) and value != replaced:
            names[value] = replaced
    return names


def _with_literals(text: str, named: Callable[[str], str], least: int) -> str:
    """Apply `named` to the strings of JSON text with at least `least` characters; others stay as written."""

    def write_literal(literal: re.Match[str]) -> str:
        if len(literal[1]) < least:
            return literal[0]
        value = json.loads(literal[0], strict=False)
        shown = named(value)
        return literal[0] if shown == value else json.dumps(shown, ensure_ascii=literal[1].isascii())

    return _LITERAL.sub(write_literal, text)
