"""Simulated trajectories in a mixture: a check that no component has two world models, and the share of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.mix.coded_names import Coded
from trajmill.schemas import ConfigError

NAME: Final = "simulated"
"""Key in a mixture's summary, present only if something simulated was drawn."""

_KEY: Final = ("stage", "component", "world_model")
_SUMMED: Final = ("samples", "tokens")


def check_components(
    stage: str, component: Coded, world_model: Coded, before: Iterable[Mapping[str, Any]] = ()
) -> None:
    """Check that at most one world model answered the items of each component of a stage.

    Args:
        world_model: world model of each item; empty for items that are not simulated.
        before: draws of earlier generations, as returned by `sum_mixtures`.

    Raises:
        ConfigError: a component would have two world models.
    """
    models_by_component: dict[str, set[str]] = {}
    for draw in before:
        if draw["stage"] == stage:
            models_by_component.setdefault(draw["component"], set()).add(draw["world_model"])
    for component_name, name in sorted(_pairs(component, world_model)):
        models = models_by_component.setdefault(component_name, set())
        models.add(name)
        if len(models) > 1:
            first, second = sorted(models)[:2]
            raise ConfigError(
                f"mix.stages.{stage}: component '{component_name}' would be drawn from two world models, {first} and "
                f"{second}, "
                f"which are never one component. Give each a component of its own before it, such as "
                f"{{simulated: {{world_model: {first}}}}}."
            )


def _pairs(component: Coded, world_model: Coded) -> set[tuple[str, str]]:
    is_simulated = ~world_model.is_in([""])
    pairs = zip(component[is_simulated].tolist(), world_model[is_simulated].tolist(), strict=True)
    return {(str(component_name), str(name)) for component_name, name in pairs}


def sum_simulated(
    stage: str,
    component: Coded,
    world_model: Coded,
    tokens: npt.NDArray[np.integer[Any]],
    copies: npt.NDArray[np.integer[Any]],
) -> list[dict[str, Any]]:
    """Sum the draws of each component and world model of a stage: samples and tokens, as often as drawn."""
    rows = []
    for component_name, name in sorted(_pairs(component, world_model)):
        mine = np.flatnonzero(component.is_in([component_name]) & world_model.is_in([name]))
        drawn = copies[mine].astype(np.int64)
        if drawn.any():
            sizes = int((tokens[mine].astype(np.int64) * drawn).sum())
            rows.append(
                {
                    **dict(zip(_KEY, (stage, component_name, name), strict=True)),
                    "samples": int(drawn.sum()),
                    "tokens": sizes,
                }
            )
    return rows


def sum_mixtures(mixtures: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sum the draws of generations by stage, component and world model."""
    sums: dict[tuple[str, ...], dict[str, Any]] = {}
    for mixture in mixtures:
        for row in mixture.get(NAME, ()):
            total = sums.setdefault(tuple(row[name] for name in _KEY), {**row, **dict.fromkeys(_SUMMED, 0)})
            for name in _SUMMED:
                total[name] += row[name]
    return [sums[key] for key in sorted(sums)]


def shares(mixture: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the simulated draws of a mixture with their shares of the stage's tokens; empty if there are none."""
    rows: Sequence[Mapping[str, Any]] = mixture.get(NAME, ())
    stage_tokens = {stage: sum(row["tokens"] for row in drawn) for stage, drawn in mixture["stages"].items()}
    return [{**row, "share": row["tokens"] / max(stage_tokens.get(row["stage"], 0), 1)} for row in rows]
