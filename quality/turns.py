"""The turn-level loss mask of Qwen-AgentWorld (arXiv 2606.24597, section 3.2), which finds turns that teach a world
model little.

For a turn with the sets of words W_a of its action and W_o of its observation (lower case, distinct):

    OL = |W_a ∩ W_o| / |W_a|    Nov = |W_o − W_a| / |W_o|    R = characters of the observation / of the action

These give the categories below, each with the share of its turns that keeps its loss. The paper leaves some points
open: echo, boilerplate and transform are tested first, in this order, since each of the other categories would hide
them; a short observation has at most `SHORT` characters; a turn without a word in its action or in its observation is
`other`; a hash of (trajectory, step) chooses the turns of a category that keep their loss.

The measures use the values of the action and the new text of the observation: for a whole screen or state, the lines
that the one before lacked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.hash_sampling import chances
from trajmill.quality.lines import Lines
from trajmill.quality.screens import screens
from trajmill.quality.sets import Places, Sets, common_bits, ranges
from trajmill.quality.signal import Measured
from trajmill.quality.texts import Texts
from trajmill.quality.values import action_values

KEEPS: Final[Mapping[str, float]] = {
    "retrieval": 1.0,
    "expansion": 1.0,
    "action": 1.0,
    "transform": 0.5,
    "boilerplate": 0.1,
    "echo": 0.05,
    "other": 1.0,
}
"""Categories, numbered in this order, and the share of each that keeps its loss."""

SHORT: Final = 200
"""Largest size of a short observation, in characters."""

Reals = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Turns:
    """Measures of each row.

    Attributes:
        overlap: OL, 0 to 1; 0 if the action has no word.
        novelty: Nov, 0 to 1; 0 if the observation has no word.
        ratio: R, >= 0; the action counts as at least one character.
        size: Characters of the observation.
        known: True if both have a word.
    """

    overlap: Reals
    novelty: Reals
    ratio: Reals
    size: npt.NDArray[np.int64]
    known: npt.NDArray[np.bool_]

    def categories(self) -> npt.NDArray[np.int64]:
        """Return the category of each row, as its position in `KEEPS`."""
        overlap, novelty, ratio = self.overlap, self.novelty, self.ratio
        asked = {
            "other": ~self.known,
            "echo": (overlap >= 0.7) & (novelty < 0.3),
            "boilerplate": (overlap >= 0.5) & (novelty < 0.5),
            "transform": (novelty < 0.5) & (ratio < 1),
            "retrieval": (novelty >= 0.6) & (ratio > 1),
            "expansion": (overlap >= 0.5) & (novelty >= 0.5) & (ratio > 1.5),
            "action": (novelty >= 0.5) & ((ratio <= 1) | (self.size <= SHORT)),
        }
        names = list(KEEPS)
        return np.select(list(asked.values()), [names.index(name) for name in asked], names.index("other"))


def compare_texts(action: Texts, shown: Texts) -> Turns:
    """Measure the actions against the observations, row by row; a null has no word."""
    bits = common_bits(len(action.texts), len(shown.texts))
    done, seen = Sets.of(*action.words(), bits), Sets.of(*shown.words(), bits)
    rows = np.flatnonzero((action.index >= 0) & (shown.index >= 0))
    a, o = action.index[rows], shown.index[rows]
    number_a, number_o = done.sizes[a], seen.sizes[o]
    row_number, is_common = done.within(a, seen, o)
    common = np.bincount(row_number[is_common], minlength=len(rows))
    overlap, novelty = np.zeros(len(action.index)), np.zeros(len(action.index))
    overlap[rows] = common / np.maximum(number_a, 1)
    novelty[rows] = (number_o - common) / np.maximum(number_o, 1)
    known = np.zeros(len(action.index), np.bool_)
    known[rows] = (number_a > 0) & (number_o > 0)
    sizes = [
        side.spread(pc.utf8_length(side.texts).to_numpy(zero_copy_only=False).astype(np.int64))
        for side in (action, shown)
    ]
    return Turns(overlap, novelty, sizes[1] / np.maximum(sizes[0], 1), sizes[1], known)


def new_text(measured: Measured) -> Texts:
    """Return the new text of each row's next observation.

    For a whole screen or state, these are the lines that the one before lacks, trailing blanks aside; a stream or
    response is new as a whole.
    """
    seen = measured.once(screens)
    rest = measured.texts("next_observation", "content").at(~seen.compared)
    if not seen.compared.any():
        return rest
    rows = np.flatnonzero(seen.compared)
    count = len(seen.lines.first)
    pairs, pair = np.unique(seen.before[rows] * count + seen.after[rows], return_inverse=True)
    index = np.full(len(seen.compared), -1, np.int64)
    index[rows] = pair
    return Texts(_new_lines(seen.lines, seen.hashes, np.divmod(pairs, count)), index).over(rest)


def _new_lines(lines: Lines, hashes: Keys, pairs: tuple[Places, Places]) -> pa.StringArray:
    """Return, for each pair of texts (before, after), the lines of the second that the first lacks."""
    before, after = pairs
    shown = Sets.of(hashes, lines.first, common_bits(len(lines.first)))
    number = np.diff(lines.first)[after]
    line = ranges(lines.first[:-1][after], number)
    fresh = ~shown.hold(np.repeat(before, number), hashes[line])
    ends = np.cumsum(np.diff(lines.starts)[line] * fresh)
    chosen = lines.texts().take(pa.array(line[fresh]))
    offsets = np.concatenate([[0], ends])[np.concatenate([[0], np.cumsum(number)])]
    return pa.StringArray.from_buffers(len(after), pa.py_buffer(offsets.astype(np.int32)), chosen.buffers()[2])


def turns(measured: Measured) -> Turns:
    """Return the measures of each row, from the values of its action and the new text of its next observation."""
    return compare_texts(measured.once(action_values), measured.once(new_text))


def keeps_loss(measured: Measured) -> npt.NDArray[np.bool_]:
    """Flag the rows on which the mask leaves the loss."""
    share = np.array(list(KEEPS.values()))[measured.once(turns).categories()]
    drawn = chances(measured.batch["trajectory_id"], measured.batch["step"].to_numpy(), "turn mask")
    return (drawn >> np.uint64(11)) * 2.0**-53 < share
