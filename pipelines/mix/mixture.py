"""The mixture: which pool each group has and what each stage takes of it, written down before any shard is made.

`draws/` holds the ledger of groups (`pools.parquet`), which never changes for a group, answers by which the checks of
RL are tried (`answers.parquet`), and a file a unit of transitions, one row a kept trajectory: its pool, and how often
it is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.engine.parquet import read_batches, read_table, write_parquet
from pipelines.engine.storage import Folder
from pipelines.engine.units import check_unit, finish_unit
from pipelines.judge.judging import Unit
from pipelines.judge.measure_files import answers_name, costs_name
from pipelines.mix.candidates import Candidates, candidates, gathered
from pipelines.mix.carried import NO_DRAWS, EarlierDraws
from pipelines.mix.draw import Items, drawing
from pipelines.mix.keyed import keyed_hash
from pipelines.mix.passages.drawing import passage_candidates
from pipelines.mix.passages.placing_passages import with_passages
from pipelines.mix.passages.preparation import PassageUnit, Preparation
from pipelines.mix.placing import Before, Placed, Verdicts, placed
from pipelines.mix.pools import Held, grouped, pools_of, widened
from pipelines.mix.sample_tokens import rendered_tokens
from pipelines.mix.simulation_instructions import instructed_costs
from pipelines.recipe.mixture import Component, Stage
from pipelines.recipe.recipe import POOLS, Mix, Pool, Recipe
from pipelines.rendering.answered import HELD, Distractors
from pipelines.rendering.costs import COSTS_SCHEMA
from quality.tokens import TokenCounter
from schemas import DOMAINS, SCHEMA_VERSION
from schemas.manifest import FileEntry, Manifest

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
        ("number", pa.int64()),
        ("task_hash", pa.string()),
        ("instance_hash", pa.string()),
        ("familiarity", pa.string()),
    ]
)
"""One row a kept trajectory of a unit, in the order of its file; `group` is that of the ledger, `number` its place
among all that the pool draws, by hash, and `familiarity` what training shows of its environment: see there."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """What was drawn.

    Attributes:
        counts: trajectories, tokens, loss tokens and bytes of text drawn, each by pool and domain.
        stages: of each pool, what was drawn of each category: see `draw.Drawn`.
        asked: trajectories that the shares of pools ask for, and those that pools were given, by pool and domain.
    """

    counts: Mapping[str, int]
    stages: Mapping[str, list[dict[str, Any]]]
    asked: Mapping[str, Mapping[str, tuple[float, int]]]

    def drawn(self) -> dict[str, int]:
        """Trajectories and passages drawn, by pool and domain: `sft.web`."""
        lead = "trajectories."
        return {key.removeprefix(lead): count for key, count in self.counts.items() if key.startswith(lead)}

    def told(self) -> dict[str, Any]:
        """As a manifest holds it."""
        pools = {
            pool: {domain: {"asked": asked, "given": given} for domain, (asked, given) in of.items()}
            for pool, of in self.asked.items()
        }
        return {"pools": pools, "stages": self.stages}


def draws_name(label: str) -> str:
    """The file of what is drawn of a unit, by its label."""
    return f"{label}.parquet"


class Chosen(NamedTuple):
    """Of each candidate its group, its pool, how often it is drawn, and its tokens as a sample of that pool."""

    groups: npt.NDArray[np.object_]
    pool: npt.NDArray[np.object_]
    copies: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]


Sizes: TypeAlias = Callable[[npt.NDArray[np.object_]], tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
"""The pool of each candidate → its tokens, rendered as that pool's samples, and those of them under loss."""


def make_mixture(
    recipe: Recipe,
    found: Candidates,
    sizes: Sizes,
    places: Placed | None = None,
    held: Held | None = None,
    drawn_before: EarlierDraws = NO_DRAWS,
) -> tuple[Mixture, Chosen]:
    """What a recipe draws of candidates, in sum and of each.

    Args:
        recipe: what is asked for.
        found: the candidates.
        sizes: what they become.
        places: what earlier generations fixed for them; None for the first.
        held: what those gave to pools.
        drawn_before: what those drew.

    Raises:
        ConfigError: a group is larger than any pool, or something falls short and the recipe says to stop then.
    """
    mix = recipe.mix
    groups = _groups(found, mix) if places is None else places.group
    pool = _pools(found, groups, mix) if places is None else _joined(found, places, mix, held or {})
    tokens, loss_tokens = sizes(pool)
    found = replace(found, tokens=tokens, loss_tokens=loss_tokens)
    copies = np.zeros(len(found), np.int64)
    stages: dict[str, list[dict[str, Any]]] = {}
    for name in POOLS:
        if mix.pools.get(name):
            chosen, items = stage_items(found, groups, pool, name, mix)
            stage = mix.stages.get(name, Stage())
            drawn = drawing(items, stage, f"mix.stages.{name}", drawn_before.carried(name, stage, items))
            copies[chosen] = drawn.copies
            stages[name] = [{**asdict(one), "epochs": round(one.epochs, 4)} for one in drawn.categories]
    return Mixture(_counts(found, pool, copies), stages, _asked(found, pool, mix)), Chosen(groups, pool, copies, tokens)


def _pools(found: Candidates, groups: npt.NDArray[np.object_], mix: Mix) -> npt.NDArray[np.object_]:
    """The pool of each candidate; a passage has one of those whose stage takes its component."""
    pool = np.full(len(found), "", object)
    for mine, shares in _parts(found, mix):
        if mine.any():
            given = pools_of(grouped(groups[mine], found.domain[mine]), shares, mix.seed)
            pool[mine] = [given[group] for group in groups[mine]]
    return pool


def _parts(found: Candidates, mix: Mix) -> Iterator[tuple[npt.NDArray[np.bool_], Mapping[str, float]]]:
    """Which candidates share pools by the same shares, and these: trajectories, then each component of passages."""
    passages = {one.name: found.domain == one.name for one in mix.passages}
    shares: dict[str, Mapping[str, float]] = {
        name: {
            pool: mix.pools.get(pool, 0.0)
            for pool in POOLS
            if pool in mix.stages and name in mix.stages[pool].components
        }
        for name in passages
    }
    parts = {"": ~np.logical_or.reduce([*passages.values(), np.zeros(len(found), np.bool_)]), **passages}
    for name, mine in parts.items():
        yield mine, shares.get(name, _shares(mix))


def _joined(found: Candidates, places: Placed, mix: Mix, held: Held) -> npt.NDArray[np.object_]:
    """The pool of each candidate of a later generation: that of its nodes, or, for new groups, what pools lack."""
    pool = places.pool.copy()
    given: dict[str, Counter[str]] = {name: Counter(held.get(name, {})) for name in POOLS}
    for name, domain in zip(pool.tolist(), found.domain.tolist(), strict=True):
        if name:
            given[name][domain] += 1
    for mine, shares in _parts(found, mix):
        new = mine & (pool == "")
        if new.any():
            chosen = pools_of(grouped(places.group[new], found.domain[new]), shares, mix.seed, given)
            pool[new] = [chosen[group] for group in places.group[new]]
    return pool


def _shares(mix: Mix) -> dict[str, float]:
    return {pool: mix.pools.get(pool, 0.0) for pool in POOLS}


def _groups(found: Candidates, mix: Mix) -> npt.NDArray[np.object_]:
    if not mix.group_by or not len(found):
        return found.group
    numbers = np.array([int(group, 16) for group in found.group], np.uint64)
    joined = widened(numbers, [found.shared(by) for by in mix.group_by])
    return np.array([f"{int(number):016x}" for number in joined], object)


def stage_items(
    found: Candidates, groups: npt.NDArray[np.object_], pools: npt.NDArray[np.object_], pool: Pool, mix: Mix
) -> tuple[npt.NDArray[np.int64], Items]:
    """Which candidates the stage of a pool can be drawn from, and these as its items."""
    rows = np.flatnonzero(pools == pool)
    component = _components(found, rows, mix.stages.get(pool, Stage()))
    chosen = rows[component != ""]
    component = component[component != ""]
    values = {
        "component": component,
        **{name: getattr(found, name)[chosen] for name in ("domain", "source", "kind", "task", "environment")},
    }
    return chosen, Items(
        key=np.array([keyed_hash(f"draw:{key}", mix.seed) for key in found.trajectory_id[chosen]], np.uint64),
        tokens=found.tokens[chosen],
        loss_tokens=found.loss_tokens[chosen],
        group=np.array([int(group, 16) for group in groups[chosen]], np.uint64),
        component=component,
        domain=found.domain[chosen],
        values=values,
    )


def _components(found: Candidates, rows: npt.NDArray[np.int64], stage: Stage) -> npt.NDArray[np.object_]:
    """The first component that each candidate belongs to; empty where it belongs to none."""
    names = np.full(len(rows), "", object)
    for name, component in stage.components.items():
        mine = found.domain[rows] == name if component.kind != "transitions" else _belongs(found, rows, component)
        names[mine & (names == "")] = name
    return names


def _belongs(found: Candidates, rows: npt.NDArray[np.int64], component: Component) -> npt.NDArray[np.bool_]:
    mine = np.isin(found.domain[rows].astype(str), DOMAINS)
    if component.domains:
        mine &= np.isin(found.domain[rows].astype(str), component.domains)
    if component.sources:
        mine &= np.isin(found.source[rows].astype(str), component.sources)
    for name, interval in component.where.items():
        value = found.signals[name][rows]
        mine &= (value >= interval.min) if interval.min is not None else True
        mine &= (value <= interval.max) if interval.max is not None else True
    return mine


def trained_environments(
    environment: npt.NDArray[np.uint64], pool: npt.NDArray[np.object_], copies: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """The environments of candidates that are drawn for training, 0 for one that is not known."""
    trained = np.isin(pool.astype(str), [name for name in POOLS if name != "eval"]) & (copies > 0)
    return np.unique(environment[trained])


def familiarity(
    environment: npt.NDArray[np.uint64],
    pool: npt.NDArray[np.object_],
    copies: npt.NDArray[np.int64],
    before: npt.NDArray[np.uint64] | None = None,
) -> npt.NDArray[np.object_]:
    """Of each candidate whether what is drawn for training is of its repository, site, app or server too.

    `seen`, `unseen`, or `unknown` where the log does not name the environment. `before` are environments that earlier
    generations show.
    """
    trained = trained_environments(environment, pool, copies)
    trained = trained if before is None else np.concatenate([trained, before])
    seen = np.isin(environment, trained)
    return np.where(environment == 0, "unknown", np.where(seen, "seen", "unseen")).astype(object)


def _named(nodes: npt.NDArray[np.uint64]) -> npt.NDArray[np.object_]:
    """Hashes as samples name them: 16 hex digits, None for 0."""
    return np.array([f"{int(node):016x}" if node else None for node in nodes], object)


def _counts(found: Candidates, pool: npt.NDArray[np.object_], copies: npt.NDArray[np.int64]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for name in POOLS:
        for domain in sorted(set(found.domain.tolist())):
            mine = (pool == name) & (found.domain == domain)
            if mine.any():
                key = f"{name}.{domain}"
                counts[f"trajectories.{key}"] = int((copies[mine] > 0).sum())
                for what in ("text_bytes", "tokens", "loss_tokens"):
                    counts[f"{what}.{key}"] = int((getattr(found, what)[mine] * copies[mine]).sum())
    return dict(sorted(counts.items()))


def _asked(found: Candidates, pool: npt.NDArray[np.object_], mix: Mix) -> dict[str, dict[str, tuple[float, int]]]:
    whole = sum(mix.pools.values())
    domains = {domain: found.domain == domain for domain in DOMAINS if (found.domain == domain).any()}
    return {
        name: {
            domain: (round(mix.pools[name] / whole * int(mine.sum()), 1), int((mine & (pool == name)).sum()))
            for domain, mine in domains.items()
        }
        for name in POOLS
        if mix.pools.get(name)
    }


def signals_of(mix: Mix) -> list[str]:
    """The signals by which components choose, sorted."""
    return sorted({name for stage in mix.stages.values() for one in stage.components.values() for name in one.where})


@dataclass(frozen=True, slots=True)
class Judged:
    """What judge left: transitions, their verdicts, and what was measured of them."""

    units: Sequence[Unit]
    transitions: Folder
    verdicts: Folder
    measures: Folder
    passages: Preparation | None = None
    instructions: Mapping[str, str] = field(default_factory=dict)
    before: Before | None = None
    likeness: Folder | None = None

    @property
    def told(self) -> Verdicts:
        """Where what was judged lies, for places."""
        return Verdicts(self.transitions, self.verdicts, self.measures, self.likeness)

    def labels(self) -> list[str]:
        """The names of all units: of transitions, then of passages."""
        return [*(unit.label for unit in self.units), *(unit.label for unit in self.passage_units())]

    def component(self, unit: PassageUnit) -> str:
        """The component that a unit is of."""
        assert self.passages is not None
        return self.passages.components[unit.component].name

    def passage_units(self) -> list[PassageUnit]:
        """The units of passages, numbered after those of transitions."""
        some = self.passages.units() if self.passages is not None else []
        return [replace(unit, number=unit.number + len(self.units)) for unit in some]


def draw(recipe: Recipe, judged: Judged) -> tuple[Mixture, Candidates, Chosen]:
    """The mixture of judged units, what it was drawn from, and what was chosen of each; nothing is written.

    Raises:
        ConfigError: see `make_mixture`.
    """
    signals = signals_of(recipe.mix)
    folders = judged.transitions, judged.verdicts, judged.measures
    found = gathered([candidates(unit, *folders, signals) for unit in judged.units], signals)
    before = judged.before
    places = None if before is None else placed(recipe, judged.units, found, judged.told, before.pools)
    if judged.passages is not None:
        some = [passage_candidates(unit, judged.passages, signals) for unit in judged.passage_units()]
        passed = gathered(some, signals)
        found = gathered([found, passed], signals)
        if places is not None and before is not None:
            places = with_passages(places, passed, before.pools)
    counter = TokenCounter(recipe.judge.tokenizer)
    held = None if before is None else before.given
    drawn_before = NO_DRAWS if before is None else EarlierDraws(before.ledgers, before.mixtures)
    made, chosen = make_mixture(
        recipe, found, lambda pools: _sizes(recipe.mix, judged, found, pools, counter), places, held, drawn_before
    )
    return made, found, chosen


def write_draws(recipe: Recipe, judged: Judged, draws: Folder, digest: str) -> Mixture:
    """Draws the mixture of judged units and writes it down; returns what was drawn.

    Raises:
        ConfigError: see `make_mixture`.
    """
    made, found, (groups, pool, copies, _) = draw(recipe, judged)
    before = judged.before
    numbers = _numbers(found, pool, copies, recipe.mix, {} if before is None else before.drawn)
    names, first, sizes = np.unique(groups.astype(str), return_index=True, return_counts=True)
    ledger = pa.RecordBatch.from_arrays(
        [pa.array(names.tolist()), pa.array(pool[first].tolist(), pa.string()), pa.array(sizes)], schema=_LEDGER
    )
    entries = [write_parquet(draws, f"{POOLS_UNIT}.parquet", _LEDGER, [ledger])]
    if recipe.mix.pools.get("rl"):
        entries.append(_write_answers(judged, draws))
    finish_unit(draws, Manifest(STAGE, POOLS_UNIT, digest, SCHEMA_VERSION, tuple(entries)))
    shown = familiarity(found.environment, pool, copies, None if before is None else before.environments())
    facts = _named(found.task_node), _named(found.instance_node), shown
    for number, label in enumerate(judged.labels()):
        mine = found.unit == number
        columns = [one[mine].tolist() for one in (found.trajectory_id, groups, pool, copies, numbers, *facts)]
        arrays = [pa.array(values, kind.type) for values, kind in zip(columns, DRAWS, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=DRAWS)
        entry = write_parquet(draws, draws_name(label), DRAWS, [batch])
        finish_unit(draws, Manifest(STAGE, label, digest, SCHEMA_VERSION, (entry,)))
    return made


def _sizes(
    mix: Mix, judged: Judged, found: Candidates, pool: npt.NDArray[np.object_], counter: TokenCounter
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Tokens, and tokens under loss, of what each kept trajectory becomes in its pool, and those of passages."""
    tokens, loss = found.tokens.copy(), found.loss_tokens.copy()
    begun = 0
    for unit in judged.units:
        verdicts = read_table(judged.verdicts, unit.name, ["kept", "use"])
        costs = pa.Table.from_batches(read_batches(judged.measures, costs_name(unit.label)), COSTS_SCHEMA)
        kept = verdicts["kept"].combine_chunks()
        use = np.array(verdicts["use"].filter(kept).to_pylist(), object)
        costs = costs.filter(kept).combine_chunks()
        step = costs["step"].to_numpy()
        count = int((step == 0).sum())
        given = pool[begun : begun + count]
        for name in POOLS:
            chosen = np.flatnonzero(given == name)
            if len(chosen):
                rows = np.isin(np.cumsum(step == 0) - 1, chosen)
                told = {} if name == "eval" else judged.instructions
                mine = instructed_costs(costs.filter(pa.array(rows)), told, counter)
                held = rendered_tokens(mine, use[rows], unit.domain, name, mix, counter)
                of = np.cumsum(step[rows] == 0)[held.begins] - 1
                np.add.at(tokens, begun + chosen[of], held.tokens)
                np.add.at(loss, begun + chosen[of], held.loss_tokens)
        begun += count
    return tokens, loss


def _numbers(
    found: Candidates,
    pool: npt.NDArray[np.object_],
    copies: npt.NDArray[np.int64],
    mix: Mix,
    begun: Mapping[str, int],
) -> npt.NDArray[np.int64]:
    """The place of each candidate among those that its pool draws, after `begun` of it; -1 if it is not drawn."""
    keys = np.array([keyed_hash(f"index:{key}", mix.seed) for key in found.trajectory_id], np.uint64)
    numbers = np.full(len(found), -1, np.int64)
    for name in POOLS:
        mine = np.flatnonzero((pool == name) & (copies > 0))
        numbers[mine[np.argsort(keys[mine], kind="stable")]] = np.arange(len(mine)) + begun.get(name, 0)
    return numbers


def _write_answers(judged: Judged, draws: Folder) -> FileEntry:
    """Writes, of the answers that each unit holds against others, those that the corpus does."""
    held = Distractors()
    for folder in judged.before.draws if judged.before is not None else ():
        for batch in read_batches(folder, ANSWERS):
            held.take(batch)
    for unit in judged.units:
        for batch in read_batches(judged.measures, answers_name(unit.label)):
            held.take(batch)
    return write_parquet(draws, ANSWERS, HELD, [held.batch()])


def read_answers(draws: Folder) -> Distractors:
    """The answers by which checks of RL are tried.

    Raises:
        ShardError: they are not what was written.
    """
    check_unit(draws, POOLS_UNIT)
    return _answers(draws.url, draws.sha256(ANSWERS))


@lru_cache(1)
def _answers(draws: str, _sha256: str) -> Distractors:
    """The answers of a folder, read once for all units that a process mixes."""
    held = Distractors()
    for batch in read_batches(Folder(draws), ANSWERS):
        held.take(batch)
    return held


def read_draws(draws: Folder, label: str) -> Iterator[dict[str, Any]]:
    """What is drawn of the kept trajectories or passages of a unit, in their order.

    Raises:
        ShardError: it is not what was written.
    """
    check_unit(draws, label)
    for batch in read_batches(draws, draws_name(label)):
        yield from batch.to_pylist()
