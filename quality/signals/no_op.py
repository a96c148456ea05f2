"""Actions after which nothing is seen to have changed.

A screen or state is compared with the one before in canonical form: without blanks at the ends of lines and without
empty lines at its end (`uitree/1` texts are canonical but for these). A stream or response is compared with nothing:
there an action does nothing if what came out is empty or blank but for escape sequences. Pictures are not looked at.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quality.fingerprint import mixed
from quality.lines import Lines
from quality.signal import Measured, Numbers, Signal
from quality.texts import Flags

_BLANK: Final = r"\A(?:\s|\x1b\[[0-9;?]*[A-Za-z])*\z"
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


def canonical_hashes(texts: pa.StringArray) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each text's lines in order, without blanks at their ends and empty lines after the last."""
    lines = Lines.of(texts)
    if not len(texts):
        return np.zeros(0, np.uint64)
    number = np.arange(len(lines.starts) - 1)
    text = lines.text()
    filled = lines.ends(trimmed=True) > lines.starts[:-1]
    last = np.maximum.reduceat(np.where(filled, number, -1), lines.first[:-1])
    place = (number - lines.first[:-1][text]).astype(np.uint64)
    hashes = mixed(lines.hashes(trimmed=True) + (place + np.uint64(1)) * _ODD)
    return np.add.reduceat(np.where(number <= last[text], hashes, np.uint64(0)), lines.first[:-1])


def whole_screens(measured: Measured) -> Flags:
    """Of each row whether what stands before and after the action are two whole screens or states, as text."""
    whole = np.ones(measured.batch.num_rows, np.bool_)
    for struct in ("observation", "next_observation"):
        whole &= measured.texts(struct, "form").matching("^(?:screen|state)$")
        whole &= measured.texts(struct, "content").index >= 0
    return whole


def unchanged(measured: Measured) -> Flags:
    """Of each row whether the screen or state after the action is the one before."""
    compared = whole_screens(measured)
    before, after = (measured.texts(s, "content").at(compared) for s in ("observation", "next_observation"))
    sides = [side.spread(canonical_hashes(side.texts)) for side in (before, after)]
    return compared & (sides[0] == sides[1])


class NoOp(Signal):
    """1 where the next observation shows no change, or nothing, else 0."""

    name: ClassVar[str] = "no_op"
    scope: ClassVar[str] = "transition"
    unit: ClassVar[str] = "0 or 1"

    def measure(self, measured: Measured) -> Numbers:
        put_out = measured.texts("next_observation", "form").matching("^(?:stream|response)$")
        silent = put_out & measured.texts("next_observation", "content").matching(_BLANK)
        return (silent | measured.once(unchanged)).astype(np.float32)
