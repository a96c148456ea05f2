"""The command that applies patches to local repositories: `trajmill patches`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from trajmill.app.console import results
from trajmill.schemas import ConfigError


def patches(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES", help="Patches: JSON or JSONL with `instance_id` and `model_patch` or `patch`."),
    ],
    base: Annotated[
        list[str],
        typer.Option(metavar="OWNER/NAME=PATH", help="A local repository; may be given again. Nothing is fetched."),
    ],
    out: Annotated[str, typer.Option("--out", help="The folder of raw logs that is written, as ATIF.")],
    instances: Annotated[
        list[str] | None,
        typer.Option(help="JSON or JSONL with `repo`, `base_commit` and `problem_statement` by `instance_id`."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Make transitions of patches: each is applied to its base commit, and what comes of it is told.

    Before a patch stand the issue and the files that it touches, after it what `git diff` prints, or why it does not
    apply.
    Nothing of a patch or repository is run. What is written is for `trajmill run`.
    """
    from trajmill.pipelines.storage.folders import Folder
    from trajmill.worlds.patches.patches import apply_all, handed_in, known, records

    bases = dict(one.split("=", 1) for one in base if "=" in one)
    if len(bases) < len(base):
        raise ConfigError("--base wants OWNER/NAME=PATH, each name once.")
    values = (value for path in files for value in records(path))
    counts = apply_all(handed_in(values, known(instances or [])), bases, Folder.named(out).write)
    if as_json:
        results().document(json.dumps(dict(sorted(counts.items())), indent=1) + "\n")
        return
    results().print(", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "no patch was found")
    results().print(f"written: {out}", soft_wrap=True)
