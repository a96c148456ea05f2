"""The section `mix.stages` of a recipe: the sources, amounts and proportions of each training stage."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from trajmill.pipelines.recipe.section import LISTED, Section, Share
from trajmill.schemas.trajectory import WORLD_MODEL

By = Literal["component", "domain", "source", "environment", "task", "kind"]
_SUM: Final = 1e-6
"""Largest difference from 1 of a sum of shares, since decimals are inexact."""


VALUES: Final = "values."
"""Prefix of a column of `mix.values` where it is named among signals."""

Power = Annotated[float, Field(gt=0, le=8)]


class Interval(Section):
    """Values of a signal that pass, from `min` to `max`."""

    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("an interval needs min or max")
        return self


class Component(Section):
    """A source of a stage's samples.

    Attributes:
        kind: `transitions` for judged trajectories; `text` or `messages` for the rows of the `mix.passages` entry of
            the component's name, in stages of CPT and SFT. A component holds only rows that were assigned to the
            stage's pool.
        weight: share of the stage; null takes everything, and must then be null for every component.
        domains: domains whose trajectories belong to the component; empty means all.
        sources: corpora, by the source name of their rows; empty means all.
        world_model: `name@revision` of the world model that answered the component's trajectories. Null accepts
            trajectories of at most one world model; rows of two models in one component end the run.
        where: signals by name, with the values that pass. A signal of transitions counts by its mean over the
            trajectory's targets. `values.<column>` is a column of `mix.values`.
        weigh: signals or values by name, with the power of each. Trajectories are drawn at random in proportion to the
            product, those with a product of 0 last. Null gives all the same chance.
        weights: share of each domain within the component; the shares of all named domains sum to 1.
        temperature: without `weights`, a domain of n tokens counts n^(1/temperature): 1 draws by size, larger values
            even out.
        unimax: without `weights`, domains are drawn evenly, each at most this many times (UniMax).
        epochs: how many times a sample may be drawn where the stage repeats samples to cover a shortfall.
    """

    kind: Literal["transitions", "text", "messages"] = "transitions"
    weight: Annotated[float, Field(gt=0, le=1)] | None = None
    domains: Annotated[tuple[str, ...], LISTED] = ()
    sources: Annotated[tuple[str, ...], LISTED] = ()
    world_model: str | None = None
    where: dict[str, Interval] = Field(default_factory=dict)
    weigh: dict[str, Power] | None = None
    weights: dict[str, Annotated[float, Field(gt=0, le=1)]] | None = None
    temperature: Annotated[float, Field(ge=1)] | None = None
    unimax: Annotated[int, Field(ge=1)] | None = None
    epochs: Annotated[int, Field(ge=1)] = 4

    @field_validator("weights")
    @classmethod
    def _whole(cls, value: dict[str, float] | None) -> dict[str, float] | None:
        if value is not None:
            _adds_up("weights", value)
        return value

    @field_validator("world_model")
    @classmethod
    def _with_revision(cls, value: str | None) -> str | None:
        if value is not None and re.fullmatch(WORLD_MODEL, value) is None:
            raise ValueError(f"world_model is '{value}': wanted name@revision, without blanks")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        of_transitions = (self.domains, self.where, self.weights, self.weigh, self.world_model)
        if self.kind != "transitions" and any(of_transitions):
            raise ValueError(f"domains, where, weigh, weights and world_model are of transitions, not of {self.kind}")
        if sum(way is not None for way in (self.weights, self.temperature, self.unimax)) > 1:
            raise ValueError("of weights, temperature and unimax one can hold")
        return self


class Bound(Section):
    """Bounds on the share of a stage that one value may or must have.

    Attributes:
        by: the key whose values are bounded: a sample's component, domain, source, environment, task, or kind of
            environment.
        value: the bounded value; null bounds each value by itself. Tasks and environments cannot be named here.
        min_share: smallest share of the stage's tokens; values below it are drawn first.
        max_share: largest share of the stage's tokens, to within one sample.
        max_tokens: largest number of tokens in the stage.
    """

    by: By
    value: str | None = None
    min_share: Share | None = None
    max_share: Share | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.min_share is None and self.max_share is None and self.max_tokens is None:
            raise ValueError("a bound needs min_share, max_share or max_tokens")
        if self.by in ("environment", "task") and (self.value is not None or self.min_share is not None):
            raise ValueError(f"each {self.by} is bounded by itself, from above: wanted no value and no min_share")
        if self.value is None and self.min_share is not None:
            raise ValueError("min_share needs a value")
        return self


class Stage(Section):
    """Sources of one training stage and the rules for drawing from them.

    Attributes:
        budget: tokens of CPT or SFT under `judge.tokenizer`; null takes everything.
        samples: largest number of samples, in any stage.
        components: components by name. Either all of them have weights, which sum to 1, or none has one.
        bounds: bounds on the drawn samples.
        on_shortfall: treatment of a component or domain that holds less than its share: `redistribute` gives the rest
            to the others, `repeat` first draws samples again up to their component's `epochs`, `stop` ends the run.
        max_per_group: largest number of samples of one group (see `Mix.pools`), the first by hash; null sets no bound.
        weigh_turns: in RL, signals of transitions by name with the power of each. The chance that a turn of a
            trajectory is chosen is multiplied by them, as shares of 1. Null multiplies by nothing.
    """

    budget: Annotated[int, Field(ge=1)] | None = None
    samples: Annotated[int, Field(ge=1)] | None = None
    components: dict[str, Component] = Field(default_factory=lambda: {"trajectories": Component()})
    bounds: Annotated[tuple[Bound, ...], LISTED] = ()
    on_shortfall: Literal["redistribute", "repeat", "stop"] = "redistribute"
    max_per_group: Annotated[int, Field(ge=1)] | None = None
    weigh_turns: dict[str, Power] | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.components:
            raise ValueError("a stage needs a component")
        weights = {
            name: component.weight for name, component in self.components.items() if component.weight is not None
        }
        if weights and len(weights) < len(self.components):
            raise ValueError("every component needs a weight, or none has one")
        if weights:
            _adds_up("weights of the components", weights)
        weighed = weights or any(component.weights for component in self.components.values())
        if weighed and self.budget is None and self.samples is None:
            raise ValueError("weights need a budget, or a number of samples, of which they are shares")
        return self


def _adds_up(kind: str, shares: dict[str, Any]) -> None:
    whole = sum(shares.values())
    if abs(whole - 1) > _SUM:
        raise ValueError(f"the {kind} add up to {whole:g}, wanted 1")
