"""The mixture: the pool of each group and the draw of each stage, written before any shard is made.

`draws/` holds the ledger of groups (`pools.parquet`), which never changes for a group; answers on which the checks of
RL are tried (`answers.parquet`); and a file per unit of transitions, with one row per kept trajectory: its pool, and
how often it is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.judge.judging import Unit, measure_file
from trajmill.pipelines.mix.candidates import (
    Candidates,
    Identities,
    Wanted,
    candidates,
    draws_name,
    gather_candidates,
    identities,
    narrow,
    training_environments,
)
from trajmill.pipelines.mix.coded_names import Coded, as_coded, hex_texts
from trajmill.pipelines.mix.draw import draw_stage
from trajmill.pipelines.mix.known import EarlierDraws, Known, Placement
from trajmill.pipelines.mix.passages.drawing import passage_candidates, passage_identities
from trajmill.pipelines.mix.passages.preparation import PassageUnit, Preparation
from trajmill.pipelines.mix.pools import group_by_domain, pools_of
from trajmill.pipelines.mix.sample_columns import SHOWING
from trajmill.pipelines.mix.sample_plan import budget_samples
from trajmill.pipelines.mix.simulated import NAME as SIMULATED
from trajmill.pipelines.mix.simulated import check_components, sum_mixtures, sum_simulated
from trajmill.pipelines.mix.simulation_instructions import costs_with_instructions
from trajmill.pipelines.mix.stage_items import stage_items
from trajmill.pipelines.recipe.mixture import Stage
from trajmill.pipelines.recipe.recipe import POOLS, Mix, Recipe
from trajmill.pipelines.render.answered import HELD, Distractors
from trajmill.pipelines.render.costs import COUNTED
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, read_table, write_parquet
from trajmill.pipelines.storage.units import check_unit, finish_unit, manifest_name, units_of
from trajmill.quality.sets import distinct, holds
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import DOMAINS, SCHEMA_VERSION
from trajmill.schemas.manifest import FileEntry, Manifest

STAGE: Final = "mix"
POOLS_UNIT: Final = "pools"
ANSWERS: Final = "answers.parquet"
_LEDGER: Final = pa.schema([("group", pa.string()), ("pool", pa.string()), ("trajectories", pa.int64())])
DRAWS: Final = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("group", pa.string()),
        ("pool", pa.string()),
        ("copies", pa.int32()),
        ("tokens", pa.int64()),
        ("number", pa.int64()),
        ("task_hash", pa.string()),
        ("instance_hash", pa.string()),
        ("familiarity", pa.string()),
    ]
)
"""Schema of one row per kept trajectory of a unit, in the order of its file.

`group` is that of the ledger, `number` is the position by hash among all draws of the pool, and `familiarity` states
whether training shows the environment (see `familiarity`).
"""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Draws of all pools in total.

    Attributes:
        counts: drawn trajectories, tokens, loss tokens and bytes of text, each by pool and domain.
        stages: for each pool, the draws of each category: see `draw.CategoryDraw`.
        asked: by pool and domain, the number of trajectories by the pool's share, and the number that it was given.
        simulated: draws of each component that a world model answered: see `mix.simulated`.
    """

    counts: Mapping[str, int]
    stages: Mapping[str, list[dict[str, Any]]]
    asked: Mapping[str, Mapping[str, tuple[float, int]]]
    simulated: Sequence[Mapping[str, Any]] = ()

    def drawn(self) -> dict[str, int]:
        """Return the number of drawn trajectories and passages, by pool and domain: `sft.web`."""
        lead = "trajectories."
        return {key.removeprefix(lead): count for key, count in self.counts.items() if key.startswith(lead)}

    def told(self) -> dict[str, Any]:
        """Convert to plain values for a manifest."""
        pools = {
            pool: {domain: {"asked": wanted, "given": assigned} for domain, (wanted, assigned) in domains.items()}
            for pool, domains in self.asked.items()
        }
        summary = {"pools": pools, "stages": self.stages}
        return summary | ({SIMULATED: list(self.simulated)} if self.simulated else {})


class Chosen(NamedTuple):
    """For each candidate its group, its pool, how often it is drawn, and its tokens as a sample of that pool."""

    groups: npt.NDArray[np.uint64]
    pool: Coded
    copies: npt.NDArray[np.int32]
    tokens: npt.NDArray[np.integer[Any]]


Tokens: TypeAlias = npt.NDArray[np.integer[Any]]
Sizes: TypeAlias = Callable[[Coded], tuple[Tokens, Tokens]]
"""Function from the pool of each candidate to its tokens as samples of that pool, and the tokens under loss."""

_POOLS: Final = (*POOLS, "")
"""Names of the pools, and the empty name of a pool not yet chosen."""

_PIXELS_A_BYTE: Final = 4
"""Approximate number of pixels per byte of a screenshot, if it is a square of the largest size."""

_AT_ONCE: Final = 1 << 18


def make_mixture(
    recipe: Recipe, candidates: Candidates, sizes: Sizes, placement: Placement, earlier: EarlierDraws
) -> tuple[Mixture, Chosen]:
    """Draw the mixture of a recipe from candidates.

    Args:
        sizes: function that returns their tokens.

    Raises:
        ConfigError: a group is larger than any pool, a share falls short and the recipe stops on that, or a component
            would hold two world models.
    """
    mix, groups = recipe.mix, placement.group
    pool = _pools(candidates, placement, mix, earlier.given())
    tokens, loss_tokens = sizes(pool)
    candidates = replace(candidates, tokens=tokens, loss_tokens=loss_tokens)
    copies = np.zeros(len(candidates), np.int32)
    stages: dict[str, list[dict[str, Any]]] = {}
    simulated: list[dict[str, Any]] = []
    for name in POOLS:
        if mix.pools.get(name):
            chosen, items = stage_items(candidates, groups, pool, name, mix)
            stage = mix.stages.get(name, Stage())
            component, models = as_coded(items.component), candidates.world_model[chosen]
            check_components(name, component, models, sum_mixtures(earlier.mixtures))
            drawn = draw_stage(items, stage, f"mix.stages.{name}", earlier.carried(name, stage))
            copies[chosen] = drawn.copies
            stages[name] = [{**asdict(category), "epochs": round(category.epochs, 4)} for category in drawn.categories]
            simulated += sum_simulated(name, component, models, items.tokens, drawn.copies)
    mixture = Mixture(
        _counts(candidates, pool, copies, mix.images), stages, _compare_shares(candidates, pool, mix), simulated
    )
    return mixture, Chosen(groups, pool, copies, tokens)


def _parts(candidates: Candidates, mix: Mix) -> Iterator[tuple[npt.NDArray[np.bool_], Mapping[str, float]]]:
    """Yield flags of the candidates with equal pool shares, and these shares.

    Trajectories come first, then each component of passages.
    """
    passages = {component.name: candidates.domain.is_in([component.name]) for component in mix.passages}
    shares: dict[str, Mapping[str, float]] = {
        name: {
            pool: mix.pools.get(pool, 0.0) if pool in mix.stages and name in mix.stages[pool].components else 0.0
            for pool in POOLS
        }
        for name in passages
    }
    parts = {"": ~np.logical_or.reduce([*passages.values(), np.zeros(len(candidates), np.bool_)]), **passages}
    for name, mine in parts.items():
        yield mine, shares[name] if name in shares else {pool: mix.pools.get(pool, 0.0) for pool in POOLS}


def _pools(candidates: Candidates, placement: Placement, mix: Mix, given_counts: Mapping[str, Counter[str]]) -> Coded:
    """Return the pool of each candidate: that of its placement, or, for new groups, the pool that lacks most.

    A passage gets a pool whose stage uses its component.
    """
    for name in POOLS:
        for domain, count in _by_domain(candidates.domain[placement.pool.is_in([name])]).items():
            given_counts[name][domain] += count
    pool = np.array([_POOLS.index(name) for name in placement.pool.names], np.uint8)[placement.pool.codes]
    unplaced = placement.pool.is_in([""])
    for mine, shares in _parts(candidates, mix):
        new = mine & unplaced
        if new.any():
            groups = group_by_domain(placement.group[new], candidates.domain[new])
            pool[new] = pools_of(groups, shares, mix.seed, given_counts)[groups.number]
    return Coded(pool, _POOLS)


def _by_domain(domain: Coded) -> dict[str, int]:
    counts = np.bincount(domain.codes, minlength=len(domain.names)).tolist()
    return {str(name): count for name, count in zip(domain.names, counts, strict=True) if count}


def familiarity(environment: npt.NDArray[np.uint64], trained: npt.NDArray[np.uint64]) -> Coded:
    """Tell for each candidate whether training also shows its repository, site, app or server.

    The values are `seen`, `unseen`, or `unknown` if the log does not name the environment. `trained` are the
    environments that training shows, ascending.
    """
    is_seen = holds(trained, environment)
    codes = np.where(environment == 0, 0, np.where(is_seen, 1, 2)).astype(np.uint8)
    return Coded(codes, ("unknown", "seen", "unseen"))


def _name_nodes(nodes: npt.NDArray[np.uint64]) -> pa.Array:
    """Format hashes as samples name them: 16 hex digits, null for 0."""
    return pa.compute.if_else(pa.array(nodes != 0), hex_texts(nodes), None)


def _counts(candidates: Candidates, pool: Coded, copies: npt.NDArray[np.int32], images: int | None) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for name in POOLS:
        in_pool = pool.is_in([name])
        for domain in sorted(map(str, candidates.domain.held())):
            mine = np.flatnonzero(in_pool & candidates.domain.is_in([domain]))
            if len(mine):
                key = f"{name}.{domain}"
                drawn = copies[mine].astype(np.int64)
                counts[f"trajectories.{key}"] = int((drawn > 0).sum())
                for measure in ("text_bytes", "tokens", "loss_tokens"):
                    counts[f"{measure}.{key}"] = int((getattr(candidates, measure)[mine] * drawn).sum())
                if images is not None and name in SHOWING:  # pictures count for the size of shards as texts do
                    pictures = int((candidates.attachments[mine] * drawn).sum())
                    counts[f"text_bytes.{key}"] += pictures * images * images // _PIXELS_A_BYTE
    return dict(sorted(counts.items()))


def _compare_shares(candidates: Candidates, pool: Coded, mix: Mix) -> dict[str, dict[str, tuple[float, int]]]:
    total = sum(mix.pools.values())
    available = _by_domain(candidates.domain)
    given_counts = {name: _by_domain(candidates.domain[pool.is_in([name])]) for name in POOLS if mix.pools.get(name)}
    return {
        name: {
            domain: (round(mix.pools[name] / total * available[domain], 1), counts.get(domain, 0))
            for domain in DOMAINS
            if domain in available
        }
        for name, counts in given_counts.items()
    }


@dataclass(frozen=True, slots=True)
class Judged:
    """Judged units in the folder of a run's stages, with the passages."""

    units: Sequence[Unit]
    stages: Folder
    passages: Preparation | None = None
    instructions: Mapping[str, str] = field(default_factory=dict)
    known: Known = field(default_factory=Known)

    def labels(self) -> list[str]:
        """Return the labels of all units: of transitions, then of passages."""
        return [*(unit.label for unit in self.units), *(unit.label for unit in self.passage_units())]

    def identities(self) -> Iterator[tuple[str, Identities]]:
        """Yield the label of each unit with the identities of its candidates."""
        for unit in self.units:
            yield unit.label, identities(unit, self.stages)
        for passage_unit in self.passage_units():
            assert self.passages is not None
            yield passage_unit.label, passage_identities(passage_unit, self.passages)

    def component(self, unit: PassageUnit) -> str:
        """Return the name of a unit's component."""
        assert self.passages is not None
        return self.passages.components[unit.component].name

    def passage_units(self) -> list[PassageUnit]:
        """Return the units of passages, numbered after those of transitions."""
        some = self.passages.units() if self.passages is not None else []
        return [replace(unit, number=unit.number + len(self.units)) for unit in some]


def draw(recipe: Recipe, judged: Judged, earlier: EarlierDraws) -> tuple[Mixture, Candidates, Chosen]:
    """Draw the mixture of judged units without writing it.

    Returns:
        The mixture, the candidates, and the choices for each.

    Raises:
        ConfigError: see `make_mixture`.
    """
    wanted = Wanted.by(recipe.mix)
    gathered = gather_candidates((candidates(unit, judged.stages, wanted) for unit in judged.units), wanted.signals)
    placement = judged.known.placed(recipe, judged.units, gathered, judged.stages)
    passages = judged.passages
    if passages is not None:
        some = (passage_candidates(unit, passages, wanted) for unit in judged.passage_units())
        passed = gather_candidates(some, wanted.signals)
        gathered = gather_candidates([gathered, passed], wanted.signals)
        placed = judged.known.place_passages(passed)
        group = np.concatenate([placement.group, placed.group])
        placement = Placement(group, Coded.joined([placement.pool, placed.pool]))
    counter = TokenCounter(recipe.judge.tokenizer)
    mixture, chosen = make_mixture(
        recipe, gathered, lambda pools: _sizes(recipe.mix, judged, gathered, pools, counter), placement, earlier
    )
    return mixture, gathered, chosen


def write_draws(recipe: Recipe, judged: Judged, draws: Folder, digest: str) -> Mixture:
    """Draw the mixture of judged units, write it, and return it.

    Raises:
        ConfigError: see `make_mixture`.
    """
    earlier = judged.known.draws(recipe)
    mixture, candidates, (groups, pool, copies, tokens) = draw(recipe, judged, earlier)
    entries = [write_parquet(draws, f"{POOLS_UNIT}.parquet", _LEDGER, [_ledger(groups, pool)])]
    if recipe.mix.asks_for_turns:
        entries.append(_write_answers(judged, draws))
    finish_unit(draws, Manifest(STAGE, POOLS_UNIT, digest, SCHEMA_VERSION, tuple(entries), dict(mixture.counts)))
    trained = training_environments(candidates.environment, pool, copies)
    trained = distinct(np.concatenate([trained, earlier.environments()]))
    numbers = _numbers(candidates, pool, copies, {name: earlier.count(name) for name in POOLS})
    labels = judged.labels()
    ends = np.searchsorted(candidates.unit, np.arange(len(labels) + 1)).tolist()
    for (label, who), bounds in zip(judged.identities(), pairwise(ends), strict=True):
        mine = slice(*bounds)
        familiar = familiarity(candidates.environment[mine], trained).texts()
        columns = [who.ids, hex_texts(groups[mine]), pool[mine].texts(), pa.array(copies[mine])]
        columns.append(pa.array(tokens[mine].astype(np.int64)))
        columns += [pa.array(numbers[mine]), _name_nodes(who.task_node), _name_nodes(who.instance_node), familiar]
        batch = pa.RecordBatch.from_arrays(columns, schema=DRAWS)
        entry = write_parquet(draws, draws_name(label), DRAWS, [batch])
        finish_unit(draws, Manifest(STAGE, label, digest, SCHEMA_VERSION, (entry,)))
    return mixture


def _ledger(groups: npt.NDArray[np.uint64], pool: Coded) -> pa.RecordBatch:
    names = distinct(groups)
    pools, sizes = np.zeros(len(names), pool.codes.dtype), np.zeros(len(names), np.int64)
    for begin in reversed(range(0, len(groups), _AT_ONCE)):  # the first of a group says its pool
        some = slice(begin, begin + _AT_ONCE)
        number = np.searchsorted(names, groups[some])
        pools[number[::-1]] = pool.codes[some][::-1]
        np.add.at(sizes, number, 1)
    pool_names = Coded(pools, pool.names).texts()
    return pa.RecordBatch.from_arrays([hex_texts(names), pool_names, pa.array(sizes)], schema=_LEDGER)


def _sizes(
    mix: Mix, judged: Judged, candidates: Candidates, pool: Coded, counter: TokenCounter
) -> tuple[Tokens, Tokens]:
    """Return the tokens, and the tokens under loss, of each kept trajectory in its pool, and those of passages."""
    sizes: tuple[Tokens, Tokens] = candidates.tokens, candidates.loss_tokens
    begun = 0
    for unit in judged.units:
        verdicts = read_table(judged.stages / "verdicts", unit.name, ["kept", "use"])
        costs = read_table(judged.stages / "measures", measure_file(unit.label, "costs"), COUNTED)
        is_kept = verdicts["kept"].combine_chunks()
        use = np.array(verdicts["use"].filter(is_kept).to_pylist(), object)
        costs = costs.filter(is_kept).combine_chunks()
        step = costs["step"].to_numpy()
        count = int((step == 0).sum())
        pools_of_unit = pool[begun : begun + count]
        summed = np.zeros((2, count), np.int64)
        for name in POOLS:
            chosen = np.flatnonzero(pools_of_unit.is_in([name]))
            if len(chosen):
                rows = np.isin(np.cumsum(step == 0) - 1, chosen)
                instructions = {} if name == "eval" else judged.instructions
                mine = costs_with_instructions(costs.filter(pa.array(rows)), instructions, counter)
                budgets = budget_samples(mine, use[rows], unit.domain, name, mix, counter)
                trajectories = chosen[np.cumsum(step[rows] == 0)[budgets.begins] - 1]
                np.add.at(summed[0], trajectories, budgets.tokens)
                np.add.at(summed[1], trajectories, budgets.loss_tokens)
        sizes = _with(sizes[0], begun, summed[0]), _with(sizes[1], begun, summed[1])
        begun += count
    return sizes


def _with(sizes: Tokens, begin: int, some: npt.NDArray[np.int64]) -> Tokens:
    """Set some of the sizes, in place if their dtype allows it."""
    dtype = np.promote_types(sizes.dtype, narrow(some).dtype)
    sizes = sizes.astype(dtype, copy=False)
    sizes[begin : begin + len(some)] = some
    return sizes


def _numbers(
    candidates: Candidates, pool: Coded, copies: npt.NDArray[np.int32], begun: Mapping[str, int]
) -> npt.NDArray[np.int64]:
    """Return the position of each candidate among the draws of its pool, starting at `begun`; -1 if it is not drawn."""
    numbers = np.full(len(candidates), -1, np.int64)
    for name in POOLS:
        mine = np.flatnonzero(pool.is_in([name]) & (copies > 0))
        numbers[mine[np.argsort(candidates.index_key[mine], kind="stable")]] = np.arange(len(mine)) + begun.get(name, 0)
    return numbers


def _write_answers(judged: Judged, draws: Folder) -> FileEntry:
    """Write the answers on which the corpus's checks are tried, chosen among those of all units."""
    answers = Distractors()
    for folder in judged.known.stages:
        for batch in read_batches(folder / "draws", ANSWERS):
            answers.take(batch)
    for unit in judged.units:
        for batch in read_batches(judged.stages / "measures", measure_file(unit.label, "answers")):
            answers.take(batch)
    return write_parquet(draws, ANSWERS, HELD, [answers.batch()])


def read_answers(draws: Folder) -> Distractors:
    """Read the answers that determine the turns that may be asked for, and on which checks of RL are tried."""
    return _answers(draws.url, units_of(draws).found(manifest_name(POOLS_UNIT)))


@lru_cache(1)
def _answers(url: str, _manifest: bytes | None) -> Distractors:
    """Check and read the answers of a folder once for all units that a process mixes."""
    draws, answers = Folder(url), Distractors()
    check_unit(draws, POOLS_UNIT)
    for batch in read_batches(draws, ANSWERS):
        answers.take(batch)
    return answers


def read_draws(draws: Folder, label: str) -> Iterator[dict[str, Any]]:
    """Read the draws of the kept trajectories or passages of a unit, in their order."""
    check_unit(draws, label)
    for batch in read_batches(draws, draws_name(label)):
        yield from batch.to_pylist()
