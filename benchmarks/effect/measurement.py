"""The instrument: what is to be tested is written down, then arms are judged, learnt and scored."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.effect.arms import ALL_RAW, EVERYTHING, NEAR, RAW, Arm, arms_of, judge_arm
from benchmarks.effect.corpus import Decided, Rows, chosen_groups, decide_rows, rows_of, shown, units_in
from benchmarks.effect.documents import VOCABULARY, Document, Tokens, train_tokenizer
from benchmarks.effect.ngrams import DISCOUNT, ORDER
from benchmarks.effect.significance import DRAWS, FEWEST, LEVEL, Difference, alike, difference, holm
from benchmarks.effect.trials import FILLED, HELD, SETS, Domain, Scored, Trial, trial
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError

PLAN: Final = "plan.json"
FOUND: Final = "effect.json"

PAGE: Final = "effect.md"
"""What is made of it for people, beside it."""

NEUTRAL: Final = 16
"""One group of so many teaches the tokenizer alone, and is of no arm."""

NEUTRAL_BYTES: Final = 2_000_000
"""Of the tokenizer's texts, at most, of each domain."""


FEWEST_CHANGED: Final = 10
"""Trajectories that an arm must change before anything is said of it: of fewer it would be said of these alone."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a measurement.

    Attributes:
        seeds: how many.
        folds: into how many the groups of a domain are cut.
        tokens: that an arm learns at most, of a domain.
        megabytes: of the text of a domain that is looked at, at most.
        workers: processes.
    """

    seeds: int = 10
    folds: int = 4
    tokens: int = 1_000_000
    megabytes: float = 24.0
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Test:
    """One comparison: an arm with another, of a domain, on a set.

    Attributes:
        domain: of seven.
        what: the set, of `SETS`.
        arm: that is looked at.
        against: that it is compared with.
        family: of tests that are corrected together.
        groups: that were scored.
        changed: trajectories that one of the two arms lacks, or shows otherwise, or with the loss elsewhere; None where
            both are choices of their own.
        costs: bits per byte of the arm.
        costs_against: of the other one.
        parts: the same of both by class of what was scored, where answers bear spans.
        apart: their difference; None where nothing can be claimed.
        p: its chance, corrected in the family.
        alike: as how many groups of one size these weigh: few where one holds most bytes.
    """

    domain: str
    what: str
    arm: str
    against: str
    family: str
    groups: int
    changed: int | None
    costs: float
    costs_against: float
    parts: Mapping[str, tuple[float, float]]
    apart: Difference | None
    p: float = 1.0
    alike: float = 0.0

    @property
    def word(self) -> str:
        """Verdict of the test: `better`, `worse`, `within noise` or `not measurable`."""
        if self.apart is None:
            return "not measurable"
        if self.p >= LEVEL:
            return "within noise"
        return "better" if self.apart.mean < 0 else "worse"


@dataclass(frozen=True, slots=True)
class Effect:
    """Results of a measurement.

    Attributes:
        tests: in the order of the plan.
        unchanged: by domain the arms that do there what those do that they are compared with.
        tokens: that each arm learnt of a domain, in the mean.
    """

    tests: tuple[Test, ...]
    unchanged: Mapping[str, tuple[str, ...]]
    tokens: Mapping[str, int]


def measure_effect(
    recipe: Recipe, out: str, target_path: str, settings: Settings, tell: Callable[[str], None] = lambda _: None
) -> Effect:
    """Measures the effect of a recipe on its run.

    Args:
        recipe: by which the run was made.
        out: the folder of the judged run, which is only read.
        target_path: the folder that is written: the plan first, then what was found.
        settings: how.
        tell: is told how far it is.

    Raises:
        ConfigError: the run is not judged, nothing in it can be compared, or the folder holds another measurement.
    """
    source, target = Folder.named(out), Folder.named(target_path)
    units = units_in(source)
    if not units:
        raise ConfigError(f"{source.path()} holds no trajectories.")
    arms = arms_of(recipe, has_spans=recipe.judge.spans)
    begin(target, plan_tests(recipe, arms, settings, source))
    with tempfile.TemporaryDirectory(prefix="trajmill-effect-") as scratch:
        verdicts: dict[str, Folder] = {}
        for arm in arms:
            if arm.judge is not None:
                tell(f"judging: {arm.name}")
                verdicts[arm.name] = judge_arm(recipe, arm, source / "transitions", units, Folder(scratch))
        domains, unchanged = read(recipe, source, arms, verdicts, settings)
    tell(f"judging and reading took {spent():.0f} CPU-seconds")
    tests, tokens = [], {}
    for domain_data in domains:
        tell(f"learning: {domain_data.name}, {len(domain_data.arms)} arms")
        results = trials(domain_data, settings)
        tests += list(compare_arms(domain_data, arms, results))
        tokens[domain_data.name] = int(np.mean([size for trial in results for size in trial.budgets]))
    tell(f"n-grams: {spent():.0f} CPU-seconds so far")
    effect = Effect(tuple(correct_chances(tests)), unchanged, tokens)
    target.write(FOUND, json.dumps(effect_values(effect), indent=1).encode())
    return effect


def spent() -> float:
    """The CPU-seconds of this process and of those that it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def plan_tests(recipe: Recipe, arms: Sequence[Arm], settings: Settings, out: Folder) -> dict[str, Any]:
    """Describe the tests, as written down before any is run."""
    chosen = asdict(settings)
    return {
        "question": "does an arm teach more than the one it is compared with, at equal tokens of training text",
        "recipe": recipe.digest(),
        "verdicts": hashlib.sha256(out.read("verdicts/manifest.json")).hexdigest(),
        "score": "bits per byte of next observations that were held out by group",
        "sets": SETS,
        "arms": [
            {
                "name": arm.name,
                "against": arm.against,
                "family": arm.family,
                "loss": arm.loss,
                "weights": dict(arm.weights),
            }
            for arm in arms
        ],
        "settings": {name: chosen[name] for name in ("seeds", "folds", "tokens", "megabytes")},
        "n-grams": {"order": ORDER, "discount": DISCOUNT},
        "tokenizer": {"vocabulary": VOCABULARY, "groups": f"one of {NEUTRAL}, of no arm"},
        "learnt": f"{FILLED} of what the smallest arm has, no trajectory twice; by '{ALL_RAW}' all that it has",
        "held": {"tokens": HELD, "fewest groups": FEWEST, "fewest trajectories that an arm changes": FEWEST_CHANGED},
        "test": {"bootstrap": DRAWS, "over": "groups and seeds, paired", "corrected": "Holm", "level": LEVEL},
    }


def begin(target: Folder, plan: Mapping[str, Any]) -> None:
    """Write the plan, before anything is tested.

    Raises:
        ConfigError: there is another one, or something else that we did not write.
    """
    data = json.dumps(plan, indent=1).encode()
    if target.found(PLAN) not in (None, data):
        raise ConfigError(f"{target.path()} holds another measurement. Choose another --out.")
    if set(target.names()) - {PLAN, FOUND, PAGE}:
        raise ConfigError(f"{target.path()} holds files of somebody else. Choose another --out.")
    target.write(PLAN, data)


def read(
    recipe: Recipe, out: Folder, arms: Sequence[Arm], verdicts: Mapping[str, Folder], settings: Settings
) -> tuple[list[Domain], dict[str, tuple[str, ...]]]:
    """The documents of each domain by arm, and the arms that change nothing there."""
    by_domain: dict[str, list[Rows]] = {}
    for unit in units_in(out):
        by_domain.setdefault(unit.domain, []).append(rows_of(out, unit, spans=recipe.judge.spans))
    view, loss = View.of(recipe.mix), {arm.name: arm.loss for arm in arms}
    groups = {domain: chosen_groups(rows, int(settings.megabytes * 1e6)) for domain, rows in sorted(by_domain.items())}
    decided = {
        (arm.name, rows.unit.number): decide_rows(arm, rows, verdicts.get(arm.name))
        for arm in arms
        for some in by_domain.values()
        for rows in some
    }
    neutral = {name for some in groups.values() for name in some if int(name, 16) % NEUTRAL == 0}
    tokens = Tokens(train_tokenizer(_texts(out, by_domain, decided, neutral, view)))
    loaded, unchanged = [], {}
    for domain, rows in sorted(by_domain.items()):
        same = [arm.name for arm in arms if arm.against and _changes_nothing(arm, rows, decided, loss)]
        unchanged[domain] = tuple(same)
        documents = {
            arm.name: [
                tokens.document(trajectory, arm, recipe.mix.seed, labelled=recipe.judge.spans)
                for some in rows
                for trajectory in shown(out, some, decided[arm.name, some.unit.number], groups[domain] - neutral, view)
            ]
            for arm in arms
            if arm.name not in same
        }
        if all(documents.values()):
            for arm in arms:
                is_made = arm.family == "classes" and arm.name in documents and arm.against in documents
                if is_made and not count_changed(documents[arm.name], documents[arm.against]):
                    same.append(arm.name)
                    del documents[arm.name]
            unchanged[domain] = tuple(same)
            loaded.append(Domain(domain, documents, tokens.vocabulary, settings.tokens, settings.folds))
    return loaded, unchanged


def _texts(
    out: Folder,
    by_domain: Mapping[str, Sequence[Rows]],
    decided: Mapping[tuple[str, int], Decided],
    neutral: set[str],
    view: View,
) -> Iterator[str]:
    """The texts that the tokenizer is taught: those of raw rows of neutral groups, each once."""
    for _, some in sorted(by_domain.items()):
        known, size = set[str](), 0
        for rows in some:
            for trajectory in shown(out, rows, decided[RAW, rows.unit.number], neutral, view):
                for text in (text for turn in trajectory.turns for text in (turn.user, turn.observation)):
                    if text not in known and size < NEUTRAL_BYTES:
                        known.add(text)
                        size += len(text)
                        yield text


def _changes_nothing(
    arm: Arm, rows: Sequence[Rows], decided: Mapping[tuple[str, int], Decided], loss: Mapping[str, str]
) -> bool:
    """Check whether an arm equals, in a domain, the arm it is compared with; the reference arms always stay."""
    if arm.name in (EVERYTHING, NEAR) or loss[arm.name] != loss[arm.against]:
        return False
    pairs = [
        (decided[arm.name, unit_rows.unit.number], decided[arm.against, unit_rows.unit.number]) for unit_rows in rows
    ]
    return all(
        np.array_equal(mine.kept, theirs.kept) and np.array_equal(mine.use[mine.kept], theirs.use[theirs.kept])
        for mine, theirs in pairs
    )


def trials(domain: Domain, settings: Settings) -> list[Trial]:
    """A trial for each seed."""
    work = partial(trial, domain)
    if settings.workers == 1:
        return [work(seed) for seed in range(settings.seeds)]
    with ProcessPoolExecutor(settings.workers, get_context("fork")) as pool:
        return list(pool.map(work, range(settings.seeds)))


def compare_arms(domain: Domain, arms: Sequence[Arm], results: Sequence[Trial]) -> Iterator[Test]:
    """The tests of a domain, uncorrected."""
    for arm in arms:
        if arm.name not in domain.arms or not arm.against:
            continue
        against = arm.against if arm.against in domain.arms else RAW
        changed = count_changed(domain.arms[arm.name], domain.arms[against])
        for set_name in SETS:
            ours, theirs = ([result.found[name, set_name] for result in results] for name in (arm.name, against))
            kinds = sorted({kind for result in ours for _, kind in result.size})
            parts = {kind: (per_byte(ours, kind), per_byte(theirs, kind)) for kind in kinds} if len(kinds) > 1 else {}
            groups = sorted({group for result in ours for group, _ in result.size})
            apart, sizes = None, by_group([result.size for result in ours], groups)
            if len(groups) >= FEWEST and changed >= FEWEST_CHANGED:
                bits = [by_group([side.bits for side in some], groups) for some in (ours, theirs)]
                apart = difference(bits[0], bits[1], sizes)
            names = domain.name, set_name, arm.name, against, arm.family
            costs = per_byte(ours), per_byte(theirs)
            if groups:
                yield Test(*names, len(groups), changed, *costs, parts, apart, alike=alike(sizes.sum(axis=0)))


def count_changed(ours: Sequence[Document], theirs: Sequence[Document]) -> int:
    """The trajectories that one of two arms lacks, or shows otherwise, or with the loss elsewhere."""
    mine, theirs_by_key = ({document.key: document for document in some} for some in (ours, theirs))
    both = [(document, theirs_by_key[key]) for key, document in mine.items() if key in theirs_by_key]
    same = sum(
        np.array_equal(document.tokens, its.tokens) and np.array_equal(document.borne, its.borne)
        for document, its in both
    )
    return len(mine) + len(theirs_by_key) - len(both) - same


def by_group(scores: Sequence[Mapping[tuple[str, str], float]], groups: Sequence[str]) -> npt.NDArray[np.float64]:
    """The scored texts by seed and group."""
    column_of = {name: number for number, name in enumerate(groups)}
    summed = np.zeros((len(scores), len(groups)))
    for seed, seed_scores in enumerate(scores):
        for (group, _), number in seed_scores.items():
            summed[seed, column_of[group]] += number
    return summed


def per_byte(scores: Sequence[Scored], kind: str = "") -> float:
    """The bits that a byte cost, of one class or of all."""
    bits = sum(n for score in scores for (_, name), n in score.bits.items() if kind in ("", name))
    size = sum(n for score in scores for (_, name), n in score.size.items() if kind in ("", name))
    return bits / max(size, 1)


def correct_chances(tests: Sequence[Test]) -> list[Test]:
    """The tests with their chances corrected, in each family."""
    adjusted = list(tests)
    for family in {test.family for test in tests}:
        places = [at for at, test in enumerate(tests) if test.family == family and test.apart is not None]
        chances = [apart.p for at in places if (apart := tests[at].apart) is not None]
        for at, p in zip(places, holm(chances), strict=True):
            adjusted[at] = replace(adjusted[at], p=p)
    return adjusted


def effect_values(effect: Effect) -> dict[str, Any]:
    """Convert the results to JSON values."""
    tests = [{**asdict(test), "word": test.word} for test in effect.tests]
    return {"tests": tests, "unchanged": dict(effect.unchanged), "tokens": dict(effect.tokens)}
