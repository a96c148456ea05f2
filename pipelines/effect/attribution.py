"""Attribution: how much each cluster of a run takes off the cost of held-out answers, and whether a choice by it helps.

A cluster is a group of the run. Its *gain* is what a model that counts costs more on held-out answers if the cluster is
taken from what it is taught, a random fifth of the training text, in bits per byte and for 1,000 tokens of the cluster.
Whether gains are more than chance is asked on another split, which took no part in them: a fifth of the training text
is learnt, that of the best clusters, of the worst ones, or a random one, at equal tokens.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.effect.arms import EVERYTHING, arms_of
from trajmill.pipelines.effect.corpus import rows_of, units_in
from trajmill.pipelines.effect.documents import Document
from trajmill.pipelines.effect.effect import WHOLE, Settings, Test, begin, by_group, corrected, per_byte, read
from trajmill.pipelines.effect.leaving_out import LeavingOut
from trajmill.pipelines.effect.significance import FEWEST, LEVEL, difference
from trajmill.pipelines.effect.trials import CURATED, Asked, Counting, Domain, Scored, first_tokens
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.mixture import draws_name
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table, write_parquet
from trajmill.schemas import ConfigError

Floats = npt.NDArray[np.float64]

FOUND: Final = "attribution.json"
PAGE: Final = "attribution.md"
GAINS: Final = "gains.parquet"

BEST: Final = "best fifth"
WORST: Final = "worst fifth"
RANDOM: Final = "random fifth"
PAIRS: Final = ((BEST, RANDOM), (WORST, RANDOM), (BEST, WORST))

SHARE: Final = 5
"""Of the training text one part of so many is learnt."""

INTERVAL: Final = 1.96
"""Standard errors to each side."""

SCHEMA: Final = pa.schema(
    [
        pa.field("trajectory_id", pa.string(), nullable=False),
        pa.field("domain", pa.string(), nullable=False),
        pa.field("cluster", pa.string(), nullable=False, metadata={"doc": "the group that it is of"}),
        pa.field("tokens", pa.int64(), metadata={"doc": "of the cluster"}),
        pa.field(
            "gain", pa.float64(), nullable=False, metadata={"doc": "bits per byte for 1,000 tokens; more is better"}
        ),
        pa.field("low", pa.float64(), metadata={"doc": "of its interval of 95 %"}),
        pa.field("high", pa.float64(), metadata={"doc": "of the same"}),
        pa.field(
            "measured", pa.bool_(), nullable=False, metadata={"doc": "false: the mean of the domain stands there"}
        ),
    ]
)
"""One row a trajectory that the recipe keeps, of domains in which anything was measured."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a cluster takes off the cost of held-out answers.

    Attributes:
        cluster: its name.
        tokens: of it.
        gain: in bits per byte, for 1,000 tokens.
        low: of its interval of 95 %, over groups that were held out.
        high: of the same.
    """

    cluster: str
    tokens: int
    gain: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """What was found.

    Attributes:
        gains: of each domain, by cluster.
        tests: of fifths of the training text, on groups that gains did not come from.
        tokens: that a fifth holds, in the mean, by domain.
    """

    gains: Mapping[str, Sequence[Gain]]
    tests: Sequence[Test]
    tokens: Mapping[str, int]


def attributed(
    recipe: Recipe, out: str, place: str, settings: Settings, tell: Callable[[str], None] = lambda _: None
) -> Attribution:
    """Measures the gains of a run's clusters, and writes them down for a mixture to go by.

    Args:
        recipe: by which the run was made.
        out: the folder of the judged run, which is only read.
        place: the folder that is written.
        settings: how.
        tell: is told how far it is.

    Raises:
        ConfigError: the run is not judged, there are too few folds, or the folder holds another measurement.
    """
    if settings.folds < 3:
        raise ConfigError(
            "Gains come from one fold, are tried on another, and others are learnt: wanted 3 folds or more."
        )
    source, target = Folder.named(out), Folder.named(place)
    units = units_in(source)
    begin(target, planned(recipe, settings, source), (FOUND, PAGE, GAINS))
    arms = [arm for arm in arms_of(recipe, has_spans=recipe.judge.spans) if not arm.against or arm.family == "whole"]
    domains, _ = read(recipe, source, arms, {}, settings) if units else ([], {})
    evaluated = _groups_of_eval(source)
    gains: dict[str, list[Gain]] = {}
    tests: list[Test] = []
    tokens: dict[str, int] = {}
    for domain in domains:
        documents = [one for one in domain.arms[EVERYTHING] if one.group not in evaluated]
        one = Domain(domain.name, {EVERYTHING: documents}, domain.vocabulary, domain.most_tokens, domain.folds)
        tell(f"attributing: {domain.name}, {len({document.group for document in documents})} clusters")
        rounds = _rounds(one, settings)
        gains[domain.name] = gains_of(one, rounds)
        tests += compared(domain.name, rounds)
        tokens[domain.name] = int(np.mean([size for found in rounds for size in found.budgets]))
    made = Attribution(gains, tuple(corrected(tests)), tokens)
    batch = pa.RecordBatch.from_pylist(list(_rows(source, gains)), SCHEMA)
    write_parquet(target, GAINS, SCHEMA, [batch])
    target.write(FOUND, json.dumps(told(made), indent=1).encode())
    return made


def planned(recipe: Recipe, settings: Settings, out: Folder) -> dict[str, Any]:
    """What is to be measured and tested, as it is written down before anything is."""
    chosen = asdict(settings)
    return {
        "question": "what does each cluster take off the cost of held-out answers, and does a choice by it teach more",
        "recipe": recipe.digest(),
        "verdicts": hashlib.sha256(out.read("verdicts/manifest.json")).hexdigest(),
        "gain": "bits per byte that held-out answers cost more without the cluster, for 1,000 of its tokens",
        "beside": f"a random {SHARE}th of the clusters, drawn anew for each fold",
        "splits": "gains on one fold, tests on the next, the others are learnt; every fold in turn",
        "arms": [BEST, WORST, RANDOM],
        "tests": PAIRS,
        "learnt": f"one {SHARE}th of the training text",
        "settings": {name: chosen[name] for name in ("seeds", "folds", "tokens", "megabytes")},
        "test": {"fewest groups": FEWEST, "corrected": "Holm", "level": LEVEL},
    }


class Part(NamedTuple):
    """One fold that was held out.

    Attributes:
        clusters: names of those that were taught.
        tokens: of each.
        groups: names of those that were held out.
        sizes: bytes of each.
        more: by cluster and group, the bits that it costs more without the cluster, for a token of that.
    """

    clusters: Sequence[str]
    tokens: Sequence[int]
    groups: Sequence[str]
    sizes: Floats
    more: Floats


@dataclass(slots=True)
class Round:
    """One seed, over all folds.

    Attributes:
        parts: gains on each fold.
        scored: of each arm what the answers of the other split cost.
        budgets: tokens that each arm learnt, fold by fold.
    """

    parts: list[Part] = field(default_factory=list)
    scored: dict[str, Scored] = field(default_factory=dict)
    budgets: list[int] = field(default_factory=list)


def _rounds(domain: Domain, settings: Settings) -> list[Round]:
    work = partial(attributed_round, domain)
    if settings.workers == 1:
        return [work(seed) for seed in range(settings.seeds)]
    with ProcessPoolExecutor(settings.workers, get_context("fork")) as pool:
        return list(pool.map(work, range(settings.seeds)))


def attributed_round(domain: Domain, seed: int) -> Round:
    """The gains of one seed on each fold, and what choices by them cost on the fold after it."""
    found = Round()
    bits: dict[str, dict[tuple[str, str], float]] = {}
    sizes: dict[str, dict[tuple[str, str], int]] = {}
    for fold in range(domain.folds):
        other = (fold + 1) % domain.folds
        taught = [one for one in domain.learnt(EVERYTHING, seed, fold) if domain.fold(one.group, seed) != other]
        taught = first_tokens(taught, domain.most_tokens)
        asked = [Asked.of(domain.held(CURATED, seed, one), CURATED) for one in (fold, other)]
        if not taught or not all(len(one.sizes) for one in asked):
            continue
        part = gained(domain, taught, asked[0], seed * domain.folds + fold)
        found.parts.append(part)
        worth = dict(zip(part.clusters, part.more.sum(axis=1).tolist(), strict=True))
        for arm, cost in _chosen_costs(domain, taught, worth, asked[1], seed, found.budgets).items():
            scored = asked[1].summed(cost)
            bits.setdefault(arm, {}).update(scored.bits)
            sizes.setdefault(arm, {}).update(scored.size)
    found.scored = {arm: Scored(bits[arm], sizes[arm]) for arm in bits}
    return found


def gained(domain: Domain, taught: Sequence[Document], asked: Asked, seed: int) -> Part:
    """The gains of clusters on answers that are held out, each beside a random fifth of what is taught.

    Beside all of it, what many clusters tell would be worth nothing in any of them.
    """
    sizes: Counter[str] = Counter()
    for one in taught:
        sizes[one.group] += len(one.tokens)
    names = sorted(sizes)
    count = len(asked.names)
    more = np.zeros((len(names), count))
    for number in range(SHARE):
        mine = [at for at, name in enumerate(names) if keyed_hash(f"beside:{name}", seed) % SHARE == number]
        places = {names[at]: place for place, at in enumerate(mine)}
        some = [one for one in taught if one.group in places]
        leaving = LeavingOut(some, [places[one.group] for one in some], domain.vocabulary, asked.reading)
        whole = leaving.bits()
        for place, at in enumerate(mine):
            apart = leaving.bits(place) - whole
            # for a token, since a cluster that is cut by the bound on what is learnt has fewer
            more[at] = np.bincount(asked.groups, apart, count) / sizes[names[at]]
    size: Floats = np.bincount(asked.groups, asked.sizes, count).astype(np.float64)
    return Part(names, [sizes[name] for name in names], asked.names, size, more)


def _chosen_costs(
    domain: Domain, taught: Sequence[Document], worth: Mapping[str, float], asked: Asked, seed: int, budgets: list[int]
) -> dict[str, Floats]:
    """What answers cost after each choice of a fifth of the training text."""
    budget = sum(len(one.tokens) for one in taught) // SHARE
    budgets.append(budget)
    ranks: dict[str, Callable[[str], tuple[float, str]]] = {
        BEST: lambda name: (-worth[name], name),
        WORST: lambda name: (worth[name], name),
        RANDOM: lambda name: (float(keyed_hash(f"fifth:{name}", seed)), name),
    }
    learner = Counting(domain.vocabulary)
    return {
        arm: learner.costs(sorted(taught, key=lambda one: rank(one.group)), budget, [asked])[0]
        for arm, rank in ranks.items()
    }


def gains_of(domain: Domain, rounds: Sequence[Round]) -> list[Gain]:
    """The gain of each cluster over all seeds, the largest first."""
    parts = [part for one in rounds for part in one.parts]
    tokens: dict[str, int] = {}
    for part in parts:
        for name, own in zip(part.clusters, part.tokens, strict=True):
            tokens[name] = max(tokens.get(name, 0), own)
    clusters, groups = sorted(tokens), sorted({one.group for one in domain.arms[EVERYTHING]})
    more, sizes = (np.zeros((len(clusters), len(groups))) for _ in range(2))
    for part in parts:
        place = np.ix_(np.searchsorted(clusters, part.clusters), np.searchsorted(groups, part.groups))
        more[place] += part.more
        sizes[place] += part.sizes
    whole = np.maximum(sizes.sum(axis=1), 1.0)
    gain = more.sum(axis=1) / whole
    # of a ratio, over groups (Cochran 1977, 2.39); groups that were never asked beside a cluster count nothing
    asked = np.maximum((sizes > 0).sum(axis=1), 2)
    errors = np.sqrt(((more - gain[:, None] * sizes) ** 2).sum(axis=1) * asked / (asked - 1)) / whole
    scale, off = 1000.0, INTERVAL * errors
    told = np.round(scale * np.stack([gain, gain - off, gain + off], axis=1), 9).tolist()
    found = [Gain(name, tokens[name], *of) for name, of in zip(clusters, told, strict=True)]
    return sorted(found, key=lambda one: (-one.gain, one.cluster))


def compared(domain: str, rounds: Sequence[Round]) -> Iterator[Test]:
    """The tests of a domain, uncorrected."""
    scored = [one.scored for one in rounds if one.scored]
    for arm, against in PAIRS if scored else ():
        ours, theirs = ([one[name] for one in scored] for name in (arm, against))
        groups = sorted({group for one in ours for group, _ in one.size})
        apart = None
        if len(groups) >= FEWEST:
            sizes = by_group([one.size for one in ours], groups)
            bits = [by_group([one.bits for one in some], groups) for some in (ours, theirs)]
            apart = difference(bits[0], bits[1], sizes)
        costs = per_byte(ours), per_byte(theirs)
        what = ("fifths", "n-grams", WHOLE)
        yield Test(domain, CURATED, arm, against, *what, len(groups), None, *costs, {}, apart)


def _groups_of_eval(out: Folder) -> set[str]:
    """Groups that the run gave to its pool eval, if it drew any: what is chosen may not have seen them."""
    found: set[str] = set()
    for unit in units_in(out):
        if (out / "draws").exists(draws_name(unit.label)):
            drawn = read_table(out / "draws", draws_name(unit.label), ["trajectory_id", "pool"])
            of_eval = drawn.filter(pa.compute.equal(drawn["pool"], "eval"))["trajectory_id"]
            judged = read_table(out / "verdicts", unit.name, ["trajectory_id", "group"])
            chosen = pa.compute.is_in(judged["trajectory_id"].cast(pa.string()), of_eval.combine_chunks())
            found |= set(judged.filter(chosen)["group"].to_pylist())
    return found


def _rows(out: Folder, gains: Mapping[str, Sequence[Gain]]) -> Iterator[dict[str, Any]]:
    """A row of `SCHEMA` for each trajectory that the recipe keeps, in the order of ids; copies share one."""
    rows: dict[str, dict[str, Any]] = {}
    for unit in units_in(out):
        known = {one.cluster: one for one in gains.get(unit.domain, ())}
        if not known:
            continue
        whole = sum(one.tokens for one in known.values())
        mean = round(sum(one.gain * one.tokens for one in known.values()) / max(whole, 1), 9)
        of = rows_of(out, unit, spans=False)
        ids = read_table(out / "verdicts", unit.name, ["trajectory_id"])["trajectory_id"]
        first = np.unique(of.ordinal[of.decided.kept], return_index=True)[1]
        places = np.flatnonzero(of.decided.kept)[first]
        for key, group in zip(ids.take(pa.array(places)).to_pylist(), of.groups[of.ordinal[places]], strict=True):
            one = known.get(str(group))
            told = {"tokens": None, "gain": mean, "low": None, "high": None} if one is None else asdict(one)
            told |= {"domain": unit.domain, "cluster": str(group), "measured": one is not None}
            rows.setdefault(key, {"trajectory_id": key, **told})
    for key in sorted(rows):
        yield rows[key]


def told(made: Attribution) -> dict[str, Any]:
    """What was found, as JSON takes it."""
    return {
        "gains": {domain: [asdict(one) for one in some] for domain, some in made.gains.items()},
        "tests": [{**asdict(one), "word": one.word} for one in made.tests],
        "tokens": dict(made.tokens),
    }
