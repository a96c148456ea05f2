"""Judge: measures every transition once, decides what is kept, and writes a verdict beside each row of payload.

Only packed hashes are shuffled. Each decision has rounds: every unit gives keys, those of equal keys come together, and
who loses is told to its unit, so that the next decision sees the corpus as it then stands. Rounds that do not depend on
each other share a level, which is one exchange. Units that an earlier run decided give keys as they
were left, rank before all others, and lose nothing.

What is told of one unit depends on the hashes of all units, but not on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from trajmill.pipelines.execution.exchange import Span
from trajmill.pipelines.execution.flow import (
    Collection,
    FlatMap,
    Flatten,
    GroupByKey,
    Map,
    SideInput,
    Transform,
)
from trajmill.pipelines.execution.memory import give_back_memory
from trajmill.pipelines.judge.contamination import Contamination
from trajmill.pipelines.judge.copies import Copies
from trajmill.pipelines.judge.corpus_rule import UNITS, Decision, Key, Round, Scheduled, heard_at_last, scheduled
from trajmill.pipelines.judge.groups import Grouping
from trajmill.pipelines.judge.harness_text import HarnessFrames, write_table
from trajmill.pipelines.judge.judging import Judging, Unit
from trajmill.pipelines.judge.measuring import measure_unit
from trajmill.pipelines.judge.near_duplicates import NearCopies
from trajmill.pipelines.judge.part_state import Standing, standing_of
from trajmill.pipelines.judge.replicates import REPORTER, Replicates, write_report
from trajmill.pipelines.judge.shares import Caps, Shares
from trajmill.pipelines.judge.verdicts import write_verdict
from trajmill.schemas.manifest import Manifest

Told = tuple[int, tuple[str, Any]]
"""A unit's number; the round, and what it tells the unit: (name, packed records), or the unit itself under `UNITS`."""


def decisions(judging: Judging) -> tuple[Decision, ...]:
    """The decisions that the recipe asks for, in their order; groups are named at last, of all that is alike."""
    asked = judging.recipe.judge
    found: list[Decision] = [Contamination(judging)] if judging.benchmarks else []
    if asked.harness_text is not None:
        found.append(HarnessFrames(asked.harness_text.max, asked.harness_text.max_of_agent))
    if asked.drop_duplicate_trajectories:
        found.append(Copies(whole=True))
    likeness: tuple[str, ...] = ()
    if asked.near_duplicates is not None:
        near = NearCopies(asked.near_duplicates, judging.likeness is not None)
        found.append(near)
        likeness = (near.losing,)
    if asked.mask_duplicate_transitions:
        found.append(Copies(whole=False))
    if asked.replicates is not None:
        found.append(Replicates(asked.replicates.max, asked.spans, judging.partitions))
    caps = tuple(rule.cap if rule.of == "domain" else None for rule in asked.ordered_rules())
    if any(cap is not None for cap in caps):
        found.append(Caps(caps))
    if asked.max_share:
        found.append(Shares(tuple((str(kind), share) for kind, share in asked.max_share.items())))
    return (*found, Grouping(likeness))


class UnitsToVerdicts(Transform):
    """Unit → the manifest of its verdicts; those of decided units are there."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging

    def expand(self, units: Collection[Unit]) -> Collection[Manifest]:
        judging, made = self._judging, decisions(self._judging)
        told: dict[str, Collection[Told]] = {}
        itself = units | "Measure" >> Map(measure_unit, judging) | "KeyUnits" >> Map(_keyed)
        of_level: dict[frozenset[str], Collection[Told]] = {}
        for number, level in enumerate(scheduled(made)):
            common = {name: told.get(name, itself) for one in level if (name := one.round.common)}
            inputs = {name for one in level for name in one.inputs}
            heard = _heard(f"Hear{number}", itself, of_level, inputs, grouped=bool(common))
            answers = heard | f"Level{number}" >> _Level(level, judging, common)
            mine = frozenset(one.round.name for one in level)
            told |= dict.fromkeys(mine, answers)
            of_level[mine] = answers
        last = _heard("HearAll", itself, of_level, heard_at_last(made))
        return last | "Decide" >> FlatMap(_decided, judging, made)


class _Level(Transform):
    """What units were told → what the rounds of a level tell them.

    Args:
        level: the rounds.
        judging: what they need besides.
        common: what tells what all units are told, by round.
    """

    def __init__(self, level: Sequence[Scheduled], judging: Judging, common: Mapping[str, Collection[Told]]) -> None:
        super().__init__()
        self._rounds, self._judging, self._common = [one.round for one in level], judging, common

    def expand(self, heard: Collection[tuple[int, Iterable[tuple[str, Any]]]]) -> Collection[Told]:
        judging, rounds = self._judging, self._rounds
        some = tuple(told | f"Of-{name}" >> FlatMap(_of_round, name) for name, told in self._common.items())
        common: Any = SideInput(some | "Common" >> Flatten() if len(some) > 1 else some[0]) if some else {}
        return (
            heard
            | "Keys" >> FlatMap(_keys, rounds, judging, common)
            | "Gather" >> GroupByKey()
            | "Answers" >> FlatMap(_answers, {one.name: one for one in rounds}, judging)
        )


def _heard(
    label: str,
    itself: Collection[Told],
    of_level: Mapping[frozenset[str], Collection[Told]],
    wanted: Iterable[str],
    *,
    grouped: bool = False,
) -> Collection[tuple[int, Iterable[tuple[str, Any]]]]:
    """Each unit, by number, with itself and what the wanted rounds tell it; `grouped` even if that is nothing."""
    parts = [itself]
    for names, answers in of_level.items():
        some = names.intersection(wanted)
        if some == names:
            parts.append(answers)
        elif some:
            parts.append(answers | f"{label}-{'-'.join(sorted(some))}" >> FlatMap(_among, some))
    # Flink holds elements that were not grouped, however many, until what they are told besides is whole. It fails
    # where a grouping and a flattening both take what one step hands on, so one part is flattened too.
    if len(parts) > 1 or grouped:
        return tuple(parts) | f"{label}-Told" >> Flatten() | f"{label}-Join" >> GroupByKey()
    return itself | f"{label}-Alone" >> Map(_alone)


def _among(told: Told, rounds: Set[str]) -> list[Told]:
    return [told] if told[1][0] in rounds else []


def _of_round(told: Told, name: str) -> list[tuple[tuple[str, int], Any]]:
    """What a round tells, by its name and number, without the names that it is told as; of `UNITS` the unit."""
    number, (of, what) = told
    return [((name, number), what if of == UNITS else what[1])] if of == name else []


def _alone(told: Told) -> tuple[int, list[tuple[str, Any]]]:
    return told[0], [told[1]]


def _keyed(unit: Unit) -> Told:
    return unit.number, (UNITS, unit)


def _standing(values: Iterable[tuple[str, Any]], judging: Judging, common: Mapping[tuple[str, int], Any]) -> Standing:
    heard: dict[str, list[Any]] = {}
    units: list[Unit] = []
    for of, what in values:
        if of == UNITS:
            units.append(what)
        else:
            heard.setdefault(what[0], []).append(what[1])
    (unit,) = units
    return standing_of(unit, judging, heard, common)


def _keys(
    told: tuple[int, Iterable[tuple[str, Any]]],
    rounds: Sequence[Round],
    judging: Judging,
    common: Any,
) -> Iterator[tuple[tuple[str, Key], bytes | Span]]:
    """The keys of a unit for each round, on their way; of a decided unit for those that it takes part in."""
    standing = _standing(told[1], judging, common)
    mine = [one for one in rounds if one.takes_decided or not standing.unit.is_decided]
    for one in mine:
        if one.own is not None:
            standing.own[one.name] = one.own(standing)
    for one in mine:
        blocks: Iterator[tuple[Any, bytes]] = one.keys(standing)
        for key, data in judging.carried(one.name, told[0], blocks):
            yield (one.name, key), data


def _answers(
    gathered: tuple[tuple[str, Key], Iterable[bytes | Span]], rounds: Mapping[str, Round], judging: Judging
) -> Iterator[Told]:
    """What a key's blocks answer, on its way to the units."""
    (of, key), packed = gathered
    one = rounds[of]
    found = one.answers(key, judging.fetched(packed))
    if not one.heavy:
        yield from ((unit, (of, (name, data))) for name, unit, data in found)
        return
    told: list[str] = []

    def blocks() -> Iterator[tuple[int, bytes]]:
        for name, unit, data in found:
            told.append(name)
            yield unit, data

    for number, (unit, data) in enumerate(judging.carried(f"{of}_answers", int(key), blocks())):
        yield unit, (of, (told[number], data))


def _decided(
    told: tuple[int, Iterable[tuple[str, Any]]],
    judging: Judging,
    made: Sequence[Decision],
) -> Iterator[Manifest]:
    """`write_verdict` of what a unit was told, unless it is decided."""
    standing = _standing(told[1], judging, {})
    if standing.unit.is_decided:
        return
    if standing.unit.number == REPORTER and judging.recipe.judge.replicates is not None:
        write_report(standing)
    if standing.unit.number == REPORTER and judging.recipe.judge.harness_text is not None:
        write_table(standing)
    try:
        yield write_verdict(standing, made)
    finally:
        give_back_memory()
