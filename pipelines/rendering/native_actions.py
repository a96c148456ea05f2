"""Actions in the grammar that the agents of a domain write, from the one vocabulary of calls that trajmill has.

`web` in the calls of BrowserGym (`click("a51")`), `os` as code of pyautogui, `android` as AndroidWorld's JSON. Ids of
elements stay those that the shown trees have, `12` for `#12`. What a grammar has no words for stays the call it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from connectors.reading.values import object_or_none
from schemas import json_text

Arguments: TypeAlias = Mapping[str, Any]


class Native(NamedTuple):
    """An action in its domain's grammar, and the language of its fence."""

    text: str
    language: str


def native_action(domain: str, text: str) -> Native | None:
    """The action that a call's text says, in the grammar of its domain; None if it cannot be said in it.

    Args:
        domain: one of the seven; three have a grammar.
        text: of the action, `{"name": …, "arguments": {…}}`.
    """
    call = object_or_none(text)
    if call is None or domain not in _GRAMMARS:
        return None
    said = _GRAMMARS[domain](str(call.get("name")), call.get("arguments") or {})
    return None if said is None else Native(said, _LANGUAGES[domain])


def _python(*values: Any, **named: Any) -> str:
    """Arguments of a call, as Python writes them with double quotes."""
    told = [json.dumps(value, ensure_ascii=False) for value in values]
    return ", ".join([*told, *(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in named.items())])


def _taken(arguments: Arguments, *names: str) -> list[Any] | None:
    """The values of those names, where these are all that is given."""
    if set(arguments) != set(names):
        return None
    return [arguments[name] for name in names]


_WEB: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "click": ("click", ("element",)),
    "double_click": ("dblclick", ("element",)),
    "hover": ("hover", ("element",)),
    "fill": ("fill", ("element", "text")),
    "check": ("check", ("element",)),
    "uncheck": ("uncheck", ("element",)),
    "clear": ("clear", ("element",)),
    "focus": ("focus", ("element",)),
    "press": ("press", ("element", "key")),
    "select_option": ("select_option", ("element", "options")),
    "drag": ("drag_and_drop", ("from", "to")),
    "scroll": ("scroll", ("x", "y")),
    "goto": ("goto", ("url",)),
    "go_back": ("go_back", ()),
    "go_forward": ("go_forward", ()),
    "tab_new": ("new_tab", ()),
    "tab_close": ("tab_close", ()),
    "tab_focus": ("tab_focus", ("index",)),
    "task_complete": ("send_msg_to_user", ("text",)),
}
_WEB_WITHOUT_ELEMENT: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "press": ("keyboard_press", ("key",)),
    "type": ("keyboard_type", ("text",)),
    "click": ("mouse_click", ("x", "y")),
    "double_click": ("mouse_dblclick", ("x", "y")),
}


def _bare(element: Any) -> Any:
    """An element's id as a grammar writes it: text, and our numbers without their sign."""
    return str(element).removeprefix("#") if isinstance(element, str | int) else element


def _web(name: str, arguments: Arguments) -> str | None:
    plain = {key: _bare(value) if key in ("element", "from", "to") else value for key, value in arguments.items()}
    for known in (_WEB, _WEB_WITHOUT_ELEMENT):
        if name in known:
            said, names = known[name]
            values = _taken(plain, *names)
            if values is not None:
                return f"{said}({_python(*values)})"
    return None


_POINTED: Final[Mapping[str, str]] = {
    "click": "click",
    "double_click": "doubleClick",
    "triple_click": "tripleClick",
    "right_click": "rightClick",
    "middle_click": "middleClick",
    "move": "moveTo",
}
_ENDINGS: Final[Mapping[str, str]] = {"wait": "WAIT", "task_complete": "DONE", "fail": "FAIL"}


def _os(name: str, arguments: Arguments) -> str | None:
    given = {key: value for key, value in arguments.items() if key != "element"}
    if name in _ENDINGS and not given:
        return _ENDINGS[name]
    if name == "sequence":
        lines = [_os(str(call.get("name")), call.get("arguments") or {}) for call in given.get("calls") or ()]
        return None if not lines or None in lines else "\n".join(line for line in lines if line is not None)
    return _os_call(name, given)


def _os_call(name: str, given: Arguments) -> str | None:
    if name in _POINTED:
        point = _taken(given, "x", "y")
        return None if point is None else f"pyautogui.{_POINTED[name]}({_python(*point)})"
    if name == "drag" and set(given) == {"from", "to"}:
        return f"pyautogui.moveTo({_python(*given['from'])})\npyautogui.dragTo({_python(*given['to'])})"
    if name == "scroll" and "clicks" in given and set(given) <= {"clicks", "x", "y"}:
        place = {key: given[key] for key in ("x", "y") if key in given}
        return f"pyautogui.scroll({_python(given['clicks'], **place)})"
    if name == "hotkey" and set(given) == {"keys"}:
        return f"pyautogui.hotkey({_python(*given['keys'])})"
    for known, said, key in (("press", "press", "key"), ("type", "write", "text")):
        if name == known and set(given) == {key}:
            return f"pyautogui.{said}({_python(given[key])})"
    return None


_KEYS: Final[Mapping[str, str]] = {"home": "navigate_home", "back": "navigate_back", "enter": "keyboard_enter"}


def _android(name: str, arguments: Arguments) -> str | None:
    place = _place(arguments)
    if place is None:
        return None
    rest = {key: value for key, value in arguments.items() if key not in ("element", "x", "y")}
    if name in ("click", "double_click", "long_press") and place and not rest:
        return json_text({"action_type": "double_tap" if name == "double_click" else name, **place})
    if name == "input_text" and set(rest) == {"text"}:
        return json_text({"action_type": name, **rest, **place})
    if name == "press" and rest.get("key") in _KEYS and len(rest) == 1:
        return json_text({"action_type": _KEYS[rest["key"]]})
    if name in ("swipe", "scroll") and set(rest) == {"direction"}:
        return json_text({"action_type": name, **rest, **place})
    if name == "open_app" and set(rest) & {"app", "package"}:
        return json_text({"action_type": name, "app_name": rest.get("app") or rest["package"]})
    if name == "wait" and not rest:
        return json_text({"action_type": "wait"})
    goals = {"task_complete": "complete", "fail": "infeasible"}
    if name in goals and not rest:
        return json_text({"action_type": "status", "goal_status": goals[name]})
    return None


def _place(arguments: Arguments) -> dict[str, Any] | None:
    """Where an action takes place, as AndroidWorld says it: an element's number, or a point; None if neither can."""
    element = arguments.get("element")
    if element is None:
        return {key: arguments[key] for key in ("x", "y") if key in arguments}
    number = str(element).removeprefix("#")
    return {"index": int(number)} if number.isdigit() and number.isascii() else None


_GRAMMARS: Final[Mapping[str, Callable[[str, Arguments], str | None]]] = {"web": _web, "os": _os, "android": _android}
_LANGUAGES: Final[Mapping[str, str]] = {"web": "python", "os": "python", "android": "json"}
