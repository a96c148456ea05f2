"""Texts that stand where they should not: runs of `WORDS` words of one text that another one holds.

Eight words in a row are seldom shared by chance; shorter texts have no run, so nothing is told of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quality.fingerprint import mixed
from quality.sets import Keys, Places, Sets, common_bits
from quality.shingle import words
from quality.texts import Texts

WORDS: Final = 8
_ODDS: Final = np.array([pow(0x5851F42D4C957F2D, place, 1 << 64) for place in range(WORDS)], np.uint64)


def runs(texts: pa.StringArray) -> tuple[Keys, Places]:
    """A 64-bit hash of each run of `WORDS` words of each text, and where each text's begin (with the end)."""
    found, offsets = words(texts)
    number = np.maximum(np.diff(offsets) - WORDS + 1, 0)
    if len(found) < WORDS:
        return np.zeros(0, np.uint64), np.zeros(len(offsets), np.int64)
    sums = np.zeros(len(found) - WORDS + 1, np.uint64)
    for place, odd in enumerate(_ODDS):
        sums += found[place : place + len(sums)] * odd
    inside = np.zeros(len(found) + 1, np.int64)
    np.add.at(inside, offsets[:-1][number > 0], 1)
    np.add.at(inside, (offsets[:-1] + number)[number > 0], -1)
    chosen = np.cumsum(inside)[: len(sums)] > 0
    return mixed(sums[chosen]), np.concatenate([[0], np.cumsum(number)])


@dataclass(frozen=True, slots=True)
class _Held:
    """For each distinct run of each row's text the row, and whether any of the texts looked into holds it."""

    row: Places
    held: npt.NDArray[np.bool_]


def _held(part: Texts, wholes: Sequence[Texts], bits: int) -> _Held:
    own = Sets.of(*runs(part.texts), bits)
    rows = np.flatnonzero(part.index >= 0)
    place, held = own.within(part.index[rows], own, np.full(len(rows), -1))
    for one in wholes:
        held |= own.within(part.index[rows], Sets.of(*runs(one.texts), bits), one.index[rows])[1]
    return _Held(rows[place], held)


def shared(part: Texts, wholes: Sequence[Texts], apart: Sequence[Texts] = ()) -> npt.NDArray[np.float64]:
    """The share of each row's runs of words in `part` that one of `wholes` holds; 0 where there is no run.

    Args:
        part: the text whose runs are looked for.
        wholes: where they are looked for, row by row.
        apart: runs that one of these texts of the row holds do not count at all.
    """
    bits = common_bits(*(len(texts.texts) for texts in (part, *wholes, *apart)))
    found = _held(part, wholes, bits)
    some = np.bincount(found.row[found.held], minlength=len(part.index)) > 0
    part, wholes, apart = (
        part.at(some),
        [t.at(some) for t in wholes],
        [t.at(some) for t in apart],
    )  # the rest share none
    kept, counted = _held(part, wholes, bits), ~_held(part, apart, bits).held
    shares = [np.bincount(kept.row[runs_], minlength=len(some)) for runs_ in (kept.held & counted, counted)]
    return shares[0] / np.maximum(shares[1], 1)
