"""Sets of numbers as sorted arrays. numpy's own `unique` and `isin` go through a hash table, which is many times slower
for keys that differ in their upper bits, as those made of a place and a hash do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def distinct(values: Array) -> Array:
    """Each of the values once, ascending."""
    ordered = np.sort(values)
    if len(ordered) < 2:
        return ordered
    new = np.empty(len(ordered), np.bool_)
    new[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def among(values: Array, members: Array) -> npt.NDArray[np.bool_]:
    """Whether each of the values is one of `members`, which ascend."""
    if not len(members):
        return np.zeros(len(values), np.bool_)
    at = np.searchsorted(members, values)
    found: npt.NDArray[np.bool_] = members[np.minimum(at, len(members) - 1)] == values
    return found
