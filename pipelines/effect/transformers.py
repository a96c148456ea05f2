"""The second learner: small transformers, taught in an environment of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipelines.effect.arms import ALL_TEXT, EVERYTHING, RAW, SPANS, TURN_MASK
from pipelines.effect.trials import SETS, Asked, Domain, Trial, first_tokens, stream_of
from pipelines.publish.consumers.environment import called, environment

PACKAGES: Final = ("torch==2.13.0", "numpy")
ARMS: Final = (RAW, EVERYTHING, ALL_TEXT, TURN_MASK, SPANS)
"""The arms that they are asked about: the whole, and the masks."""

TOKENS: Final = 60_000
"""Tokens that each learns at most."""

HELD: Final = 20_000
"""Tokens of a fold that are scored at most, of each set."""


@contextmanager
def python() -> Iterator[str]:
    """A Python that has PyTorch.

    Raises:
        ConfigError: there is none to be had.
    """
    with environment(PACKAGES) as found:
        yield found


def trials(domain: Domain, seeds: int, interpreter: str, place: Path, tell: Callable[[str], None]) -> list[Trial]:
    """A trial for each seed, each on one fold.

    Args:
        domain: what is compared.
        seeds: how many.
        interpreter: as of `python`.
        place: a folder for what is handed over.
        tell: is told of each that is done.

    Raises:
        ConfigError: it fails, with its last lines.
    """
    chosen = {name: found for name, found in domain.arms.items() if name in ARMS}
    domain = replace(domain, arms=chosen, most_tokens=min(domain.most_tokens, TOKENS), most_held=HELD)
    script = Path(__file__).with_name("scripts") / "transformer.py"
    found = []
    for seed in range(seeds):
        fold = seed % domain.folds
        asked = [Asked.of(domain.held(what, seed, fold), what) for what in SETS]
        budget = domain.budget(seed, fold)
        jobs = place / f"{domain.name}-{seed}"
        jobs.mkdir(parents=True)
        _write(jobs / "one.job.npz", domain, seed, fold, budget, asked)
        called([interpreter, str(script), str(jobs)])
        bits = np.load(jobs / "one.bits.npz")
        scored = {
            (arm, what): asked[at].summed(bits[f"{number}-{at}"])
            for number, arm in enumerate(domain.arms)
            for at, what in enumerate(SETS)
        }
        found.append(Trial(seed, (budget,), scored))
        tell(f"transformers: {domain.name}, seed {seed + 1} of {seeds}")
    return found


def _write(path: Path, domain: Domain, seed: int, fold: int, budget: int, asked: Sequence[Asked]) -> None:
    values = {"arms": len(domain.arms), "sets": len(asked), "vocabulary": domain.vocabulary, "seed": seed}
    columns: dict[str, Any] = {name: np.array(value) for name, value in values.items()}
    for number, arm in enumerate(domain.arms):
        first = first_tokens(domain.learnt(arm, seed, fold), budget)
        columns[f"tokens{number}"] = stream_of(first).tokens
        columns[f"borne{number}"] = np.concatenate([one.borne for one in first])
    for number, one in enumerate(asked):
        columns |= {f"asked{number}": one.stream.tokens, f"first{number}": one.stream.first}
        columns[f"scored{number}"] = one.scored
    np.savez(path, **columns)
