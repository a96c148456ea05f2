"""The second learner: small transformers, taught in an environment of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.effect.arms import ALL_TEXT, EVERYTHING, RAW, SPANS, TURN_MASK, WITHOUT
from benchmarks.effect.trials import SETS, Asked, Domain, Trial, first_tokens, stream_of
from benchmarks.environment import environment, run_checked

PACKAGES: Final = ("torch==2.13.0", "numpy")
ARMS: Final = (RAW, EVERYTHING, ALL_TEXT, TURN_MASK, SPANS, WITHOUT + "frame")
"""The arms that they are asked about: the whole, and the masks."""

TOKENS: Final = 120_000
"""Tokens that each learns at most."""

SEEDS: Final = 5
"""That they are asked about at most: each is a training of every arm."""

HELD: Final = 60_000
"""Tokens of a fold that are scored at most, of each set."""

EACH: Final = 2_048
"""Of them those of one document at most, so that many groups are asked about."""


@contextmanager
def python(path: str = "") -> Iterator[str]:
    """A Python that has PyTorch: one that is given, or of an environment that lasts for the while.

    Raises:
        ConfigError: there is none to be had.
    """
    if path:
        run_checked([path, "-c", "import torch"])
        yield path
    else:
        with environment(PACKAGES) as interpreter:
            yield interpreter


def trials(
    domains: Sequence[Domain], seeds: int, interpreter: str, folder: Path, workers: int = 1
) -> dict[str, list[Trial]]:
    """A trial of each domain for each seed, each on one fold.

    Args:
        domains: what is compared.
        seeds: how many, of which the first `SEEDS` are taken.
        interpreter: as of `python`.
        folder: a folder for what is handed over.
        workers: processes that learn at once, each with one thread.

    Raises:
        ConfigError: it fails, with its last lines.
    """
    asked: dict[tuple[str, int], tuple[Domain, int, list[Asked]]] = {}
    for domain in domains:
        arms = {name: documents for name, documents in domain.arms.items() if name in ARMS}
        reduced = replace(domain, arms=arms, most_held=HELD, most_each=EACH)
        small = reduced.used_up(min(domain.most_tokens, TOKENS))
        for seed in range(min(seeds, SEEDS)):
            fold = seed % small.folds
            sets = [Asked.of(small.held(set_name, seed, fold), set_name) for set_name in SETS]
            asked[small.name, seed] = small, small.budget(seed, fold), sets
    for number, ((name, seed), (domain, budget, sets)) in enumerate(asked.items()):
        jobs = folder / str(number % workers)
        jobs.mkdir(parents=True, exist_ok=True)
        _write(jobs / f"{name}-{seed}.job.npz", domain, seed, seed % domain.folds, budget, sets)
    script = Path(__file__).with_name("scripts") / "transformer.py"
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda jobs: run_checked([interpreter, str(script), str(jobs)]), sorted(folder.iterdir())))
    by_domain: dict[str, list[Trial]] = {domain.name: [] for domain in domains}
    for (name, seed), (domain, budget, sets) in asked.items():
        (path,) = folder.glob(f"*/{name}-{seed}.bits.npz")
        bits = np.load(path)
        scored = {
            (arm, set_name): sets[at].summed(bits[f"{number}-{at}"])
            for number, arm in enumerate(domain.arms)
            for at, set_name in enumerate(SETS)
        }
        by_domain[name].append(Trial(seed, (budget,), scored))
    return by_domain


def _write(path: Path, domain: Domain, seed: int, fold: int, budget: int, asked: Sequence[Asked]) -> None:
    values = {"arms": len(domain.arms), "sets": len(asked), "vocabulary": domain.vocabulary, "seed": seed}
    columns: dict[str, Any] = {name: np.array(value) for name, value in values.items()}
    for number, arm in enumerate(domain.arms):
        first = first_tokens(domain.learnt(arm, seed, fold), budget)
        columns[f"tokens{number}"] = stream_of(first).tokens
        columns[f"borne{number}"] = np.concatenate([document.borne for document in first])
    for number, questions in enumerate(asked):
        columns |= {f"asked{number}": questions.stream.tokens, f"first{number}": questions.stream.first}
        columns[f"scored{number}"] = questions.scored
    np.savez(path, **columns)
