"""Natural-language prose of a trajectory: runs of words from screens, JSON, shell output and code.

A run is at least five words separated by single spaces, with no more than a sentence's punctuation between them, or at
least eight characters of a script without spaces. Names, paths, tables and markup are not found. This module judges
neither the language nor the quality of prose.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

import pyarrow as pa
import re2

from trajmill.quality.lazy_regex import Later
from trajmill.quality.signal import Measured

_WORD: Final = r"\pL[\pL\pM'’-]*"
_GAP: Final = r"""[,;:.!?]?["”’)]? ["“(‘]?"""
_UNSPACED: Final = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}，。、！？]{8,}"
_RUN: Final = Later(
    lambda: re2.compile(rf"""{_WORD}(?:{_GAP}(?:{_WORD}|\pN+)){{3,}}{_GAP}{_WORD}[.!?…]?|{_UNSPACED}""")
)

FEWEST: Final = 5
"""Fewest words of a run."""

SOURCES: Final = (("task", "instruction"), ("observation", "content"), ("next_observation", "content"))
"""Searched texts. The instruction and the first observation are searched on a trajectory's first row only."""

LOOKED_AT: Final = 1 << 16
"""Characters of one text that are searched."""


def runs(text: str) -> list[str]:
    """Find the runs of prose in a text, in order. Table rows, with more than 3 numbers in 10 words, are left out."""
    searched = text[:LOOKED_AT]
    found_runs = [_cut(searched, *match.span()) for match in _RUN.finditer(searched)]
    return [run for run in found_runs if _reads(run)]


def _cut(text: str, begin: int, end: int) -> str:
    """Return a run without a first or last word that is only part of a token, such as `9f3ad` or `gpt-4`."""
    run = text[begin:end]
    if " " in run and begin and _goes_on(text[begin - 1]):
        run = run.partition(" ")[2]
    if " " in run and end < len(text) and _goes_on(text[end]):
        run = run.rpartition(" ")[0]
    return run


def _goes_on(character: str) -> bool:
    return character.isalnum() or character == "_"


def _reads(run: str) -> bool:
    """Return True if a run has enough words, and not too many numbers."""
    blanks = run.count(" ")
    return (not blanks or blanks >= FEWEST - 1) and sum(word[0].isdigit() for word in run.split()) <= 0.3 * blanks + 0.3


def prose_lines(measured: Measured, most: int) -> list[list[str]]:
    """Return the distinct runs of prose of each trajectory, in its order, until they have `most` characters or more.

    For a trajectory that continues from the batch before, only the runs of this batch are returned; see `join_prose`.
    """
    instruction, first, after = (measured.texts(*source) for source in SOURCES)
    begun = measured.batch["step"].to_numpy()[measured.starts] == 0
    known: dict[tuple[int, int], list[str]] = {}

    def found(number: int, texts: pa.StringArray, index: int) -> list[str]:
        if index >= 0 and (number, index) not in known:
            known[number, index] = runs(texts[index].as_py())
        return known[number, index] if index >= 0 else []

    lines_of_trajectories = []
    for start, length, begins in zip(measured.starts.tolist(), measured.lengths.tolist(), begun.tolist(), strict=True):
        sources = [(0, instruction, start), (1, first, start)] if begins else []
        sources += [(2, after, row) for row in range(start, start + length)]
        lines: dict[str, None] = {}
        size = 0
        for number, texts, row in sources:
            for line in found(number, texts.texts, int(texts.index[row])):
                size += len(line) if line not in lines else 0
                lines[line] = None
            if size >= most:
                break
        lines_of_trajectories.append(list(lines))
    return lines_of_trajectories


def join_prose(stretches: Iterable[Iterable[str]], most: int) -> str:
    """Join the prose of a trajectory from the `prose_lines` of each of its stretches: a run a line, up to `most`
    characters.
    """
    return "\n".join(dict.fromkeys(chain.from_iterable(stretches)))[:most]
