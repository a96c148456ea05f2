"""Measuring of a share of a run's units in a separate process, beside others that run at the same time.

Measuring takes most of the time of judging, and needs only the unit and the recipe. Shares seal nothing: the run that
follows finds the measures and makes the decisions over the corpus.
"""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.pipelines.execution.dispatch import run_over
from trajmill.pipelines.execution.execution import Execution, require_openable
from trajmill.pipelines.execution.flow import Map
from trajmill.pipelines.judge.evaluation_index import UNIT as BENCHMARKS_UNIT
from trajmill.pipelines.judge.judging import Judging, Unit, measure_files, units_in
from trajmill.pipelines.judge.measuring import measure_unit, measuring_digest
from trajmill.pipelines.normalize.parts_by_hand import Share, ShareDone
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder, sha256_of
from trajmill.pipelines.storage.ownership import Identity, Ownership
from trajmill.pipelines.storage.units import MANIFEST, done_units, manifest_names, read_manifest, unit_manifests
from trajmill.schemas import ConfigError


def measure_share(recipe: Recipe, raws: Sequence[str], out: str, share: Share, execution: Execution) -> ShareDone:
    """Measure a share of the units of a run in this process.

    Args:
        out: output folder of the run, a path or a URL.
        share: share of the units, in the order of their names.

    Raises:
        ConfigError: the folder belongs to another run, or its transitions are incomplete.
        ShardError: a file of the folder cannot be read or written; repeating the share resumes it.
    """
    require_openable([*raws, out])
    folder = Folder.named(out)
    owner = Ownership(folder, Identity.of(recipe, raws))
    owner.check(raws)
    units = _units(recipe, folder)
    judging = _judging(recipe, folder)
    mine = units[share.number :: share.count]
    labels = [unit.label for unit in units]
    names = {f"measures/{name}" for label in labels for name in measure_files(label)}
    with owner.shared(names | manifest_names("measures", labels)):
        before = done_units(judging.measures, {unit.label: measuring_digest(unit, judging) for unit in mine})
        run_over(mine, Map(measure_unit, judging), execution)
    return ShareDone(len(mine), len(before))


def _units(recipe: Recipe, folder: Folder) -> list[Unit]:
    is_indexed = not recipe.judge.benchmarks or unit_manifests(folder / "measures", [BENCHMARKS_UNIT])
    if read_manifest(folder / "transitions", MANIFEST) is None or not is_indexed:
        raise ConfigError(
            f"{folder.path()} holds no finished transitions, which --stage judge measures. Run the same command with "
            "--stop-after normalize, without --stage and --part, first."
        )
    return units_in(folder)


def _judging(recipe: Recipe, folder: Folder) -> Judging:
    """Build the settings of judging, as far as measuring needs them."""
    index = unit_manifests(folder / "measures", [BENCHMARKS_UNIT]) if recipe.judge.benchmarks else []
    models = tuple(sorted((name, sha256_of(path)) for name, path in recipe.judge.files().items()))
    folders = (
        folder / "transitions",
        folder / "measures",
        folder / "verdicts",
        folder / "rejects" / "judge",
        folder / "spans",
    )
    return Judging(recipe, *folders, "", index[0].digest if index else "", models)
