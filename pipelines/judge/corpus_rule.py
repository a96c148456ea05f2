"""Decisions over the whole corpus: rounds in which units give keys and receive answers, and the schedule of the rounds.

In a round, every unit gives packed keys. The blocks with equal keys are gathered, and answers derived from them are
sent to units. No answer depends on the order of the blocks. Rounds declare their inputs; `schedule_rounds` puts
independent rounds into one level, which takes one exchange.
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
"""Answers of a round: the name of the answer (for losers: the reason), the receiving unit, and packed records."""

UNITS = "units"
"""Name that stands among rounds for the units themselves, by number."""


@dataclass(frozen=True, slots=True)
class Round:
    """One gathering of keys.

    Attributes:
        name: name by which later rounds refer to its answers, of letters and `_`, since spill files are named by it.
        keys: function that yields the packed keys of a unit.
        answers: function that yields the answers to the packed keys gathered under one key.
        inputs: rounds whose answers a unit receives before it gives keys, besides those of `sees_losses`.
        sees_losses: whether its keys depend on the losers of earlier decisions.
        common: a round whose answers every unit receives in full, by number, or `UNITS`; empty for none.
        own: function that returns the losers of a unit that the unit finds by itself, so that rounds of the same level
            see them.
        heavy: whether its answers are as many as its keys and have to be spilled like them.
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
        """The reasons in `reasons.REASONS` that it gives."""

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Its rounds, each after its inputs."""

    @property
    def losing(self) -> str:
        """The round whose answers name the losers; empty if there are none."""

    @property
    def reported(self) -> tuple[str, ...]:
        """Other rounds whose answers verdicts and reports need."""

    def words(self, reason: str, survivor: int) -> str:
        """Explain to a person why a row was dropped; `survivor` is the value stored with the loser's row."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A round with the names of all rounds whose answers a unit receives before it gives keys."""

    round: Round
    inputs: tuple[str, ...]

    @property
    def hears(self) -> tuple[str, ...]:
        """The inputs, and the round whose answers all units receive."""
        return tuple(dict.fromkeys((*self.inputs, *filter(None, [self.round.common]))))


def schedule_rounds(decisions: Sequence[Decision]) -> list[list[Scheduled]]:
    """Put the rounds of decisions into as few levels as their inputs allow, and each round as late as possible.

    Late answers are not carried through levels that do not need them.
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
    """Draw levels of rounds as a Mermaid flowchart, with an edge to each round from its inputs.

    An input that also arrives through another input has no edge.

    Args:
        levels: levels of `schedule_rounds`.
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
