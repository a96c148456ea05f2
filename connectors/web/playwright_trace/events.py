"""What single events of a Playwright trace say: the call, whichever version logged it, its result, and why it failed.

`session` puts calls and snapshots together to transitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.reading.fields import object_of, plain_text
from trajmill.connectors.reading.values import value_or_none
from trajmill.connectors.screens.stylesheets import Viewport
from trajmill.schemas import json_text

UNEXPECTED: Final = "unexpected"
"""Under this name a call holds the last value that its assertion met in place of the wanted one."""


def modern(event: dict[str, Any]) -> dict[str, Any]:
    """A whole call as version 3 and older log it, in the terms of later ones."""
    told = event.get("metadata")
    if not isinstance(told, dict):
        return event
    shots = told.get("snapshots")
    names = {
        plain_text(one.get("title")): one.get("snapshotName")
        for one in (shots if isinstance(shots, list) else [])
        if isinstance(one, dict)
    }
    error = told.get("error")
    return {
        **told,
        "callId": told.get("id"),
        "class": told.get("type"),
        "beforeSnapshot": names.get("before"),
        "inputSnapshot": names.get("action") or names.get("input"),
        "afterSnapshot": names.get("after"),
        "error": error.get("error") if isinstance(error, dict) and isinstance(error.get("error"), dict) else error,
    }


def is_mark_of(mark: str, ident: str) -> bool:
    """Whether the mark of a target is the call's: its id, or the name of a snapshot of it; an empty one fits any."""
    return mark in ("", ident) or mark.endswith(f"@{ident}")


def is_call(told: Mapping[str, Any]) -> bool:
    """Whether an event is a call of the program's, not one that Playwright makes for itself."""
    return isinstance(told.get("class"), str) and isinstance(told.get("method"), str) and not told.get("internal")


def parts_of(told: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    """Class, method and parameters of a call."""
    params = told.get("params")
    return str(told["class"]), str(told["method"]), params if isinstance(params, dict) else {}


def failure_of(told: Mapping[str, Any]) -> str | None:
    """Playwright's message if the call failed; None if it did not."""
    error = told.get("error")
    if isinstance(error, str) and error:
        return error
    if isinstance(error, dict):
        inner = error.get("error")
        found = (inner if isinstance(inner, dict) else error).get("message")
        return found if isinstance(found, str) and found else "the call failed"
    result, params = told.get("result"), told.get("params")
    if told.get("method") == "expect" and isinstance(result, dict) and isinstance(result.get("matches"), bool):
        wanted = not (isinstance(params, dict) and params.get("isNot") is True)
        if result["matches"] is not wanted:
            shown = result.get("errorMessage")
            return shown if isinstance(shown, str) and shown else "the expectation was not met"
    return None


def result_of(told: Mapping[str, Any]) -> str | None:
    """What a call that ended answered the program: a text as it is, other values as JSON; None if it answered nothing.

    An assertion answers whether it passed, and what it met, where the trace tells. The HTML of the whole page is no
    answer: the page is shown.
    """
    result, method = object_of(told.get("result")), told.get("method")
    if method == "expect":
        received = result.get("received")
        met = {"received": _plain(received)} if isinstance(received, dict) else {}
        if not met and UNEXPECTED in told:
            met = {"received": told[UNEXPECTED]}
        return json_text({"passed": failure_of(told) is None, **met})
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
    """The value that an assertion met in place of the wanted one, by a line of its log; None if that tells none."""
    kind, _, value = plain_text(message).strip().partition(" value ")
    if kind != "unexpected" or not value:
        return None
    read = value_or_none(value)
    return value if read is None else read


def _plain(value: Any) -> Any:
    """A value of a page's script, which the protocol tells with its type: `{"n": 2}`, `{"a": [{"s": "x"}]}`."""
    if not isinstance(value, dict):
        return None
    kind, told = next(iter(value.items()), ("", None))
    if kind == "v":
        return None if told in ("null", "undefined") else told
    if kind == "a" and isinstance(told, list):
        return [_plain(one) for one in told]
    if kind == "o" and isinstance(told, list):
        pairs = [one for one in told if isinstance(one, dict) and isinstance(one.get("k"), str)]
        return {one["k"]: _plain(one.get("v")) for one in pairs}
    if kind == "r" and isinstance(told, dict):
        return f"/{plain_text(told.get('p'))}/{plain_text(told.get('f'))}"
    if kind == "e" and isinstance(told, dict):
        return f"{plain_text(told.get('n'))}: {plain_text(told.get('m'))}"
    return told if kind in ("s", "n", "b", "d", "u", "bi") else None


def browser_of(options: Mapping[str, Any]) -> str | None:
    """The browser's name, if the context's options tell it."""
    name = options.get("browserName")
    return name if isinstance(name, str) and name else None


def window_of(options: Mapping[str, Any]) -> str | None:
    """How large the window is, in words, if the context's options tell it."""
    told = options.get("options")
    view = viewport_of(told.get("viewport") if isinstance(told, dict) else None)
    return f"window of {view.width} by {view.height} pixels" if view is not None else None


def viewport_of(told: Any) -> Viewport | None:
    """The size of a window; None if it is none."""
    if not isinstance(told, dict) or not isinstance(told.get("width"), int) or not isinstance(told.get("height"), int):
        return None
    return Viewport(told["width"], told["height"])


def number_of(value: Any) -> float | None:
    """A time in milliseconds; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e16:
        return None
    return float(value)
