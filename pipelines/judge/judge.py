"""Judge: measures every transition once, decides what is kept, and writes a verdict beside each row of payload.

Only packed hashes are shuffled. Each decision has rounds: every unit gives keys, those of equal keys come together, and
who loses is told to its unit, so that the next decision sees the corpus as it then stands:

    measure ─▶ contaminated ─▶ equal trajectories ─▶ near duplicates ─▶ equal transitions
        ─▶ replicates ─▶ caps ─▶ shares ─▶ components of groups ─▶ verdicts

What is told of one unit depends on the hashes of all units, but not on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from trajmill.pipelines.execution.exchange import Span
from trajmill.pipelines.execution.flow import (
    Collection,
    FlatMap,
    Flatten,
    GroupByKey,
    Map,
    MapTuple,
    SideInput,
    Transform,
)
from trajmill.pipelines.execution.memory import give_back_memory
from trajmill.pipelines.judge.caps import Caps
from trajmill.pipelines.judge.contamination import Contamination
from trajmill.pipelines.judge.copies import Copies
from trajmill.pipelines.judge.corpus_rule import Decision, Key, Round, rounds
from trajmill.pipelines.judge.earlier import EARLIER
from trajmill.pipelines.judge.groups import GROUPS
from trajmill.pipelines.judge.groups import ROUNDS as OF_GROUPS
from trajmill.pipelines.judge.judging import Judging, Unit
from trajmill.pipelines.judge.measuring import measure_unit
from trajmill.pipelines.judge.near_duplicates import LABELS, NearCopies
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.pool_conflicts import Bridges
from trajmill.pipelines.judge.replicates import REPORTED, REPORTER, Replicates, write_report
from trajmill.pipelines.judge.shares import Shares
from trajmill.pipelines.judge.verdicts import write_verdict
from trajmill.schemas.manifest import Manifest

_UNIT: Final = ""
"""What a unit is told as itself."""

_BEFORE: Final = "before"
"""Units of earlier generations."""

Told = tuple[int, tuple[str, Any]]


def decisions(judging: Judging) -> tuple[Decision, ...]:
    """The decisions that the recipe asks for, in their order."""
    asked = judging.recipe.judge
    found: list[Decision] = [Bridges(judging.earlier)] if judging.earlier is not None else []
    found += [Contamination(judging)] if judging.benchmarks else []
    if asked.drop_duplicate_trajectories:
        found.append(Copies(whole=True, earlier=judging.earlier))
    if asked.near_duplicates is not None:
        found.append(NearCopies(asked.near_duplicates, judging.earlier))
    if asked.mask_duplicate_transitions:
        found.append(Copies(whole=False, earlier=judging.earlier))
    if asked.replicates is not None:
        found.append(Replicates(asked.replicates.max, asked.spans, judging.partitions, judging.earlier))
    caps = tuple(rule.cap for rule in asked.ordered_rules())
    if any(cap is not None for cap in caps):
        found.append(Caps(caps))
    if asked.max_share:
        found.append(Shares(tuple((str(kind), share) for kind, share in asked.max_share.items())))
    return tuple(found)


class UnitsToMeasures(Transform):
    """Unit → the same, measured."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging

    def expand(self, units: Collection[Unit]) -> Collection[Unit]:
        return units | "Measure" >> Map(measure_unit, self._judging)


class UnitsToVerdicts(Transform):
    """Unit → the manifest of its verdicts; units of earlier generations, which take part, have theirs."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging

    def expand(self, units: Collection[Unit]) -> Collection[Manifest]:
        judging, made = self._judging, decisions(self._judging)
        told: dict[str, Collection[Told]] = {}
        if judging.earlier is None:
            done = units | "Measure" >> Map(measure_unit, judging)
        else:
            before = units | "Earlier" >> FlatMap(_earlier)
            told[_BEFORE] = before | "KeyEarlier" >> Map(_keyed)
            units = units | "Judged" >> FlatMap(_judged)
            done = units | "Measure" >> Map(measure_unit, judging)
        told[_UNIT] = done | "KeyUnits" >> Map(_keyed)
        told[LABELS] = done | "Labels" >> Map(_labelled)
        lost: list[str] = []
        for decision in made:
            for one in rounds(decision):
                hears = (*lost, *one.hears, *((_BEFORE,) if one.looks_back else ()))
                told[one.name] = _heard(told, hears) | one.name >> _Asked(one, judging, told)
            lost.append(decision.name)
        for one in OF_GROUPS:
            told[one.name] = _heard(told, one.hears) | one.name >> _Asked(one, judging, told)
        return (
            _heard(told, (*lost, *REPORTED, GROUPS))
            | "AllTold" >> Flatten()
            | "JoinAll" >> GroupByKey()
            | "Decide" >> Map(_decided, judging, made)
        )


class _Asked(Transform):
    """What units were told → what the round tells them."""

    def __init__(self, one: Round, judging: Judging, told: dict[str, Collection[Told]]) -> None:
        super().__init__()
        self._round, self._judging = one, judging
        self._common = told.get(one.common)

    def expand(self, heard: tuple[Collection[Told], ...]) -> Collection[Told]:
        one, judging = self._round, self._judging
        common: Any = {} if self._common is None else _whole(self._common)
        return (
            heard
            | "Told" >> Flatten()
            | "Join" >> GroupByKey()
            | "Keys" >> FlatMap(_keys, one, judging, common)
            | "Gather" >> GroupByKey()
            | "Answers" >> FlatMap(_answers, one, judging)
        )


def _heard(told: dict[str, Collection[Told]], names: Sequence[str]) -> tuple[Collection[Told], ...]:
    return tuple(told[name] for name in dict.fromkeys((_UNIT, *names)) if name in told)


def _whole(answers: Collection[Told]) -> SideInput:
    return SideInput(answers | "Whole" >> MapTuple(_answer))


def _answer(number: int, told: tuple[str, Any]) -> tuple[int, Any]:
    return number, told[1]


def _keyed(unit: Unit) -> Told:
    return unit.number, (_UNIT, unit)


def _labelled(unit: Unit) -> Told:
    return unit.number, (LABELS, unit.label.encode())


def _earlier(unit: Unit) -> list[Unit]:
    return [unit] if unit.number >= EARLIER else []


def _judged(unit: Unit) -> list[Unit]:
    return [unit] if unit.number < EARLIER else []


def _standing(values: Iterable[tuple[str, Any]], judging: Judging, common: Mapping[int, bytes]) -> Standing:
    heard: dict[str, list[Any]] = {}
    for name, data in values:
        heard.setdefault(name, []).append(data)
    (unit,) = heard.pop(_UNIT)
    return Standing(unit, judging, heard, common)


def _keys(
    told: tuple[int, Iterable[tuple[str, Any]]],
    one: Round,
    judging: Judging,
    common: Any,
) -> Iterator[tuple[Key, bytes | Span]]:
    """The keys of a unit, on their way; none of one of an earlier generation that takes no part in the round."""
    if told[0] >= EARLIER and not one.looks_back:
        return
    keys: Iterator[tuple[Any, bytes]] = one.keys(_standing(told[1], judging, common))
    yield from judging.carried(one.name, told[0], keys)


def _answers(gathered: tuple[Key, Iterable[bytes | Span]], one: Round, judging: Judging) -> Iterator[Told]:
    """What a key's blocks answer, on its way to the units."""
    key, packed = gathered
    found = one.answers(key, judging.fetched(packed))
    if not one.heavy:
        yield from ((unit, (name, data)) for name, unit, data in found)
        return
    told: list[str] = []

    def blocks() -> Iterator[tuple[int, bytes]]:
        for name, unit, data in found:
            told.append(name)
            yield unit, data

    for number, (unit, data) in enumerate(judging.carried(f"{one.name}_answers", int(key), blocks())):
        yield unit, (told[number], data)


def _decided(
    told: tuple[int, Iterable[tuple[str, Any]]],
    judging: Judging,
    made: Sequence[Decision],
) -> Manifest:
    """`write_verdict` of what a unit was told."""
    standing = _standing(told[1], judging, {})
    if standing.unit.number == REPORTER and judging.recipe.judge.replicates is not None:
        write_report(standing)
    try:
        return write_verdict(standing, made)
    finally:
        give_back_memory()
