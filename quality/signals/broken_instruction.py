"""Signal of simulator answers that break a line of their instruction, as far as rules can check it."""

from __future__ import annotations

import re
from typing import ClassVar, Final

import numpy as np
import pyarrow.compute as pc

from trajmill.quality.fingerprint import struct_text
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.signals.error_observation import shown_erroneous

_ERROR: Final = re.compile(r"(?m)^The answer to turn (\d{1,9}) reports an error\.$")
_PARTIAL: Final = re.compile(r"(?m)^The answer to turn (\d{1,9}) is a part of the result, and says so\.$")
_PAGES: Final = re.compile(r"(?m)^Answers have at most (\d{1,9}) lines, and longer ones come in pages\.$")
_TARGET: Final = re.compile(r"(?m)^Reference answer: (.+)$")
_HIDDEN: Final = re.compile(r"(?m)^No result(?: before turn (\d{1,9}))? states the reference answer\b")

_SAYS_PART: Final = re.compile(
    r"(?i)\b(?:page \d+ of \d+|showing|truncated|partial|incomplete|next_cursor|nextCursor|has_more|"
    r"\d+ (?:more|further|of \d+)|more (?:lines|results|items|rows|entries))\b"
)
_WORDS: Final = re.compile(r"\w+")


class BrokenInstruction(Signal):
    """1 if the next observation breaks a line of the simulation instruction, else 0.

    The checked lines are: an error at a turn, a partial result at a turn, pages of a given number of lines, and a
    reference answer that must not be stated, unless the action states it. Other lines are not checked.
    """

    name: ClassVar[str] = "broken_instruction"
    measures: ClassVar[str] = (
        "1: the next observation breaks a line of the simulation instruction that a rule can check: an error at a "
        "turn, a part of a result, pages, a reference answer that is not stated"
    )

    def measure(self, measured: Measured) -> Numbers:
        batch = measured.batch
        found = np.zeros(batch.num_rows, np.float32)
        told = struct_text(batch, "context", "simulation_instruction")
        rows = np.flatnonzero(told.is_valid().to_numpy(zero_copy_only=False))
        if not len(rows):
            return found
        errs, turns = measured.around(shown_erroneous), batch["turn"].to_numpy()
        marked = pc.fill_null(pc.struct_field(batch["next_observation"], "is_error"), False).to_pylist()
        for row in rows.tolist():
            answer = batch["next_observation"][row].as_py()
            if answer is None or answer["content"] is None:
                continue
            error = bool(errs[row]) or marked[row]
            action = batch["action"][row].as_py()["text"]
            found[row] = _is_broken(told[row].as_py(), int(turns[row]) + 1, action, answer["content"], error=error)
        return found


def _is_broken(instruction: str, turn: int, action: str, answer: str, *, error: bool) -> bool:
    if str(turn) in _ERROR.findall(instruction) and not error:
        return True
    if str(turn) in _PARTIAL.findall(instruction) and not _SAYS_PART.search(answer):
        return True
    pages = _PAGES.search(instruction)
    if pages is not None and len(answer.splitlines()) > int(pages[1]):
        return True
    target, hidden = _TARGET.search(instruction), _HIDDEN.search(instruction)
    if target is None or hidden is None or (hidden[1] is not None and turn >= int(hidden[1])):
        return False
    return _words(target[1]) in _words(answer) and _words(target[1]) not in _words(action)


def _words(text: str) -> str:
    return f" {' '.join(_WORDS.findall(text.casefold()))} "
