"""Signals of answers that the prompt already gives, and of reasoning that an observation repeats: a misread log, or an
echo.

Both are shares of runs of `WORDS` words that two texts have in common. Eight words in a row are seldom shared by
chance; shorter texts have no run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from trajmill.quality.fingerprint import mixed
from trajmill.quality.sets import Keys, Places, Sets, common_bits
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.texts import Texts
from trajmill.quality.turns import new_text
from trajmill.quality.values import action_values

WORDS: Final = 8
_ODDS: Final = [np.uint64(pow(0x5851F42D4C957F2D, place, 1 << 64)) for place in range(WORDS)]


def runs(texts: Texts) -> tuple[Keys, Places]:
    """Hash each run of `WORDS` words of each text to 64 bits; return also the beginning of each text's runs (with the
    end).
    """
    word_hashes, offsets = texts.words()
    number = np.maximum(np.diff(offsets) - WORDS + 1, 0)
    if len(word_hashes) < WORDS:
        return np.zeros(0, np.uint64), np.zeros(len(offsets), np.int64)
    sums, width = word_hashes, 1
    while width < WORDS:  # a run is put together of two runs of half its length
        sums = sums[:-width] + sums[width:] * _ODDS[width]
        width *= 2
    inside = np.zeros(len(word_hashes) + 1, np.int8)
    np.add.at(inside, offsets[:-1][number > 0], 1)
    np.add.at(inside, (offsets[:-1] + number)[number > 0], -1)
    chosen = np.cumsum(inside, dtype=np.int8)[: len(sums)] > 0
    return mixed(sums[chosen]), np.concatenate([[0], np.cumsum(number)])


def _sharing(text: Texts, wholes: Sequence[Texts]) -> npt.NDArray[np.bool_]:
    """Flag the rows whose text in `text` shares a run with their text in one of `wholes`.

    Most runs of one side do not occur on the other. A bit table of hashes excludes those cheaply, and sets are built of
    the rest.
    """
    own, runs_of_wholes = runs(text), [runs(whole) for whole in wholes]
    if sum(len(hashes) for hashes, _ in runs_of_wholes) > len(own[0]):
        runs_of_wholes = [_only(runs_one, own[0]) for runs_one in runs_of_wholes]
    own = _only(own, np.concatenate([hashes for hashes, _ in runs_of_wholes]))
    bits = common_bits(*(len(offsets) - 1 for _, offsets in (own, *runs_of_wholes)))
    sets_of_text = Sets.of(*own, bits)
    rows = np.flatnonzero(text.spread(sets_of_text.sizes > 0, False))
    sharing = np.zeros(len(text.index), np.bool_)
    for whole, runs_other in zip(wholes, runs_of_wholes, strict=True):
        if len(runs_other[0]):
            number, is_shared = sets_of_text.within(text.index[rows], Sets.of(*runs_other, bits), whole.index[rows])
            sharing[rows[number[is_shared]]] = True
    return sharing


def _only(runs_: tuple[Keys, Places], among: Keys) -> tuple[Keys, Places]:
    """Return the runs that may be among those hashes, and the new beginning of each text's runs."""
    hashes, offsets = runs_
    is_candidate = _may_hold(hashes, among)
    return hashes[is_candidate], np.concatenate([[0], np.cumsum(is_candidate)])[offsets]


def _may_hold(hashes: Keys, among: Keys) -> npt.NDArray[np.bool_]:
    """Flag hashes that may be among the others: all that are, and few that are not."""
    shift = np.uint64(64 - min(max(_SPARSE * len(among), 1 << 10).bit_length(), 24))
    table = np.zeros(1 << (64 - int(shift)), np.bool_)
    table[(among >> shift).view(np.int64)] = True
    return table[(hashes >> shift).view(np.int64)]


_SPARSE: Final = 16
"""Slots of the table for each hash in it."""


@dataclass(frozen=True, slots=True)
class _Held:
    """Row of each distinct run of each row's text, and a flag of the runs that any of the searched texts holds."""

    row: Places
    held: npt.NDArray[np.bool_]


def _mark_held(text: Texts, wholes: Sequence[Texts], bits: int) -> _Held:
    own = Sets.of(*runs(text), bits)
    rows = np.flatnonzero(text.index >= 0)
    row_number, is_held = own.within(text.index[rows], own, np.full(len(rows), -1))
    for whole in wholes:
        is_held |= own.within(text.index[rows], Sets.of(*runs(whole), bits), whole.index[rows])[1]
    return _Held(rows[row_number], is_held)


def shared_shares(text: Texts, wholes: Sequence[Texts], apart: Sequence[Texts] = ()) -> npt.NDArray[np.float64]:
    """Return the share of each row's word runs in `text` that one of `wholes` holds; 0 if there is no run.

    Args:
        text: Texts whose runs are looked up.
        wholes: Texts in which they are looked up, row by row.
        apart: Texts whose runs do not count at all, row by row.
    """
    some = _sharing(text, wholes)
    text, wholes, apart = (
        text.at(some),
        [t.at(some) for t in wholes],
        [t.at(some) for t in apart],
    )  # the rest share none
    bits = common_bits(*(len(texts.texts) for texts in (text, *wholes, *apart)))
    held_runs, counted = _mark_held(text, wholes, bits), ~_mark_held(text, apart, bits).held
    shares = [np.bincount(held_runs.row[runs_], minlength=len(some)) for runs_ in (held_runs.held & counted, counted)]
    return shares[0] / np.maximum(shares[1], 1)


_PROMPT: Final = (
    ("task", "instruction"),
    ("context", "initial_state"),
    ("context", "demonstrations"),
    ("context", "simulation_instruction"),
)


class ContextLeak(Signal):
    """Share of the 8-word runs of the new text in the next observation that the prompt holds.

    The prompt is the instruction, initial state, demonstrations and simulation instruction. Runs of the observation
    before or of the action do not count: an answer may repeat them anyway.
    """

    name: ClassVar[str] = "context_leak"
    measures: ClassVar[str] = (
        "share of the 8-word runs of what is new that the instruction, initial state or demonstrations hold"
    )

    def measure(self, measured: Measured) -> Numbers:
        prompt = [measured.texts(*path) for path in _PROMPT]
        has_prompt = np.any([texts.index >= 0 for texts in prompt], axis=0)
        seen = measured.texts("observation", "content").at(has_prompt)
        done = measured.once(action_values).at(has_prompt)
        return shared_shares(measured.once(new_text).at(has_prompt), prompt, [seen, done]).astype(np.float32)


class ReasoningLeak(Signal):
    """Share of the 8-word runs of the agent's reasoning that the next observation holds.

    Runs of the observation before, the action or the instruction do not count: an answer may repeat text that the agent
    read or wrote, and words of the task occur in both.
    """

    name: ClassVar[str] = "reasoning_leak"
    measures: ClassVar[str] = (
        "share of the 8-word runs of the agent's reasoning that the next observation holds, but for those of "
        "the instruction"
    )

    def measure(self, measured: Measured) -> Numbers:
        reasoning = measured.texts("action", "reasoning")
        has_reasoning = reasoning.index >= 0
        after, before = (measured.texts(s, "content").at(has_reasoning) for s in ("next_observation", "observation"))
        done = measured.once(action_values).at(has_reasoning)
        asked = measured.texts("task", "instruction").at(has_reasoning)
        return shared_shares(reasoning, [after], [before, done, asked]).astype(np.float32)
