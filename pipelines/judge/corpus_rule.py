"""What a decision over the whole corpus is: rounds in which units give keys and get answers.

In a round every unit gives packed keys, those of equal keys come together, and what follows from them is answered to
units. Nothing that a decision says depends on the order in which blocks come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from trajmill.pipelines.judge.part_state import Standing

Key = int | str
Keys = Iterator[tuple[Key, bytes]]
Answers = Iterator[tuple[str, int, bytes]]
"""What it is told as (of losers: the reason), the unit that it is told to, and packed records."""


@dataclass(frozen=True, slots=True)
class Round:
    """One gathering of keys.

    Attributes:
        name: by which later rounds hear its answers, of letters and `_`: spill files bear it.
        keys: the packed keys of a unit.
        answers: what the packed keys that came together under one key answer.
        hears: rounds whose answers a unit is told besides the losers of decisions before.
        common: a round of which every unit is told all answers, by number; empty for none.
        heavy: whether its answers are as many as its keys, and have to be carried like them.
        looks_back: whether units of earlier generations give keys and are answered too, where there are such.
    """

    name: str
    keys: Callable[[Standing], Keys]
    answers: Callable[[Key, Iterable[bytes]], Answers]
    hears: tuple[str, ...] = ()
    common: str = ""
    heavy: bool = False
    looks_back: bool = False


class Decision(Protocol):
    """Who of the corpus is not kept, for one kind of reason."""

    @property
    def name(self) -> str:
        """Of its last round, in which losers are told."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of `reasons.REASONS` that it gives."""

    @property
    def before(self) -> tuple[Round, ...]:
        """The rounds before the last, each hearing those that it names."""

    @property
    def hears(self) -> tuple[str, ...]:
        """Those of them that a unit is told in the last round."""

    @property
    def common(self) -> str:
        """The one whose answers are told whole to every unit in the last round; empty for none."""

    def keys(self, standing: Standing) -> Keys:
        """The packed keys of a unit, as it stands after the decisions before."""

    def losers(self, key: Key, packed: Iterable[bytes]) -> Answers:
        """Who loses, of all packed keys that came together."""

    def words(self, reason: str, survivor: int) -> str:
        """Why one was not carried on, for a person; `survivor` is what stands beside the loser's row."""


def rounds(decision: Decision) -> tuple[Round, ...]:
    """All rounds of a decision, in their order."""
    last = Round(decision.name, decision.keys, decision.losers, decision.hears, decision.common)
    return (*decision.before, last)
