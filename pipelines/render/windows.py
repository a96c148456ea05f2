"""Windows of trajectories that are longer than a model's context: parts, cut between turns, that fit it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from trajmill.pipelines.recipe.recipe import Overflow
from trajmill.pipelines.render.edits import path_of_edit
from trajmill.pipelines.render.fixed_texts import COMMANDS, known_state
from trajmill.pipelines.render.pieces import Flags, Numbers
from trajmill.pipelines.render.turns import Excerpts
from trajmill.pipelines.render.unit_costs import UnitCosts
from trajmill.quality.tokens import TokenCounter

ASIDE: Final = 16
"""Tokens reserved for each turn: the chat template's text around its two messages, and the heading of a state."""

_FOLDER: Final = re.compile(r"""(?:^|["';&|\n]|\\n)\s*cd\s+(/[^\s"';&|\\]*)""")
_REDIRECTED: Final = re.compile(r"""(?<![0-9&>])>{1,2}\s*((?:\.{0,2}/)?[A-Za-z0-9_][A-Za-z0-9_./-]*)""")
_LISTED: Final = 40
"""Largest number of files that an opening names; these are the files written last."""


class Window(NamedTuple):
    """A part of a trajectory.

    Attributes:
        begin: its first row, shown or not.
        end: the row after its last one.
        bears: for each, whether its answer bears the loss; False where it depends on the omitted part.
        opening: facts known before the window that no row of it shows; empty for the first window.
        fits: whether it is within the bound, which a single turn may exceed.
    """

    begin: int
    end: int
    rows: Numbers
    bears: Flags
    opening: str
    fits: bool


def windows(
    unit: UnitCosts,
    rows: Numbers,
    end: int,
    prompt: int,
    most: int | None,
    overflow: Overflow,
    actions: Sequence[str] | None,
    counter: TokenCounter,
) -> Iterator[Window]:
    """Cut a trajectory into windows, each of which can be rendered by itself.

    A window takes turns up to `most` tokens of its prompt, its turns and the state at its beginning, which the earlier
    turns do not show there.

    Args:
        rows: its shown rows, at least one.
        end: the row after the trajectory's last one, or after the last one that counts.
        most: largest number of tokens of a window; None cuts nothing.
        overflow: treatment of a longer trajectory: it yields nothing (`drop`), its end (`cut_oldest`), its beginning
            (`cut_newest`), or several windows with each turn in one of them (`windows`).
        actions: texts of its actions up to `end`. If None, no window has an opening, and none depends on the omitted
            part.
        counter: token counter of the recipe's tokenizer.
    """
    start = int(unit.begins[unit.of[rows[0]]])
    shown = Excerpts.of(unit, rows, np.array([len(rows)]))
    sizes = unit.users(shown) + unit.answers[rows] + ASIDE
    if most is None or prompt + int(sizes.sum()) <= most:
        yield Window(start, end, rows, unit.bears[rows], "", True)
        return
    action_texts = list(actions) if actions is not None and unit.domain in COMMANDS else []
    before = _Before()
    before.add(text for text, visible in zip(action_texts, unit.visible[start:end], strict=False) if visible)
    bound = counter.of(before.opening())
    firsts = np.flatnonzero(unit.first[rows])
    openings = bound + np.where(shown.shows, 0, unit.states[rows])[firsts]
    groups = list(map(Group, np.add.reduceat(sizes, firsts).tolist(), openings.tolist()))
    # hidden calls of a turn may precede its first shown one
    begins = np.append(np.searchsorted(unit.turn, unit.turn[rows[firsts]]), end).tolist()
    firsts, before, upto = np.append(firsts, len(rows)), _Before(), start
    for first, past in cuts(groups, prompt, most, overflow):
        begin = begins[first] if first else start
        visible = unit.visible[upto:begin]
        before.add(
            text for text, seen in zip(action_texts[upto - start : begin - start], visible, strict=False) if seen
        )
        upto = begin
        whole = prompt + sum(group.size for group in groups[first:past]) + (groups[first].opening if first else 0)
        own = rows[firsts[first] : firsts[past]]
        bears = unit.bears[own]
        if before.written:
            bears &= before.independent([action_texts[row - start] for row in own.tolist()])
        yield Window(begin, begins[past], own, bears, before.opening(), whole <= most)


def cuts(groups: Sequence[Group], prompt: int, most: int, overflow: Overflow) -> list[tuple[int, int]]:
    """Return (first, end) group of each window of a trajectory that is longer than `most` tokens."""
    if overflow == "drop":
        return []
    if overflow == "cut_oldest":
        return [(_newest(groups, prompt, most), len(groups))]
    bounds = _fill_windows(groups, prompt, most)
    return bounds[:1] if overflow == "cut_newest" else bounds


class Group(NamedTuple):
    """Parallel calls of an agent: their tokens, and the tokens of the opening of a window that begins with them."""

    size: int
    opening: int


def _fill_windows(groups: Sequence[Group], prompt: int, most: int) -> list[tuple[int, int]]:
    """Return (first, end) group of each window, filled one after the other."""
    begins, whole = [0], prompt + groups[0].size
    for number, group in enumerate(groups[1:], 1):
        whole += group.size
        if whole > most:
            begins.append(number)
            whole = prompt + group.size + group.opening
    return list(zip(begins, [*begins[1:], len(groups)], strict=True))


def _newest(groups: Sequence[Group], prompt: int, most: int) -> int:
    """Return the first of the last groups that fit in one window."""
    begin, whole = len(groups) - 1, prompt + groups[-1].size
    while begin and whole + groups[begin - 1].size + groups[begin - 1].opening <= most:
        begin -= 1
        whole += groups[begin].size
    return begin


class _Before:
    """Effects of the actions before a window on which its own actions may depend. Their texts are added in order.

    Attributes:
        written: paths of the files that actions wrote, as they name them, in the order of the last writing.
    """

    def __init__(self) -> None:
        self.written: dict[str, None] = {}
        self._folder = ""

    def add(self, texts: Iterable[str]) -> None:
        """Add the texts of further actions."""
        for text in texts:
            for path in _written_paths(text):
                self.written.pop(path, None)
                self.written[path] = None
            for folder in _FOLDER.findall(text)[-1:]:
                self._folder = folder

    def opening(self) -> str:
        """Return the text that summarizes the omitted turns: the working folder, and the written files."""
        return known_state(self._folder, list(islice(reversed(self.written), _LISTED))[::-1])

    def independent(self, texts: Sequence[str]) -> Flags:
        """Flag the actions of a window that name no file written in the omitted part."""
        unknown, flags = dict(self.written), np.ones(len(texts), np.bool_)
        for position, text in enumerate(texts):
            mine = _written_paths(text)
            flags[position] = not any(path in text for path in unknown if path not in mine)
            for path in mine:
                unknown.pop(path, None)
        return flags


def _written_paths(text: str) -> list[str]:
    path = path_of_edit(text)
    return [path] if path is not None else [path for path in _REDIRECTED.findall(text) if path != "/dev/null"]
