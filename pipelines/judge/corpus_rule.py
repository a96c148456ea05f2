"""Decisions over the whole corpus: rounds in which units give keys and get answers, and which of them go together.

In a round every unit gives packed keys, those of equal keys come together, and what follows from them is answered to
units. Nothing that a decision says depends on the order in which blocks come. Rounds declare what they need to hear, by
which `scheduled` puts those that do not depend on each other into one level: one exchange for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.judge.part_state import Standing

Key = int | str
Keys = Iterator[tuple[Key, bytes]]
Answers = Iterator[tuple[str, int, bytes]]
"""What it is told as (of losers: the reason), the unit that it is told to, and packed records."""

UNITS = "units"
"""Stands among rounds for the units themselves, by number."""


@dataclass(frozen=True, slots=True)
class Round:
    """One gathering of keys.

    Attributes:
        name: by which later rounds hear its answers, of letters and `_`: spill files bear it.
        keys: the packed keys of a unit.
        answers: what the packed keys that came together under one key answer.
        inputs: rounds whose answers a unit is told before it gives keys, besides those of `sees_losses`.
        sees_losses: whether its keys depend on who lost by the decisions before.
        common: a round of which every unit is told all answers, by number, or `UNITS`; empty for none.
        own: who loses of a unit by what the unit knows itself, so that rounds of the same level see it too.
        heavy: whether its answers are as many as its keys, and have to be carried like them.
        takes_decided: whether units that an earlier run decided give keys too.
    """

    name: str
    keys: Callable[[Standing], Keys]
    answers: Callable[[Key, Iterable[bytes]], Answers]
    inputs: tuple[str, ...] = ()
    sees_losses: bool = True
    common: str = ""
    own: Callable[[Standing], npt.NDArray[np.void]] | None = None
    heavy: bool = False
    takes_decided: bool = False


class Decision(Protocol):
    """Who of the corpus is not kept, for one kind of reason."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of `reasons.REASONS` that it gives."""

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Its rounds, each after those that it hears."""

    @property
    def losing(self) -> str:
        """The round in which losers are told; empty where nobody loses."""

    @property
    def reported(self) -> tuple[str, ...]:
        """Other rounds of which verdicts and reports need the answers."""

    def words(self, reason: str, survivor: int) -> str:
        """Why one was not carried on, for a person; `survivor` is what stands beside the loser's row."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A round, and by name all rounds whose answers a unit is told before it gives keys."""

    round: Round
    inputs: tuple[str, ...]

    @property
    def hears(self) -> tuple[str, ...]:
        """The same, and what all units are told."""
        return tuple(dict.fromkeys((*self.inputs, *filter(None, [self.round.common]))))


def scheduled(decisions: Sequence[Decision]) -> list[list[Scheduled]]:
    """Put the rounds of decisions into levels: as few as what each needs to hear allows, and each round late.

    What is told late is not carried past levels that do not ask for it.
    """
    found: list[Scheduled] = []
    losses: list[str] = []
    for decision in decisions:
        for one in decision.rounds:
            inputs = tuple(dict.fromkeys((*(losses if one.sees_losses else ()), *one.inputs)))
            found.append(Scheduled(one, inputs))
        losses += [decision.losing] if decision.losing else []
    after = {some.round.name: 0 if some.round.own is not None else 1 for some in found} | {UNITS: 0}
    level = {UNITS: 0}
    for some in found:
        level[some.round.name] = max((level[name] + after[name] for name in some.hears), default=0)
    last = max(level.values())
    for some in reversed(found):
        name = some.round.name
        level[name] = min(
            (level[other.round.name] - after[name] for other in found if name in other.hears), default=last
        )
    return [[some for some in found if level[some.round.name] == number] for number in range(last + 1)]


def heard_at_last(decisions: Sequence[Decision]) -> tuple[str, ...]:
    """The rounds whose answers verdicts and reports need."""
    return tuple(name for one in decisions for name in (*one.reported, *filter(None, [one.losing])))


def graph(levels: Sequence[Sequence[Scheduled]], last: Sequence[str]) -> str:
    """Draw levels of rounds as a Mermaid flowchart, with an edge to each round from those that it hears.

    What a round hears by way of another one that it hears has no edge of its own.

    Args:
        levels: as `scheduled` makes them.
        last: the rounds that verdicts need.
    """
    lines = ["flowchart TD", "    measure([measure])"]
    before: dict[str, set[str]] = {}

    def edges(heard: Sequence[str], name: str) -> None:
        past = set[str]().union(*(before[one] for one in heard))
        before[name] = past.union(heard)
        lines.extend(f"    {one} --> {name}" for one in heard if one not in past)

    for number, level in enumerate(levels):
        lines.append(f"    subgraph level{number}[level {number}]")
        lines += [f"        {one.round.name}" for one in level]
        lines.append("    end")
    before["measure"] = set()
    for one in (one for level in levels for one in level):
        edges([name for name in one.hears if name != UNITS] or ["measure"], one.round.name)
    edges(last, "verdicts")
    return "\n".join(lines) + "\n"
