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


def _run_sums(texts: Texts) -> tuple[Keys, Places]:
    """Return a number for each word of all texts that identifies the run of `WORDS` words from it on, and the beginning
    of each text's words (with the end). Runs from the last words of a text go on in the next text.
    """
    sums, offsets = texts.words()
    width = 1
    while width < WORDS:  # a run is put together of two runs of half its length
        sums = sums[:-width] + sums[width:] * _ODDS[width]
        width *= 2
    return sums, offsets


def _choose(sums: Keys, offsets: Places, chosen: npt.NDArray[np.bool_]) -> tuple[Keys, Places]:
    """Return a 64-bit hash of each chosen run that ends in its text, and the beginning of each text's runs (with the
    end).
    """
    at = np.flatnonzero(chosen)
    text = np.searchsorted(offsets, at, "right") - 1
    ends_inside = at + WORDS <= offsets[text + 1]
    number = np.bincount(text[ends_inside], minlength=len(offsets) - 1)
    return mixed(sums[at[ends_inside]]), np.concatenate([[0], np.cumsum(number)])


def runs(texts: Texts) -> tuple[Keys, Places]:
    """Hash each run of `WORDS` words of each text to 64 bits; return also the beginning of each text's runs (with the
    end).
    """
    sums, offsets = _run_sums(texts)
    return _choose(sums, offsets, np.ones(len(sums), np.bool_))


def _sharing(text: Texts, wholes: Sequence[Texts]) -> npt.NDArray[np.bool_]:
    """Flag the rows whose text in `text` shares a run with their text in one of `wholes`.

    Most runs of one side do not occur on the other. Bit tables exclude those cheaply, and sets are built of the rest.
    """
    own, others = _run_sums(text), [_run_sums(whole) for whole in wholes]
    all_others = np.concatenate([sums for sums, _ in others])
    if len(all_others) < len(own[0]):
        may_own = _may_hold(own[0], all_others)
        may_others = [_may_hold(sums, own[0][may_own]) for sums, _ in others]
    else:
        may_others = [_may_hold(sums, own[0]) for sums, _ in others]
        may_own = _may_hold(own[0], all_others[np.concatenate(may_others)])
    bits = common_bits(*(len(offsets) - 1 for _, offsets in (own, *others)))
    sets_of_text = Sets.of(*_choose(*own, may_own), bits)
    rows = np.flatnonzero(text.spread(sets_of_text.sizes > 0, False))
    sharing = np.zeros(len(text.index), np.bool_)
    for whole, sums, may in zip(wholes, others, may_others, strict=True):
        if may.any():
            sets_of_whole = Sets.of(*_choose(*sums, may), bits)
            number, is_shared = sets_of_text.within(text.index[rows], sets_of_whole, whole.index[rows])
            sharing[rows[number[is_shared]]] = True
    return sharing


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
    if not some.any():
        return np.zeros(len(some))
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
