"""The section `mix.stages` of a recipe: of what each stage of training is drawn, how much, and in which proportion."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from trajmill.pipelines.recipe.section import LISTED, Section, Share
from trajmill.schemas.trajectory import WORLD_MODEL

By = Literal["component", "domain", "source", "environment", "task", "kind"]
_SUM: Final = 1e-6
"""By how much shares may miss 1, as decimals do."""


VALUES: Final = "values."
"""Before the name of a column of `mix.values`, where it is named beside signals."""

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
    """One of the things that a stage is drawn from.

    Attributes:
        kind: `transitions` for judged trajectories; `text` or `messages` for the rows of `mix.passages` of the
            component's name, in stages of CPT and SFT. Only what a stage's pool was given belongs to it.
        weight: its share of the stage; null for all that there is, which then must be so of every component.
        domains: which trajectories belong to it; empty means all.
        sources: which corpora, by the name that rows bear; empty means all.
        world_model: `name@revision` of the world model that answered what belongs to it; null for what none answered,
            and for what one did: rows of two are no one component, which ends the run.
        where: signals by name, and the values of them that pass. Of a signal of transitions the mean over the
            trajectory's targets counts. `values.<column>` is one of `mix.values`.
        weigh: signals, or values, by name, and the power to which each counts: trajectories are drawn by chance in
            proportion to the product, those of 0 last. Null draws all alike.
        weights: share of each domain within the component. The shares of all that are named add up to 1.
        temperature: without `weights`, domains count by n^(1/temperature) of their n tokens: 1 by size, more evens out.
        unimax: without `weights`, domains are drawn from alike, each at most so many times (UniMax).
        epochs: how many times a sample may be drawn where the stage repeats what falls short.
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
    """Bounds on the share of a stage that one value may be, or has to be.

    Attributes:
        by: whose value: a sample's component, domain, source, environment, task, or kind of environment.
        value: the one that is bounded; null bounds each by itself. Tasks and environments have no name here.
        min_share: of the stage's tokens; what falls below it goes first.
        max_share: of the stage's tokens, within one sample.
        max_tokens: of the stage.
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
    """Sources of one stage of training, and how it is drawn from them.

    Attributes:
        budget: tokens under `judge.tokenizer`, of CPT and SFT; null for all that there is.
        samples: at most so many, in any stage.
        components: by name. Their weights add up to 1, or none has one.
        bounds: on what is drawn.
        on_shortfall: where a component or domain holds less than its share: `redistribute` gives it to the others,
            `repeat` draws samples again up to their component's `epochs` first, `stop` ends the run.
        max_per_group: samples of one group (see `Mix.pools`), the first by hash; null for any number.
        weigh_turns: of RL, signals of transitions by name and the power to which each counts: the chance that a turn of
            a trajectory is asked for is multiplied by them, as shares of 1. Null multiplies by nothing.
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
