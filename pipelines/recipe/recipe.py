"""Recipes: what a run makes of raw logs; validated whole at launch, frozen and digestible.

A recipe holds values only. How a run is executed (where, with how many workers, in parts of which size) is not part of
it, since that must not change a byte of the shards; see `Execution`. How one is read is the matter of `recipe_file`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from connectors.connector import Choices
from connectors.registry import connectors
from pipelines.recipe.columns import Dataset
from pipelines.recipe.section import LISTED, Values
from quality.measure import PREFERENCES
from quality.near import FEW, Bands
from quality.registry import configured, kinds, signals
from quality.rule import Rule
from quality.scrub import KINDS
from quality.signal import Signal
from quality.signals.datatrove_filter import PREFIX as DATATROVE
from quality.tokens import ESTIMATE, TokenCounter
from schemas import DOMAINS, ConfigError

Domain = Literal["mcp", "search", "terminal", "swe", "web", "os", "android"]
Pool = Literal["cpt", "sft", "rl", "eval"]
Bounded = Literal["task", "environment", "place", "command_head"]
POOLS: Final[tuple[Pool, ...]] = ("cpt", "sft", "rl", "eval")
SHARES: Final[dict[Pool, float]] = {"cpt": 0.5, "sft": 0.25, "rl": 0.15, "eval": 0.1}
"""Share of the groups that each pool is given by default."""

Share = Annotated[float, Field(ge=0, le=1)]


BOUNDS: Final = ("max_reject_ratio", "max_unrecognized_ratio")
"""Of the section `normalize`: what ends a run and changes nothing that it writes."""


class Normalize(Values):
    """How raw logs are read.

    Attributes:
        connectors: which formats are looked for; empty means all.
        max_reject_ratio: share of the inputs that a connector recognized, and of their records, that may be unreadable
            before the run fails; see `conservation`.
        max_unrecognized_ratio: share of the files that no connector may recognize before the run fails; null is any.
        max_member_bytes: decompressed bytes of one file above which it is rejected.
        scrub: kinds of secrets that are replaced before anything is stored.
        scrub_salt: a secret of at least 16 characters; who does not know it cannot test guesses against placeholders.
        screen: `tree` for the compact text of raw UI, DOM and accessibility trees, `raw` for the log's own.
        static_assets: whether requests for images, fonts, style sheets and scripts are transitions too.
        dataset: which files of a published data set are read, and what the columns of its tables hold.
    """

    connectors: Annotated[tuple[str, ...], LISTED] = ()
    max_reject_ratio: Share = 0.2
    max_unrecognized_ratio: Share | None = None
    max_member_bytes: Annotated[int, Field(gt=0)] = 8 << 30
    scrub: Annotated[tuple[str, ...], LISTED] = KINDS
    scrub_salt: Annotated[str | None, Field(min_length=16, repr=False)] = None
    screen: Literal["tree", "raw"] = "tree"
    static_assets: bool = False
    dataset: Dataset = Dataset()

    def choices(self, domains: tuple[str, ...] = ()) -> Choices:
        """The part that connectors are told, in a recipe that takes in these domains."""
        return Choices(self.screen, self.static_assets, self.dataset.rows(domains))

    @field_validator("connectors")
    @classmethod
    def _known_connectors(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _known("connector", value, connectors())

    @field_validator("scrub")
    @classmethod
    def _known_kinds(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _known("kind of secret", value, KINDS)


class RuleValues(Values):
    """A bound on one signal: values from `min` to `max` pass.

    Attributes:
        signal: name of the signal: one that needs no settings, `datatrove:` and a filter, or one of `judge.signals`.
        min: smallest value that passes.
        max: largest value that passes.
        use: what a transition that does not pass becomes: `omit` by default, `context` by default under a cap.
        cap: share of a domain's targets up to which transitions that do not pass stay targets; chosen by hash.
    """

    signal: str
    min: float | None = None
    max: float | None = None
    use: Literal["context", "omit"] | None = None
    cap: Annotated[float, Field(ge=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("a rule needs min or max")
        return self

    def named(self, name: str, scope: str) -> Rule:
        """The rule of that name, on a signal of that scope."""
        use = self.use or ("omit" if self.cap is None else "context")
        return Rule(name, self.signal, scope, self.min, self.max, use, self.cap)


class NearDuplicates(Values):
    """What counts as a near duplicate; see `quality.near`.

    Attributes:
        bands: of MinHash; with `rows` hashes each.
        rows: of a band.
        part_names: whether `_` parts words, so that the parts of long names are compared; a change that is small
            against what surrounds it is then overlooked more easily.
        few: shingles of its own part below which a trajectory is compared by its whole sequence of steps.
        max_absent: a trajectory goes if less than this share of its own part is absent from one that is kept.
        similar: two trajectories belong to one group if less than this share of the one's own part is absent from
            the other, though both are kept.
        background_min: rollouts of a task in which a step must occur to be background.
        background_share: share of the task's rollouts in which it must occur as well.
    """

    bands: Annotated[int, Field(ge=1, le=64)] = 24
    rows: Annotated[int, Field(ge=1, le=32)] = 6
    part_names: bool = False
    few: Annotated[int, Field(ge=1)] = FEW
    max_absent: Share = 0.2
    similar: Share = 0.5
    background_min: Annotated[int, Field(ge=2)] = 3
    background_share: Share = 0.2

    def made(self) -> Bands:
        """How candidates are found."""
        return Bands(self.bands, self.rows, self.few)


class Replicates(Values):
    """What is done with rows of the same environment, history and action; see `quality.replicate`.

    Attributes:
        max: how many of them may bear the loss; the others stay as context. No bound if null.
    """

    max: Annotated[int, Field(ge=1)] | None = None


class Benchmark(Values):
    """A benchmark that no shard may show.

    Attributes:
        name: as rejects call it.
        path: its items: a file, a folder, a glob or `hf://owner/name`, of JSON Lines, JSON, Parquet or Arrow. Files of
            AgentWorldBench are known by their columns and need none named.
        id: the column of an item's id.
        texts: columns of what an item asks or shows; each is looked for by itself.
        answer: the column of its answer, which is looked for only beside the question.
        repo: the column of its repository, `owner/name`.
        base_commit: the column of the commit it starts from.
        canary: strings that mark its texts; those that its rows hold after `canary GUID` are found by themselves.
    """

    name: Annotated[str, Field(min_length=1)]
    path: str | None = None
    id: str | None = None
    texts: tuple[str, ...] = ()
    answer: str | None = None
    repo: str | None = None
    base_commit: str | None = None
    canary: tuple[Annotated[str, Field(min_length=8)], ...] = ()

    @field_validator("texts", "canary", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.path is None and not self.canary:
            raise ValueError("a benchmark needs a path or a canary")
        if (self.repo is None) != (self.base_commit is None):
            raise ValueError("repo and base_commit go together")
        if self.answer is not None and not self.texts:
            raise ValueError("an answer needs texts, which ask for it")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names."""
        named = (self.id, *self.texts, self.answer, self.repo, self.base_commit)
        return tuple(column for column in named if column is not None)


class Contamination(Values):
    """When a trajectory shows an item of a benchmark; see `quality.contamination`.

    Attributes:
        min_score: share of an item's text, in weighted runs of 13 words, that is shown.
        common: tasks of the corpus, or items, up to which a run of words counts whole.
    """

    min_score: Annotated[float, Field(gt=0, le=1)] = 0.5
    common: Annotated[int, Field(ge=2)] = 10


class Judge(Values):
    """What is kept.

    Attributes:
        tokenizer: `estimate`, or the path of a `tokenizer.json`, under which tokens are counted.
        signals: settings of the signals that need some, by the name that rules call them; `signal` names the signal
            where that is another, so that one may stand there several times.
        rules: by name; the name is the reason that is written for what the rule drops.
        prefer: of several like trajectories which is kept, what weighs most first; then the smallest id.
        near_duplicates: what counts as one; null looks for none.
        replicates: what is done with them; null does not look for any.
        benchmarks: trajectories that show an item of one are dropped (`contaminated`).
        contamination: what it is to show an item.
        max_share: how much of what is kept in a domain one value may be: of trajectories one `task` or `environment`,
            of targets one `place` or `command_head`; see `quality.share`.
        spans: whether to write what parts of next observations can be known from (see `quality.spans`), beside them.
        drop_duplicate_trajectories: of equal trajectories one is kept, the others are merged into it. Where all are
            kept, those that share an id come to samples `<id>`, `<id>.2` and so on.
        mask_duplicate_transitions: of equal transitions one keeps its loss, the others stay as context.
    """

    tokenizer: str = ESTIMATE
    signals: dict[str, dict[str, Any]] = Field(default_factory=dict)
    rules: dict[str, RuleValues] = Field(default_factory=dict)
    prefer: Annotated[tuple[Literal["outcome", "complete", "longer"], ...], LISTED] = PREFERENCES
    near_duplicates: NearDuplicates | None = NearDuplicates()
    replicates: Replicates | None = Replicates()
    benchmarks: Annotated[tuple[Benchmark, ...], LISTED] = ()
    contamination: Contamination = Contamination()
    max_share: dict[Bounded, Annotated[float, Field(gt=0, le=1)]] = Field(default_factory=dict)
    spans: bool = False
    drop_duplicate_trajectories: bool = True
    mask_duplicate_transitions: bool = True

    @field_validator("benchmarks")
    @classmethod
    def _apart(cls, value: tuple[Benchmark, ...]) -> tuple[Benchmark, ...]:
        names = [one.name for one in value]
        if len(set(names)) < len(names):
            raise ValueError("two benchmarks have one name")
        return value

    @field_validator("tokenizer")
    @classmethod
    def _readable(cls, value: str) -> str:
        try:
            TokenCounter(value)
        except ConfigError as error:
            raise ValueError(error.message.removeprefix("tokenizer: ")) from error
        return value

    @field_validator("rules")
    @classmethod
    def _capped(cls, value: dict[str, RuleValues]) -> dict[str, RuleValues]:
        if sum(rule.cap or 0.0 for rule in value.values()) >= 1:
            raise ValueError("the caps of all rules should sum to less than 1")
        return value

    @model_validator(mode="after")
    def _measurable(self) -> Self:
        faults: list[tuple[tuple[str, ...], str, str]] = []
        for name in self.signals:
            fault = self._fault(name)
            faults += [(("signals", name), fault, name)] if fault else []
        for name, rule in self.rules.items():
            fault = "" if rule.signal in self.signals else self._fault(rule.signal)
            faults += [(("rules", name, "signal"), fault, rule.signal)] if fault else []
            if not faults and rule.cap is not None and self.made(rule.signal).scope != "transition":
                fault = f"a cap is of transitions, and '{rule.signal}' is measured of whole trajectories"
                faults.append((("rules", name), fault, rule.signal))
        if faults:
            raise _placed(faults)
        return self

    def _fault(self, name: str) -> str:
        """Why there is no signal of that name; empty if there is one."""
        if name not in self.signals and name not in kinds() and not name.startswith(DATATROVE):
            try:
                _known("signal", (name,), [*self.signals, *kinds()])
            except ValueError as error:
                return str(error)
        if name in self.signals and name in signals():
            return f"'{name}' is a signal that needs no settings; choose another name"
        try:
            self.made(name)
        except ConfigError as error:
            return str(error)
        return ""

    def made(self, name: str) -> Signal:
        """What measures the signal of that name.

        Raises:
            ConfigError: there is none, or it cannot be made with the recipe's settings.
        """
        settings = dict(self.signals.get(name, {}))
        return configured(str(settings.pop("signal", name)), settings)

    def files(self) -> dict[str, str]:
        """Paths of the files that measuring reads, by a name for each: the tokenizer, and models by their signal."""
        found = {} if self.tokenizer == ESTIMATE else {"tokenizer": self.tokenizer}
        for name in sorted({rule.signal for rule in self.rules.values()}):
            found |= {f"signals.{name}": path for path in self.made(name).files}
        return found

    def ordered_rules(self) -> list[Rule]:
        """The rules in the recipe's order, each with the scope of its signal."""
        return [values.named(name, self.made(values.signal).scope) for name, values in self.rules.items()]


class Mix(Values):
    """How what is kept becomes shards.

    Attributes:
        pools: share of the groups that each pool is given; scaled to sum to 1.
        seed: of every choice by hash: pools, order of samples, the turn that RL and eval take.
        shard_bytes: text of one shard, before compression, in bytes.
        harness: what samples show of what the harness and the user said between turns (`interleaved`): `strip` for
            nothing, `keep` for each text in the user turn, before the action; then no observation that the harness
            made bears loss, whatever the rules say.
    """

    pools: dict[Pool, Annotated[float, Field(ge=0)]] = Field(default_factory=lambda: dict(SHARES))
    seed: int = 0
    shard_bytes: Annotated[int, Field(ge=1 << 10, le=128 << 20)] = 96 << 20
    harness: Literal["strip", "keep"] = "strip"

    @field_validator("pools")
    @classmethod
    def _some(cls, value: dict[Pool, float]) -> dict[Pool, float]:
        if not sum(value.values()):
            raise ValueError("at least one pool needs a share above 0")
        return value


class Card(Values):
    """What the dataset card says that the data cannot: see the Hub's documentation of dataset cards."""

    pretty_name: str = "Interaction trajectories"
    license: str = "other"
    language: str = "en"
    tags: Annotated[tuple[str, ...], LISTED] = ("world-model", "trajectories", "agents")


class Recipe(Values):
    """A whole recipe.

    Attributes:
        name: of the dataset.
        source: the corpus, as it is named in every row.
        licence: SPDX id of the raw logs' licence, if known; written to every row's provenance.
        domains: which worlds are taken in; trajectories of others are rejected.
    """

    name: str
    source: str
    licence: str | None = None
    domains: Annotated[tuple[Domain, ...], LISTED] = DOMAINS
    normalize: Normalize = Normalize()
    judge: Judge = Judge()
    mix: Mix = Mix()
    card: Card = Card()

    @field_validator("domains")
    @classmethod
    def _some(cls, value: tuple[Domain, ...]) -> tuple[Domain, ...]:
        if not value:
            raise ValueError("at least one domain is needed")
        return value

    @model_validator(mode="after")
    def _told(self) -> Self:
        fault = self.normalize.dataset.fault(self.domains)
        if fault is not None:
            raise ValueError(fault)
        return self

    def digest(self, *parts: str) -> str:
        """sha256 of the recipe, or of the named parts of it, as 64 hex digits; equal values, equal digest."""
        values = self.model_dump(mode="json")
        chosen = {part: values[part] for part in parts} if parts else values
        return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()

    def reading_digest(self) -> str:
        """As `digest`, of what decides how logs are read: the section `normalize` without the bounds that end a run."""
        values = self.normalize.model_dump(mode="json", exclude=set(BOUNDS))
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _placed(faults: Iterable[tuple[tuple[str, ...], str, str]]) -> ValidationError:
    """The error of faults that are found where their place is not: (place, what is wrong, what was met)."""
    details = [
        InitErrorDetails(type=PydanticCustomError("value_error", "{fault}", {"fault": fault}), loc=place, input=met)
        for place, fault, met in faults
    ]
    return ValidationError.from_exception_data("recipe", details)


def _known(what: str, names: tuple[str, ...], valid: Iterable[str]) -> tuple[str, ...]:
    known = list(valid)
    for name in names:
        if name not in known:
            nearest = get_close_matches(name, known, 1)
            hint = f"; did you mean '{nearest[0]}'?" if nearest else f"; there are: {', '.join(known)}"
            raise ValueError(f"there is no {what} '{name}'{hint}")
    return names
