"""Simulated trajectories in a mixture: that no component holds two world models, and which share each one has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.mix.coded_names import Coded
from trajmill.schemas import ConfigError

NAME: Final = "simulated"
"""Key of what is told of a mixture, there only where something simulated was drawn."""

_KEY: Final = ("stage", "component", "world_model")
_SUMMED: Final = ("samples", "tokens")


def check_components(
    stage: str, component: Coded, world_model: Coded, before: Iterable[Mapping[str, Any]] = ()
) -> None:
    """Check that what each component of a stage can be drawn from was answered by one world model at most.

    Args:
        stage: the pool's name.
        component: of each item.
        world_model: of each item; empty of what is not simulated.
        before: what earlier generations drew, as `told` says it.

    Raises:
        ConfigError: a component would hold two.
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
    """Sum what was drawn of each component and world model of a stage: samples and tokens, each as often as drawn."""
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
    """Add up what generations drew, by stage, component and world model."""
    sums: dict[tuple[str, ...], dict[str, Any]] = {}
    for mixture in mixtures:
        for row in mixture.get(NAME, ()):
            total = sums.setdefault(tuple(row[name] for name in _KEY), {**row, **dict.fromkeys(_SUMMED, 0)})
            for name in _SUMMED:
                total[name] += row[name]
    return [sums[key] for key in sorted(sums)]


def shares(mixture: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same of a mixture, with the share that each has of the tokens of its stage; empty if nothing is simulated."""
    rows: Sequence[Mapping[str, Any]] = mixture.get(NAME, ())
    stage_tokens = {stage: sum(row["tokens"] for row in drawn) for stage, drawn in mixture["stages"].items()}
    return [{**row, "share": row["tokens"] / max(stage_tokens.get(row["stage"], 0), 1)} for row in rows]
