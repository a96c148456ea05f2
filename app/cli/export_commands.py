"""The commands that write something for other tools: `trajmill schema | export`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trajmill.app.console import results
from trajmill.schemas import ConfigError


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
