"""Whole screens and states before and after each action, split into lines once for all signals that compare them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from trajmill.quality.fingerprint import Lanes, mixed, struct_text, text_hashes
from trajmill.quality.lines import Lines, Numbers
from trajmill.quality.signal import Measured
from trajmill.quality.texts import Flags, Offsets, Texts
from trajmill.quality.without_element_ids import remove_element_ids

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Screens:
    """Distinct texts of screens, and their rows.

    Attributes:
        compared: Flags of the rows with two whole screens or states, as text, before and after the action.
        before: Number of the text before each row's action; -1 if nothing is compared.
        after: Number of the text after each row's action; -1 if nothing is compared.
        lines: Lines of the distinct texts; trees without the numbers of their elements (`quality.without_element_ids`).
        hashes: 64-bit hash of each line without trailing blanks.
    """

    compared: Flags
    before: Offsets
    after: Offsets
    lines: Lines
    hashes: Numbers


def screens(measured: Measured) -> Screens:
    """Return the screens of a batch."""
    compared = whole_screens(measured)
    comparable = measured.once(as_compared)
    sides = [comparable.texts(struct, "content") for struct in ("observation", "next_observation")]
    shown = Texts(sides[0].texts, np.concatenate([side.index for side in sides])).at(np.tile(compared, 2))
    before, after = np.split(shown.index, 2)
    lines = Lines.of(shown.texts)
    return Screens(compared, before, after, lines, lines.hashes(trimmed=True))


def as_compared(measured: Measured) -> Measured:
    """Return the batch in the form in which its screens are compared."""
    batch = remove_element_ids(measured.batch)
    return measured if batch is measured.batch else Measured.of(batch, measured.counter)


def action_hashes(measured: Measured) -> Lanes:
    """Hash the text of each row's action as compared."""
    return text_hashes(struct_text(measured.once(as_compared).batch, "action", "text"))


def answer_hashes(measured: Measured) -> Lanes:
    """Hash the next observation of each row as compared."""
    return text_hashes(struct_text(measured.once(as_compared).batch, "next_observation", "content"))


def whole_screens(measured: Measured) -> Flags:
    """Flag the rows with two whole screens or states, as text, before and after the action."""
    whole = np.ones(measured.batch.num_rows, np.bool_)
    for struct in ("observation", "next_observation"):
        whole &= measured.texts(struct, "form").matching("^(?:screen|state)$")
        whole &= measured.texts(struct, "content").index >= 0
    return whole


def canonical_hashes(lines: Lines, hashes: Numbers) -> npt.NDArray[np.uint64]:
    """Hash each text's lines in order to 64 bits, without trailing blanks of lines and trailing empty lines.

    Args:
        lines: Lines of the texts.
        hashes: Hashes of the lines without trailing blanks.
    """
    if len(lines.first) == 1:
        return np.zeros(0, np.uint64)
    number, text = np.arange(len(hashes)), lines.text()
    filled = lines.ends(trimmed=True) > lines.starts[:-1]
    last = np.maximum.reduceat(np.where(filled, number, -1), lines.first[:-1])
    line_in_text = (number - lines.first[:-1][text]).astype(np.uint64)
    placed = mixed(hashes + (line_in_text + np.uint64(1)) * _ODD)
    return np.add.reduceat(np.where(number <= last[text], placed, np.uint64(0)), lines.first[:-1])
