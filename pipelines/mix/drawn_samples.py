"""The samples of a unit: of each kept trajectory what the pool that it was drawn for makes of it, or why nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.judge.measure_files import measure_file
from trajmill.pipelines.mix.certified import certified, replayed
from trajmill.pipelines.mix.drawn_rows import stretches
from trajmill.pipelines.mix.mixing import Mixing
from trajmill.pipelines.mix.mixture import read_answers, read_draws
from trajmill.pipelines.mix.questions import turn_powers
from trajmill.pipelines.mix.sample_plan import Plan
from trajmill.pipelines.mix.samples import Assembler, leaves_of
from trajmill.pipelines.mix.simulation_instructions import instructed_costs
from trajmill.pipelines.recipe.recipe import POOLS
from trajmill.pipelines.render.answered import Distractors
from trajmill.pipelines.render.costs import COST_HASHES, COUNTED
from trajmill.pipelines.render.pieces import Numbers
from trajmill.pipelines.render.unit_costs import UnitCosts
from trajmill.pipelines.storage.parquet import read_table
from trajmill.pipelines.storage.units import check_file, check_unit
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Reject
from trajmill.schemas.verdict import SIGNAL_PREFIX

Made: TypeAlias = "tuple[str, str, pa.RecordBatch | Reject]"
"""Pool, domain, and samples as columns (`made_schema`), or a reject where a pool has no use for a trajectory."""


def samples(unit: Unit, mixing: Mixing) -> Iterator[Made]:
    """The samples of every kept trajectory of a unit, or rejects.

    Raises:
        ShardError: transitions or verdicts are not those that were written.
    """
    check_file(mixing.transitions, unit.name, unit.sha256)
    check_unit(mixing.verdicts, unit.label)
    check_unit(mixing.measures, unit.label, measure_file(unit.label, "costs"))
    mix, counter = mixing.recipe.mix, TokenCounter(mixing.recipe.judge.tokenizer)
    verdicts = read_table(mixing.verdicts, unit.name, ["step", "kept", "use"])
    costs = read_table(mixing.measures, measure_file(unit.label, "costs"), COUNTED)
    kept, step, segment = verdicts["kept"].to_numpy(), verdicts["step"].to_numpy(), costs["segment"].to_numpy()
    use, draws = np.array(verdicts["use"].to_pylist(), object), list(read_draws(mixing.draws, unit.label))
    ordinal = np.cumsum(kept & (step == 0)) - 1
    sizes = np.bincount(ordinal[kept & (segment == 0)], minlength=len(draws))
    for drawn, size in zip(draws, sizes.tolist(), strict=True):
        if not drawn["copies"]:
            detail = f"the mixture of pool {drawn['pool']} has no place for it"
            where = (drawn["trajectory_id"], -1, size)
            yield drawn["pool"], unit.domain, Reject("trajectory", "not_drawn", detail, "", "", -1, "", *where)
    wanted, beside = np.zeros(len(step), np.bool_), _beside(unit, mixing)
    assemblers: list[Assembler] = []
    pools = [pool for pool in POOLS if any(one["copies"] and one["pool"] == pool for one in draws)]
    for pool in pools:
        mine = np.array([one["pool"] == pool and one["copies"] > 0 for one in draws], np.bool_)
        # one turn of a trajectory, and its first segment gives it
        places = np.flatnonzero(kept & (segment == 0) if pool in ("rl", "eval") else kept)
        places = places[mine[ordinal[places]]]
        wanted[places] = True
        instructions = {} if pool == "eval" else mixing.instructions
        own = instructed_costs(costs.take(pa.array(places)).combine_chunks(), instructions, counter)
        plan = Plan(UnitCosts(own, use[places], unit.domain, counter), pool, mix, counter)
        others = read_answers(mixing.draws) if pool == "rl" else Distractors()
        told = _drawn(plan.unit, draws, ordinal, places)
        assemblers.append(Assembler(plan, places, told, beside, instructions, others))
    parts = np.cumsum((step == 0) | (np.diff(segment, prepend=-1) != 0))
    hashes = tuple(costs[name].to_numpy() for name in COST_HASHES)
    leaves = leaves_of(pools, mix)
    for stretch in stretches(mixing.transitions, unit.name, parts, wanted, hashes, leaves) if pools else ():
        for pool, assembler in zip(pools, assemblers, strict=True):
            for made in assembler.of(stretch):
                yield pool, unit.domain, made


def _drawn(unit: UnitCosts, draws: Sequence[Mapping[str, Any]], ordinal: Numbers, places: Numbers) -> list[Any]:
    """What is drawn of each trajectory of a pool."""
    return [draws[number] for number in ordinal[places[unit.begins]].tolist()]


def _beside(unit: Unit, mixing: Mixing) -> dict[str, pa.ChunkedArray]:
    """What lies beside the rows of a unit, as an `Assembler` takes it.

    Raises:
        ShardError: it is not what was written.
    """
    mix, columns = mixing.recipe.mix, dict[str, pa.ChunkedArray]()
    if weighing := [SIGNAL_PREFIX + name for name in turn_powers(mix)]:
        table = read_table(mixing.verdicts, unit.name, weighing)
        columns |= {name: table[name] for name in weighing}
    if mixing.recipe.judge.spans:
        check_unit(mixing.spans, unit.label)
        columns["spans"] = read_table(mixing.spans, unit.name, ["spans"])["spans"]
    if mixing.replays is not None:
        told = replayed(mixing.replays, mixing.verdicts, unit)
        columns |= {"certified": certified(told)} if mix.rl == "certified" else {}
        columns |= {"written": told["written"]} if mix.databases else {}
    return columns
