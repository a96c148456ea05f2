"""Preview of a mixture: the draws of a recipe from the judged data in a run's folder, without writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trajmill.pipelines.judge.evaluation_index import UNIT as BENCHMARKS_UNIT
from trajmill.pipelines.judge.judging import Judging, Unit, judging_digest
from trajmill.pipelines.judge.measuring import measuring_digest
from trajmill.pipelines.mix.mixture import Judged, Mixture, draw
from trajmill.pipelines.mix.passages.preparation import Preparation
from trajmill.pipelines.mix.simulation_instructions import read_instructions
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder, sha256_of
from trajmill.pipelines.storage.units import MANIFEST, manifest_name, read_manifest, units_of
from trajmill.schemas.manifest import Manifest

_JUDGE: Final = "Run with --stop-after judge first."


@dataclass(frozen=True, slots=True)
class MixturePlan:
    """Preview of the draws of a run.

    Attributes:
        mixture: the mixture; None if nothing is judged.
        notes: reasons why a run might draw otherwise, a line each.
    """

    mixture: Mixture | None
    notes: tuple[str, ...] = ()


def mixture_plan(recipe: Recipe, out: str) -> MixturePlan:
    """Plan the draws of a run of the recipe from the verdicts in a folder.

    Raises:
        ConfigError: the recipe's mixture cannot be drawn, or a file that it names is missing.
    """
    folder = Folder(out)
    transitions, verdicts = (read_manifest(folder / name, MANIFEST) for name in ("transitions", "verdicts"))
    if transitions is None or verdicts is None:
        return MixturePlan(None, (f"{folder.path()} has no verdicts, so nothing can be drawn. {_JUDGE}",))
    units = [Unit(number, file.name, file.sha256) for number, file in enumerate(transitions.files)]
    if [file.name for file in verdicts.files] != [unit.name for unit in units]:
        return MixturePlan(None, (f"{folder.path()} has verdicts of other transitions. {_JUDGE}",))
    models = tuple(sorted((name, sha256_of(path)) for name, path in recipe.judge.files().items()))
    index = _unit(folder / "measures", BENCHMARKS_UNIT) if recipe.judge.benchmarks else None
    benchmarks = index.digest if index is not None else ""
    judging = _judging(recipe, folder, units, benchmarks, models)
    notes = list(_stale(units, judging, verdicts))
    passages = Preparation(recipe, recipe.mix.passages, folder, benchmarks, models) if recipe.mix.passages else None
    if passages is not None and not _is_prepared(passages):
        notes.append("Passages as the recipe names them are not prepared there; they are left out here.")
        passages = None
    instructions = {} if recipe.mix.instructions is None else read_instructions(recipe.mix.instructions)
    judged = Judged(units, folder, passages, instructions)
    return MixturePlan(draw(recipe, judged, judged.known.draws(recipe))[0], tuple(notes))


def _judging(
    recipe: Recipe, out: Folder, units: Sequence[Unit], benchmarks: str, models: tuple[tuple[str, str], ...]
) -> Judging:
    return Judging(
        recipe,
        transitions=out / "transitions",
        measures=out / "measures",
        verdicts=out / "verdicts",
        rejects=out / "rejects/judge",
        spans=out / "spans",
        digest=judging_digest(recipe, units, benchmarks, models),
        benchmarks=benchmarks,
        models=models,
    )


def _unit(stage: Folder, label: str) -> Manifest | None:
    return read_manifest(units_of(stage), manifest_name(label))


def _stale(units: Sequence[Unit], judging: Judging, verdicts: Manifest) -> Iterator[str]:
    """Yield the steps that a run would repeat before it draws."""
    if verdicts.digest != judging.digest:
        yield "The verdicts there are of another section `judge` than the recipe's: a run judges again before it draws."
    manifests = (_unit(judging.measures, unit.label) for unit in units)
    wanted = (measuring_digest(unit, judging) for unit in units)
    if any(manifest is None or manifest.digest != digest for manifest, digest in zip(manifests, wanted, strict=True)):
        yield "The measures there are of other signals, tokens or forms: a run measures again, and counts may change."


def _is_prepared(passages: Preparation) -> bool:
    for unit in passages.units():
        read = _unit(passages.read, unit.label)
        if read is None or read.digest != passages.unit_digest(unit) or _unit(passages.parts, unit.label) is None:
            return False
    return True
