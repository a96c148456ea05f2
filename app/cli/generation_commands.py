"""Command `trajmill forget`, and functions that `trajmill run` uses too."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from trajmill.app.cli.output_options import MANNER
from trajmill.app.console import notices, results
from trajmill.pipelines.run_record.endings import Code
from trajmill.schemas import ConfigError

if TYPE_CHECKING:
    from trajmill.pipelines.recipe.recipe import Recipe
    from trajmill.pipelines.run_record.summary import Summary

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

Config = Annotated[str, typer.Argument(help="A recipe file, or the name of a built-in recipe such as 'android'.")]


def paths_and_flags(raw: list[str], extra: list[str]) -> tuple[list[str], list[str]]:
    """Split the words that no option took into further paths of `--raw` and options of Beam.

    Args:
        raw: paths given to `--raw`.
        extra: the words in their order; those before the first option are paths.
    """
    first_flag = next((number for number, word in enumerate(extra) if word.startswith("-")), len(extra))
    return [*raw, *extra[:first_flag]], extra[first_flag:]


def forget(
    out: Annotated[str, typer.Argument(help="A run's output folder, with all generations that were added to it.")],
    source: Annotated[
        list[str] | None, typer.Option(help="A source as rows name it, the uri of a log, or a folder of logs.")
    ] = None,
    trajectory: Annotated[list[str] | None, typer.Option(help="A trajectory id.")] = None,
    licence: Annotated[list[str] | None, typer.Option(help="A licence as rows name it.")] = None,
    before: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"], help="A day (UTC): trajectories that began before it, if their log holds times."
        ),
    ] = None,
) -> None:
    """Remove trajectories from all files of a run: stages, tables, rejects, plan and shards. Raw logs stay.

    Each option may be repeated. Trajectories that any option names are removed with their copies, and are not read
    again.
    """
    from trajmill.app.cli.tables import show_forgotten
    from trajmill.app.report.report import write_report
    from trajmill.pipelines.generations.forgetting import Forgetting
    from trajmill.pipelines.generations.traces import Selection
    from trajmill.pipelines.recipe.recipe_file import recipe_in
    from trajmill.pipelines.storage.folders import Folder
    from trajmill.pipelines.storage.ownership import REPORT, RUN

    folder = Folder.named(out)
    record = folder.found(RUN)
    if record is None:
        raise ConfigError(f"{out} holds no run.")
    day = before.date() if before is not None else None
    selection = Selection(tuple(source or ()), tuple(trajectory or ()), tuple(licence or ()), day)
    forgetting = Forgetting(recipe_in(record, folder.path(RUN)), out)
    forgotten = forgetting.forget(selection, lambda: write_report(out))
    show_forgotten(forgotten, results())
    results().print_line(f"written: {folder.path(REPORT)}")


def tell_summary(summary: Summary, recipe: Recipe, *, is_reported: bool, is_appended: bool = False) -> None:
    """Print the summary of a run; exit with code 3 if a connector failed.

    Args:
        is_reported: whether the run wrote a report.
        is_appended: whether the run added to a dataset, whose totals are printed too.

    Raises:
        typer.Exit: a connector failed.
    """
    from trajmill.app.cli.tables import dataset_totals, show_broken, show_summary, summary_event

    totals = dataset_totals(summary.out) if is_appended and summary.last == "mix" else None
    if MANNER.as_json:
        results().document(summary_event(summary, totals))
    elif not MANNER.quiet:
        show_summary(summary, recipe, results(), is_reported=is_reported, totals=totals)
    if summary.broken:
        show_broken(summary.broken, notices())
        raise typer.Exit(Code.CONNECTOR)
