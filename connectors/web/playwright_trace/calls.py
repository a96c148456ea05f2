"""Calls of Playwright's API in the vocabulary of `action`: which calls are actions, their names and their texts.

| call | action |
|---|---|
| click, dblclick, tap, hover, focus, fill, type, press, check, uncheck, selectOption, dragAndDrop | that |
| setInputFiles | `upload` |
| goto, reload, goBack, goForward, newPage, Page.close, bringToFront, setViewportSize | the tab |
| setContent | `goto` with `html`: the page is loaded from the text in place of an address |
| keyboard…, mouse…, touchscreenTap | keys, clicks at a point; moves and single ends of a press by a word of their own |
| expect, waitFor… | `wait` with `until`: a test waits for a state, and fails if it does not come |
| textContent, getAttribute, isVisible, title, content, … | `extract`; its result is the answer |
| evaluate… | `evaluate`, likewise |

Calls that do not act on a page are left out: setup (routes, cookies, bindings, contexts, tracing), handles of objects,
requests that a script makes beside the page, and the steps of the test runner, which represent calls that are logged
elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from trajmill.connectors.reading.fields import str_of
from trajmill.connectors.web import action as act
from trajmill.schemas import WAIT, Action

DRAG: Final = "dragAndDrop"
_CLASSES: Final = frozenset({"Frame", "Page", "ElementHandle", "BrowserContext", "Dialog", "JSHandle", "FileChooser"})
_POINTING: Final = {
    "click": act.CLICK,
    "tap": act.CLICK,
    "dblclick": act.DBLCLICK,
    "hover": act.HOVER,
    "focus": act.FOCUS,
    "check": act.CHECK,
    "uncheck": act.UNCHECK,
    "scrollIntoViewIfNeeded": act.SCROLL,
}
_TABS: Final = {
    ("Page", "reload"): act.RELOAD,
    ("Page", "goBack"): act.GO_BACK,
    ("Page", "goForward"): act.GO_FORWARD,
    ("BrowserContext", "newPage"): act.TAB_NEW,
    ("Page", "close"): act.TAB_CLOSE,
    ("Page", "bringToFront"): act.TAB_SELECT,
}
_KEYS: Final = {"keyboardPress": act.PRESS, "keyboardDown": "key_down", "keyboardUp": "key_up"}
_TEXTS: Final = {"keyboardType": act.TYPE, "keyboardInsertText": act.TYPE}
_MOUSE: Final = {"mouseMove": "mouse_move", "mouseClick": act.CLICK, "touchscreenTap": act.CLICK}
_ENDS: Final = {"mouseDown": "mouse_down", "mouseUp": "mouse_up"}
_WORDS: Final = {
    "fill": (act.FILL, "text", "value"),
    "type": (act.TYPE, "text", "text"),
    "press": (act.PRESS, "key", "key"),
    "goto": (act.GOTO, "url", "url"),
    "setContent": (act.GOTO, "html", "html"),
}
"""Name of the action, its argument, and the parameter that holds it, by method."""
_PASSWORD: Final = re.compile("passw|passcode|secret", re.IGNORECASE)
"""Selector of a field whose text is masked even if no snapshot shows the field's type."""
_READS: Final = frozenset(
    {"textContent", "innerText", "innerHTML", "getAttribute", "inputValue", "isChecked", "isDisabled", "isEditable"}
    | {"isEnabled", "isHidden", "isVisible", "queryCount", "title", "content", "ariaSnapshot", "boundingBox"}
    | {"accessibilitySnapshot"}
)
_SCRIPTS: Final = frozenset(
    {"evaluateExpression", "evaluateExpressionHandle", "evalOnSelector", "evalOnSelectorAll"}
    | {"dispatchEvent", "blur", "selectText"}
)


def action_of(
    kind: str,
    method: str,
    params: Mapping[str, Any],
    element: int | None,
    secret: bool,
    call_id: str,
    onto: int | None = None,
) -> Action | None:
    """Return the action of a call; None if the call is no action.

    Args:
        kind: class of the object that is called, as the protocol names it.
        method: method, as the protocol names it.
        params: the logged parameters.
        element: line of the target in the page before, if known.
        secret: whether the target is a password field.
        onto: line of the element that the target is dragged onto, if known.
    """
    if kind not in _CLASSES:
        return None
    selector = str_of(params.get("selector")) or str_of(params.get("source"))
    target = selector or None
    secret = secret or _PASSWORD.search(selector) is not None
    original = {key: value for key, value in params.items() if key not in ("strict", "timeout")}
    sensitive: tuple[str, ...] = ()
    if secret and isinstance(value := original.get("value", original.get("text")), str):
        sensitive = (value,)
        original["value" if "value" in original else "text"] = act.MASK

    def call(name: str, common: Mapping[str, Any]) -> Action:
        action = act.call(name, common, original, element, target, call_id=call_id)
        return replace(action, sensitive=sensitive) if sensitive else action

    named = _TABS.get((kind, method))
    if named is not None:
        return call(named, {})
    if kind == "JSHandle" and method not in _SCRIPTS:
        return None
    if kind == "Dialog" and method in ("accept", "dismiss"):
        return call(act.HANDLE_DIALOG, {"accept": method == "accept", "text": str_of(params.get("promptText")) or None})
    if kind == "Page" and (arguments := _device(method, params)) is not None:
        return call(*arguments)
    if kind not in ("Frame", "ElementHandle", "JSHandle"):
        return None
    if method == DRAG:
        return call(act.DRAG, {"onto": str_of(params.get("target")) if onto is None else act.element_id(onto)})
    arguments = _on_element(method, params, secret)
    return None if arguments is None else call(*arguments)


def is_mouse_call(call_fields: Mapping[str, Any]) -> bool:
    """Return True if a call moves the mouse to a point of the page; the log does not state what is there."""
    return call_fields.get("class") == "Page" and call_fields.get("method") in _MOUSE


def _device(method: str, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return (name, arguments) of a call on the page's keyboard, mouse or window."""
    point = {axis: act.whole(float(params[axis])) for axis in ("x", "y") if _is_number(params.get(axis))}
    if method in _KEYS:
        return _KEYS[method], {"key": str_of(params.get("key"))}
    if method in _TEXTS:
        return _TEXTS[method], {"text": str_of(params.get("text"))}
    if method == "mouseClick" and params.get("button") == "right":
        return act.RIGHT_CLICK, point
    if method == "mouseClick" and params.get("clickCount") == 2:
        return act.DBLCLICK, point
    if method in _MOUSE:
        return _MOUSE[method], {**point, **_button(params)}
    if method in _ENDS:
        return _ENDS[method], _button(params)
    if method == "mouseWheel":
        moved = [act.whole(float(params[key])) if _is_number(params.get(key)) else 0 for key in ("deltaX", "deltaY")]
        return act.SCROLL, {"by": moved}
    if method == "setViewportSize":
        size = params.get("viewportSize")
        size = size if isinstance(size, dict) else {}
        return act.RESIZE, {"width": size.get("width"), "height": size.get("height")}
    if method in ("screenshot", "expectScreenshot"):
        return act.SCREENSHOT, {}
    return None


def _on_element(method: str, params: Mapping[str, Any], secret: bool) -> tuple[str, dict[str, Any]] | None:
    """Return (name, arguments) of a call on a frame or element."""
    if method in _POINTING:
        name = _POINTING[method]
        if name == act.CLICK and params.get("button") == "right":
            return act.RIGHT_CLICK, _keys(params)
        if name == act.CLICK and params.get("clickCount") == 2:
            name = act.DBLCLICK
        return name, {**(_button(params) if name == act.CLICK else {}), **_keys(params)}
    if method in _WORDS:
        name, key, source = _WORDS[method]
        return name, {key: act.MASK if secret and key == "text" else str_of(params.get(source))}
    if method == "selectOption":
        return act.SELECT_OPTION, {"options": _options(params.get("options"))}
    if method.startswith("setInputFile"):
        return act.UPLOAD, {"files": _files(params)}
    if method == "expect" or method.startswith("waitFor"):
        return WAIT, _wait_arguments(method, params)
    if method in _READS:
        return act.EXTRACT, {"what": " ".join(filter(None, (method, str_of(params.get("name")))))}
    if method in _SCRIPTS:
        return act.EVALUATE, {"script": str_of(params.get("expression")) or method}
    return None


def _wait_arguments(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a wait."""
    if method == "waitForTimeout":
        # In later versions, `timeout` is the time limit of every call.
        waited = params.get("waitTimeout", params.get("timeout"))
        return {"seconds": float(waited) / 1000 if _is_number(waited) else None}
    if method == "expect":
        return {"until": _assertion_text(params)}
    state = str_of(params.get("state")) or str_of(params.get("url"))
    return {"until": state or ("visible" if method == "waitForSelector" else method)}


def _assertion_text(params: Mapping[str, Any]) -> str:
    """Return the condition of an assertion, in the log's words: `not to.have.text "Saved"`."""
    words = ["not"] if params.get("isNot") is True else []
    words.append(str_of(params.get("expression")) or "expect")
    texts = params.get("expectedText")
    for entry in texts if isinstance(texts, list) else []:
        if isinstance(entry, dict):
            pattern, text = str_of(entry.get("regexSource")), str_of(entry.get("string"))
            words.append(f"/{pattern}/" if pattern else f'"{text}"')
    number = params.get("expectedNumber")
    return " ".join([*words, str(number)] if _is_number(number) else words)


def _options(value: Any) -> list[str]:
    options = []
    for choice in value if isinstance(value, list) else []:
        if isinstance(choice, dict):
            option = next(
                (choice[key] for key in ("label", "valueOrLabel", "value", "index") if choice.get(key) is not None), ""
            )
            options.append(str(option))
    return options


def _files(params: Mapping[str, Any]) -> list[str]:
    payloads = params.get("localPaths") or params.get("payloads") or params.get("files") or params.get("streams")
    names = (
        [entry.get("name") if isinstance(entry, dict) else entry for entry in payloads]
        if isinstance(payloads, list)
        else []
    )
    return [re.split(r"[/\\]", name)[-1] for name in names if isinstance(name, str)]


def _button(params: Mapping[str, Any]) -> dict[str, Any]:
    button = str_of(params.get("button"))
    return {"button": button} if button not in ("", "left") else {}


def _keys(params: Mapping[str, Any]) -> dict[str, Any]:
    keys = params.get("modifiers")
    modifiers = [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
    return {"modifiers": modifiers} if modifiers else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12
