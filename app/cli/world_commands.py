"""Commands on real environments: `replay` runs actions again in a sandbox, `patches` applies patches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from trajmill.app.cli.output_options import AsJson
from trajmill.app.console import Printer, notices, results, text
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
    as_json: AsJson = False,
) -> None:
    """Make transitions from patches: each patch is applied to its base commit, and the result is recorded.

    The observation before a patch is the issue and the files that it touches; after it, the output of `git diff`, or
    the reason why it does not apply.

    Nothing of a patch or repository is executed. The output is input for `trajmill run`.
    """
    from trajmill.pipelines.storage.folders import Folder
    from trajmill.worlds.patches.patches import apply_all, known, parse_patches, records

    bases = dict(assignment.split("=", 1) for assignment in base if "=" in assignment)
    if len(bases) < len(base):
        raise ConfigError("--base wants OWNER/NAME=PATH, each name once.")
    values = (value for path in files for value in records(path))
    counts = apply_all(parse_patches(values, known(instances or [])), bases, Folder.named(out).write)
    if as_json:
        results().json(dict(sorted(counts.items())))
        return
    results().print(", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "no patch was found")
    results().print_line(f"written: {out}")


_CHANGES = 20
"""Number of changed database rows that are shown."""


class World(StrEnum):
    """Kind of actions to replay."""

    TERMINAL = "terminal"
    SWE = "swe"
    MCP_SQLITE = "mcp-sqlite"
    AWM = "awm"


def replay(
    out: Annotated[
        str, typer.Argument(metavar="OUT", help="The output folder of a judged run; OUT/replays is written.")
    ],
    world: Annotated[World, typer.Option(help="Which actions are run.")],
    base: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]PATH",
            help="What a session begins with: a folder, a database, of swe a repository; NAME is a task, an "
            "environment or a log; may be given again.",
        ),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable of every session.")
    ] = None,
    user: Annotated[str, typer.Option(help="The user of every session, in place of the one that its log tells.")] = "",
    system: Annotated[
        str, typer.Option(help="A folder with the root of a system, in place of this machine's programs.")
    ] = "",
    seconds: Annotated[float, typer.Option(min=0.1, help="That one action may take.")] = 10.0,
    memory: Annotated[int, typer.Option(min=64, help="MB that the processes of a box hold together.")] = 2048,
    address: Annotated[int, typer.Option(min=0, help="MB of address space of a process; 0 for any number.")] = 16384,
    processes: Annotated[int, typer.Option(min=4, help="At once in a box.")] = 64,
    disk: Annotated[int, typer.Option(min=1, help="MB of the working folder, which is in memory.")] = 512,
    branch: Annotated[
        int, typer.Option(min=0, help="Of each trajectory, other actions of its task that are run at one of its steps.")
    ] = 0,
    branches: Annotated[
        str | None, typer.Option(help="The folder of raw logs that branches are written to, as ATIF.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Trajectories at most.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run actions of kept trajectories again in a sandbox without network, and compare the answers with the log.

    This requires bubblewrap, or rootless podman; without them nothing is run. Each transition becomes `same`,
    `volatile`, `differs` or `not_run`, which a table in OUT/replays records together with the difference. A mixture may
    require certified turns for RL.
    """
    from trajmill.worlds.replay.engines import Limits, filters_calls
    from trajmill.worlds.replay.replay import Replay, ReplaySettings

    limits = Limits(
        seconds=seconds,
        memory=memory << 20,
        address=address << 20,
        processes=processes,
        file=disk << 19,
        disk=disk << 20,
        session_seconds=max(120.0, 12 * seconds),
    )
    settings = ReplaySettings(
        world.value, tuple(base or ()), limits, _variables(env or []), system, user, limit, branch
    )
    branch_file = _Branches(out, branch, branches)
    done = 0
    if not filters_calls():
        notices().print("Sandboxes do not filter system calls. For a filter, install libseccomp and trajmill[worlds].")
    with notices().status("replaying") as status:

        def tell(answers: Any) -> None:
            nonlocal done
            done += 1
            status.update(f"replaying: {done:,} trajectories, the last of {len(answers):,} actions")

        def show_change(log: str, difference: str) -> None:
            lines = difference.splitlines()
            more = [f"… {len(lines) - _CHANGES:,} more"] if len(lines) > _CHANGES else []
            if not as_json:
                results().print_line(text("\n".join([log, *lines[:_CHANGES], *more])))

        counts = Replay(out, settings, tell, branch_file.write, show_change).run()
    if as_json:
        results().json(count_by_domain(counts))
    else:
        show_replayed(count_by_domain(counts), results())
        results().print_line(f"written: {out}/replays")
        if branch_file.written:
            results().print_line(f"written: {branches}, {branch_file.written:,} branches")


class _Branches:
    """Folder of raw logs to which branches are written, each as a document of ATIF.

    Args:
        out: The run's folder, which must not contain raw logs.
        folder: Folder to write; None for none.

    Raises:
        ConfigError: Branches are wanted without a folder, or the folder is within the run's own.
    """

    def __init__(self, out: str, wanted: int, folder: str | None) -> None:
        from trajmill.pipelines.storage.folders import Folder

        self.written = 0
        if (wanted > 0) != (folder is not None):
            raise ConfigError("--branch and --branches go together: how many, and the folder that they are written to.")
        self._folder = None if folder is None else Folder.named(folder)
        if self._folder is not None and f"{self._folder.path()}/".startswith(f"{Folder.named(out).path()}/"):
            raise ConfigError(f"--branches {folder} lies in the run's own folder. Choose one beside it.")

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a branch under a reproducible name."""
        from trajmill.pipelines.render.atif_documents import OWN, atif_document

        assert self._folder is not None
        document = atif_document(rows)
        source = {"trajectory_id": rows[0]["parent_trajectory_id"], "step": rows[0]["parent_step"]}
        document["extra"][OWN]["branch"] = {**source, "group": rows[0]["group"]}
        name = f"{rows[0]['parent_trajectory_id']}-{len(rows) - 1}-{rows[0]['trajectory_id'][:8]}.json"
        self._folder.write(name, json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass"))
        self.written += 1


def count_by_domain(counts: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Return the counts of results by domain, with those that were not run by reason."""
    domains: dict[str, dict[str, Any]] = {}
    for name, count in sorted(counts.items()):
        domain, status, *reason = name.split(".")
        of = domains.setdefault(domain, {"same": 0, "volatile": 0, "differs": 0, "not_run": 0, "reasons": {}})
        of[status] += count
        if reason:
            of["reasons"][reason[0]] = count
    return domains


def show_replayed(domains: Mapping[str, Mapping[str, Any]], console: Printer) -> None:
    """Print what became of the transitions that were run again, by domain."""
    rows = []
    for domain, of in domains.items():
        numbers = [f"{of[name]:,}" for name in ("same", "volatile", "differs", "not_run")]
        rows.append((domain, *numbers, ", ".join(f"{why} {count:,}" for why, count in of["reasons"].items())))
    heads = ("domain", "same", "volatile", "differs", "not run", "why not")
    console.table(heads, rows, texts=(0, 5), dropped=("why not", "volatile", "not run"), title="replayed")


def _variables(told_by: list[str]) -> dict[str, str]:
    variables = {}
    for assignment in told_by:
        name, equals, value = assignment.partition("=")
        if not (equals and name.isidentifier() and "\0" not in value):
            raise ConfigError(f"'{assignment}' is no variable; wanted is NAME=VALUE.")
        variables[name] = value
    return variables
