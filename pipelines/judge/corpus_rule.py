"""Decisions over the whole corpus: rounds in which units give keys and get answers, and which of them go together.

In a round every unit gives packed keys, those of equal keys come together, and what follows from them is answered to
units. Nothing that a decision says depends on the order in which blocks come. Rounds declare what they need to hear, by
which `schedule_rounds` puts those that do not depend on each other into one level: one exchange for all of them.
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
"""Answers of a round: the name of the answer (of losers: the reason), the unit that hears it, and packed records."""

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
    """Rule that drops trajectories or rows by comparing the whole corpus, for one kind of reason."""

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
        """Explain to a person why a row was not carried on; `survivor` is what stands beside the loser's row."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A round, and by name all rounds whose answers a unit is told before it gives keys."""

    round: Round
    inputs: tuple[str, ...]

    @property
    def hears(self) -> tuple[str, ...]:
        """The same, and what all units are told."""
        return tuple(dict.fromkeys((*self.inputs, *filter(None, [self.round.common]))))


def schedule_rounds(decisions: Sequence[Decision]) -> list[list[Scheduled]]:
    """Put the rounds of decisions into as few levels as their inputs allow, and each round as late as possible.

    What is told late is not carried past levels that do not ask for it.
    """
    entries: list[Scheduled] = []
    losses: list[str] = []
    for decision in decisions:
        for rule_round in decision.rounds:
            inputs = tuple(dict.fromkeys((*(losses if rule_round.sees_losses else ()), *rule_round.inputs)))
            entries.append(Scheduled(rule_round, inputs))
        losses += [decision.losing] if decision.losing else []
    after = {entry.round.name: 0 if entry.round.own is not None else 1 for entry in entries} | {UNITS: 0}
    level = {UNITS: 0}
    for entry in entries:
        level[entry.round.name] = max((level[name] + after[name] for name in entry.hears), default=0)
    last = max(level.values())
    for entry in reversed(entries):
        name = entry.round.name
        level[name] = min(
            (level[later_entry.round.name] - after[name] for later_entry in entries if name in later_entry.hears),
            default=last,
        )
    return [[entry for entry in entries if level[entry.round.name] == number] for number in range(last + 1)]


def final_answers(decisions: Sequence[Decision]) -> tuple[str, ...]:
    """List the rounds whose answers verdicts and reports need."""
    return tuple(name for decision in decisions for name in (*decision.reported, *filter(None, [decision.losing])))


def graph(levels: Sequence[Sequence[Scheduled]], last: Sequence[str]) -> str:
    """Draw levels of rounds as a Mermaid flowchart, with an edge to each round from those that it hears.

    What a round hears by way of another one that it hears has no edge of its own.

    Args:
        levels: as `schedule_rounds` makes them.
        last: the rounds that verdicts need.
    """
    lines = ["flowchart TD", "    measure([measure])"]
    before: dict[str, set[str]] = {}

    def edges(heard: Sequence[str], name: str) -> None:
        past = set[str]().union(*(before[name_heard] for name_heard in heard))
        before[name] = past.union(heard)
        lines.extend(f"    {name_heard} --> {name}" for name_heard in heard if name_heard not in past)

    for number, level in enumerate(levels):
        lines.append(f"    subgraph level{number}[level {number}]")
        lines += [f"        {entry.round.name}" for entry in level]
        lines.append("    end")
    before["measure"] = set()
    for entry in (entry for level in levels for entry in level):
        edges([name for name in entry.hears if name != UNITS] or ["measure"], entry.round.name)
    edges(last, "verdicts")
    return "\n".join(lines) + "\n"
