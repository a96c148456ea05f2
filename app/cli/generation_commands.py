"""Command `trajmill forget`, and helpers shared with `run`."""

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
    """Words after the first path of `--raw` are paths too; flags that are not ours are Beam's."""
    paths, flags = list(raw), list[str]()
    taking = True
    for word in extra:
        taking = taking and not word.startswith("-")
        (paths if taking else flags).append(word)
    return paths, flags


def forget(
    out: Annotated[str, typer.Argument(help="A run's output folder, with all generations that were added to it.")],
    source: Annotated[
        list[str] | None, typer.Option(help="A corpus as rows name it, a log by its uri, or a folder of logs.")
    ] = None,
    trajectory: Annotated[list[str] | None, typer.Option(help="An id.")] = None,
    licence: Annotated[list[str] | None, typer.Option(help="A licence, as rows have it.")] = None,
    before: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="A day (UTC): what began before it, if logs tell."),
    ] = None,
) -> None:
    """Take trajectories out of all that was written: stages, tables, rejects, plan and shards. Raw logs stay.

    Each option may be given again; what any of them names goes, with its copies, and is not read in again.
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
        raise ConfigError(f"{out} holds no run that could forget.")
    day = before.date() if before is not None else None
    selection = Selection(tuple(source or ()), tuple(trajectory or ()), tuple(licence or ()), day)
    forgetting = Forgetting(recipe_in(record, folder.path(RUN)), out)
    forgotten = forgetting.forget(selection, lambda: write_report(out))
    show_forgotten(forgotten, results())
    results().print(f"written: {folder.path(REPORT)}", soft_wrap=True)


def tell_summary(summary: Summary, recipe: Recipe, *, is_reported: bool, is_appended: bool = False) -> None:
    """Tells what a run did, and ends the command as bugs of connectors do.

    Args:
        summary: of the run.
        recipe: that it followed.
        is_reported: whether it left a report.
        is_appended: whether it added to a dataset, whose totals are told too.

    Raises:
        typer.Exit: there were some.
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
