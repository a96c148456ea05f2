"""Reads a workflow as Google Workflows does, as far as ours goes: steps, their order, and expressions."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import yaml

Call = Callable[..., Any]


class RaisedError(Exception):
    """The workflow raised."""


class _Names(dict[str, Any]):
    """A mapping whose values are attributes too, as expressions reach them."""

    __getattr__ = dict.__getitem__


def _named(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _Names({name: _named(one) for name, one in value.items()})
    return value


def _seconds(text: str) -> float:
    return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))


class Workflow:
    """A workflow, and what it calls.

    Args:
        text: the YAML.
        calls: name of a call → a function of its arguments.
    """

    def __init__(self, text: str, calls: Mapping[str, Call]) -> None:
        main = yaml.safe_load(text)["main"]
        self._parameter = main["params"][0]
        self._steps = [next(iter(step.items())) for step in main["steps"]]
        self._calls = calls

    def run(self, arguments: Mapping[str, Any]) -> Any:
        """What it returns."""
        values: dict[str, Any] = {self._parameter: arguments}
        at, names = 0, [name for name, _ in self._steps]
        while at < len(self._steps):
            found = self._do(self._steps[at][1], values)
            if "return" in found:
                return found["return"]
            at = names.index(found["next"]) if "next" in found else at + 1
        return None

    def _do(self, step: Mapping[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        known = {"assign", "call", "args", "result", "try", "retry", "switch", "next", "raise", "return", "condition"}
        assert set(step) <= known, set(step) - known
        if "try" in step:
            assert step["retry"] == "${http.default_retry}"
            return self._do(step["try"], values)
        for one in step.get("assign", ()):
            ((name, value),) = one.items()
            _assign(values, name, self._value(value, values))
        if "call" in step:
            answer = self._calls[step["call"]](**self._value(step.get("args", {}), values))
            values[step.get("result", "_")] = answer
        for one in step.get("switch", ()):
            if self._value(one["condition"], values):
                return self._do(one, values)
        if "raise" in step:
            raise RaisedError(self._value(step["raise"], values))
        if "return" in step:
            return {"return": self._value(step["return"], values)}
        return {"next": step["next"]} if "next" in step else {}

    def _value(self, value: Any, values: dict[str, Any]) -> Any:
        if isinstance(value, dict):
            return {name: self._value(one, values) for name, one in value.items()}
        if isinstance(value, str) and (found := re.fullmatch(r"\$\{(.*)\}", value)):
            functions = {
                "string": str,
                "int": int,
                "sys": _Names(now=lambda: 1_800_000_000.5),
                "time": _Names(parse=_seconds),
            }
            return eval(found[1], {"__builtins__": {}}, functions | {name: _named(one) for name, one in values.items()})
        return value


def _assign(values: dict[str, Any], name: str, value: Any) -> None:
    """`name` or `name["key"]`; a mapping is another one afterwards, as values are copied there."""
    inner = re.fullmatch(r'(\w+)\["(\w+)"\]', name)
    if inner is None:
        values[name] = value
    else:
        values[inner[1]] = {**values[inner[1]], inner[2]: value}
