"""The judge stage: it measures every transition once, decides what is kept, and writes a verdict for each row.

Only packed hashes are shuffled. Each decision has rounds: every unit gives keys, equal keys are gathered, and the
losers are sent to their units, so that the next decision sees the remaining corpus. Independent rounds share a level,
which is one exchange. Units that an earlier run decided give keys according to their verdicts, rank before all others,
and lose nothing.

The answers to a unit depend on the hashes of all units, but not on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from trajmill.pipelines.execution.exchange import Span
from trajmill.pipelines.execution.flow import Collection, FlatMap, Flatten, GroupByKey, Map, SideInput, Transform
from trajmill.pipelines.execution.memory import give_back_memory
from trajmill.pipelines.judge.contamination import Contamination
from trajmill.pipelines.judge.copies import Copies
from trajmill.pipelines.judge.corpus_rule import UNITS, Decision, Key, Round, Scheduled, final_answers, schedule_rounds
from trajmill.pipelines.judge.groups import Grouping
from trajmill.pipelines.judge.harness_text import HarnessFrames, write_table
from trajmill.pipelines.judge.judging import Judging, Unit
from trajmill.pipelines.judge.measuring import measure_unit
from trajmill.pipelines.judge.near_duplicates import NearCopies
from trajmill.pipelines.judge.part_state import DecidedStanding, Standing
from trajmill.pipelines.judge.replicates import REPORTER, Replicates, write_report
from trajmill.pipelines.judge.shares import Caps, Shares
from trajmill.pipelines.judge.verdicts import write_verdict
from trajmill.schemas.manifest import Manifest

Told = tuple[int, tuple[str, Any]]
"""A unit's number; the round, and its message to the unit: (name, packed records), or the unit itself under `UNITS`."""


def decisions(judging: Judging) -> tuple[Decision, ...]:
    """List the decisions that the recipe asks for, in order. Groups are named last, since they use all similarities."""
    asked = judging.recipe.judge
    rules: list[Decision] = [Contamination(judging)] if judging.benchmarks else []
    if asked.harness_text is not None:
        rules.append(HarnessFrames(asked.harness_text.max, asked.harness_text.max_of_agent))
    if asked.drop_duplicate_trajectories:
        rules.append(Copies("trajectory"))
    likeness: tuple[str, ...] = ()
    if asked.near_duplicates is not None:
        near = NearCopies(asked.near_duplicates, judging.likeness is not None)
        rules.append(near)
        likeness = (near.losing,)
    if asked.max_per_task is not None:
        rules.append(Copies("task", asked.max_per_task))
    if asked.mask_duplicate_transitions:
        rules.append(Copies("transition"))
    if asked.replicates is not None:
        rules.append(Replicates(asked.replicates.max, asked.spans, judging.partitions))
    caps = tuple(rule.cap if rule.of == "domain" else None for rule in asked.ordered_rules())
    if any(cap is not None for cap in caps):
        rules.append(Caps(caps))
    if asked.max_share:
        rules.append(Shares(tuple((str(kind), share) for kind, share in asked.max_share.items())))
    return (*rules, Grouping(likeness))


class UnitsToVerdicts(Transform):
    """Unit → the manifest of its verdicts. Decided units yield nothing, since their verdicts exist."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging

    def expand(self, units: Collection[Unit]) -> Collection[Manifest]:
        judging, rules = self._judging, decisions(self._judging)
        by_round: dict[str, Collection[Told]] = {}
        itself = units | "Measure" >> Map(measure_unit, judging) | "KeyUnits" >> Map(_key_unit)
        of_level: dict[frozenset[str], Collection[Told]] = {}
        for number, level in enumerate(schedule_rounds(rules)):
            common = {name: by_round.get(name, itself) for entry in level if (name := entry.round.common)}
            inputs = {name for entry in level for name in entry.inputs}
            heard = _heard(f"Hear{number}", itself, of_level, inputs, grouped=bool(common))
            answers = heard | f"Level{number}" >> _Level(level, judging, common)
            mine = frozenset(entry.round.name for entry in level)
            by_round |= dict.fromkeys(mine, answers)
            of_level[mine] = answers
        last = _heard("HearAll", itself, of_level, final_answers(rules))
        return last | "Decide" >> FlatMap(_decide, judging, rules)


class _Level(Transform):
    """One level of rounds: turns messages to units into the answers of its rounds."""

    def __init__(self, level: Sequence[Scheduled], judging: Judging, common: Mapping[str, Collection[Told]]) -> None:
        super().__init__()
        self._rounds, self._judging, self._common = [entry.round for entry in level], judging, common

    def expand(self, heard: Collection[tuple[int, Iterable[tuple[str, Any]]]]) -> Collection[Told]:
        judging, rounds = self._judging, self._rounds
        some = tuple(answers | f"Of-{name}" >> FlatMap(_of_round, name) for name, answers in self._common.items())
        common: Any = SideInput(some | "Common" >> Flatten() if len(some) > 1 else some[0]) if some else {}
        return (
            heard
            | "Keys" >> FlatMap(_keys, rounds, judging, common)
            | "Gather" >> GroupByKey()
            | "Answers" >> FlatMap(_answers, {rule_round.name: rule_round for rule_round in rounds}, judging)
        )


def _heard(
    label: str,
    itself: Collection[Told],
    of_level: Mapping[frozenset[str], Collection[Told]],
    wanted: Iterable[str],
    *,
    grouped: bool = False,
) -> Collection[tuple[int, Iterable[tuple[str, Any]]]]:
    """Key each unit by number, with itself and the answers of the wanted rounds.

    `grouped` groups the units even without answers.
    """
    parts = [itself]
    for names, answers in of_level.items():
        some = names.intersection(wanted)
        if some == names:
            parts.append(answers)
        elif some:
            parts.append(answers | f"{label}-{'-'.join(sorted(some))}" >> FlatMap(_among, some))
    # Flink keeps ungrouped elements, however many, until their side input is complete. It fails if a grouping and a
    # flattening both take the output of one step, so a single part is flattened too.
    if len(parts) > 1 or grouped:
        return tuple(parts) | f"{label}-Told" >> Flatten() | f"{label}-Join" >> GroupByKey()
    return itself | f"{label}-Alone" >> Map(_alone)


def _among(message: Told, rounds: Set[str]) -> list[Told]:
    return [message] if message[1][0] in rounds else []


def _of_round(message: Told, name: str) -> list[tuple[tuple[str, int], Any]]:
    """Key a round's message by its name and unit, without the answer's name.

    For `UNITS` the content is the unit itself.
    """
    number, (tag, content) = message
    return [((name, number), content if tag == UNITS else content[1])] if tag == name else []


def _alone(message: Told) -> tuple[int, list[tuple[str, Any]]]:
    return message[0], [message[1]]


def _key_unit(unit: Unit) -> Told:
    return unit.number, (UNITS, unit)


def _standing(values: Iterable[tuple[str, Any]], judging: Judging, common: Mapping[tuple[str, int], Any]) -> Standing:
    heard: dict[str, list[Any]] = {}
    units: list[Unit] = []
    for tag, content in values:
        if tag == UNITS:
            units.append(content)
        else:
            heard.setdefault(content[0], []).append(content[1])
    (unit,) = units
    return (DecidedStanding if unit.is_decided else Standing)(unit, judging, heard, common)


def _keys(
    messages: tuple[int, Iterable[tuple[str, Any]]], rounds: Sequence[Round], judging: Judging, common: Any
) -> Iterator[tuple[tuple[str, Key], bytes | Span]]:
    """Yield the keys of a unit for each round.

    A decided unit gives keys only for the rounds that take decided units.
    """
    standing = _standing(messages[1], judging, common)
    mine = [rule_round for rule_round in rounds if rule_round.takes_decided or not standing.unit.is_decided]
    for rule_round in mine:
        if rule_round.own is not None:
            standing.own[rule_round.name] = rule_round.own(standing)
    for rule_round in mine:
        blocks: Iterator[tuple[Any, bytes]] = rule_round.keys(standing)
        for key, data in judging.carried(rule_round.name, messages[0], blocks):
            yield (rule_round.name, key), data


def _answers(
    gathered: tuple[tuple[str, Key], Iterable[bytes | Span]], rounds: Mapping[str, Round], judging: Judging
) -> Iterator[Told]:
    """Answer a key's blocks, and address the answers to units."""
    (name_of_round, key), packed = gathered
    rule_round = rounds[name_of_round]
    answers = rule_round.answers(key, judging.fetch_blocks(packed))
    if not rule_round.heavy:
        yield from ((unit, (name_of_round, (name, data))) for name, unit, data in answers)
        return
    names: list[str] = []

    def blocks() -> Iterator[tuple[int, bytes]]:
        for name, unit, data in answers:
            names.append(name)
            yield unit, data

    for number, (unit, data) in enumerate(judging.carried(f"{name_of_round}_answers", int(key), blocks())):
        yield unit, (name_of_round, (names[number], data))


def _decide(
    messages: tuple[int, Iterable[tuple[str, Any]]], judging: Judging, rules: Sequence[Decision]
) -> Iterator[Manifest]:
    """Write the verdict of a unit from the messages to it, unless it is decided."""
    standing = _standing(messages[1], judging, {})
    if standing.unit.is_decided:
        return
    if standing.unit.number == REPORTER and judging.recipe.judge.replicates is not None:
        write_report(standing)
    if standing.unit.number == REPORTER and judging.recipe.judge.harness_text is not None:
        write_table(standing)
    try:
        yield write_verdict(standing, rules)
    finally:
        give_back_memory()
