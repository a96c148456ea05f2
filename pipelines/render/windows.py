"""Windows: a trajectory that is longer than a model reads at once, cut between turns into parts that it can read."""

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
"""Tokens set aside for each turn: what a chat template sets around its two messages, and the heading of a state."""

_FOLDER: Final = re.compile(r"""(?:^|["';&|\n]|\\n)\s*cd\s+(/[^\s"';&|\\]*)""")
_REDIRECTED: Final = re.compile(r"""(?<![0-9&>])>{1,2}\s*((?:\.{0,2}/)?[A-Za-z0-9_][A-Za-z0-9_./-]*)""")
_LISTED: Final = 40
"""Files that an opening names, the last that were written."""


class Window(NamedTuple):
    """A part of a trajectory.

    Attributes:
        begin: its first row, shown or not.
        end: the row past its last one.
        rows: those that it shows.
        bears: whether the answer of each bears the loss: not where it depends on what was cut off.
        opening: what is known before it and no row of it shows; empty for the first.
        fits: whether it is within the bound: one turn alone may pass it.
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
    """Cut a trajectory into one or more windows, each with all it needs to be rendered by itself.

    A window is filled with turns up to `most` tokens of its prompt, its turns and the state that it begins with, which
    the turns before it no longer show.

    Args:
        unit: that the trajectory is of.
        rows: of it that are shown, at least one.
        end: the row past the trajectory's last one, or past the last one that counts.
        prompt: tokens of the system prompt.
        most: tokens of a window; None cuts nothing.
        overflow: what becomes of a trajectory that is longer: nothing (`drop`), its end (`cut_oldest`), its beginning
            (`cut_newest`), or several windows of which each turn is in one.
        actions: the texts of its actions up to `end`; None where they are not known: then no window has an opening, and
            none depends on what was cut off.
        counter: counts tokens under the recipe's tokenizer.
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
    # calls of a turn that are not shown may stand before its first one
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
    """Return (first, past the last) group of each window of a trajectory that is longer than `most` tokens."""
    if overflow == "drop":
        return []
    if overflow == "cut_oldest":
        return [(_newest(groups, prompt, most), len(groups))]
    bounds = _fill_windows(groups, prompt, most)
    return bounds[:1] if overflow == "cut_newest" else bounds


class Group(NamedTuple):
    """The calls that an agent made at once: their tokens, and those of what must open them in a window."""

    size: int
    opening: int


def _fill_windows(groups: Sequence[Group], prompt: int, most: int) -> list[tuple[int, int]]:
    """Return (first, past the last) group of each window, each filled in turn."""
    begins, whole = [0], prompt + groups[0].size
    for number, group in enumerate(groups[1:], 1):
        whole += group.size
        if whole > most:
            begins.append(number)
            whole = prompt + group.size + group.opening
    return list(zip(begins, [*begins[1:], len(groups)], strict=True))


def _newest(groups: Sequence[Group], prompt: int, most: int) -> int:
    """The first of the last groups that fit in one window."""
    begin, whole = len(groups) - 1, prompt + groups[-1].size
    while begin and whole + groups[begin - 1].size + groups[begin - 1].opening <= most:
        begin -= 1
        whole += groups[begin].size
    return begin


class _Before:
    """Effects of the actions before a window that its own may depend on; their texts are added in order.

    Attributes:
        written: the paths of files that actions wrote, as they name them, in the order of their last writing.
    """

    def __init__(self) -> None:
        self.written: dict[str, None] = {}
        self._folder = ""

    def add(self, texts: Iterable[str]) -> None:
        """Take in actions that follow those before."""
        for text in texts:
            for path in _written_paths(text):
                self.written.pop(path, None)
                self.written[path] = None
            for folder in _FOLDER.findall(text)[-1:]:
                self._folder = folder

    def opening(self) -> str:
        """The text that a model which sees only later turns is told of these: the working folder, and files written."""
        return known_state(self._folder, list(islice(reversed(self.written), _LISTED))[::-1])

    def independent(self, texts: Sequence[str]) -> Flags:
        """Flag the actions of a window that name no file whose writing was cut off."""
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
