"""Commands that show the contents of logs and runs: formats, sniff, inspect and verify."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trajmill.app.cli.output_options import AsJson
from trajmill.app.console import notices, quantity, results
from trajmill.pipelines.run_record.endings import Code

if TYPE_CHECKING:
    from trajmill.pipelines.plan.plan import Plan


Format = Annotated[
    str | None,
    typer.Option("--format", help="The connector that reads every raw file, as `trajmill formats` names it."),
]


def formats(
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of transitions instead.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the schema as a table for people.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the supported formats, each with the number of real logs on which it was verified."""
    if schema or markdown:
        from trajmill.schemas import json_schema
        from trajmill.schemas.document import schema_markdown

        results().document(schema_markdown() if markdown else json.dumps(json_schema(), indent=2) + "\n")
        return
    from trajmill.app.cli.tables import show_formats
    from trajmill.connectors.registry import FORMATS, VERIFIED, connectors

    if as_json:
        results().json(
            {
                name: {
                    "version": registered.version,
                    "title": registered.title,
                    "domains": registered.domains,
                    "verified": VERIFIED.get(name, 0) if name in FORMATS else None,
                }
                for name, registered in connectors().items()
            }
        )
    else:
        show_formats(connectors(), results())


def sniff(
    files: Annotated[list[str], typer.Argument(help="Files, folders or globs.")], as_json: AsJson = False
) -> None:
    """Print the format of each log, and how it was recognized."""
    from trajmill.app.cli.recipe_draft import unknown_table
    from trajmill.pipelines.plan.plan import make_plan
    from trajmill.pipelines.recipe.recipe import Recipe

    console, recipe = results(), Recipe(name="sniff", source="sniff")
    planned = make_plan(recipe, files)
    lines = [(_path(entry.uri, files), entry.connector, entry.why) for entry in planned.inputs]
    lines += [(_path(entry.uri, files), entry.reason, entry.detail) for entry in planned.unrecognized]
    if as_json:
        results().json([{"path": path, "format": name, "why": why} for path, name, why in lines])
        return
    for path, name, why in lines:
        console.print_line(f"{shlex.quote(path)}: {name} ({why})")
    counts = Counter(entry.connector for entry in planned.inputs)
    formats = ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items()))
    console.print_line(
        f"{quantity(len(planned.inputs), 'logs')}{f' ({formats})' if formats else ''}, "
        f"{quantity(len(planned.unrecognized), 'other files')}"
    )
    table = unknown_table(planned, files, recipe)
    if table is not None:
        notices().print_line(
            f"{table[0]} is a table whose columns no known layout has: `trajmill init {shlex.join(files)}` drafts a"
            " recipe that reads it."
        )
    tell_withdrawn(planned)


def _path(uri: str, files: Sequence[str]) -> str:
    """Return the path of an input relative to the given files; its uri if it is inside an archive."""
    paths = (path for file in files for path in (Path(file) / uri, Path(file).parent / uri, Path(file)))
    return next((str(path) for path in paths if path.exists() and str(path).endswith(uri)), uri)


def inspect(
    path: Annotated[str, typer.Argument(help="A raw log, a stage folder, a shard, or a run's folder.")],
    trajectory: Annotated[
        str | None, typer.Option(help="Which one to show: its id, the id's beginning or a number.")
    ] = None,
    lines: Annotated[int, typer.Option(min=1, help="Lines of each text to show.")] = 20,
    harness: Annotated[bool, typer.Option("--harness", help="Of a run, the text of harnesses that was found.")] = False,
    read_as: Format = None,
    as_json: AsJson = False,
) -> None:
    """Print one trajectory step by step, one sample or every reject; then counts."""
    if harness:
        from trajmill.app.cli.tables import show_harness_text
        from trajmill.pipelines.judge.harness_text import read_frames
        from trajmill.pipelines.storage.folders import Folder

        rows = read_frames(Folder(path) / "measures")
        if as_json:
            results().json(rows)
        else:
            show_harness_text(rows, results())
        return
    from trajmill.app.cli.inspection import inspect as look
    from trajmill.app.cli.tables import show_found

    contents = look(path, trajectory, read_as)
    if as_json:
        results().json(contents)
    else:
        show_found(contents, results(), lines)


def verify(out: Annotated[str, typer.Argument(help="A run's output folder.")], as_json: AsJson = False) -> None:
    """Check that the files of a run are as they were written, its dataset loads, and its pools are disjoint.

    The exit code is 5 if not.
    """
    from trajmill.app.cli.tables import show_disjointness, show_rule_sets, show_verification
    from trajmill.pipelines.generations.compatibility import rule_sets
    from trajmill.pipelines.generations.generations import chain
    from trajmill.pipelines.generations.verification import verify as checked
    from trajmill.pipelines.publish.disjointness import disjointness
    from trajmill.pipelines.publish.loading import verify_loading
    from trajmill.pipelines.storage.folders import Folder

    whole = verify_loading(checked(out))
    overlap = disjointness(out) if whole.is_whole else None
    rules = rule_sets(chain(Folder(out))) if whole.is_whole else []
    if as_json:
        results().json({"verification": whole, "rules": rules, "disjointness": overlap})
    else:
        show_verification(whole, results())
        show_rule_sets(rules, results())
        if overlap is not None:
            show_disjointness(overlap, results())
    if overlap is None or overlap.leaks:
        raise typer.Exit(Code.DAMAGE)


def tell_withdrawn(plan: Plan) -> None:
    """End the command with the exit code of connector bugs if a connector failed while recognizing a file."""
    from trajmill.app.cli.tables import show_broken
    from trajmill.pipelines.normalize.connector_errors import broken_connectors, withdrawals

    broken = broken_connectors(withdrawals(plan))
    if broken:
        show_broken(broken, notices())
        raise typer.Exit(Code.CONNECTOR)
