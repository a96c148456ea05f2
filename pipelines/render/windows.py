"""Windows: a trajectory that is longer than a model reads at once, cut between turns into parts that it can read.

Pure; what a part then becomes is the matter of `mix.samples`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, Final, NamedTuple

from trajmill.pipelines.recipe.recipe import Overflow
from trajmill.pipelines.render.edits import edited_path
from trajmill.pipelines.render.turns import Outline, Rows, Turn
from trajmill.quality.tokens import TokenCounter

BETWEEN: Final = 16
"""Tokens set aside for each turn: what a chat template sets around its two messages, and the heading of a state."""

_FILES: Final = frozenset({"terminal", "swe"})
"""Domains whose actions write files that later actions read."""

_FOLDER: Final = re.compile(r"""(?:^|["';&|\n]|\\n)\s*cd\s+(/[^\s"';&|\\]*)""")
_REDIRECTED: Final = re.compile(r"""(?<![0-9&>])>{1,2}\s*((?:\.{0,2}/)?[A-Za-z0-9_][A-Za-z0-9_./-]*)""")
_LISTED: Final = 40
"""Files that an opening names, the last that were written."""


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a trajectory.

    Attributes:
        rows: all of its rows, in order; targets that depend on what was cut off are context.
        opening: what is known before it and no row of it shows; empty for the first.
        fits: whether it is within the bound: one turn alone may pass it.
    """

    rows: Rows
    opening: str = ""
    fits: bool = True


def windows(
    rows: Rows,
    shown: Sequence[Outline | Turn],
    sizes: Sequence[int],
    prompt_tokens: int,
    most: int | None,
    counter: TokenCounter,
    overflow: Overflow = "windows",
) -> Iterator[Window]:
    """The rows of a trajectory in one or more windows, each with all it needs to be rendered by itself.

    A window is filled with turns up to `most` tokens of its prompt, its turns and the state that it begins with, which
    the turns before it no longer show.

    Args:
        rows: of a trajectory, or of one segment of it, in order.
        shown: the turns that all of them are rendered to, or their outlines.
        sizes: tokens of each of these.
        prompt_tokens: of the system prompt.
        most: tokens of a window; None cuts nothing.
        counter: counts tokens under the recipe's tokenizer.
        overflow: what becomes of a trajectory that is longer: nothing (`drop`), its end (`cut_oldest`), its beginning
            (`cut_newest`), or several windows of which each turn is in one.
    """
    if most is None or prompt_tokens + sum(sizes) + BETWEEN * len(sizes) <= most:
        yield Window(rows)
        return
    groups = _groups(shown, sizes, _opening_tokens(rows, shown, counter))
    place = {row["step"]: number for number, row in enumerate(rows)}
    before, upto = _Before(), 0
    for first, past in cuts(groups, prompt_tokens, most, overflow):
        begin = _turn_begin(rows, place[shown[groups[first].first].step]) if first else 0
        end = _turn_begin(rows, place[shown[groups[past].first].step]) if past < len(groups) else len(rows)
        before.add(rows[upto:begin])
        upto = begin
        sizes_of = sum(group.size for group in groups[first:past])
        fits = prompt_tokens + sizes_of + (groups[first].opening if first else 0) <= most
        if begin:
            yield Window(_independent(rows[begin:end], before.written), before.opening(), fits)
        else:
            yield Window(rows[begin:end], fits=fits)


def cuts(groups: Sequence[Group], prompt: int, most: int, overflow: Overflow) -> list[tuple[int, int]]:
    """(first, past the last) group of each window of a trajectory that is longer than `most` tokens."""
    if overflow == "drop":
        return []
    if overflow == "cut_oldest":
        return [(_newest(groups, prompt, most), len(groups))]
    found = _filled(groups, prompt, most)
    return found[:1] if overflow == "cut_newest" else found


class Group(NamedTuple):
    """The calls that an agent made at once: the place of the first turn, their tokens, and of what must open them."""

    first: int
    size: int
    opening: int


def _groups(shown: Sequence[Outline | Turn], sizes: Sequence[int], openings: Sequence[int]) -> list[Group]:
    found: list[Group] = []
    for _, some in groupby(range(len(shown)), key=lambda number: shown[number].row["turn"]):
        calls = list(some)
        first = calls[0]
        size = sum(sizes[first : calls[-1] + 1]) + BETWEEN * len(calls)
        found.append(Group(first, size, openings[first]))
    return found


def _filled(groups: Sequence[Group], prompt: int, most: int) -> list[tuple[int, int]]:
    """(first, past the last) group of each window, each filled in turn."""
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


def _turn_begin(rows: Rows, place: int) -> int:
    """The place of the first row of the turn that a row belongs to: calls of it that are not shown may stand before."""
    while place and rows[place - 1]["turn"] == rows[place]["turn"]:
        place -= 1
    return place


def _opening_tokens(rows: Rows, shown: Sequence[Outline | Turn], counter: TokenCounter) -> list[int]:
    """Tokens that each turn would cost more if a window began with it: its state, and what is known of files."""
    whole = _Before()
    whole.add(rows)
    most = counter.of(whole.opening())
    return [most + (0 if turn.shows_state else turn.row["state_tokens"]) for turn in shown]


class _Before:
    """What the rows before a window did that its own may hang on; rows are added in their order.

    Attributes:
        written: the paths of files that actions wrote, as they name them, in the order of their last writing.
    """

    def __init__(self) -> None:
        self.written: dict[str, None] = {}
        self._folder = ""

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Takes in rows that follow those before."""
        for row in rows:
            if row["domain"] in _FILES and row["use"] != "omit":
                text = row["action"]["text"]
                for path in _written(text):
                    self.written.pop(path, None)
                    self.written[path] = None
                for folder in _FOLDER.findall(text)[-1:]:
                    self._folder = folder

    def opening(self) -> str:
        """What a model that sees only later turns is told of these: the working folder, and files written."""
        told = [f"Folder entered last: {self._folder}"] if self._folder else []
        names = list(islice(reversed(self.written), _LISTED))[::-1]
        told += [f"Files written before: {', '.join(names)}"] if names else []
        return "**Known State:**\n" + "\n".join(told) + "\n\n" if told else ""


def _written(text: str) -> list[str]:
    path = edited_path(text)
    return [path] if path is not None else [path for path in _REDIRECTED.findall(text) if path != "/dev/null"]


def _independent(rows: Rows, written: Mapping[str, None]) -> Rows:
    """The rows, of which those that show a file whose writing was cut off are context."""
    if not written:
        return rows
    unknown = dict(written)
    found: list[Mapping[str, Any]] = []
    for row in rows:
        text = row["action"]["text"]
        mine = _written(text) if row["use"] != "omit" else []
        depends = row["use"] == "target" and any(path in text for path in unknown if path not in mine)
        found.append({**row, "use": "context"} if depends else row)
        for path in mine:
            unknown.pop(path, None)
    return found
