"""The public Python functions of `import trajmill`, besides the schema."""

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

_LAST_STAGES: Final = ("plan", "normalize", "judge", "draw", "mix")

_Path = str | PathLike[str]


class Sniffed(NamedTuple):
    """Connector that recognized an input.

    Attributes:
        uri: Input, a file or a log of several files.
        connector: Name of the connector; None if no connector reads the input.
        reason: Reason, in words.
    """

    uri: str
    connector: str | None
    reason: str


def run(
    recipe: Recipe | _Path,
    raw: _Path | Sequence[_Path],
    out: _Path,
    *,
    workers: int = 1,
    last_stage: str = "mix",
    overwrite: bool = False,
) -> Summary:
    """Run a recipe over raw logs into an output folder.

    Args:
        recipe: A recipe, the name of a built-in one, or the path of a YAML file.
        raw: Files, folders, globs or URLs of raw logs, one or several.
        out: Output folder, a path or a URL. An interrupted run there continues.
        workers: Number of local processes.
        last_stage: `plan`, `normalize`, `judge`, `draw` or `mix`.
        overwrite: True to replace the existing trajmill run in `out`. Other files are left alone.

    Raises:
        ConfigError: The recipe or an option is wrong; nothing was written.
        ShardError: A file cannot be read or written. Calling again continues.
    """
    if last_stage not in _LAST_STAGES:
        raise ConfigError(f"last_stage is one of {', '.join(_LAST_STAGES)}, not '{last_stage}'.")
    execution = Execution(workers)
    return Run(_load(recipe), _paths(raw), fspath(out), execution, overwrite=overwrite).run(last_stage)


def plan(recipe: Recipe | _Path, raw: _Path | Sequence[_Path]) -> Plan:
    """List the inputs and parts that a run would read. Nothing is written.

    Args:
        recipe: As of `run`.
        raw: As of `run`.

    Raises:
        ConfigError: The recipe is wrong, or a path holds nothing.
    """
    return make_plan(_load(recipe), _paths(raw))


def sniff(*raw: _Path) -> list[Sniffed]:
    """Recognize each log of one or several files among the raw paths. Unrecognized files come last.

    Raises:
        ConfigError: A path holds nothing.
    """
    plan = make_plan(Recipe(name="sniff", source="sniff"), _paths(raw))
    recognized = [Sniffed(log.uri, log.connector, log.why) for log in plan.inputs]
    return recognized + [Sniffed(reject.uri, None, reject.detail or reject.reason) for reject in plan.unrecognized]


def scan_shards(out: _Path, stage: str) -> polars.LazyFrame:
    """Scan the samples of one training stage with polars, in the order of the shards.

    Args:
        out: Output folder of a run, or its `shards` folder.
        stage: Folder of the dataset that holds Parquet files, such as `cpt`, `sft` or `rl`.

    Raises:
        ConfigError: There is no Parquet file of that stage.
    """
    import polars  # here, because importing it takes longer than a plan

    root = Path(fspath(out))
    folder = root / "shards" / stage
    files = sorted((folder if folder.is_dir() else root / stage).rglob("*.parquet"))
    if not files:
        raise ConfigError(f"There are no Parquet shards of the stage '{stage}' in {root}.")
    return polars.scan_parquet(files, glob=False)


def _load(recipe: Recipe | _Path) -> Recipe:
    return recipe if isinstance(recipe, Recipe) else load_recipe(fspath(recipe))


def _paths(raw: _Path | Sequence[_Path]) -> list[str]:
    return [fspath(raw)] if isinstance(raw, str | PathLike) else [fspath(path) for path in raw]
