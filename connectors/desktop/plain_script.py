"""Scripts of nothing but calls with numbers and plain texts, a line each: most of what agents write.

They are read in a third of the time that it takes to make a syntax tree of them; any other script is left to that.
"""

from __future__ import annotations

import re
from collections.abc import Set
from keyword import iskeyword
from typing import Any, Final, TypeAlias

from connectors.desktop.action import number

_NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,17})?"
_TEXT: Final = r"""'[ -&(-\[\]-~]*'|"[ !#-\[\]-~]*\""""
_ANY: Final = f"(?:[A-Za-z]+=)?(?:{_NUMBER}|{_TEXT})"
_CALL: Final = re.compile(rf"([a-z]+)\.([A-Za-z_]+)\(((?:{_ANY}(?:, ?{_ANY})*)?)\)")
_ARGUMENT: Final = re.compile(f"(?:([A-Za-z]+)=)?(?:({_NUMBER})|({_TEXT}))")

PlainCall: TypeAlias = tuple[str, str, list[Any], dict[str, Any]]
"""Module, function, arguments by place and by name."""


def plain_calls(code: str, modules: Set[str]) -> list[PlainCall] | None:
    """The calls of functions of these modules that a script makes; None if it is not as plain as that."""
    found: list[PlainCall] = []
    for line in code.split("\n"):
        call = _CALL.fullmatch(line)
        if call is None or call[1] not in modules:
            return None
        values: list[Any] = []
        named: dict[str, Any] = {}
        for name, told, text in _ARGUMENT.findall(call[3]):
            value = _number(told) if told else text[1:-1]
            if name:
                if name in named or iskeyword(name):
                    return None
                named[name] = value
            elif named:
                return None
            else:
                values.append(value)
        found.append((call[1], call[2], values, named))
    return found


def _number(told: str) -> float:
    if told[0] == "-":
        # What a sign stands before is made whole where it is, as of any expression.
        value = number(_number(told[1:]))
        return -value if value is not None else 0
    return float(told) if "." in told else int(told)
