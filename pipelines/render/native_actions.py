"""Translation of trajmill's calls into the grammars that the agents of a domain write.

`web` uses BrowserGym's calls (`click("a51")`), `os` uses pyautogui code, `android` uses AndroidWorld's JSON. Ids of
elements stay those of the shown trees, `12` for `#12`. A call that a grammar cannot express stays a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from trajmill.connectors.reading.values import object_or_none
from trajmill.schemas import json_text

Arguments: TypeAlias = Mapping[str, Any]
_PLACE: Final = re.compile(r"\{(\w+)\}")


class Native(NamedTuple):
    """An action in its domain's grammar, and the language of its fence."""

    text: str
    language: str


def native_action(domain: str, text: str) -> Native | None:
    """Translate a call's text into the grammar of its domain; return None if the grammar cannot express it.

    Args:
        domain: one of the seven domains; three have a grammar.
        text: the action's text, `{"name": …, "arguments": {…}}`.
    """
    call = object_or_none(text)
    if call is None or domain not in _GRAMMARS:
        return None
    native = _GRAMMARS[domain](str(call.get("name")), call.get("arguments") or {})
    return None if native is None else Native(native, _LANGUAGES[domain])


def _python(*values: Any, **named: Any) -> str:
    """Format arguments of a call in Python syntax with double quotes."""
    positional = [json.dumps(value, ensure_ascii=False) for value in values]
    return ", ".join(
        [*positional, *(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in named.items())]
    )


_WEB: Final[Mapping[str, Sequence[str]]] = {
    "click": (
        "click({element})",
        "click({element}, button={button})",
        "click({bid})",
        "mouse_click({x}, {y})",
        "mouse_click({x}, {y}, button={button})",
    ),
    "dblclick": ("dblclick({element})", "mouse_dblclick({x}, {y})"),
    "right_click": ('click({element}, button="right")', 'mouse_click({x}, {y}, button="right")'),
    "hover": ("hover({element})", "mouse_move({x}, {y})"),
    "focus": ("focus({element})",),
    "fill": ("fill({element}, {text})",),
    "clear": ("clear({element})",),
    "type": ("keyboard_type({text})", "focus({element})\nkeyboard_type({text})"),
    "press": ("keyboard_press({key})", "press({element}, {key})"),
    "select_option": ("select_option({element}, {options})",),
    "check": ("check({element})",),
    "uncheck": ("uncheck({element})",),
    "upload": ("upload_file({element}, {files})",),
    "drag": ("drag_and_drop({element}, {onto})",),
    "scroll": ("scroll({dx}, {dy})", "scroll(0, {dy})", "scroll({dx}, 0)"),
    "goto": ("goto({url})",),
    "go_back": ("go_back()",),
    "go_forward": ("go_forward()",),
    "tab_new": ("new_tab()", "new_tab()\ngoto({url})"),
    "tab_close": ("tab_close()",),
    "tab_select": ("tab_focus({tab})",),
    "wait": ("noop()",),
    "task_complete": ("send_msg_to_user({text})",),
    "message": ("send_msg_to_user({content})",),
    "web_browser_go": ("goto({url})",),
    "web_browser_back": ("go_back()",),
    "web_browser_forward": ("go_forward()",),
    "web_browser_click": ("click({element_id})",),
    "web_browser_type": ("fill({element_id}, {text})",),
    "web_browser_type_submit": ('fill({element_id}, {text})\npress({element_id}, "Enter")',),
}
"""Forms that BrowserGym's agents write, by name; a form applies if the call has exactly its arguments.

Forms of two steps have one per line.

Scrolling *to* a place has no form, since BrowserGym's scroll takes a distance. The tools of Inspect's own browser are
included.
"""
_IDS: Final = frozenset({"element", "bid", "onto", "element_id"})


def _bare(element: str | int) -> str:
    """Return an element's id as a grammar writes it: text, or our number without its sign."""
    return str(element).removeprefix("#")


def _web(name: str, arguments: Arguments) -> str | None:
    if name == "fill" and arguments.get("enter") is True:
        filled = _web(name, {key: value for key, value in arguments.items() if key != "enter"})
        return None if filled is None else f'{filled}\npress({_python(_bare(arguments["element"]))}, "Enter")'
    if name == "wait" and set(arguments) == {"seconds"} and isinstance(arguments["seconds"], int | float):
        return f"noop({arguments['seconds'] * 1000:g})"
    if name == "drag" and set(arguments) == {"from", "to"}:
        points = [*_list_or_empty(arguments["from"]), *_list_or_empty(arguments["to"])]
        return f"mouse_drag_and_drop({_python(*points)})" if len(points) == 4 else None
    if not all(isinstance(arguments[key], str | int) for key in _IDS & set(arguments)):
        return None
    return _fill_form(_WEB, name, {key: _bare(value) if key in _IDS else value for key, value in arguments.items()})


def _fill_form(table: Mapping[str, Sequence[str]], name: str, arguments: Arguments) -> str | None:
    """Fill the form of a table that has exactly the given arguments; None if there is none."""
    for form in table.get(name, ()):
        if set(_PLACE.findall(form)) == set(arguments):
            return form.format(**{key: _python(value) for key, value in arguments.items()})
    return None


def _list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_ENDINGS: Final[Mapping[str, str]] = {"wait": "WAIT", "task_complete": "DONE", "fail": "FAIL"}


def _os(name: str, arguments: Arguments) -> str | None:
    own_arguments = {key: value for key, value in arguments.items() if key != "element"}
    if name in _ENDINGS and not own_arguments:
        return _ENDINGS[name]
    if name == "sequence":
        lines = [_os(str(call.get("name")), call.get("arguments") or {}) for call in own_arguments.get("calls") or ()]
        return None if not lines or None in lines else "\n".join(line for line in lines if line is not None)
    return _os_call(name, own_arguments)


_OS: Final[Mapping[str, Sequence[str]]] = {
    "click": ("pyautogui.click({x}, {y})",),
    "double_click": ("pyautogui.doubleClick({x}, {y})",),
    "triple_click": ("pyautogui.tripleClick({x}, {y})",),
    "right_click": ("pyautogui.rightClick({x}, {y})",),
    "middle_click": ("pyautogui.middleClick({x}, {y})",),
    "move": ("pyautogui.moveTo({x}, {y})", "pyautogui.moveRel({dx}, {dy})"),
    "drag": ("pyautogui.dragRel({dx}, {dy})",),
    "mouse_down": (
        "pyautogui.mouseDown()",
        "pyautogui.mouseDown(button={button})",
        "pyautogui.mouseDown({x}, {y})",
        "pyautogui.mouseDown({x}, {y}, button={button})",
    ),
    "mouse_up": (
        "pyautogui.mouseUp()",
        "pyautogui.mouseUp(button={button})",
        "pyautogui.mouseUp({x}, {y})",
        "pyautogui.mouseUp({x}, {y}, button={button})",
    ),
    "scroll": ("pyautogui.hscroll({dx})", "pyautogui.hscroll({dx}, x={x}, y={y})"),
    "type": ("pyautogui.write({text})",),
    "press": (
        "pyautogui.press({key})",
        "pyautogui.press({key}, presses={times})",
        "pyautogui.press({keys})",
        "pyautogui.press({keys}, presses={times})",
    ),
    "key_down": ("pyautogui.keyDown({key})",),
    "key_up": ("pyautogui.keyUp({key})",),
    "wait": ("time.sleep({seconds})",),
    "set_clipboard": ("pyperclip.copy({text})",),
}


def _os_call(name: str, arguments: Arguments) -> str | None:
    if name == "code" and set(arguments) == {"code"} and isinstance(arguments["code"], str):
        return arguments["code"]
    if name == "drag" and "to" in arguments and set(arguments) <= {"from", "to"}:
        started = f"pyautogui.moveTo({_python(*_list_or_empty(arguments['from']))})\n" if "from" in arguments else ""
        return f"{started}pyautogui.dragTo({_python(*_list_or_empty(arguments['to']))})"
    if name == "scroll" and "clicks" in arguments and set(arguments) <= {"clicks", "x", "y"}:
        point = {key: arguments[key] for key in ("x", "y") if key in arguments}
        return f"pyautogui.scroll({_python(arguments['clicks'], **point)})"
    if name == "hotkey" and set(arguments) == {"keys"}:
        return f"pyautogui.hotkey({_python(*arguments['keys'])})"
    return _fill_form(_OS, name, arguments)


_GOALS: Final[Mapping[str, str]] = {"complete": "complete", "successful": "complete", "infeasible": "infeasible"}
_ENDED: Final[Mapping[str, str]] = {"task_complete": "complete", "fail": "infeasible"}
_KEYS: Final[Mapping[str, str]] = {"home": "navigate_home", "back": "navigate_back", "enter": "keyboard_enter"}


def _android(name: str, arguments: Arguments) -> str | None:
    point = _place(arguments)
    if point is None:
        return None
    rest = {key: value for key, value in arguments.items() if key not in ("element", "x", "y")}
    if name in ("click", "double_click", "long_press") and point and not rest:
        return json_text({"action_type": "double_tap" if name == "double_click" else name, **point})
    if name == "input_text" and set(rest) == {"text"}:
        return json_text({"action_type": name, **rest, **point})
    if name == "press" and rest.get("key") in _KEYS and len(rest) == 1:
        return json_text({"action_type": _KEYS[rest["key"]]})
    if name in ("swipe", "scroll") and set(rest) == {"direction"}:
        return json_text({"action_type": name, **rest, **point})
    if name == "open_app" and set(rest) & {"app", "package"}:
        return json_text({"action_type": name, "app_name": rest.get("app") or rest["package"]})
    if name == "wait" and not rest:
        return json_text({"action_type": "wait"})
    if name == "answer" and set(rest) == {"text"}:
        return json_text({"action_type": name, "text": rest["text"]})
    if name == "task_complete" and rest.get("status") in _GOALS and len(rest) == 1:
        return json_text({"action_type": "status", "goal_status": _GOALS[rest["status"]]})
    if name in _ENDED and not rest:
        return json_text({"action_type": "status", "goal_status": _ENDED[name]})
    return None


def _place(arguments: Arguments) -> dict[str, Any] | None:
    """Return an action's place as AndroidWorld writes it: an element's number, or a point; None if it has neither."""
    element = arguments.get("element")
    if element is None:
        return {key: arguments[key] for key in ("x", "y") if key in arguments}
    number = str(element).removeprefix("#")
    return {"index": int(number)} if number.isdigit() and number.isascii() else None


_GRAMMARS: Final[Mapping[str, Callable[[str, Arguments], str | None]]] = {"web": _web, "os": _os, "android": _android}
_LANGUAGES: Final[Mapping[str, str]] = {"web": "python", "os": "python", "android": "json"}
