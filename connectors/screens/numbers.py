"""Numbers of elements across the screens of a trajectory: an element keeps its number, a new one gets the next.

Readers write each screen with its elements counted from 1 (`connectors.screens.tree`). This module turns these
positions into lasting numbers, so that a small change of a screen is a small change of its text. The numbers depend
only on the earlier screens of the same trajectory. An element is recognized by

1. its parent, its role, name and lasting id, and those of all elements in it;
2. its parent, role, name and id alone, if no sibling shares them, before and after;
3. its place: it is between the same siblings as an element of the previous screen with the same role and id, and either
   most of its contents are the same, or the number of elements there is the same;
4. role, name and id anywhere in its window, if exactly one element of the previous screen and one of this screen have
   them.

Among several candidates, the one beside the same sibling as before wins, so that in a scrolled flat table the cell
after a row's name stays the row's; otherwise the one at the same position. Values, states and boxes are not used, since
they change. An element that disappears and comes back in its old place gets its old number, even after other screens.

>>> numbers = Numbers()
>>> print(numbers.shown('''#1 window "Shop"
...   #2 text "Tea"
...   #3 button "Buy"''')[0])
#1 window "Shop"
  #2 text "Tea"
  #3 button "Buy"
>>> text, places = numbers.shown('''#1 window "Shop"
...   #2 text "In your cart: 1"
...   #3 text "Tea"
...   #4 button "Buy"''')
>>> print(text)
#1 window "Shop"
  #4 text "In your cart: 1"
  #2 text "Tea"
  #3 button "Buy"
>>> places[4]
3
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias, TypeVar

_NAME: Final = re.compile(r'( *)(\S*)(?: ("[^"\\]*+(?:\\.[^"\\]*+)*+"))?', re.DOTALL)
_END: Final = re.compile(r'(?: id=("[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s"]+))?(?: (\[-?\d+,-?\d+\]\[-?\d+,-?\d+\]))?$')
_MOST_KNOWN: Final = 100_000
"""Number of remembered elements above which all but those of the last screen are forgotten."""

_ALIKE: Final = 0.5
"""Share of the contents of the smaller of two elements above which the elements are the same."""

_AHEAD: Final = 8
"""Number of siblings to search for a matching one, so that hundreds of rows are not compared with each other."""

_NOTHING: Final[list[int]] = []
"""Shared list of an element without children; must not be changed."""

Key: TypeAlias = tuple[str, str, str]
"""Role, name and lasting id of an element, as in its line."""

Told = TypeVar("Told")


@lru_cache(maxsize=1 << 16)
def _parse_line(row: str) -> tuple[int, Key, str]:
    """Return (indentation, key, box) of a line without its number."""
    name_match = _NAME.match(row)
    assert name_match is not None
    indent, role, name = name_match.groups("")
    begin = name_match.end()
    mark = row.rfind(" id=", begin)
    last = mark if mark >= 0 else max(row.rfind(" [", begin), begin)
    end = _END.match(row, last) or _END.search(row, begin)
    assert end is not None
    ident, box = end.groups("")
    return len(indent), (role, name, ident), box


@dataclass(slots=True)
class _Shown:
    """Screen: for each element, in document order, its line without the number and its identifying features.

    Attributes:
        rows: Lines without their numbers.
        indents: Indentation of each line, in spaces.
        parents: Position of each element's parent; -1 for a window.
        ends: Position after the last element within each.
        boxes: Box of each element, as written.
        inside: Positions of each element's children; the last entry has those of the windows.
        kinds: Kind of each element, equal for elements with the same key and with children of the same kinds in the
            same order.
        numbers: Number of each element; 0 while it has none.
    """

    rows: list[str]
    indents: list[int]
    parents: list[int]
    ends: list[int]
    keys: list[Key]
    boxes: list[str]
    inside: list[list[int]]
    kinds: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Text of the screen, with the numbers of its elements."""
        lines = zip(self.rows, self.indents, self.numbers, strict=True)
        return "\n".join([f"{row[:indent]}#{number} {row[indent:]}" for row, indent, number in lines])

    def brothers(self, number: int) -> list[int]:
        """Return the positions of the children of a numbered element, or of the windows for 0; empty if absent."""
        position = self.places.get(number) if number else -1
        return self.inside[position] if position is not None else []

    def within(self, position: int) -> set[Key]:
        """Return the keys of the elements in an element."""
        return set(self.keys[position + 1 : self.ends[position]])


def _read(text: str) -> _Shown:
    """Parse the screen of a text, ignoring its numbers."""
    rows = []
    for line in text.split("\n"):
        mark = line.find("#")
        rows.append(line[:mark] + line[line.find(" ", mark) + 1 :])
    parsed = [_parse_line(row) for row in rows]
    indents, keys, boxes = [line[0] for line in parsed], [line[1] for line in parsed], [line[2] for line in parsed]
    parents: list[int] = []
    ends = [len(rows)] * len(rows)
    inside = [_NOTHING] * (len(rows) + 1)
    around = [-1]
    depths = [-1]
    for position, depth in enumerate(indents):
        while depths[-1] >= depth:
            ends[around.pop()] = position
            depths.pop()
        parent = around[-1]
        parents.append(parent)
        if inside[parent] is _NOTHING:
            inside[parent] = [position]
        else:
            inside[parent].append(position)
        around.append(position)
        depths.append(depth)
    return _Shown(rows, indents, parents, ends, keys, boxes, inside)


def _window(screen: _Shown, position: int) -> int:
    """Return the number of the window that contains an element; 0 while it has none."""
    while screen.parents[position] >= 0:
        position = screen.parents[position]
    return screen.numbers[position]


class Numbers:
    """Numbers of one trajectory's elements. Screens are passed in the order in which they were shown."""

    def __init__(self) -> None:
        self._next = 1
        self._next_kind = 0
        self._last: _Shown | None = None
        self._text: str | None = None
        self._told: tuple[str, Mapping[int, int]] = "", {}
        self._kinds: dict[tuple[object, ...], int] = {}
        # by the number of the parent: its elements so far, the latest first
        self._by_kind: dict[tuple[int, int], list[int]] = {}
        self._by_key: dict[tuple[int, Key], list[int]] = {}

    def shown(self, text: str) -> tuple[str, Mapping[int, int]]:
        """Return a screen's text with lasting numbers, and the number of each position from 1 that an action may name.

        Args:
            text: Text of `connectors.screens.tree`, with elements counted from 1.
        """
        if text == self._text:
            return self._told
        screen, last = _read(text), self._last
        if last is not None and screen.keys == last.keys and screen.parents == last.parents:
            screen.kinds, screen.numbers, screen.places = last.kinds, last.numbers, last.places
        else:
            self._number(screen)
        self._last, self._text = screen, text
        self._told = screen.text, dict(enumerate(screen.numbers, 1))
        return self._told

    def _number(self, screen: _Shown) -> None:
        inside, keys, kinds = screen.inside, screen.keys, [0] * len(screen.keys)
        for position in range(len(keys) - 1, -1, -1):
            inner = (
                (keys[position], *[kinds[inner_position] for inner_position in inside[position]])
                if inside[position]
                else keys[position]
            )
            kind = self._kinds.get(inner)
            if kind is None:
                kind = self._kinds[inner] = self._next_kind
                self._next_kind += 1
            kinds[position] = kind
        screen.kinds, screen.numbers = kinds, [0] * len(keys)
        matching = _Matching(screen, self._last, self._by_kind, self._by_key)
        matching.match()
        for position, number in enumerate(screen.numbers):
            if not number:
                screen.numbers[position] = self._next
                self._next += 1
        screen.places = {number: position for position, number in enumerate(screen.numbers)}
        self._remember(screen, matching.copied)

    def _remember(self, screen: _Shown, copied: Mapping[int, int]) -> None:
        if len(self._by_kind) + len(self._kinds) > _MOST_KNOWN:
            self._by_kind.clear()
            self._by_key.clear()
            current = set(screen.kinds)
            self._kinds = {known: kind for known, kind in self._kinds.items() if kind in current}
            copied = {}
        kinds: dict[tuple[int, int], list[int]] = {}
        keys: dict[tuple[int, Key], list[int]] = {}
        position = 0
        while position < len(screen.numbers):
            number, parent = screen.numbers[position], screen.parents[position]
            around = screen.numbers[parent] if parent >= 0 else 0
            kinds.setdefault((around, screen.kinds[position]), []).append(number)
            keys.setdefault((around, screen.keys[position]), []).append(number)
            position = copied.get(position, position + 1)
        _put(self._by_kind, kinds)
        _put(self._by_key, keys)


def _put(known: dict[Told, list[int]], now: Mapping[Told, list[int]]) -> None:
    """Put the numbers of this screen before the known ones."""
    for key, numbers in now.items():
        before = known.get(key)
        if before is not None and before != numbers:
            here = set(numbers)
            numbers += [number for number in before if number not in here]
        known[key] = numbers


@dataclass(slots=True)
class _Matching:
    """Matching of one screen with earlier ones, which gives recognized elements their numbers.

    Attributes:
        taken: Numbers already given.
        copied: Ends of elements that are unchanged since the previous screen, by their positions.
    """

    screen: _Shown
    last: _Shown | None
    by_kind: Mapping[tuple[int, int], list[int]]
    by_key: Mapping[tuple[int, Key], list[int]]
    taken: set[int] = field(default_factory=set)
    copied: dict[int, int] = field(default_factory=dict)

    def match(self) -> None:
        """Match from the windows inwards, since an element is recognized by its parent; then match moved elements."""
        self._inwards(-1, 0)
        if self.last is None:
            return
        keys, numbers = self.screen.keys, self.screen.numbers
        unmatched = [position for position, key in enumerate(keys) if not numbers[position] and (key[1] or key[2])]
        if not unmatched:
            return
        here, before = Counter(keys), Counter(self.last.keys)
        known_positions = {key: position for position, key in enumerate(self.last.keys) if before[key] == 1}
        for position in unmatched:
            key = keys[position]
            if numbers[position] or here[key] > 1:
                continue
            known_position = known_positions.get(key)
            if known_position is None or _window(self.screen, position) != _window(self.last, known_position):
                continue
            if self._take(position, self.last.numbers[known_position]):
                self._inwards(position, self.last.numbers[known_position])

    def _take(self, position: int, number: int) -> bool:
        if number in self.taken:
            return False
        self.taken.add(number)
        self.screen.numbers[position] = number
        return True

    def _inwards(self, position: int, number: int) -> None:
        """Number the recognized elements inside a numbered element."""
        waiting = [(position, number)]
        while waiting:
            position, number = waiting.pop()
            if self._copy(position, number):
                continue
            brothers = self.screen.inside[position]
            self._by_what_is_in_them(brothers, number)
            self._by_name(brothers, number)
            if self.last is not None and any(not self.screen.numbers[brother] for brother in brothers):
                self._by_place(brothers, self.last.brothers(number), self.last)
            numbers = self.screen.numbers
            waiting += [
                (brother, numbers[brother])
                for brother in brothers[::-1]
                if numbers[brother] and self.screen.inside[brother]
            ]

    def _copy(self, position: int, number: int) -> bool:
        """Give all elements inside an element their previous numbers, if its contents are the same."""
        screen, last = self.screen, self.last
        known_position = last.places.get(number) if last is not None else None
        if (
            last is None
            or known_position is None
            or position < 0
            or screen.kinds[position] != last.kinds[known_position]
        ):
            return False
        end = screen.ends[position]
        inner = last.numbers[known_position + 1 : last.ends[known_position]]
        if any(screen.numbers[position + 1 : end]) or not self.taken.isdisjoint(inner):
            return False
        screen.numbers[position + 1 : end] = inner
        self.taken.update(inner)
        self.copied[position] = end
        return True

    def _by_what_is_in_them(self, brothers: Sequence[int], around: int) -> None:
        """Match siblings by contents: first those beside or at their old position, then the others in order."""
        screen, last = self.screen, self.last
        known_brothers = last.brothers(around) if last is not None else []
        if last is not None and known_brothers:
            self._by_the_only_one(brothers, known_brothers, last)
            self._by_neighbour(brothers, known_brothers, last)
            self._as_before(brothers, known_brothers, last)
        alike: dict[int, list[int]] = {}
        for position in brothers:
            if not screen.numbers[position] and (around, screen.kinds[position]) in self.by_kind:
                alike.setdefault(screen.kinds[position], []).append(position)
        if last is not None and any(len(positions) > 1 for positions in alike.values()):
            stood = {
                (last.kinds[known_brother], last.boxes[known_brother]): last.numbers[known_brother]
                for known_brother in known_brothers
            }
            for kind, positions in alike.items():
                for position in positions:
                    number = stood.get((kind, screen.boxes[position]), 0)
                    if number and screen.boxes[position]:
                        self._take(position, number)
        for kind, positions in alike.items():
            free = [known_number for known_number in self.by_kind[around, kind] if known_number not in self.taken]
            waiting = [position for position in positions if not screen.numbers[position]]
            for position, number in zip(waiting, free, strict=False):
                self._take(position, number)

    def _by_the_only_one(self, brothers: Sequence[int], known_brothers: Sequence[int], last: _Shown) -> None:
        """Number the siblings whose kind occurs exactly once on both screens; they help to locate the others."""
        here = Counter([self.screen.kinds[position] for position in brothers])
        there = Counter([last.kinds[known_brother] for known_brother in known_brothers])
        at = {last.kinds[known_brother]: last.numbers[known_brother] for known_brother in known_brothers}
        for position in brothers:
            kind = self.screen.kinds[position]
            if here[kind] == there[kind] == 1 and not self.screen.numbers[position]:
                self._take(position, at[kind])

    def _by_neighbour(self, brothers: Sequence[int], known_brothers: Sequence[int], last: _Shown) -> None:
        """Number the siblings that follow, or else precede, the same sibling as one of their kind did before."""
        screen = self.screen
        for mine, theirs in ((brothers, known_brothers), (brothers[::-1], known_brothers[::-1])):
            after = {last.numbers[preceding]: following for preceding, following in pairwise(theirs)}
            before = 0
            for position in mine:
                following = after.get(before)
                if (
                    not screen.numbers[position]
                    and following is not None
                    and screen.kinds[position] == last.kinds[following]
                ):
                    self._take(position, last.numbers[following])
                before = screen.numbers[position]

    def _as_before(self, brothers: Sequence[int], known_brothers: Sequence[int], last: _Shown) -> None:
        """Number the first and the last siblings as far as they are unchanged."""
        screen = self.screen
        for pairs in (
            zip(brothers, known_brothers, strict=False),
            zip(brothers[::-1], known_brothers[::-1], strict=False),
        ):
            for position, known_position in pairs:
                if (
                    screen.kinds[position] != last.kinds[known_position]
                    or screen.boxes[position] != last.boxes[known_position]
                ):
                    break
                if not screen.numbers[position]:
                    self._take(position, last.numbers[known_position])

    def _by_name(self, brothers: Sequence[int], around: int) -> None:
        keys = self.screen.keys
        here = Counter([keys[position] for position in brothers])
        for position in brothers:
            key = keys[position]
            if self.screen.numbers[position] or here[key] > 1 or not (key[1] or key[2]):
                continue
            known = self.by_key.get((around, key), ())
            if len(known) == 1:
                self._take(position, known[0])

    def _by_place(self, brothers: Sequence[int], known_brothers: Sequence[int], last: _Shown) -> None:
        """Number siblings that are between the same two siblings as elements of the previous screen."""
        at = {last.numbers[position]: order for order, position in enumerate(known_brothers)}
        gap: list[int] = []
        low = -1
        for position in [*brothers, -1]:
            number = self.screen.numbers[position] if position >= 0 else 0
            if position >= 0 and not number:
                gap.append(position)
                continue
            high = at.get(number, -1) if position >= 0 else len(known_brothers)
            if high >= 0:
                if gap and low < high:
                    free = [
                        known_brother
                        for known_brother in known_brothers[low + 1 : high]
                        if last.numbers[known_brother] not in self.taken
                    ]
                    self._in_gap(gap, free, last)
                gap, low = [], high

    def _in_gap(self, gap: Sequence[int], free: Sequence[int], last: _Shown) -> None:
        screen = self.screen
        rest: list[int] = []
        done = 0
        for position in gap:
            ahead = range(done, min(done + _AHEAD, len(free)))
            fit = next((at for at in ahead if self._is_same(position, free[at], last)), -1)
            if fit >= 0 and self._take(position, last.numbers[free[fit]]):
                done = fit + 1
            else:
                rest.append(position)
        left = [known_position for known_position in free if last.numbers[known_position] not in self.taken]
        kinds = [(screen.keys[position][0], screen.keys[position][2]) for position in rest]
        if kinds == [(last.keys[known_position][0], last.keys[known_position][2]) for known_position in left]:
            for position, known_position in zip(rest, left, strict=True):
                # a window of another name belongs to another program or another document
                if screen.keys[position][0] != "window" or screen.keys[position] == last.keys[known_position]:
                    self._take(position, last.numbers[known_position])

    def _is_same(self, position: int, known_position: int, last: _Shown) -> bool:
        """Check whether two elements of the same role and id have mostly the same contents."""
        key, known_key = self.screen.keys[position], last.keys[known_position]
        if (key[0], key[2]) != (known_key[0], known_key[2]):
            return False
        if (
            key == known_key
            and self.screen.ends[position] == position + 1
            and last.ends[known_position] == known_position + 1
        ):
            return True
        mine, theirs = self.screen.within(position), last.within(known_position)
        smaller = min(len(mine), len(theirs))
        return smaller > 0 and len(mine & theirs) > _ALIKE * smaller
