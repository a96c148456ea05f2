"""What bounds of a stage tell apart, and how much was drawn of each value: of tasks there are millions."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.mix.coded_names import Coded, Codes, coded
from trajmill.pipelines.recipe.mixture import Bound
from trajmill.quality.sets import distinct

Values: TypeAlias = Coded | npt.NDArray[Any]
"""Names, as objects too, or hashes."""

_NOT_KNOWN: Final = (0, "", None)


class Bounded:
    """A bound, and what was drawn of each value that it tells apart.

    Args:
        bound: what may be drawn.
        values: of the items.
        carried: tokens drawn before, by value.

    Attributes:
        number: of each item that of its value.
        taken: tokens drawn of each value, by its number.
    """

    def __init__(self, bound: Bound, values: Values, carried: Mapping[Any, int]) -> None:
        self.bound = bound
        self.number, self._names = numbered(values)
        self.taken = array("q", bytes(8 * len(self._names)))
        where = {name: place for place, name in enumerate(self._names)} if carried or bound.value is not None else {}
        for name in carried.keys() & where.keys():
            self.taken[where[name]] = carried[name]
        self._own = where.get(bound.value, -1)
        self._elsewhere = carried.get(bound.value, 0)

    def needed(self, value: int, size: int) -> float:
        """The tokens that have to be drawn before so many of a value may be; infinite if they never may."""
        bound = self.bound
        if self._names[value] in _NOT_KNOWN or (bound.value is not None and value != self._own):
            return 0.0
        taken = self.taken[value]
        after = taken + size
        if bound.max_tokens is not None and after > bound.max_tokens:
            return float("inf")
        if bound.max_share is not None and taken:
            return after / bound.max_share - size if bound.max_share else float("inf")
        return 0.0

    def lacks(self, values: Mapping[str, str], total: int) -> bool:
        """Whether what has these values is to go first, where so much is drawn of all."""
        bound = self.bound
        if bound.min_share is None or bound.value != values[bound.by]:
            return False
        return (self.taken[self._own] if self._own >= 0 else self._elsewhere) < bound.min_share * total


def numbered(values: Values) -> tuple[Codes, Sequence[Any]]:
    """The number of each value, and the distinct values."""
    if isinstance(values, Coded) or values.dtype == object:
        named = coded(values)
        return named.codes, named.names
    names = distinct(values)
    return np.searchsorted(names, values).astype(np.uint32), array("Q", names.astype("<u8").tobytes())
