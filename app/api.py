"""The public Python functions: what `import trajmill` offers beside the schema."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.plan.plan import Plan, make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.summary import Summary
from trajmill.schemas import ConfigError

if TYPE_CHECKING:
    import polars

_LAST_STAGES: Final = ("normalize", "judge", "mix")


class Sniffed(NamedTuple):
    """What one input was recognized as.

    Attributes:
        uri: the input.
        connector: the connector that reads it; None where no connector does.
        reason: why, in words.
    """

    uri: str
    connector: str | None
    reason: str


def run(
    recipe: Recipe | str,
    raw: Sequence[str | PathLike[str]],
    out: str | PathLike[str],
    *,
    workers: int = 1,
    last_stage: str = "mix",
    overwrite: bool = False,
) -> Summary:
    """Run a recipe over raw logs into an output folder.

    Args:
        recipe: a recipe, the name of a built-in one, or the path of a YAML file.
        raw: files, folders or globs of raw logs.
        out: the output folder, a path or a URL. A run that was interrupted there continues.
        workers: number of local processes.
        last_stage: `normalize`, `judge` or `mix`.
        overwrite: replace the existing trajmill run in `out`. Other files are left alone.

    Raises:
        ConfigError: the recipe or an option is wrong; nothing was written.
        ShardError: a file cannot be read or written. Calling again continues.
    """
    if last_stage not in _LAST_STAGES:
        raise ConfigError(f"last_stage is one of {', '.join(_LAST_STAGES)}, not '{last_stage}'.")
    made = Run(_recipe(recipe), [fspath(path) for path in raw], fspath(out), Execution(workers), overwrite=overwrite)
    return made.run(last_stage)


def plan(recipe: Recipe | str, raw: Sequence[str | PathLike[str]]) -> Plan:
    """List the inputs and parts that a run would read. Nothing is written."""
    return make_plan(_recipe(recipe), [fspath(path) for path in raw])


def sniff(*paths: str | PathLike[str]) -> list[Sniffed]:
    """Recognize each file or multi-file log below `paths`, sorted as planned, unrecognized ones last."""
    found = make_plan(Recipe(name="sniff", source="sniff"), [fspath(path) for path in paths])
    return [Sniffed(one.uri, one.connector, one.why) for one in found.inputs] + [
        Sniffed(reject.uri, None, reject.detail or reject.reason) for reject in found.unrecognized
    ]


def scan_shards(out: str | PathLike[str], stage: str) -> polars.LazyFrame:
    """Scan the samples of one training stage with polars.

    Args:
        out: the output folder of a run, or its `shards` folder.
        stage: a folder of the dataset that holds Parquet files, such as `cpt`, `sft` or `rl`.

    Raises:
        ConfigError: there is no Parquet file of that stage.
    """
    import polars

    root = Path(fspath(out))
    folder = next((one for one in (root / "shards" / stage, root / stage) if one.is_dir()), None)
    files = sorted(folder.rglob("*.parquet")) if folder is not None else []
    if not files:
        raise ConfigError(f"There are no shards of the stage '{stage}' in {root}.")
    return polars.scan_parquet(files, glob=False)


def _recipe(recipe: Recipe | str) -> Recipe:
    return load_recipe(recipe) if isinstance(recipe, str) else recipe
