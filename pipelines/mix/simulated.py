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
    """Nothing, if what each component of a stage can be drawn from was answered by one world model at most.

    Args:
        stage: the pool's name.
        component: of each item.
        world_model: of each item; empty of what is not simulated.
        before: what earlier generations drew, as `told` says it.

    Raises:
        ConfigError: a component would hold two.
    """
    held: dict[str, set[str]] = {}
    for one in before:
        if one["stage"] == stage:
            held.setdefault(one["component"], set()).add(one["world_model"])
    for place, name in sorted(_pairs(component, world_model)):
        models = held.setdefault(place, set())
        models.add(name)
        if len(models) > 1:
            first, second = sorted(models)[:2]
            raise ConfigError(
                f"mix.stages.{stage}: component '{place}' would be drawn from two world models, {first} and {second}, "
                f"which are never one component. Give each a component of its own before it, such as "
                f"{{simulated: {{world_model: {first}}}}}."
            )


def _pairs(component: Coded, world_model: Coded) -> set[tuple[str, str]]:
    some = ~world_model.is_in([""])
    pairs = zip(component[some].tolist(), world_model[some].tolist(), strict=True)
    return {(str(place), str(name)) for place, name in pairs}


def drawn_simulated(
    stage: str,
    component: Coded,
    world_model: Coded,
    tokens: npt.NDArray[np.integer[Any]],
    copies: npt.NDArray[np.integer[Any]],
) -> list[dict[str, Any]]:
    """What was drawn of each component and world model of a stage: samples and tokens, each as often as drawn."""
    found = []
    for place, name in sorted(_pairs(component, world_model)):
        mine = np.flatnonzero(component.is_in([place]) & world_model.is_in([name]))
        drawn = copies[mine].astype(np.int64)
        if drawn.any():
            sizes = int((tokens[mine].astype(np.int64) * drawn).sum())
            found.append(
                {**dict(zip(_KEY, (stage, place, name), strict=True)), "samples": int(drawn.sum()), "tokens": sizes}
            )
    return found


def summed(some: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What generations drew, added up by stage, component and world model."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for mixture in some:
        for one in mixture.get(NAME, ()):
            held = found.setdefault(tuple(one[name] for name in _KEY), {**one, **dict.fromkeys(_SUMMED, 0)})
            for name in _SUMMED:
                held[name] += one[name]
    return [found[key] for key in sorted(found)]


def shares(mixture: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same of a mixture, with the share that each has of the tokens of its stage; empty if nothing is simulated."""
    rows: Sequence[Mapping[str, Any]] = mixture.get(NAME, ())
    whole = {stage: sum(one["tokens"] for one in drawn) for stage, drawn in mixture["stages"].items()}
    return [{**one, "share": one["tokens"] / max(whole.get(one["stage"], 0), 1)} for one in rows]
