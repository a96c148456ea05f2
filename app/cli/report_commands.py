"""The command `trajmill report`, and the report that each run leaves when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trajmill.app.console import notices, results

if TYPE_CHECKING:
    from trajmill.pipelines.run_record.summary import Summary


def report(
    out: Annotated[str, typer.Argument(help="A run's output folder, a path or a URL.")],
) -> None:
    """Write OUT/report.html, which a run leaves too: one page of figures, samples and rejects, made to be passed on.

    It holds all it shows, without a script. The same folder gives the same page.
    """
    from trajmill.app.report.report import write_report

    results().print(f"written: {write_report(out)}", soft_wrap=True)


def compare(
    first: Annotated[str, typer.Argument(metavar="OUT1", help="A run's output folder, the one that was before.")],
    second: Annotated[str, typer.Argument(metavar="OUT2", help="Another one.")],
    html: Annotated[str | None, typer.Option("--html", help="A page to write, besides what is printed.")] = None,
    examples: Annotated[int, typer.Option(min=0, help="Ids that are named of each change.")] = 3,
) -> None:
    """Tell what two runs have done otherwise: settings, counts by domain and reason, trajectories that are new or gone,
    kept or dropped now, or in another pool.

    For example:  trajmill compare out/strict out/lenient --html changes.html
    """
    from trajmill.app.report.comparison import compared, show_comparison, write_comparison

    found = compared(first, second, examples)
    show_comparison(found, (first, second), results())
    if html is not None:
        write_comparison(found, (first, second), html)
        results().print(f"written: {html}", soft_wrap=True)


def leave_report(out: str, summary: Summary) -> bool:
    """Writes the report of a run that went to its end, and whether it did; that it cannot be made ends nothing."""
    if summary.last != "mix":
        return False
    from trajmill.app.report.report import write_report

    try:
        write_report(out)
    except Exception as error:  # noqa: BLE001 - the run is done and whole, whatever its report meets
        notices().print(f"report.html was not written: {type(error).__name__}: {error}", soft_wrap=True)
        return False
    return True
