"""Physical actions of Python code that uses pyautogui, read from its syntax tree and never run.

Code of agents is a script of calls: `pyautogui.click(960, 540)`, `time.sleep(1)`, imports, comments, numbers in
variables, and OpenCUA's `computer.triple_click(…)` and `computer.terminate(…)`. Such code becomes calls in order. If it
contains anything else (a loop, a file, another module's function), the code is kept whole as the action `code`, because
its calls would be only a part of its effect.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from trajmill.connectors.desktop import action as act
from trajmill.connectors.desktop.action import Call
from trajmill.connectors.reading.fields import whole_number_of
from trajmill.schemas import COMPLETE, WAIT

LONGEST: Final = 1 << 15
"""Longest code in characters that is read; the longest real steps have some thousands."""

_DEEPEST: Final = 24
_LONGEST_TEXT: Final = 1 << 15
_Values: TypeAlias = dict[str, Any]

_BUTTONS: Final = {"left": act.CLICK, "primary": act.CLICK, "right": act.RIGHT_CLICK, "secondary": act.RIGHT_CLICK}
_MORE_BUTTONS: Final = {"middle": act.MIDDLE_CLICK}
_TIMES: Final = {2: act.DOUBLE_CLICK, 3: act.TRIPLE_CLICK}
_MODULES: Final = frozenset({"pyautogui", "computer", "time", "pyperclip"})
_ARITHMETIC: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


class _OtherCodeError(Exception):
    """Error for code that does more than this module reads. It does not leave this module."""


def calls_of(code: str) -> list[Call] | None:
    """Return the calls of a script in order; None if it is not a script of calls, empty if it makes none."""
    if len(code) > LONGEST or "\0" in code:
        return None
    try:
        with warnings.catch_warnings():
            # Python warns of an escape such as `"\d"`, which is the log's fault, not ours.
            warnings.simplefilter("ignore")
            body = ast.parse(code.strip()).body
        return _Script().calls(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError, _OtherCodeError):
        return None


def _read_call(module: str, name: str, values: list[Any], named: dict[str, Any]) -> list[Call]:
    """Convert a function call of the script into calls.

    Raises:
        _OtherCodeError: the function is not supported.
    """
    if module == "pyperclip" and name != "copy":
        raise _OtherCodeError
    reader = _READERS.get(name)
    if reader is None or (module == "time" and name != "sleep"):
        raise _OtherCodeError
    calls = reader(name, values, named)
    if calls is None:
        raise _OtherCodeError
    return calls


class _Script:
    """A script that is read statement by statement, with its variables and the names of its modules."""

    def __init__(self) -> None:
        self._values: _Values = {}
        self._modules = {name: name for name in _MODULES}
        self._functions: dict[str, str] = {}

    def calls(self, body: Sequence[ast.stmt]) -> list[Call]:
        """Return the calls of the statements.

        Raises:
            _OtherCodeError: a statement is not supported.
        """
        all_calls: list[Call] = []
        for statement in body:
            all_calls += self._statement(statement)
        return all_calls

    def _statement(self, statement: ast.stmt) -> list[Call]:
        if isinstance(statement, ast.Expr):
            if isinstance(statement.value, ast.Constant):
                return []
            if isinstance(statement.value, ast.Call):
                return self._call(statement.value)
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name in _MODULES:
                    self._modules[alias.asname or alias.name] = alias.name
            return []
        elif isinstance(statement, ast.ImportFrom):
            if statement.module in _MODULES:
                self._functions |= {imported.asname or imported.name: imported.name for imported in statement.names}
            return []
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            return self._assign(statement.targets[0], statement.value)
        elif isinstance(statement, ast.With) and len(statement.items) == 1:
            return self._held(statement)
        elif isinstance(statement, ast.Pass):
            return []
        raise _OtherCodeError

    def _assign(self, target: ast.expr, value: ast.expr) -> list[Call]:
        """Store a variable; settings of pyautogui (`PAUSE`, `FAILSAFE`) are ignored."""
        if isinstance(target, ast.Attribute) and isinstance(value, ast.Constant):
            return []
        assigned = self._value(value, 0)
        if isinstance(target, ast.Name):
            self._values[target.id] = assigned
            return []
        if isinstance(target, ast.Tuple) and isinstance(assigned, tuple | list) and len(assigned) == len(target.elts):
            for name_node, item in zip(target.elts, assigned, strict=True):
                if not isinstance(name_node, ast.Name):
                    raise _OtherCodeError
                self._values[name_node.id] = item
            return []
        raise _OtherCodeError

    def _held(self, statement: ast.With) -> list[Call]:
        """Read `with pyautogui.hold(keys)`: the keys go down before its body and up after it."""
        inner = statement.items[0].context_expr
        if not isinstance(inner, ast.Call) or self._name(inner.func) != ("pyautogui", "hold") or len(inner.args) != 1:
            raise _OtherCodeError
        keys = act.key_names(self._value(inner.args[0], 0))
        if not keys:
            raise _OtherCodeError
        down = [act.call(act.KEY_DOWN, key=key) for key in keys]
        up = [act.call(act.KEY_UP, key=key) for key in reversed(keys)]
        return [*down, *self.calls(statement.body), *up]

    def _name(self, function: ast.expr) -> tuple[str, str]:
        """Return (module, name) of a called function."""
        if isinstance(function, ast.Name) and function.id in self._functions:
            return "", self._functions[function.id]
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            module = self._modules.get(function.value.id)
            if module is not None:
                return module, function.attr
        raise _OtherCodeError

    def _call(self, node: ast.Call) -> list[Call]:
        module, name = self._name(node.func)
        values = [self._value(argument, 0) for argument in node.args]
        named = {keyword.arg: self._value(keyword.value, 0) for keyword in node.keywords if keyword.arg is not None}
        if len(named) != len(node.keywords):
            raise _OtherCodeError
        return _read_call(module, name, values, named)

    def _value(self, node: ast.expr, depth: int) -> Any:
        """Return the value of an expression of constants and known variables."""
        if depth > _DEEPEST:
            raise _OtherCodeError
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool | None):
            return node.value
        if isinstance(node, ast.Name) and node.id in self._values:
            return self._values[node.id]
        if isinstance(node, ast.List | ast.Tuple):
            items = [self._value(element, depth + 1) for element in node.elts]
            return items if isinstance(node, ast.List) else tuple(items)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self._number(node.operand, depth)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return self._compute(node, depth)
        raise _OtherCodeError

    def _number(self, node: ast.expr, depth: int) -> float:
        value = act.number(self._value(node, depth + 1))
        if value is None:
            raise _OtherCodeError
        return value

    def _compute(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self._value(node.left, depth + 1), self._value(node.right, depth + 1)
        if isinstance(left, str) and isinstance(right, str) and isinstance(node.op, ast.Add):
            if len(left) + len(right) > _LONGEST_TEXT:
                raise _OtherCodeError
            return left + right
        if act.number(left) is None or act.number(right) is None:
            raise _OtherCodeError
        try:
            return _ARITHMETIC[type(node.op)](left, right)
        except ZeroDivisionError:
            raise _OtherCodeError from None


_Reader: TypeAlias = Callable[[str, list[Any], dict[str, Any]], list[Call] | None]


def _arguments_by_name(names: Sequence[str], values: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """Return arguments by name; positional arguments come first."""
    return dict(zip(names, values, strict=False)) | named if values else {**named}


def _at(values: list[Any], named: dict[str, Any], names: Sequence[str]) -> tuple[act.Point | None, dict[str, Any]]:
    """Return (point, other arguments) of a call whose first arguments are x and y, or a pair of them."""
    if values and isinstance(values[0], list | tuple) and len(values[0]) == 2:
        values = [*values[0], *values[1:]]
    arguments = _arguments_by_name(names, values, named)
    pair = arguments.get("x")
    if isinstance(pair, list | tuple) and len(pair) == 2:
        arguments["x"], arguments["y"] = pair
    return act.point_of(arguments.get("x"), arguments.get("y")), arguments


def _is_placed(arguments: Mapping[str, Any], point: act.Point | None) -> bool:
    """Return True if a call's point was understood, or if it names none."""
    return point is not None or (arguments.get("x") is None and arguments.get("y") is None)


def _click(name: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    plain = name == "click"
    names = ("x", "y", "clicks", "interval", "button") if plain else ("x", "y", "interval", "button")
    point, arguments = _at(values, named, names)
    times, button = arguments.get("clicks", 1), arguments.get("button", "left")
    fixed = _CLICKS[name]
    if not _is_placed(arguments, point) or not isinstance(button, str) or times not in (0, 1, 2, 3):
        return None
    word = fixed or _BUTTONS.get(button.lower()) or _MORE_BUTTONS.get(button.lower())
    if word is None:
        return None
    if times == 0:
        return []
    extra = None
    if times in _TIMES and word == act.CLICK:
        word = _TIMES[times]
    elif times > 1:
        extra = times
    other_button = (
        button.lower() if fixed in (act.DOUBLE_CLICK, act.TRIPLE_CLICK) and button.lower() != "left" else None
    )
    if extra is None is other_button:
        return [Call(word, point)]
    return [act.call(word, point, times=extra, button=other_button)]


def _move(name: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    if name in ("move", "moveRel"):
        return _relative(act.MOVE, values, named)
    point, _ = _at(values, named, ("x", "y", "duration"))
    return [act.call(act.MOVE, point)] if point is not None else None


def _drag(name: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    if name in ("drag", "dragRel"):
        return _relative(act.DRAG, values, named)
    point, arguments = _at(values, named, ("x", "y", "duration", "tween", "button"))
    return [act.call(act.DRAG, to=list(point), button=_other_button(arguments))] if point is not None else None


def _relative(word: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    arguments = _arguments_by_name(("xOffset", "yOffset", "duration", "tween", "button"), values, named)
    dx, dy = (
        act.number(arguments.get("xOffset", arguments.get("x", 0))),
        act.number(arguments.get("yOffset", arguments.get("y", 0))),
    )
    if dx is None or dy is None:
        return None
    return [act.call(word, dx=dx, dy=dy, button=_other_button(arguments))]


def _other_button(arguments: Mapping[str, Any]) -> str | None:
    button = arguments.get("button")
    return button.lower() if isinstance(button, str) and button.lower() not in ("left", "primary") else None


def _scroll(name: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    arguments = _arguments_by_name(("clicks", "x", "y"), values, named)
    clicks, point = act.number(arguments.get("clicks")), act.point_of(arguments.get("x"), arguments.get("y"))
    if clicks is None or not _is_placed(arguments, point):
        return None
    return [act.call(act.SCROLL, point, **({"dx": clicks} if name == "hscroll" else {"clicks": clicks}))]


def _write(_: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    text = _arguments_by_name(
        ("message", "interval"), values, {**named, "message": named.get("message", named.get("text"))}
    )
    message = values[0] if values else text.get("message")
    if isinstance(message, str):
        return [act.call(act.TYPE, text=message)]
    keys = act.key_names(message)
    return _press_keys(keys, 1) if keys else None


def _press(_: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    arguments = _arguments_by_name(("keys", "presses", "interval"), values, named)
    times = whole_number_of(arguments.get("presses", 1))
    keys = act.key_names(arguments.get("keys", arguments.get("key")))
    if not keys or times is None or times < 0:
        return None
    return _press_keys(keys, times) if times else []


def _press_keys(keys: list[str], times: int) -> list[Call]:
    arguments: dict[str, Any] = {"key": keys[0]} if len(keys) == 1 else {"keys": keys}
    return [act.call(act.PRESS, **arguments, times=times if times > 1 else None)]


def _hotkey(_: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    key_values = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
    if not key_values and "keys" in named:
        key_values = named["keys"]
    keys = act.key_names(key_values)
    return [act.call(act.HOTKEY, keys=keys)] if keys else None


def _key(name: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    keys = act.key_names(_arguments_by_name(("key",), values, named).get("key"))
    word = act.KEY_DOWN if name == "keyDown" else act.KEY_UP
    return [act.call(word, key=keys[0])] if len(keys) == 1 else None


def _mouse(name: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    if values and isinstance(values[0], str):
        named, values = {"button": values[0], **named}, []
    point, arguments = _at(values, named, ("x", "y", "button"))
    word = act.MOUSE_DOWN if name == "mouseDown" else act.MOUSE_UP
    return [act.call(word, point, button=_other_button(arguments))] if _is_placed(arguments, point) else None


def _sleep(_: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    seconds = act.number(values[0]) if values else act.number(next(iter(named.values()), None))
    if (values or named) and (seconds is None or seconds < 0):
        return None
    return [act.call(WAIT, seconds=seconds)]


def _copy(_: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    text = values[0] if values else named.get("text")
    return [act.call(act.SET_CLIPBOARD, text=text)] if isinstance(text, str) else None


def _terminate(_: str, values: list[Any], named: dict[str, Any]) -> list[Call] | None:
    status = _arguments_by_name(("status", "answer"), values, named).get("status", "success")
    if not isinstance(status, str):
        return None
    return [act.call(act.FAIL if status.lower() in ("failure", "fail", "failed", "infeasible") else COMPLETE)]


_CLICKS: Final = {
    "click": None,
    "leftClick": act.CLICK,
    "rightClick": act.RIGHT_CLICK,
    "right_click": act.RIGHT_CLICK,
    "middleClick": act.MIDDLE_CLICK,
    "middle_click": act.MIDDLE_CLICK,
    "doubleClick": act.DOUBLE_CLICK,
    "double_click": act.DOUBLE_CLICK,
    "tripleClick": act.TRIPLE_CLICK,
    "triple_click": act.TRIPLE_CLICK,
}
_READERS: Final[dict[str, _Reader]] = {
    **dict.fromkeys(_CLICKS, _click),
    **dict.fromkeys(("moveTo", "move", "moveRel"), _move),
    **dict.fromkeys(("dragTo", "drag", "dragRel"), _drag),
    **dict.fromkeys(("scroll", "vscroll", "hscroll"), _scroll),
    **dict.fromkeys(("write", "typewrite"), _write),
    **dict.fromkeys(("keyDown", "keyUp"), _key),
    **dict.fromkeys(("mouseDown", "mouseUp"), _mouse),
    **dict.fromkeys(("sleep", "wait"), _sleep),
    "press": _press,
    "hotkey": _hotkey,
    "copy": _copy,
    "terminate": _terminate,
}
