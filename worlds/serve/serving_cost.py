"""What 1,000 steps cost in a real sandbox and in a served world model: measured tokens, given prices, plain arithmetic.

Tokens are those of a finished run, as its recipe renders them. A step's prompt is all that came before it, so most of
it was sent the step before: an endpoint that keeps what it has read (a prefix cache) reads only what is new.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from trajmill.pipelines.generations.generations import chain, stages_of
from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.judge.measure_files import costs_name
from trajmill.pipelines.mix.sample_tokens import step_tokens
from trajmill.pipelines.recipe.recipe import Pool, Recipe
from trajmill.pipelines.render.costs import COSTS_SCHEMA
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import ConfigError
from trajmill.worlds.serve.price_table import ModelPrice, PriceTable, SandboxPrice

STEPS: Final = 1000
_MILLION: Final = 1_000_000
_HOUR: Final = 3600

ARITHMETIC: Final = (
    "sent = tokens of the system prompt and of all turns up to the action, at most a window's",
    "known = those of them that the step before sent or was answered; new = sent - known",
    "world model, money = 1,000 x (new x prompt + known x cached + answered x completion) / 1,000,000",
    "world model, seconds = 1,000 x (latency_s + new / prompt_per_s + answered / completion_per_s)",
    "without a price of cached, known tokens cost as much as new ones and are read as these are",
    "sandbox, seconds = 1,000 x step_s + (1,000 / steps of an episode) x start_s",
    "sandbox, money = (seconds + 1,000 x idle_s) / 3,600 x hour",
    "step_s is the price table's, else the mean of what logs tell; seconds are of one session by itself",
)
"""How each number comes about, in words."""


@dataclass(slots=True)
class Measured:
    """What a run says of the steps of a domain.

    Attributes:
        steps: that it shows.
        episodes: that they are of.
        sent: tokens of all prompts.
        known: of these, tokens that the step before sent or was answered.
        answered: tokens of all answers.
        timed: steps that logs tell the duration of.
        seconds: of these.
    """

    steps: int = 0
    episodes: int = 0
    sent: int = 0
    known: int = 0
    answered: int = 0
    timed: int = 0
    seconds: float = 0.0

    def add(self, other: Measured) -> None:
        """Takes in what another says."""
        self.steps += other.steps
        self.episodes += other.episodes
        self.sent += other.sent
        self.known += other.known
        self.answered += other.answered
        self.timed += other.timed
        self.seconds += other.seconds

    @property
    def step_s(self) -> float | None:
        """Seconds of a step in the mean; None where no log tells any."""
        return self.seconds / self.timed if self.timed else None


def measured(out: Folder, recipe: Recipe, pool: Pool = "sft") -> dict[str, Measured]:
    """What a judged run says of each domain, in the order of names.

    Args:
        out: its folder.
        recipe: by which a model is asked.
        pool: whose templates and windows count.

    Raises:
        ConfigError: it is not judged.
    """
    counter = TokenCounter(recipe.judge.tokenizer)
    found: dict[str, Measured] = {}
    for stages, unit in _units(out):
        found.setdefault(unit.domain, Measured()).add(_of_unit(stages, unit, recipe, pool, counter))
    return dict(sorted(found.items()))


def _units(out: Folder) -> Iterator[tuple[Folder, Unit]]:
    for stages in [stages_of(out, one) for one in chain(out)] or [out]:
        manifest = read_manifest(stages / "transitions", MANIFEST)
        if manifest is None or read_manifest(stages / "verdicts", MANIFEST) is None:
            raise ConfigError(f"'{out.url}' holds no judged run; wanted is the output folder of `trajmill run`.")
        for number, file in enumerate(manifest.files):
            yield stages, Unit(number, file.name, file.sha256)


def _of_unit(stages: Folder, unit: Unit, recipe: Recipe, pool: Pool, counter: TokenCounter) -> Measured:
    verdicts = read_table(stages / "verdicts", unit.name, ["kept", "use"])
    costs = read_table(stages / "measures", costs_name(unit.label), COSTS_SCHEMA.names)
    use = np.where(verdicts["kept"].to_numpy(), np.array(verdicts["use"].to_pylist(), object), "omit")
    told = step_tokens(costs, use, unit.domain, pool, recipe.mix, counter)
    if not len(told.rows):
        return Measured()
    first = np.ones(len(told.rows), np.bool_)
    first[1:] = told.trajectory[1:] != told.trajectory[:-1]
    both = told.users + told.answers
    begun = np.maximum.accumulate(np.where(first, np.cumsum(both) - both, 0))
    before = np.cumsum(both) - both - begun  # tokens of the turns before it
    sent, known = told.prompts + before + told.users, np.where(first, 0, told.prompts + before)
    most = recipe.mix.window_tokens[pool]
    if most is not None:
        known = np.where(sent > most, 0, known)  # what leads a window has moved, and is read anew
        sent = np.minimum(sent, most)
    took = read_table(stages / "transitions", unit.name, ["duration_s"])["duration_s"].to_numpy()[told.rows]
    took = took[~np.isnan(took)]
    return Measured(
        len(sent),
        int(first.sum()),
        int(sent.sum()),
        int(known.sum()),
        int(told.answers.sum()),
        len(took),
        float(took.sum()),
    )


@dataclass(frozen=True, slots=True)
class Priced:
    """What 1,000 steps of a domain cost and take; None where a price or a speed is not given.

    Attributes:
        domain: of them.
        steps: that were measured.
        steps_per_episode: in the mean.
        sent: tokens of a step's prompt in the mean.
        known: of these, those that the step before sent or was answered.
        answered: tokens of a step's answer in the mean.
        model_cost: of the world model.
        model_seconds: of the world model, one request after the other.
        step_s: seconds of a step in the sandbox.
        sandbox_cost: of the sandbox.
        sandbox_seconds: of the sandbox.
        ratio: how many times what the sandbox costs the world model costs.
    """

    domain: str
    steps: int
    steps_per_episode: float
    sent: float
    known: float
    answered: float
    model_cost: float | None
    model_seconds: float | None
    step_s: float | None
    sandbox_cost: float | None
    sandbox_seconds: float | None
    ratio: float | None


def priced(domain: str, told: Measured, model: ModelPrice | None, sandbox: SandboxPrice | None) -> Priced | None:
    """What 1,000 steps of a domain cost and take; None where none was measured."""
    if not told.steps:
        return None
    sent, known, answered = (value / told.steps for value in (told.sent, told.known, told.answered))
    length = told.steps / told.episodes
    cost, seconds = (None, None) if model is None else _model(model, sent, known, answered)
    step_s = told.step_s if sandbox is None or sandbox.step_s is None else sandbox.step_s
    real_seconds = None if sandbox is None or step_s is None else STEPS * step_s + STEPS / length * sandbox.start_s
    real = None
    if sandbox is not None and real_seconds is not None:
        real = (real_seconds + STEPS * sandbox.idle_s) / _HOUR * sandbox.hour
    ratio = None if cost is None or not real else cost / real
    return Priced(domain, told.steps, length, sent, known, answered, cost, seconds, step_s, real, real_seconds, ratio)


def _model(price: ModelPrice, sent: float, known: float, answered: float) -> tuple[float, float | None]:
    new = sent - known
    cached = price.prompt if price.cached is None else price.cached
    cost = STEPS * (new * price.prompt + known * cached + answered * price.completion) / _MILLION
    if price.prompt_per_s is None or price.completion_per_s is None:
        return cost, None
    read = sent if price.cached is None else new
    return cost, STEPS * (price.latency_s + read / price.prompt_per_s + answered / price.completion_per_s)


def cost_page(found: dict[str, Measured], table: PriceTable, model: str) -> dict[str, Any]:
    """All of it as values of JSON: rows by domain and of all together, prices, and how numbers come about.

    Args:
        found: as of `measured`.
        table: of prices.
        model: whose price counts.
    """
    price = table.model(model)
    rows = [priced(domain, told, price, table.sandbox(domain)) for domain, told in found.items()]
    return {
        "steps": STEPS,
        "currency": table.currency,
        "model": model,
        "rows": [_rounded(asdict(row)) for row in rows if row is not None],
        "prices": {
            "model": None if price is None else asdict(price),
            "sandboxes": {name: asdict(one) for name, one in table.sandboxes.items()},
        },
        "arithmetic": list(ARITHMETIC),
    }


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in values.items()}
