"""Calls as in Python, `name(argument=value)`: a whole text that is a list of them, or one per line between tags."""

from __future__ import annotations

import re
from typing import Any, Final

from trajmill.connectors.conversation.literals import literal_value
from trajmill.connectors.conversation.written_calls.form import Block, bad_call, call_block
from trajmill.connectors.reading.values import JsonError, json_value

_WORD: Final = re.compile(r"[^\s=,()\[\]{}\"']+")
_CONSTANTS: Final = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|\b(?:true|false|null)\b", re.DOTALL)
_QUOTED: Final = {sign: re.compile(rf"{sign}(?:[^{sign}\\]|\\.)*+{sign}", re.DOTALL) for sign in "\"'"}
_PYTHON: Final = {"true": "True", "false": "False", "null": "None"}
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_LINES_END: Final = "</function_calls>"


def read_list(text: str, mark: re.Match[str]) -> tuple[list[Block], int]:
    """Return the calls of a text that is a list of them."""
    inner = text.strip()
    return _calls(inner[1:-1] if inner.endswith("]") else "", ",", text, mark), len(text)


def read_lines(text: str, mark: re.Match[str]) -> tuple[list[Block], int]:
    """Return the calls between tags, one per line."""
    end = text.find(_LINES_END, mark.end())
    return _calls(text[mark.end() : max(end, mark.end())], "\n", text, mark), end + len(_LINES_END)


def _calls(inner: str, between: str, text: str, mark: re.Match[str]) -> list[Block]:
    calls = [_call(part) for part in _split(inner, between) or () if part.strip()]
    if not calls or None in calls:
        raise bad_call("calls as name(argument=value)", text, mark.start())
    return [call for call in calls if call is not None]


def _call(text: str) -> Block | None:
    name, opened, inside = text.strip().partition("(")
    arguments = _split(inside[:-1], ",") if opened and inside.endswith(")") else None
    pairs = [_pair(argument) for argument in arguments or ()]
    if arguments is None or None in pairs or not name.strip():
        return None
    return call_block(name.strip(), dict(pair for pair in pairs if pair is not None))


def _split(text: str, between: str) -> list[str] | None:
    """Split a text at separators outside quotes and brackets; None if these do not close."""
    parts: list[str] = []
    closing: list[str] = []
    begin = position = 0
    while position < len(text):
        sign = text[position]
        if sign in _QUOTED and not text[position - 1 : position].isalnum():
            quoted = _QUOTED[sign].match(text, position)
            if quoted is None:
                return None
            position = quoted.end()
            continue
        if sign in _CLOSING:
            closing.append(_CLOSING[sign])
        elif sign in ")]}":
            if not closing or closing.pop() != sign:
                return None
        elif sign == between and not closing:
            parts.append(text[begin:position])
            begin = position + 1
        position += 1
    if closing:
        return None
    return [*parts, text[begin:]] if text[begin:].strip() else parts


def _pair(text: str) -> tuple[str, Any] | None:
    """Return the name and value of an argument; None if it is invalid."""
    name, equal, written = text.partition("=")
    if not equal or _WORD.fullmatch(name.strip()) is None:
        return None
    try:
        return name.strip(), json_value(written.strip())
    except JsonError:
        python = _CONSTANTS.sub(lambda word: _PYTHON.get(word[0], word[0]), written.strip())
        value = literal_value(python)
        return None if (value is None and python != "None") or not _is_json(value) else (name.strip(), value)


def _is_json(value: Any) -> bool:
    """Check whether a Python literal is a JSON value."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(member) for key, member in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or isinstance(value, str | int | float)
