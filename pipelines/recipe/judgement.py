"""The section `judge` of a recipe: the signals to measure, and the rules and comparisons that decide what is kept.

The modules that measure signals are imported on first use, so that a mistake in a recipe is reported at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from trajmill.pipelines.recipe.section import LISTED, Domain, Section, Share, known
from trajmill.pipelines.recipe.trajectory_ids import read_ids
from trajmill.quality.settings import DATATROVE, ESTIMATE, FEW, PREFERENCES
from trajmill.schemas import ConfigError

if TYPE_CHECKING:
    from trajmill.quality.near import Bands
    from trajmill.quality.rule import Rule
    from trajmill.quality.signal import Signal

Bounded = Literal["task", "environment", "place", "command_head"]
Preference = Literal["outcome", "solved", "complete", "longer", "shorter"]


class RuleValues(Section):
    """A bound on one signal: values from `min` to `max` pass.

    Attributes:
        signal: name of the signal: one that needs no settings, `datatrove:` and a filter, or one of `judge.signals`.
        min: smallest value that passes.
        max: largest value that passes.
        domains: whose rows it speaks of; empty means all.
        use: what a transition that does not pass becomes: `omit` by default, `context` by default under a cap.
        cap: share of targets up to which transitions that do not pass stay targets; chosen by hash.
        of: whose targets the cap is a share of: the `trajectory`'s own; by default those of the domain.
        spare: share of what does not pass that is let through all the same, chosen by hash: of what is taken out to the
            last, a model never learns that it happens.
    """

    signal: str
    min: float | None = None
    max: float | None = None
    domains: Annotated[tuple[Domain, ...], LISTED] = ()
    use: Literal["context", "omit"] | None = None
    cap: Annotated[float, Field(ge=0, lt=1)] | None = None
    of: Literal["trajectory"] | None = None
    spare: Annotated[float, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("a rule needs min or max")
        if self.cap is not None and self.spare is not None:
            raise ValueError("a rule has a cap, or spares a share, not both")
        return self

    def named(self, name: str, scope: str) -> Rule:
        """Build the rule of that name on a signal of that scope."""
        from trajmill.quality.rule import Rule

        use = self.use or ("omit" if self.cap is None else "context")
        spare, of = self.spare or 0.0, self.of or "domain"
        return Rule(name, self.signal, scope, self.min, self.max, use, self.cap, spare, of, self.domains)


class NearDuplicates(Section):
    """Definition of a near duplicate; see `quality.near`.

    Attributes:
        bands: number of MinHash bands, of `rows` hashes each.
        rows: hashes per band.
        part_names: whether `_` ends a word, so that the words of long names are compared. This makes it easier to
            overlook a change that is small against its surroundings.
        few: shingles of the remainder below which a trajectory is compared by its whole sequence of steps.
        max_absent: a trajectory is dropped if less than this share of its remainder is absent from a kept one.
        similar: two kept trajectories belong to one group if less than this share of the remainder of one is absent
            from the other.
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
        """Build the bands that find candidates."""
        from trajmill.quality.near import Bands

        return Bands(self.bands, self.rows, self.few)


class Replicates(Section):
    """Treatment of rows with the same environment, history and action; see `quality.replicate`.

    Attributes:
        max: how many of them bear the loss; the others become context. Null sets no bound.
    """

    max: Annotated[int, Field(ge=1)] | None = None


class HarnessText(Section):
    """Treatment of harness text that no parser recognizes; see `quality.harness_text`.

    Attributes:
        max: largest share of an answer's characters that may be harness text; an answer with more becomes context.
        max_of_agent: the same share over all answers of one version of an agent; its logs are dropped above it
            (`harness_share`). Null sets no bound.
    """

    max: Share = 0.1
    max_of_agent: Share | None = None


class Benchmark(Section):
    """A benchmark that must not appear in any shard.

    Attributes:
        name: the benchmark's name in rejects.
        path: the benchmark's items: a file, a folder, a glob or `hf://owner/name`, of JSON Lines, JSON, Parquet or
            Arrow. Files of AgentWorldBench are recognized by their columns, which need not be named.
        id: the column of an item's id.
        texts: columns of the texts that an item asks or shows; each is searched for by itself.
        answer: the column of the answer, which is searched for only beside the question.
        repo: the column of the repository, `owner/name`.
        base_commit: the column of the commit from which an item starts.
        canary: strings that mark the benchmark's texts; strings after `canary GUID` in its rows are found
            automatically.
        ids: ids of the items, for a benchmark whose rows need not be at hand.
        id_patterns: regular expressions (RE2, case-insensitive); an id belongs to the benchmark if one of them matches
            all of it.
    """

    name: Annotated[str, Field(min_length=1)]
    path: str | None = None
    id: str | None = None
    texts: tuple[str, ...] = ()
    answer: str | None = None
    repo: str | None = None
    base_commit: str | None = None
    canary: tuple[Annotated[str, Field(min_length=8)], ...] = ()
    ids: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    id_patterns: tuple[Annotated[str, Field(min_length=1)], ...] = ()

    @field_validator("texts", "canary", "ids", "id_patterns", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value

    @field_validator("id_patterns")
    @classmethod
    def _compiled(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from trajmill.quality.contamination import pattern_fault

        for pattern in value:
            if (fault := pattern_fault(pattern)) is not None:
                raise ValueError(f"'{pattern}' is no regular expression: {fault}")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.path is None and not (self.canary or self.ids or self.id_patterns):
            raise ValueError("a benchmark needs a path, a canary, ids or id_patterns")
        if (self.repo is None) != (self.base_commit is None):
            raise ValueError("repo and base_commit go together")
        if self.answer is not None and not self.texts:
            raise ValueError("an answer needs texts, which ask for it")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the benchmark names."""
        named = (self.id, *self.texts, self.answer, self.repo, self.base_commit)
        return tuple(column for column in named if column is not None)


class Contamination(Section):
    """Definition of a trajectory that shows an item of a benchmark; see `quality.contamination`.

    Attributes:
        min_score: smallest share of an item's text, in weighted runs of 13 words, that counts as shown.
        common: number of tasks of the corpus, or of items, up to which a run of words has its full weight.
    """

    min_score: Annotated[float, Field(gt=0, le=1)] = 0.5
    common: Annotated[int, Field(ge=2)] = 10


class Judge(Section):
    """Settings of judging: what is kept.

    Attributes:
        tokenizer: `estimate`, or the path of a `tokenizer.json`, under which tokens are counted.
        include: a file of trajectory ids, one a line, as the viewer saves them: no others are kept (`excluded`). Null
            includes all.
        exclude: such a file of trajectories that are not kept (`excluded`).
        signals: settings of the signals that need some, by the name that rules call them; `signal` names the signal
            where that is another, so that one may stand there several times.
        measure: signals that are measured besides those of the rules, so that a mixture can choose by them.
        rules: by name; the name is the reason that is written for what the rule drops.
        prefer: of several like trajectories, or of one task, which is kept, what weighs most first; then the smallest
            id.
        near_duplicates: what counts as one; null looks for none.
        replicates: what is done with them; null does not look for any.
        harness_text: what is done with text that a harness put around answers; null does not look for any.
        benchmarks: trajectories that show an item of one are dropped (`contaminated`).
        contamination: what it is to show an item.
        max_per_task: how many trajectories of one task are kept, the best by `prefer`; no bound if null.
        max_share: how much of what is kept in a domain one value may be: of trajectories one `task` or `environment`,
            of targets one `place` or `command_head`; see `quality.share_caps`.
        group_folders: whether logs of one working folder are one group, and so of one pool; false where one holds most
            of a domain, whose logs are then told apart by task.
        spans: whether to write what spans of next observations can be known from (see `quality.spans`), beside them.
        simulated: what becomes of trajectories that a world model answered, in any row of theirs: they are dropped
            before anything is compared with them (`refuse`), or judged as others are (`allow`).
        drop_duplicate_trajectories: of equal trajectories one is kept, the others are merged into it. Where all are
            kept, those that share an id come to samples `<id>`, `<id>.2` and so on.
        mask_duplicate_transitions: of equal transitions one keeps its loss, the others stay as context.
    """

    tokenizer: str = ESTIMATE
    include: str | None = None
    exclude: str | None = None
    signals: dict[str, dict[str, Any]] = Field(default_factory=dict)
    measure: Annotated[tuple[str, ...], LISTED] = ()
    rules: dict[str, RuleValues] = Field(default_factory=dict)
    prefer: Annotated[tuple[Preference, ...], LISTED] = PREFERENCES
    near_duplicates: NearDuplicates | None = NearDuplicates()
    replicates: Replicates | None = Replicates()
    harness_text: HarnessText | None = None
    benchmarks: Annotated[tuple[Benchmark, ...], LISTED] = ()
    contamination: Contamination = Contamination()
    max_per_task: Annotated[int, Field(ge=1)] | None = None
    max_share: dict[Bounded, Annotated[float, Field(gt=0, le=1)]] = Field(default_factory=dict)
    spans: bool = False
    simulated: Literal["refuse", "allow"] = "refuse"
    group_folders: bool = True
    drop_duplicate_trajectories: bool = True
    mask_duplicate_transitions: bool = True

    @field_validator("benchmarks")
    @classmethod
    def _apart(cls, value: tuple[Benchmark, ...]) -> tuple[Benchmark, ...]:
        names = [benchmark.name for benchmark in value]
        if len(set(names)) < len(names):
            raise ValueError("two benchmarks have one name")
        return value

    @field_validator("include", "exclude")
    @classmethod
    def _of_ids(cls, value: str | None) -> str | None:
        if value is not None:
            read_ids(value)
        return value

    @field_validator("prefer")
    @classmethod
    def _ordered(cls, value: tuple[Preference, ...]) -> tuple[Preference, ...]:
        if len(set(value)) < len(value) or {"longer", "shorter"} <= set(value):
            raise ValueError("each preference stands once, and longer or shorter, not both")
        return value

    @field_validator("tokenizer")
    @classmethod
    def _readable(cls, value: str) -> str:
        from trajmill.quality.tokens import TokenCounter

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
        for name in self.measure:
            fault = "" if name in self.signals else self._fault(name)
            faults += [(("measure",), fault, name)] if fault else []
        if faults:
            raise _error_of_faults(faults)
        return self

    def measured(self) -> tuple[str, ...]:
        """Return the names of the measured signals, sorted."""
        return tuple(sorted({rule.signal for rule in self.rules.values()} | set(self.measure)))

    def _fault(self, name: str) -> str:
        """Explain why there is no signal of that name; empty if there is one."""
        from trajmill.quality.registry import kinds, signals

        if name not in self.signals and name not in kinds() and not name.startswith(DATATROVE):
            try:
                known("signal", (name,), [*self.signals, *kinds()])
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
        """Build the signal of that name.

        Raises:
            ConfigError: there is no such signal, or the recipe's settings do not fit it.
        """
        from trajmill.quality.registry import make_signal

        settings = dict(self.signals.get(name, {}))
        return make_signal(str(settings.pop("signal", name)), settings)

    def files(self) -> dict[str, str]:
        """Return paths of the files that measuring reads: the tokenizer, and models by the name of their signal."""
        paths = {} if self.tokenizer == ESTIMATE else {"tokenizer": self.tokenizer}
        for name in self.measured():
            paths |= {f"signals.{name}": path for path in self.made(name).files}
        return paths

    def selections(self) -> dict[str, str]:
        """Return paths of the files of ids that are included or excluded, by key of the recipe."""
        paths = {"judge.include": self.include, "judge.exclude": self.exclude}
        return {key: path for key, path in paths.items() if path is not None}

    def ordered_rules(self) -> list[Rule]:
        """Return the rules in the recipe's order, each with the scope of its signal."""
        return [values.named(name, self.made(values.signal).scope) for name, values in self.rules.items()]


def _error_of_faults(faults: Iterable[tuple[tuple[str, ...], str, str]]) -> ValidationError:
    """Build a validation error from faults (keys, message, input) at other places than the validated field."""
    details = [
        InitErrorDetails(type=PydanticCustomError("value_error", "{fault}", {"fault": fault}), loc=keys, input=met)
        for keys, fault, met in faults
    ]
    return ValidationError.from_exception_data("recipe", details)
