"""Failure of a call according to the envelope of its result: by members beside or around the content, never by words in
it.

JSON text belongs to the tool, whatever its members. Only a result of the Model Context Protocol, which is recognized by
all its members, is an envelope even as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.reading.fields import INT32, whole_number_of
from trajmill.connectors.reading.values import json_value

_STATUS: Final = {"error": True, "failed": True, "failure": True, "success": False}
"""Statuses that decide about a failure; others, such as `completed` and `incomplete`, occur with any outcome."""

_CODES: Final = ("exit_code", "return_code", "exitCode")
_ERRORS: Final = ("is_error", "isError", "error")
_TELLING: Final = frozenset({*_ERRORS, "status", "success", *_CODES})
_PROTOCOL: Final = frozenset({"content", "isError", "structuredContent", "_meta", "meta"})


def tells(envelope: Mapping[str, Any]) -> bool:
    """Check whether the envelope has any member that may show the outcome of a call."""
    return not _TELLING.isdisjoint(envelope)


def is_failure(envelope: Mapping[str, Any]) -> bool | None:
    """Check whether the call failed, by the members beside the content of its result; None if they do not decide."""
    error = _error(envelope)
    if error is not None:
        return error
    status, success = envelope.get("status"), envelope.get("success")
    if isinstance(success, bool):
        return not success
    return _STATUS.get(status) if isinstance(status, str) else None


def content_failed(content: object) -> bool | None:
    """Check whether the call failed, by a content that is no text, or a protocol result as text.

    There, a status may belong to the tool's data, such as an order's; only `error` means a failed call.
    """
    value = _protocol(content) if isinstance(content, str) else content
    if not isinstance(value, dict):
        return None
    error = _error(value)
    return True if error is None and value.get("status") == "error" else error


def _error(envelope: Mapping[str, Any]) -> bool | None:
    """Read the error members: a boolean, or a description of the error, which is no number."""
    for key in _ERRORS:
        error = envelope.get(key)
        if isinstance(error, bool) or (key == "error" and isinstance(error, str | dict | list) and error):
            return bool(error)
    return None


def _protocol(text: str) -> dict[str, Any] | None:
    """Return the tool result in a text of the Model Context Protocol; None for any other text."""
    if text.lstrip()[:1] != "{" or '"isError"' not in text:
        return None
    try:
        value = json_value(text)
    except ValueError:
        return None
    is_result = isinstance(value, dict) and value.keys() <= _PROTOCOL and isinstance(value.get("content"), list)
    return value if is_result else None


def exit_code(envelope: Mapping[str, Any]) -> int | None:
    """Return the exit code of the call's command; None if there is none."""
    return next((code for key in _CODES if (code := whole_number_of(envelope.get(key), INT32)) is not None), None)
