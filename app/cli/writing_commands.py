"""Commands that write from a finished run: `trajmill export | report | compare`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trajmill.app.cli.output_options import AsJson
from trajmill.app.console import notices, results
from trajmill.schemas import ConfigError

if TYPE_CHECKING:
    from trajmill.pipelines.run_record.summary import Summary


def report(out: Annotated[str, typer.Argument(help="A run's output folder, a path or a URL.")]) -> None:
    """Write OUT/report.html again: one page of figures, samples and rejects.

    It is one file without scripts that loads nothing. The same folder gives the same page.
    """
    from trajmill.app.report.report import write_report

    results().print_line(f"written: {write_report(out)}")


def compare(
    first: Annotated[str, typer.Argument(metavar="OUT1", help="Output folder of the earlier run.")],
    second: Annotated[str, typer.Argument(metavar="OUT2", help="Output folder of the later run.")],
    html: Annotated[str | None, typer.Option("--html", help="Also write an HTML page.")] = None,
    examples: Annotated[int, typer.Option(min=0, help="Ids to print for each change.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Compare two runs: settings, counts by domain and reason, and what became of each trajectory.

    For example:  trajmill compare out/strict out/lenient --html changes.html
    """
    from trajmill.app.report.comparison import compare_runs, show_comparison, write_comparison

    comparison = compare_runs(first, second, examples)
    if as_json:
        results().json(asdict(comparison) | {"uses": [(*of, *numbers) for of, numbers in comparison.uses.items()]})
    else:
        show_comparison(comparison, (first, second), results())
    if html is not None:
        write_comparison(comparison, (first, second), html)
        (notices() if as_json else results()).print_line(f"written: {html}")


def leave_report(out: str, summary: Summary) -> bool:
    """Write the report of a complete run, and return whether it was written. A failure here does not end the
    command.
    """
    if summary.last != "mix":
        return False
    from trajmill.app.report.report import write_report

    try:
        write_report(out)
    except Exception as error:  # noqa: BLE001 - the run is done and whole, whatever its report meets
        notices().print_line(f"report.html was not written: {type(error).__name__}: {error}")
        return False
    return True


def export(
    path: Annotated[
        str, typer.Argument(help="A run's folder; for atif, agent_sft and agent_ids also its transitions, or a file.")
    ],
    out: Annotated[str, typer.Option(help="The folder that is written.")],
    form: Annotated[
        str,
        typer.Option(
            "--to",
            "--format",
            help="atif, agent_sft, agent_ids (of transitions), or a form of shards: see docs/forms.md.",
        ),
    ] = "atif",
    tokenizer: Annotated[
        str | None, typer.Option(help="For forms of token ids: a tokenizer.json, or a folder with one.")
    ] = None,
    chat_template: Annotated[
        str | None, typer.Option(help="A file with a chat template, in place of the tokenizer's own.")
    ] = None,
    window: Annotated[int | None, typer.Option(min=2, help="Tokens that a conversation is cut or packed to.")] = None,
    reasoning: Annotated[
        Literal["keep", "strip", "last"],
        typer.Option(
            help="For agent_sft and agent_ids: the agent's reasoning that stays; last: behind the user's last message."
        ),
    ] = "keep",
) -> None:
    """Write transitions or shards in the form of another tool."""
    from trajmill.app.cli.export import export as write
    from trajmill.app.cli.tables import show_export
    from trajmill.pipelines.publish.forms.forms import FORMS, export_form, open_tokenizer

    if form in FORMS:
        show_export(export_form(path, form, out, tokenizer, chat_template, window), results())
        return
    if window is not None or (form != "agent_ids" and (tokenizer is not None or chat_template is not None)):
        raise ConfigError(
            f"--tokenizer and --chat-template are for agent_ids, and like --window for: {', '.join(FORMS)}."
        )
    opened = open_tokenizer(form, tokenizer, chat_template) if form == "agent_ids" else None
    counts = write(path, form, out, tuple(FORMS), reasoning, opened)
    results().print_line(f"{counts.pop('trajectories', 0):,} trajectories written below {out}")
    if counts:
        turns = ", ".join(f"{number:,} {source}" for source, number in sorted(counts.items()))
        results().print_line(f"Token ids of turns: {turns}.")
