"""The samples of a unit: of each kept trajectory what the pool that it was drawn for makes of it, or why nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.judge.measure_files import costs_name
from trajmill.pipelines.mix.asked_samples import POOL as ASKED
from trajmill.pipelines.mix.asked_samples import AskedSamples
from trajmill.pipelines.mix.certified import certified, replayed
from trajmill.pipelines.mix.drawn_rows import WholeRows, rows_and_wholes
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.mixing import Mixing
from trajmill.pipelines.mix.mixture import read_answers, read_draws
from trajmill.pipelines.mix.questions import turn_powers
from trajmill.pipelines.mix.samples import Unlearnable, samples_of
from trajmill.pipelines.mix.simulation_instructions import instructed
from trajmill.pipelines.mix.whole_samples import WHOLE_POOLS, WholeSamples
from trajmill.pipelines.mix.whole_trajectories import UnitRows, WholeTrajectories, places_of
from trajmill.pipelines.recipe.recipe import Pool
from trajmill.pipelines.render.answered import Distractors
from trajmill.pipelines.render.costs import COST_COLUMNS, COST_HASHES, COUNTED
from trajmill.pipelines.render.turns import Rows
from trajmill.pipelines.storage.parquet import read_table
from trajmill.pipelines.storage.units import check_file, check_unit
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Reject
from trajmill.schemas.verdict import SIGNAL_PREFIX

Made: TypeAlias = "tuple[str, str, dict[str, Any] | pa.RecordBatch | Reject]"
"""Pool, domain, and a sample, or many as columns (`made_schema`), or a reject where a pool has no use for it."""


def samples(unit: Unit, mixing: Mixing) -> Iterator[Made]:
    """The samples of every kept trajectory of a unit, or rejects.

    Raises:
        ShardError: transitions or verdicts are not those that were written.
    """
    check_file(mixing.transitions, unit.name, unit.sha256)
    kept, beside = _beside(unit, mixing)
    yield from _samples(unit, kept, beside, mixing)


def _samples(unit: Unit, kept: npt.NDArray[np.bool_], beside: pa.Table, mixing: Mixing) -> Iterator[Made]:
    draws = list(read_draws(mixing.draws, unit.label))
    asked, sizes = _asked(kept, beside, draws)
    for drawn, size in zip(draws, sizes.tolist(), strict=True):
        if not drawn["copies"]:
            detail = f"the mixture of pool {drawn['pool']} has no place for it"
            where = (drawn["trajectory_id"], -1, size)
            yield drawn["pool"], unit.domain, Reject("trajectory", "not_drawn", detail, "", "", -1, "", *where)
    mix, counter = mixing.recipe.mix, TokenCounter(mixing.recipe.judge.tokenizer)
    others = _others(draws, mixing)
    wholes = _wholes(unit, asked, beside, draws, mixing, counter, others)
    envelopes = mix.mcp == "envelope"
    for rows in rows_and_wholes(mixing.transitions, unit.name, beside, asked, wholes, envelopes=envelopes):
        if isinstance(rows, WholeRows):
            yield from ((pool, unit.domain, made) for pool, one in wholes.by_pool.items() for made in one.of(rows))
        else:
            yield from _of_rows(rows, draws, mixing, counter, others)


@dataclass(frozen=True, slots=True)
class _Wholes:
    """The trajectories of a unit that become samples by columns, by pool."""

    by_pool: Mapping[Pool, WholeTrajectories]

    def within(self, first: int, number: int) -> npt.NDArray[np.bool_]:
        found = np.zeros(number, np.bool_)
        for one in self.by_pool.values():
            found |= one.within(first, number)
        return found

    def reads(self, first: int, number: int) -> Set[str]:
        told = [one.reads for one in self.by_pool.values() if one.reads and one.within(first, number).any()]
        return frozenset[str]().union(*told)


def _wholes(
    unit: Unit,
    asked: npt.NDArray[np.bool_],
    beside: pa.Table,
    draws: Sequence[Mapping[str, Any]],
    mixing: Mixing,
    counter: TokenCounter,
    others: Distractors | None,
) -> _Wholes:
    """The trajectories of a unit that become samples by columns."""
    pools = {one["pool"] for one in draws if one["copies"]} & {*WHOLE_POOLS, ASKED}
    if mixing.replays is not None:
        pools.discard(ASKED)
    if "spans" in beside.column_names or not pools:
        return _Wholes({})
    rest = [name for name in COUNTED if name not in beside.column_names]
    read = read_table(mixing.measures, costs_name(unit.label), rest)
    costs = pa.table({name: (read if name in rest else beside)[name] for name in COUNTED})
    use = np.array(beside["use"].to_pylist(), object)
    rows = UnitRows(costs, use, beside["ordinal"].to_numpy(), asked, unit.domain)
    found: dict[Pool, WholeTrajectories] = {}
    for pool in sorted(pools):
        places = places_of(pool, rows, draws, mixing.instructions.keys())
        if len(places):
            told = rows, places, draws, mixing.recipe.mix, counter
            found[pool] = AskedSamples(*told, others or Distractors()) if pool == ASKED else WholeSamples(pool, *told)
    return _Wholes(found)


def _of_rows(
    rows: Rows, draws: Sequence[Mapping[str, Any]], mixing: Mixing, counter: TokenCounter, others: Distractors | None
) -> Iterator[Made]:
    """What a trajectory, or a segment of one, becomes, row by row."""
    mix, drawn = mixing.recipe.mix, draws[rows[0]["ordinal"]]
    first, pool = {**rows[0], **{name: drawn[name] for name in _OF_DRAWS}}, drawn["pool"]
    told = [first, *rows[1:]]
    shown = told if pool == "eval" else instructed(told, mixing.instructions, counter)
    for part, sample in samples_of(pool, shown, mix, counter, others):
        if isinstance(sample, Unlearnable):
            # a later segment or a window is no trajectory: its first row stands for it
            is_part = first["segment"] or part is not shown
            what, step = ("transition", part[0]["step"]) if is_part else ("trajectory", -1)
            where = (first["trajectory_id"], step, len(part))
            yield pool, first["domain"], Reject(what, sample.reason, sample.detail, "", "", -1, "", *where)
        else:
            sample["_hash"], sample["_row"] = keyed_hash(f"order:{sample['_id']}", mix.seed), part[0]["row_id"]
            for _ in range(drawn["copies"]):
                yield pool, first["domain"], sample


def _others(draws: Sequence[Mapping[str, Any]], mixing: Mixing) -> Distractors | None:
    """Answers by which checks of RL are tried; None for a unit that has no sample of RL."""
    return read_answers(mixing.draws) if any(one["pool"] == "rl" and one["copies"] for one in draws) else None


_OF_DRAWS: Final = ("group", "number", "task_hash", "instance_hash", "familiarity")
"""What the first row of a trajectory bears of what is drawn of it."""


def _beside(unit: Unit, mixing: Mixing) -> tuple[npt.NDArray[np.bool_], pa.Table]:
    """Which rows of a unit are kept, and what lies beside all of them, as `drawn_rows` takes it, with their segments.

    Raises:
        ShardError: it is not what was written.
    """
    check_unit(mixing.verdicts, unit.label)
    check_unit(mixing.measures, unit.label, costs_name(unit.label))
    costs = ["segment", *COST_COLUMNS, *COST_HASHES]
    weighing = [SIGNAL_PREFIX + name for name in turn_powers(mixing.recipe.mix)]
    judged = ["step", "kept", "use", *weighing]
    files = [(mixing.verdicts, unit.name, judged), (mixing.measures, costs_name(unit.label), costs)]
    if mixing.recipe.judge.spans:
        check_unit(mixing.spans, unit.label)
        files.append((mixing.spans, unit.name, ["spans"]))
    tables = [read_table(*file) for file in files]
    columns = {name: table[name] for table in tables for name in table.column_names}
    kept, step = columns.pop("kept").to_numpy(), columns.pop("step").to_numpy()
    if mixing.replays is not None:
        told = replayed(mixing.replays, mixing.verdicts, unit)
        mix = mixing.recipe.mix
        columns |= {"certified": certified(told)} if mix.rl == "certified" else {}
        columns |= {"written": told["written"]} if mix.databases else {}
    columns["ordinal"] = pa.chunked_array([np.cumsum(kept & (step == 0)) - 1])
    return kept, pa.table(columns)


def _asked(
    kept: npt.NDArray[np.bool_], beside: pa.Table, draws: Sequence[Mapping[str, Any]]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which rows samples are made of, and how many rows each trajectory has, or the first segment of a split one."""
    drawn = np.array([one["copies"] > 0 for one in draws], np.bool_)
    # one turn of a trajectory, and its first segment gives it
    has_one = np.array([one["pool"] in ("rl", "eval") for one in draws], np.bool_)
    of, is_first = beside["ordinal"].to_numpy()[kept], beside["segment"].to_numpy()[kept] == 0
    asked = kept.copy()
    asked[kept] = drawn[of] & (is_first | ~has_one[of])
    return asked, np.bincount(of[is_first], minlength=len(draws))
