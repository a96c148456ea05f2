"""Sums of numbers as a calculator works them out."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_LONGEST: Final = 256
_TOKEN: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|[-+*/()])")
_LARGEST: Final = 1 << 63


class _NoSumError(ValueError):
    pass


class _Sum:
    """Reads a sum from left to right."""

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST or not _TOKEN.sub("", text).strip() == "":
            raise _NoSumError
        self._tokens = [*_TOKEN.findall(text), ""]
        self._at = 0

    def value(self) -> Fraction:
        found = self._terms()
        if self._tokens[self._at]:
            raise _NoSumError
        return found

    def _next(self, *wanted: str) -> str:
        token = self._tokens[self._at]
        if token not in wanted or not token:
            return ""
        self._at += 1
        return token

    def _terms(self) -> Fraction:
        found = self._factors()
        while sign := self._next("+", "-"):
            other = self._factors()
            found = self._bounded(found + other if sign == "+" else found - other)
        return found

    def _factors(self) -> Fraction:
        found = self._one()
        while sign := self._next("*", "/"):
            other = self._one()
            if sign == "*":
                found = self._bounded(found * other)
            elif not other:
                raise _NoSumError
            else:
                found /= other
        return found

    def _one(self) -> Fraction:
        if self._next("-"):
            return -self._one()
        if self._next("("):
            found = self._terms()
            if not self._next(")"):
                raise _NoSumError
            return found
        token = self._tokens[self._at]
        if not token[:1].isdigit():
            raise _NoSumError
        self._at += 1
        return self._bounded(Fraction(token))

    def _bounded(self, value: Fraction) -> Fraction:
        if abs(value) >= _LARGEST:
            raise _NoSumError
        return value


def written_sums(text: str) -> tuple[str, ...]:
    """The ways in which a calculator may write what a sum comes to (247, 247.0, 0.33); none if it is no sum."""
    try:
        value = _Sum(text).value()
    except (_NoSumError, RecursionError):
        return ()
    rounded = str(round(float(value), 2))
    exact = repr(float(value))
    return tuple(dict.fromkeys([str(int(value)), exact, rounded] if value.denominator == 1 else [exact, rounded]))
