"""What the stage of a pool can be drawn from: the pool's candidates that belong to a component, as its items."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.mix.candidates import Candidates, weighed_keys, weights_by
from trajmill.pipelines.mix.coded_names import Coded
from trajmill.pipelines.mix.draw import Items
from trajmill.pipelines.recipe.mixture import Component, Stage
from trajmill.pipelines.recipe.recipe import Mix, Pool
from trajmill.schemas import DOMAINS


def stage_items(
    found: Candidates, groups: npt.NDArray[np.uint64], pools: Coded, pool: Pool, mix: Mix
) -> tuple[npt.NDArray[np.int64], Items]:
    """Which candidates the stage of a pool can be drawn from, and these as its items."""
    rows = np.flatnonzero(pools.is_in([pool]))
    stage = mix.stages.get(pool, Stage())
    component = _components(found, rows, stage)
    belongs = ~component.is_in([""])
    chosen, component = rows[belongs], component[belongs]
    values: dict[str, Any] = {"component": component}
    for bound in stage.bounds:
        if bound.by not in values:
            values[bound.by] = getattr(found, bound.by)[chosen]
    return chosen, Items(
        key=_keys(found, chosen, component, stage),
        tokens=found.tokens[chosen],
        loss_tokens=found.loss_tokens[chosen],
        group=groups[chosen] if stage.max_per_group is not None else groups[:0],
        component=component,
        domain=found.domain[chosen],
        values=values,
    )


def _keys(found: Candidates, chosen: npt.NDArray[np.int64], component: Coded, stage: Stage) -> npt.NDArray[np.uint64]:
    """The keys by whose order items are drawn: hashes, and of a component that weighs them, lots by their weight."""
    keys = found.draw_key[chosen]
    for name, one in stage.components.items():
        if one.weigh:
            mine = component.is_in([name])
            weights = weights_by({by: found.signals[by][chosen][mine] for by in one.weigh}, one.weigh)
            keys = keys.copy()
            keys[mine] = weighed_keys(keys[mine], weights)
    return keys


def _components(found: Candidates, rows: npt.NDArray[np.int64], stage: Stage) -> Coded:
    """The first component that each candidate belongs to; empty where it belongs to none."""
    names = ("", *stage.components)
    codes = np.zeros(len(rows), np.min_scalar_type(len(names)))
    for number, (name, component) in enumerate(stage.components.items(), 1):
        is_passed = component.kind != "transitions"
        mine = found.domain[rows].is_in([name]) if is_passed else _belongs(found, rows, component)
        codes[mine & (codes == 0)] = number
    return Coded(codes, names)


def _belongs(found: Candidates, rows: npt.NDArray[np.int64], component: Component) -> npt.NDArray[np.bool_]:
    domain = found.domain[rows]
    mine = domain.is_in(DOMAINS)
    if component.domains:
        mine &= domain.is_in(component.domains)
    if component.sources:
        mine &= found.source[rows].is_in(component.sources)
    if component.world_model is not None:
        mine &= found.world_model[rows].is_in([component.world_model])
    for name, interval in component.where.items():
        value = found.signals[name][rows]
        mine &= (value >= interval.min) if interval.min is not None else True
        mine &= (value <= interval.max) if interval.max is not None else True
    return mine
