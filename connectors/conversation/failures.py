"""Failure of a call as the envelope of its result tells it: by members beside the content or around it, never by words
in it.

A text that holds JSON is a tool's own, whatever members it has; only a result of the Model Context Protocol, which is
known by all its members, is an envelope even as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.reading.fields import INT32, whole_number_of
from trajmill.connectors.reading.values import json_value

_STATUS: Final = {"error": True, "failed": True, "failure": True, "success": False}
"""Meaning of a status; the others, such as `completed` and `incomplete`, may stand with an item of an API that ended in
any way.
"""

_CODES: Final = ("exit_code", "return_code", "exitCode")
_ERRORS: Final = ("is_error", "isError", "error")
_TELLING: Final = frozenset({*_ERRORS, "status", "success", *_CODES})
_PROTOCOL: Final = frozenset({"content", "isError", "structuredContent", "_meta", "meta"})


def tells(envelope: Mapping[str, Any]) -> bool:
    """Check if the envelope has any member that may say how a call ended."""
    return not _TELLING.isdisjoint(envelope)


def is_failure(envelope: Mapping[str, Any]) -> bool | None:
    """Check if the call failed, by what stands beside the content of its result; None where that does not say it."""
    error = _error(envelope)
    if error is not None:
        return error
    status, success = envelope.get("status"), envelope.get("success")
    if isinstance(success, bool):
        return not success
    return _STATUS.get(status) if isinstance(status, str) else None


def content_failed(content: object) -> bool | None:
    """Check if the call failed, by a content that is a value and not a text, or a result of the protocol as text.

    A status stands there for anything that a tool knows of, such as an order's; only `error` says that the call failed.
    """
    value = _protocol(content) if isinstance(content, str) else content
    if not isinstance(value, dict):
        return None
    error = _error(value)
    return True if error is None and value.get("status") == "error" else error


def _error(envelope: Mapping[str, Any]) -> bool | None:
    """Read the error members: a yes or no, or a description of the error, which is no number."""
    for key in _ERRORS:
        error = envelope.get(key)
        if isinstance(error, bool) or (key == "error" and isinstance(error, str | dict | list) and error):
            return bool(error)
    return None


def _protocol(text: str) -> dict[str, Any] | None:
    """The result of a tool that the text is, as the Model Context Protocol writes it; None of any other text."""
    if text.lstrip()[:1] != "{" or '"isError"' not in text:
        return None
    try:
        value = json_value(text)
    except ValueError:
        return None
    is_result = isinstance(value, dict) and value.keys() <= _PROTOCOL and isinstance(value.get("content"), list)
    return value if is_result else None


def exit_code(envelope: Mapping[str, Any]) -> int | None:
    """The exit code of what the call ran."""
    return next((code for key in _CODES if (code := whole_number_of(envelope.get(key), INT32)) is not None), None)
