"""The numbers of elements over the screens of a trajectory: an element keeps its number, a new one takes the next.

Readers write each screen with its elements counted from 1 (`connectors.screens.tree`); here these places become numbers
that last, so that a small change of a screen is a small change of its text. What a screen is numbered by are the
screens that were shown before it in the same trajectory, and nothing that comes later. An element is known again by

1. its parent, its role, name and lasting id, and those of all that is in it;
2. its parent, role, name and id alone, where no brother shares them, before and now;
3. its place: it stands between the same brothers as one of the screen before, with the same role and id, and either
   most of what is in it is the same, or as many stand there as did;
4. role, name and id anywhere in its window, where one element of the screen before and one of this screen have them.

Of several that could be meant it is the one beside the same brother as before, so that in a flat table that scrolled
the cell behind a row's name stays the row's; else the one that stands where it stood. Values, states and boxes tell
nothing else: they are what changes. An element that was gone and comes back in its old place has its old number, also
after other screens.

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

_NAME: Final = re.compile(r'( *)(\S*)(?: ("(?:[^"\\]|\\.)*"))?', re.DOTALL)
_END: Final = re.compile(r'(?: id=("(?:[^"\\]|\\.)*"|[^\s"]+))?(?: (\[-?\d+,-?\d+\]\[-?\d+,-?\d+\]))?$')
_MOST_KNOWN: Final = 100_000
"""Elements that are remembered of screens before the last one; then all but those of the last are forgotten."""

_ALIKE: Final = 0.5
"""More than this share of what is in an element, of the smaller, is in another one too if both are the same."""

_AHEAD: Final = 8
"""Brothers that are looked at for one that is the same; of hundreds of rows, each is not held against each."""

_NOTHING: Final[list[int]] = []
"""Children of an element without any; nothing may be added to it."""

Key: TypeAlias = tuple[str, str, str]
"""Role, name and lasting id of an element, as its line has them."""

Told = TypeVar("Told")


@lru_cache(maxsize=1 << 16)
def _parse_line(row: str) -> tuple[int, Key, str]:
    """(blanks before it, key, box) of a line without its number."""
    name_match, end = _NAME.match(row), _END.search(row)
    assert name_match is not None
    assert end is not None
    return len(name_match[1]), (name_match[2], name_match[3] or "", end[1] or ""), end[2] or ""


@dataclass(slots=True)
class _Shown:
    """A screen: of each element, in document order, its line without the number and what tells it from others.

    Attributes:
        rows: each line without its number.
        indents: the blanks before each line.
        parents: place of the element around each, -1 for a window.
        ends: place after the last element within each.
        keys: of each.
        boxes: of each, as written.
        inside: the places of what is in each; behind them those of the windows.
        kinds: of each, equal for elements that have the same key and hold elements of the same kinds in the same order.
        numbers: of each; 0 where it has none yet.
        places: of each number.
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
        """The screen as text, with the numbers of its elements."""
        lines = zip(self.rows, self.indents, self.numbers, strict=True)
        return "\n".join([f"{row[:indent]}#{number} {row[indent:]}" for row, indent, number in lines])

    def brothers(self, number: int) -> list[int]:
        """The places of what is in the element of that number, of the windows for 0; none if it is not there."""
        position = self.places.get(number) if number else -1
        return self.inside[position] if position is not None else []

    def within(self, position: int) -> set[Key]:
        """The keys of what is in an element."""
        return set(self.keys[position + 1 : self.ends[position]])


def _read(text: str) -> _Shown:
    """The screen of a text, whose numbers are passed over."""
    rows = []
    for line in text.split("\n"):
        indent, _, rest = line.partition("#")
        rows.append(indent + rest.partition(" ")[2])
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
    """The number of the window that an element is in, 0 if it has none yet."""
    while screen.parents[position] >= 0:
        position = screen.parents[position]
    return screen.numbers[position]


class Numbers:
    """The numbers of one trajectory's elements. Screens are given in the order in which they were shown."""

    def __init__(self) -> None:
        self._next = 1
        self._next_kind = 0
        self._last: _Shown | None = None
        self._kinds: dict[tuple[object, ...], int] = {}
        # By the number of the element around: those that were ever in it, the latest first.
        self._by_kind: dict[tuple[int, int], list[int]] = {}
        self._by_key: dict[tuple[int, Key], list[int]] = {}

    def shown(self, text: str) -> tuple[str, Mapping[int, int]]:
        """A screen's text with numbers that last, and the number of each place that an action may name, from 1.

        Args:
            text: of `connectors.screens.tree`, elements counted from 1.
        """
        screen, last = _read(text), self._last
        if last is not None and screen.keys == last.keys and screen.parents == last.parents:
            screen.kinds, screen.numbers, screen.places = last.kinds, last.numbers, last.places
        else:
            self._number(screen)
        self._last = screen
        return screen.text, dict(enumerate(screen.numbers, 1))

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
    """Puts the numbers of this screen before those that were known."""
    for key, numbers in now.items():
        before = known.get(key)
        if before is not None and before != numbers:
            here = set(numbers)
            numbers += [number for number in before if number not in here]
        known[key] = numbers


@dataclass(slots=True)
class _Matching:
    """One screen against those before it: gives its elements the numbers by which they are known.

    Attributes:
        taken: numbers that were given.
        copied: the ends of elements in which all is as it was on the screen before, by their places.
    """

    screen: _Shown
    last: _Shown | None
    by_kind: Mapping[tuple[int, int], list[int]]
    by_key: Mapping[tuple[int, Key], list[int]]
    taken: set[int] = field(default_factory=set)
    copied: dict[int, int] = field(default_factory=dict)

    def match(self) -> None:
        """From the windows inwards, since an element is known by the one around it; then what moved elsewhere."""
        self._inwards(-1, 0)
        if self.last is None:
            return
        here, before = Counter(self.screen.keys), Counter(self.last.keys)
        known_positions = {key: position for position, key in enumerate(self.last.keys) if before[key] == 1}
        for position, key in enumerate(self.screen.keys):
            if self.screen.numbers[position] or here[key] > 1 or not (key[1] or key[2]):
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
        """Numbers what is in an element that has a number, as far as it is known."""
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
        """Gives all in an element the numbers of the screen before, if the same stood in it."""
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
        """Of several of one kind those go first that stand beside or where they stood, and then each in its order."""
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
        """Numbers those of which one is here and one was there: they tell where the others are."""
        here = Counter([self.screen.kinds[position] for position in brothers])
        there = Counter([last.kinds[known_brother] for known_brother in known_brothers])
        at = {last.kinds[known_brother]: last.numbers[known_brother] for known_brother in known_brothers}
        for position in brothers:
            kind = self.screen.kinds[position]
            if here[kind] == there[kind] == 1 and not self.screen.numbers[position]:
                self._take(position, at[kind])

    def _by_neighbour(self, brothers: Sequence[int], known_brothers: Sequence[int], last: _Shown) -> None:
        """Numbers those that follow, or else precede, the same brother as one of their kind on the screen before."""
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
        """Numbers the first brothers and the last ones, as far as they are as they were."""
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
        """Of brothers without a number, those that stand between the same two as ones of the screen before."""
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
                # A window of another name is another program's, or another document's.
                if screen.keys[position][0] != "window" or screen.keys[position] == last.keys[known_position]:
                    self._take(position, last.numbers[known_position])

    def _is_same(self, position: int, known_position: int, last: _Shown) -> bool:
        """Check if two elements of one role and id hold mostly the same."""
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
