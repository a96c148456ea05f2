"""Recipes: the settings of a run, frozen and validated in full at launch.

A recipe holds no settings of execution (location, number of workers, size of parts), since these must not change a byte
of the shards; see `Execution`. `recipe_file` reads recipes from YAML.
"""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from trajmill.connectors.connector import Choices
from trajmill.pipelines.recipe.columns import Dataset
from trajmill.pipelines.recipe.judgement import Judge
from trajmill.pipelines.recipe.mixture import VALUES, Stage
from trajmill.pipelines.recipe.passages import Passages, check_names
from trajmill.pipelines.recipe.section import LISTED, Day, Domain, Section, Share, known
from trajmill.quality.scrubbing.kinds import KINDS
from trajmill.schemas import DOMAINS, ConfigError

Pool = Literal["cpt", "sft", "rl", "eval"]
POOLS: Final[tuple[Pool, ...]] = ("cpt", "sft", "rl", "eval")
SHARES: Final[dict[Pool, float]] = {"cpt": 0.5, "sft": 0.25, "rl": 0.15, "eval": 0.1}
"""Default share of the groups for each pool."""

Wider = Literal["repository", "site", "app", "server"]
Overflow = Literal["drop", "cut_oldest", "cut_newest", "windows"]
SpanClass = Literal["volatile", "frame", "copied", "new"]
LOSS_WEIGHTS: Final[dict[SpanClass, float]] = {"volatile": 0.1}
"""Default share of the spans of a class that bear the loss; all spans of other classes bear it."""
WINDOWS: Final[dict[Pool, int]] = {"cpt": 1 << 18, "sft": 1 << 18, "rl": 1 << 17, "eval": 1 << 17}
"""Default number of tokens of a sample in each pool."""

BOUNDS: Final = ("max_reject_ratio", "max_unrecognized_ratio")
"""Settings of the section `normalize` that end a run without changing its output."""

_OF_APPENDING: Final = "grown"
"""Setting of the section `normalize` that decides which logs are read later, but not how a log is read."""


def _as_shares(value: Any) -> Any:
    return dict.fromkeys(value, 1.0) if isinstance(value, list) else value


class Normalize(Section):
    """Settings of reading raw logs.

    Attributes:
        connectors: which formats are looked for; empty means all.
        formats: the connector that reads the files of a glob below the raw root, whatever they look like, such as
            `{"**/*.log": script}`; of several globs that match a file, the first holds.
        max_reject_ratio: share of the inputs that a connector recognized, and of their records, that may be unreadable
            before the run fails; see `conservation`.
        max_unrecognized_ratio: share of the files that no connector may recognize before the run fails; null is any.
        max_member_bytes: decompressed bytes of one file above which it is rejected, unless it is read in slices.
        scrub: kinds of secrets that are replaced before anything is stored.
        scrub_salt: a secret of at least 16 characters; who does not know it cannot test guesses against placeholders.
        screen: `tree` for the compact text of raw UI, DOM and accessibility trees, `raw` for the log's own.
        static_assets: whether requests for images, fonts, style sheets and scripts are transitions too.
        dataset: which files of a published data set are read, and what the columns of its tables hold.
        attachments: `drop` for the digests alone of what logs attach (screenshots, documents), `keep` to copy that into
            the output folder as it is: no picture is scrubbed.
        grown: what `--append` does with a log that grew or changed since it was read: `extend` reads it again and adds
            what is new to the group and the pool of the log, `ignore` leaves it. Only `ignore` works without
            `judge.mask_duplicate_transitions`, by which nothing bears the loss twice.
    """

    connectors: Annotated[tuple[str, ...], LISTED] = ()
    formats: dict[str, str] = Field(default_factory=dict)
    max_reject_ratio: Share = 0.2
    max_unrecognized_ratio: Share | None = None
    max_member_bytes: Annotated[int, Field(gt=0)] = 8 << 30
    scrub: Annotated[tuple[str, ...], LISTED] = KINDS
    scrub_salt: Annotated[str | None, Field(min_length=16, repr=False)] = None
    screen: Literal["tree", "raw"] = "tree"
    static_assets: bool = False
    dataset: Dataset = Dataset()
    attachments: Literal["drop", "keep"] = "drop"
    grown: Literal["ignore", "extend"] = "extend"

    @property
    def sought(self) -> tuple[str, ...]:
        """The connectors that are tried on files; empty means all."""
        return (*self.connectors, *self.formats.values()) if self.connectors else ()

    def choices(self, domains: tuple[str, ...] = ()) -> Choices:
        """Return the settings for connectors in a recipe of these domains."""
        return Choices(self.screen, self.static_assets, self.dataset.rows(domains))

    @field_validator("connectors")
    @classmethod
    def _known_connectors(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from trajmill.connectors.registry import connectors  # here, since numpy comes with it

        return known("connector", value, connectors() if value else ())

    @field_validator("formats")
    @classmethod
    def _known_formats(cls, value: dict[str, str]) -> dict[str, str]:
        from trajmill.connectors.registry import connectors  # as above

        known("connector", tuple(value.values()), connectors() if value else ())
        return value

    @field_validator("scrub")
    @classmethod
    def _known_kinds(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return known("kind of secret", value, KINDS)


class Mix(Section):
    """Settings of the mix stage.

    Attributes:
        pools: share of the trajectories that each pool gets, in whole groups; the shares are scaled to sum to 1.
        group_by: further keys that join trajectories into one group, by the environment that their logs name: a
            `repository` of swe, a `site` of web, an `app` of android or os, a `server` of mcp. A list joins without a
            limit. A mapping gives the largest share of a domain's trajectories that one value joins (`{site: 0.1}`),
            since a site with most of a domain would leave the other pools empty.
        stages: sources of each pool's stage; a pool that is not named takes all its trajectories.
        passages: rows of other corpora that are passed through, by the names of their components.
        after: a day (UTC); rows of eval state whether their turn began before it, or on it or later.
        seed: seed of every choice by hash: pools, templates, order of samples, the turns of RL and eval.
        window_tokens: largest number of tokens of a sample in each pool, under `judge.tokenizer`; null sets no bound. A
            pool that is not named keeps its default: 262,144 in CPT and SFT, and 131,072 for the prompts of RL and
            eval.
        overflow: treatment of longer samples. In CPT and SFT, where the default is `windows`: `drop` drops them,
            `cut_oldest` keeps the last turns, `cut_newest` the first, and `windows` makes several samples, with each
            turn in one of them. In RL and eval, where the default is `drop`, a turn with a longer prompt is not asked
            for; any other value keeps as many turns before it as fit.
        prompt_share: largest share of a sample's tokens that its system prompt may have. Above it, descriptions of
            tools that the sample neither calls nor names are left out, as many as necessary; then a short template
            replaces the drawn one. Other facts of the log stay. 1 sets no bound.
        observation_chars: characters of an observation that samples show. A longer observation keeps its head and tail,
            with a marker for the omitted part between them. Null shows all.
        max_response_tokens: largest number of tokens of an answer that RL and eval ask for.
        shard_bytes: bytes of text in one shard, before compression.
        harness: how samples show texts of the harness and the user between turns (`interleaved`): `strip` omits them,
            `keep` shows them in the user turn before the action. With `keep`, observations that the harness made never
            bear loss, whatever the rules say.
        edits: how samples show edits of files: `call` for the call itself, `diff` for a unified diff below the call,
            where the call has both the old text and the new.
        actions: `call` for calls as JSON, `native` for the grammar of the domain's agents, where it can express the
            action: BrowserGym's calls, pyautogui code, AndroidWorld's JSON.
        mcp: the answer of an MCP server: its `text`, or the `envelope`, the object that contained it (`{"content":
            [{"type": "text", "text": …}], "isError": false}`), where the log holds it.
        control_tokens: treatment of strings in samples that chat tokenizers take for control tokens, such as
            `<|im_end|>` in a file that was read: `keep` leaves them, `escape` inserts a blank after their first
            character so that they are no control tokens (`quality.control_strings`), `drop` leaves out samples that
            show one.
        images: largest length in pixels of the longer side of the screenshots that user messages of SFT and RL show
            beside the text, in a column `images`; null shows none. Requires `normalize.attachments: keep`. Pictures are
            not scrubbed.
        loss: the unit of loss in CPT and SFT: whole answers (`turns`), or the spans of each answer that `loss_weights`
            draws (`spans`, which requires `judge.spans`).
        loss_weights: with `loss: spans`, the share of the spans of each class that bear the loss, drawn by hash; a
            class that is not named has its default. At least one in ten of a sample's volatile spans bears the loss.
        templates: a folder of templates for system prompts that replaces `configs/templates`, with the same layout.
        values: a Parquet file of numbers by `trajectory_id`. Components select (`where`) and weigh by them like
            signals, as `values.<column>`.
        instructions: a Parquet file of simulation instructions by `trajectory_id`, as `trajmill model instruct` writes
            it, for trajectories whose logs hold none. Prompts of all pools but eval show them.
        rl: turns that RL may ask for: `any`, or only those that `trajmill world replay` has `certified` because their
            action gave the same answer again. `certified` requires a replay of the run before the mix stage.
        databases: whether checks of RL use the data that a run wrote into its database, from the difference that
            `trajmill world replay --world awm` takes.
    """

    pools: dict[Pool, Annotated[float, Field(ge=0)]] = Field(default_factory=lambda: dict(SHARES))
    group_by: Annotated[dict[Wider, Share], BeforeValidator(_as_shares)] = Field(default_factory=dict)
    stages: dict[Pool, Stage] = Field(default_factory=dict)
    passages: Annotated[tuple[Passages, ...], LISTED] = ()
    after: Day | None = None
    seed: int = 0
    window_tokens: dict[Pool, Annotated[int, Field(ge=256)] | None] = Field(default_factory=dict, validate_default=True)
    overflow: dict[Pool, Overflow] = Field(default_factory=dict, validate_default=True)
    prompt_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    observation_chars: Annotated[int, Field(ge=256)] | None = 1 << 16
    max_response_tokens: Annotated[int, Field(ge=16)] = 1 << 14
    shard_bytes: Annotated[int, Field(ge=1 << 10, le=128 << 20)] = 96 << 20
    harness: Literal["strip", "keep"] = "strip"
    edits: Literal["call", "diff"] = "call"
    actions: Literal["call", "native"] = "call"
    mcp: Literal["text", "envelope"] = "text"
    control_tokens: Literal["keep", "escape", "drop"] = "keep"
    images: Annotated[int, Field(ge=32, le=1 << 13)] | None = None
    loss: Literal["turns", "spans"] = "turns"
    loss_weights: dict[SpanClass, Share] = Field(default_factory=lambda: dict(LOSS_WEIGHTS))
    templates: str | None = None
    values: str | None = None
    instructions: str | None = None
    rl: Literal["any", "certified"] = "any"
    databases: bool = False

    @property
    def asks_replays(self) -> bool:
        """True if samples depend on a replay."""
        return self.rl == "certified" or self.databases

    @property
    def asks_for_turns(self) -> bool:
        """True if a pool consists of single turns: RL or eval."""
        return bool(self.pools.get("rl") or self.pools.get("eval"))

    @field_validator("loss_weights")
    @classmethod
    def _with_defaults(cls, value: dict[SpanClass, float]) -> dict[SpanClass, float]:
        return {**LOSS_WEIGHTS, **value}

    @field_validator("passages")
    @classmethod
    def _named_once(cls, value: tuple[Passages, ...]) -> tuple[Passages, ...]:
        return check_names(value)

    @model_validator(mode="after")
    def _passed_through(self) -> Self:
        kinds = {passages.name: passages.kind for passages in self.passages}
        named: set[str] = set()
        for pool, stage in self.stages.items():
            for name, component in stage.components.items():
                if component.kind == "transitions":
                    continue
                if pool in ("rl", "eval"):
                    raise ValueError(f"stages.{pool} asks for turns of trajectories, which '{name}' has none of")
                known(f"passages of stages.{pool}", (name,), kinds)
                if kinds[name] != component.kind or (component.kind == "text" and pool == "sft"):
                    raise ValueError(f"stages.{pool}.components.{name} cannot take {kinds[name]} as {component.kind}")
                named.add(name)
        if unnamed := sorted(kinds.keys() - named):
            raise ValueError(f"passages '{unnamed[0]}' are a component of no stage")
        return self

    @field_validator("templates")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                from trajmill.pipelines.recipe.templates import check_templates

                check_templates(Path(value))
            except ConfigError as error:
                raise ValueError(error.message.removeprefix("mix.templates: ")) from error
        return value

    @field_validator("stages")
    @classmethod
    def _by_samples(cls, value: dict[Pool, Stage]) -> dict[Pool, Stage]:
        for pool, stage in value.items():
            if pool in ("rl", "eval") and stage.budget is not None:
                raise ValueError(f"stages.{pool} takes one turn a trajectory: wanted samples, not a budget of tokens")
            if pool != "rl" and stage.weigh_turns is not None:
                raise ValueError(f"stages.{pool} chooses no turn of a trajectory by chance, as rl does: no weigh_turns")
        return value

    @field_validator("window_tokens")
    @classmethod
    def _with_windows(cls, value: dict[Pool, int | None]) -> dict[Pool, int | None]:
        return {pool: value.get(pool, WINDOWS[pool]) for pool in POOLS}

    @field_validator("overflow")
    @classmethod
    def _with_overflow(cls, value: dict[Pool, Overflow]) -> dict[Pool, Overflow]:
        return {pool: value.get(pool, "drop" if pool in ("rl", "eval") else "windows") for pool in POOLS}

    @field_validator("pools")
    @classmethod
    def _some(cls, value: dict[Pool, float]) -> dict[Pool, float]:
        if not sum(value.values()):
            raise ValueError("at least one pool needs a share above 0")
        return value


class Card(Section):
    """Facts of the dataset card that the data does not contain; see the Hub's documentation of dataset cards.

    Attributes:
        pretty_name: display name of the dataset.
        license: the Hub's name of the dataset's licence; `other` for the licences that the rows state.
        licences: SPDX ids and expressions under which rows may be published, as rows state them, and `unknown` for rows
            without one; by default those that the recipe names for logs and passages.
        images: whether a dataset whose samples show screenshots may be published; pictures are not scrubbed.
        language: languages of the texts, separated by commas.
        tags: tags as the Hub uses them.
    """

    pretty_name: str = "Interaction trajectories"
    license: str = "other"
    licences: Annotated[tuple[str, ...], LISTED] = ()
    images: bool = False
    language: str = "en"
    tags: Annotated[tuple[str, ...], LISTED] = ("world-model", "trajectories", "agents")


class Recipe(Section):
    """A whole recipe.

    Attributes:
        name: name of the dataset.
        source: the corpus name in every row.
        licence: SPDX id of the raw logs' licence, if known; written to every row's provenance.
        domains: accepted domains; trajectories of other domains are rejected.
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
        if self.mix.images is not None and self.normalize.attachments == "drop":
            raise ValueError("mix.images needs normalize.attachments: keep, which keeps the screenshots of logs")
        if self.mix.images is not None and self.mix.control_tokens == "keep":
            raise ValueError("mix.images needs mix.control_tokens: escape or drop, so that no text holds a placeholder")
        if self.mix.loss == "spans" and not self.judge.spans:
            raise ValueError("mix.loss: spans needs judge.spans: true, which tells the spans of an answer apart")
        fault = self.normalize.dataset.fault(self.domains)
        if fault is not None:
            raise ValueError(fault)
        for pool, stage in self.mix.stages.items():
            for name, component in stage.components.items():
                where = f"mix.stages.{pool}.components.{name}"
                if component.world_model is not None and self.judge.simulated == "refuse":
                    raise ValueError(f"{where} is of a world model: that needs judge.simulated: allow")
                known(f"domain in {where}", tuple({*component.domains, *(component.weights or ())}), self.domains)
                self._known_numbers(where, tuple({**component.where, **(component.weigh or {})}))
            known(f"measured signal in mix.stages.{pool}.weigh_turns", tuple(stage.weigh_turns or ()), self._of_turns())
        return self

    @property
    def extends_logs(self) -> bool:
        """True if an append reads logs again that grew."""
        return self.normalize.grown == "extend" and self.judge.mask_duplicate_transitions

    def read_by_workers(self) -> list[str]:
        """List paths and URLs of models, ids, templates and passages, but those that come with trajmill."""
        own = Path(str(files("trajmill.quality")))
        models = [path for path in self.judge.files().values() if not Path(path).is_relative_to(own)]
        templates = [self.mix.templates] if self.mix.templates is not None else []
        ids = self.judge.selections().values()
        return [*models, *ids, *templates, *(passages.path for passages in self.mix.passages)]

    def _known_numbers(self, where: str, names: tuple[str, ...]) -> None:
        """Check that names are measured signals or columns of `mix.values`.

        Raises:
            ValueError: a name is neither.
        """
        values = tuple(name for name in names if name.startswith(VALUES))
        if values and self.mix.values is None:
            raise ValueError(f"'{values[0]}' in {where} needs mix.values, the file that has it")
        known(f"measured signal in {where}", tuple(set(names) - set(values)), self.judge.measured())

    def _of_turns(self) -> list[str]:
        """Return the signals that are measured of transitions."""
        return [name for name in self.judge.measured() if self.judge.made(name).scope == "transition"]

    def with_format(self, name: str) -> Recipe:
        """Return a copy of the recipe in which one connector reads every file.

        Raises:
            ConfigError: there is no such connector; the message suggests the nearest name.
        """
        from trajmill.connectors.registry import connector  # here, since numpy comes with it

        formats = {"**": connector(name).name}
        return self.model_copy(update={"normalize": self.normalize.model_copy(update={"formats": formats})})

    def digest(self, *sections: str) -> str:
        """Return the sha256 of the recipe, or of the named sections, as 64 hex digits.

        Equal values have equal digests.
        """
        values = self.model_dump(mode="json")
        chosen = {name: values[name] for name in sections} if sections else values
        return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()

    def reading_digest(self) -> str:
        """Return the digest of the section `normalize` without the bounds that end a run and `grown`."""
        values = self.normalize.model_dump(mode="json", exclude={*BOUNDS, _OF_APPENDING})
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
