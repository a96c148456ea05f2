"""Contents of single events of a Playwright trace: calls of all versions, their results, and their errors.

`session` combines calls and snapshots to transitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.reading.fields import number_of, object_of, plain_text
from trajmill.connectors.reading.values import value_or_none
from trajmill.connectors.screens.stylesheets import Viewport
from trajmill.schemas import json_text

UNEXPECTED: Final = "unexpected"
"""Key of a call for the actual value that its failed assertion found last."""


def modern(event: dict[str, Any]) -> dict[str, Any]:
    """Convert a complete call as logged by version 3 and older to the fields of later versions."""
    metadata = event.get("metadata")
    if not isinstance(metadata, dict):
        return event
    shots = metadata.get("snapshots")
    names = {
        plain_text(shot.get("title")): shot.get("snapshotName")
        for shot in (shots if isinstance(shots, list) else [])
        if isinstance(shot, dict)
    }
    error = metadata.get("error")
    return {
        **metadata,
        "callId": metadata.get("id"),
        "class": metadata.get("type"),
        "beforeSnapshot": names.get("before"),
        "inputSnapshot": names.get("action") or names.get("input"),
        "afterSnapshot": names.get("after"),
        "error": error.get("error") if isinstance(error, dict) and isinstance(error.get("error"), dict) else error,
    }


def is_mark_of(mark: str, ident: str) -> bool:
    """Check if a target's mark is the call's: its id, or the name of a snapshot of it; an empty mark is any's."""
    return mark in ("", ident) or mark.endswith(f"@{ident}")


def is_call(event: Mapping[str, Any]) -> bool:
    """Check if an event is a call of the program, as opposed to an internal call of Playwright."""
    return isinstance(event.get("class"), str) and isinstance(event.get("method"), str) and not event.get("internal")


def parts_of(event: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    """Return class, method and parameters of a call."""
    params = event.get("params")
    return str(event["class"]), str(event["method"]), params if isinstance(params, dict) else {}


def failure_of(event: Mapping[str, Any]) -> str | None:
    """Return Playwright's message if the call failed; None if it did not."""
    error = event.get("error")
    if isinstance(error, str) and error:
        return error
    if isinstance(error, dict):
        inner = error.get("error")
        message = (inner if isinstance(inner, dict) else error).get("message")
        return message if isinstance(message, str) and message else "the call failed"
    result, params = event.get("result"), event.get("params")
    if event.get("method") == "expect" and isinstance(result, dict) and isinstance(result.get("matches"), bool):
        wanted = not (isinstance(params, dict) and params.get("isNot") is True)
        if result["matches"] is not wanted:
            shown = result.get("errorMessage")
            return shown if isinstance(shown, str) and shown else "the expectation was not met"
    return None


def result_of(event: Mapping[str, Any]) -> str | None:
    """Return the answer of a finished call to the program, a text as it is, other values as JSON; else None.

    The answer of an assertion is whether it passed, and the value it found, if the trace states it. The HTML of the
    whole page is no answer, because the observation shows the page.
    """
    result, method = object_of(event.get("result")), event.get("method")
    if method == "expect":
        received = result.get("received")
        met = {"received": _plain(received)} if isinstance(received, dict) else {}
        if not met and UNEXPECTED in event:
            met = {"received": event[UNEXPECTED]}
        return json_text({"passed": failure_of(event) is None, **met})
    value = result.get("value", result.get("snapshot"))
    if method == "content":
        return None
    if isinstance(value, dict) and str(method).startswith("eval"):
        value = None if value.get("v") == "undefined" else _plain(value)
    elif value is None and method in ("getAttribute", "textContent"):
        return "null"
    if value is None or isinstance(value, str):
        return value
    return json_text(value)


def unexpected_of(message: Any) -> Any:
    """Return the actual value that an assertion found, from a line of its log; None if the line states none."""
    kind, _, value = plain_text(message).strip().partition(" value ")
    if kind != "unexpected" or not value:
        return None
    read = value_or_none(value)
    return value if read is None else read


def _plain(value: Any) -> Any:
    """Convert a value of a page's script, which the protocol tags with its type: `{"n": 2}`, `{"a": [{"s": "x"}]}`."""
    if not isinstance(value, dict):
        return None
    kind, content = next(iter(value.items()), ("", None))
    if kind == "v":
        return None if content in ("null", "undefined") else content
    if kind == "a" and isinstance(content, list):
        return [_plain(element) for element in content]
    if kind == "o" and isinstance(content, list):
        pairs = [pair for pair in content if isinstance(pair, dict) and isinstance(pair.get("k"), str)]
        return {pair["k"]: _plain(pair.get("v")) for pair in pairs}
    if kind == "r" and isinstance(content, dict):
        return f"/{plain_text(content.get('p'))}/{plain_text(content.get('f'))}"
    if kind == "e" and isinstance(content, dict):
        return f"{plain_text(content.get('n'))}: {plain_text(content.get('m'))}"
    return content if kind in ("s", "n", "b", "d", "u", "bi") else None


def browser_of(options: Mapping[str, Any]) -> str | None:
    """Return the browser's name if the context's options state it."""
    name = options.get("browserName")
    return name if isinstance(name, str) and name else None


def window_of(options: Mapping[str, Any]) -> str | None:
    """Return the size of the window, in words, if the context's options state it."""
    context = options.get("options")
    view = viewport_of(context.get("viewport") if isinstance(context, dict) else None)
    return f"window of {view.width} by {view.height} pixels" if view is not None else None


def viewport_of(size: Any) -> Viewport | None:
    """Return the size of a window; None if the value is invalid."""
    if not isinstance(size, dict) or not isinstance(size.get("width"), int) or not isinstance(size.get("height"), int):
        return None
    return Viewport(size["width"], size["height"])


def time_of(value: Any) -> float | None:
    """Return a time in milliseconds; None if the value is invalid."""
    return number_of(value, 1e16)
