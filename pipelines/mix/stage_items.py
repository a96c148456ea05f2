"""Items of a stage: the candidates of a pool that belong to one of its components."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.mix.candidates import Candidates, weigh_keys, weights_by
from trajmill.pipelines.mix.coded_names import Coded
from trajmill.pipelines.mix.draw import Items
from trajmill.pipelines.recipe.mixture import Component, Stage
from trajmill.pipelines.recipe.recipe import Mix, Pool
from trajmill.schemas import DOMAINS


def stage_items(
    candidates: Candidates, groups: npt.NDArray[np.uint64], pools: Coded, pool: Pool, mix: Mix
) -> tuple[npt.NDArray[np.int64], Items]:
    """Choose the candidates that the stage of a pool can draw, and build its items."""
    rows = np.flatnonzero(pools.is_in([pool]))
    stage = mix.stages.get(pool, Stage())
    component = _components(candidates, rows, stage)
    belongs = ~component.is_in([""])
    chosen, component = rows[belongs], component[belongs]
    values: dict[str, Any] = {"component": component}
    for bound in stage.bounds:
        if bound.by not in values:
            values[bound.by] = getattr(candidates, bound.by)[chosen]
    return chosen, Items(
        key=_keys(candidates, chosen, component, stage),
        tokens=candidates.tokens[chosen],
        loss_tokens=candidates.loss_tokens[chosen],
        group=groups[chosen] if stage.max_per_group is not None else groups[:0],
        component=component,
        domain=candidates.domain[chosen],
        values=values,
    )


def _keys(
    candidates: Candidates, chosen: npt.NDArray[np.int64], component: Coded, stage: Stage
) -> npt.NDArray[np.uint64]:
    """Return the keys that order the items: hashes, or in a component with weights, weighted random keys."""
    keys = candidates.draw_key[chosen]
    for name, weighing_component in stage.components.items():
        if weighing_component.weigh:
            mine = component.is_in([name])
            weights = weights_by(
                {by: candidates.signals[by][chosen][mine] for by in weighing_component.weigh}, weighing_component.weigh
            )
            keys = keys.copy()
            keys[mine] = weigh_keys(keys[mine], weights)
    return keys


def _components(candidates: Candidates, rows: npt.NDArray[np.int64], stage: Stage) -> Coded:
    """Return the first component of each candidate; empty if it belongs to none."""
    names = ("", *stage.components)
    codes = np.zeros(len(rows), np.min_scalar_type(len(names)))
    for number, (name, component) in enumerate(stage.components.items(), 1):
        is_passed = component.kind != "transitions"
        mine = candidates.domain[rows].is_in([name]) if is_passed else _belongs(candidates, rows, component)
        codes[mine & (codes == 0)] = number
    return Coded(codes, names)


def _belongs(candidates: Candidates, rows: npt.NDArray[np.int64], component: Component) -> npt.NDArray[np.bool_]:
    domain = candidates.domain[rows]
    mine = domain.is_in(DOMAINS)
    if component.domains:
        mine &= domain.is_in(component.domains)
    if component.sources:
        mine &= candidates.source[rows].is_in(component.sources)
    if component.world_model is not None:
        mine &= candidates.world_model[rows].is_in([component.world_model])
    for name, interval in component.where.items():
        value = candidates.signals[name][rows]
        mine &= (value >= interval.min) if interval.min is not None else True
        mine &= (value <= interval.max) if interval.max is not None else True
    return mine
