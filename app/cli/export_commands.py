"""The commands that write something for other tools: `trajmill train-classifier | schema | export`."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trajmill.app.console import results
from trajmill.schemas import ConfigError


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    for command in (train_classifier, schema, export):
        app.command()(command)


class Labels(StrEnum):
    """Where a classifier's labels come from."""

    COLUMN = "column"
    OUTCOME = "outcome"
    VERDICT = "verdict"


def train_classifier(
    sources: Annotated[
        list[str],
        typer.Argument(help="Tables with labels (JSONL, JSON, Parquet, Arrow); for weak labels, runs' folders."),
    ],
    out: Annotated[str, typer.Option(help="The model that is written; its metrics go beside it, as OUT.json.")],
    labels: Annotated[
        Labels, typer.Option(help="A column of the tables, or weak labels of a run: its outcomes or its verdicts.")
    ] = Labels.COLUMN,
    label: Annotated[str, typer.Option(help="The column of the label.")] = "label",
    good: Annotated[
        list[str] | None,
        typer.Option(help="A label that means good; may be given again. By default good, true, yes, 1."),
    ] = None,
    held_out: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of the groups to measure on.")] = 0.2,
    rows: Annotated[int, typer.Option(min=2, help="Use at most so many rows.")] = 200_000,
    epochs: Annotated[int, typer.Option(min=1, help="How often the rows are read.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Of every choice.")] = 0,
) -> None:
    """Train a fastText classifier of good and bad transitions, for the signal `classifier`."""
    from trajmill.app.cli.tables import show_classifier
    from trajmill.pipelines.judge.classifier_training import Training
    from trajmill.pipelines.judge.classifier_training import train_classifier as train
    from trajmill.pipelines.judge.training_rows import GOOD, Source

    meaning = frozenset(one.lower() for one in good) if good else GOOD
    training = Training(held_out=held_out, rows=rows, epochs=epochs, seed=seed)
    report = train([Source(path, labels.value, label, meaning) for path in sources], out, training)
    show_classifier(report, results())
    results().print(f"written: {out} and {out}.json", soft_wrap=True)


def schema(
    out: Annotated[Path | None, typer.Option(help="A file to write; standard output by default.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="As a table for people.")] = False,
) -> None:
    """Export the transition schema as JSON Schema."""
    from trajmill.pipelines.storage.folders import Folder
    from trajmill.schemas import json_schema
    from trajmill.schemas.document import schema_markdown

    text = schema_markdown() if markdown else json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    if out is None:
        results().document(text)
    elif out.exists():
        raise ConfigError(f"{out} is there, and is not replaced. Choose another --out.")
    else:
        Folder(str(out.parent)).write(out.name, text.encode())


def export(
    path: Annotated[
        str, typer.Argument(help="A run's folder; for atif and agent_sft also its transitions, or a file.")
    ],
    out: Annotated[str, typer.Option(help="The folder that is written.")],
    form: Annotated[
        str,
        typer.Option(
            "--to", "--format", help="atif, agent_sft (of transitions), or a form of shards: see docs/forms.md."
        ),
    ] = "atif",
    tokenizer: Annotated[
        str | None, typer.Option(help="For forms of token ids: a tokenizer.json, or a folder with one.")
    ] = None,
    chat_template: Annotated[
        str | None, typer.Option(help="A file with a chat template, in place of the tokenizer's own.")
    ] = None,
    window: Annotated[int | None, typer.Option(min=2, help="Tokens that a conversation is cut or packed to.")] = None,
) -> None:
    """Write transitions or shards in the form of another tool."""
    from trajmill.app.cli.export import export as write
    from trajmill.app.cli.tables import show_export
    from trajmill.pipelines.publish.forms.forms import FORMS, export_form

    if form in FORMS:
        show_export(export_form(path, form, out, tokenizer, chat_template, window), results())
        return
    if tokenizer is not None or chat_template is not None or window is not None:
        raise ConfigError(f"--tokenizer, --chat-template and --window are for: {', '.join(FORMS)}.")
    count = write(path, form, out, also=tuple(FORMS))
    results().print(f"{count:,} trajectories written below {out}", soft_wrap=True)
