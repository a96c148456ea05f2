"""Replays the samples: what they began with is laid out anew, and their actions are run again in boxes.

    python -m benchmarks.worlds [--out out/worlds] [--only terminal swe]

Bases are made as `samples/makers` made them: the folder of each recorded shell session and of each session of the
Claude Code CLI, the repository of each issue. It needs bubblewrap and what the sessions run (bash, git, make, gcc,
python3, sqlite3, vim, less, top, jq, ed, perl, tmux and node); what a machine lacks shows as a difference.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from samples.makers import make_claude_code, record_terminal, swe_box
from samples.makers.claude_code_log import Session
from samples.makers.claude_code_tools import SHELL, Folder
from samples.makers.swe_script import tasks
from samples.writing.chance import seeded
from trajmill.app.cli.world_commands import count_by_domain
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.worlds.replay.engines import Limits
from trajmill.worlds.replay.replay import Replay, ReplaySettings

ROOT: Final = Path(__file__).parent.parent
GIT: Final = {
    "GIT_CONFIG_COUNT": "3",
    "GIT_CONFIG_KEY_0": "user.name",
    "GIT_CONFIG_VALUE_0": "Dev",
    "GIT_CONFIG_KEY_1": "user.email",
    "GIT_CONFIG_VALUE_1": "dev@example.org",
    "GIT_CONFIG_KEY_2": "init.defaultBranch",
    "GIT_CONFIG_VALUE_2": "main",
}
SETTINGS: Final = {"LANG": "C.UTF-8", "TZ": "UTC"}
BOX: Final = {"PAGER": "cat", "GIT_PAGER": "cat", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
"""Variables of `samples.makers.swe_box`."""

PLAIN: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", "HOME": os.devnull, **GIT}


@dataclass(frozen=True, slots=True)
class Sample:
    """One replay: of which samples, in which world, from which bases, with which variables."""

    name: str
    recipe: str
    world: str
    bases: Callable[[Path], Iterator[tuple[str, Path]]]
    variables: Mapping[str, str]


class LaidOutError(Exception):
    """A session has laid out what it begins with."""


def find_recorded(at: Path) -> Iterator[tuple[str, Path]]:
    """The folder of each recorded shell session."""
    for session in record_terminal.sessions()[0]:
        folder = at / session.name
        folder.mkdir(parents=True)
        subprocess.run(["bash", "-e", "-c", session.setup], cwd=folder, env=PLAIN, capture_output=True, check=False)
        yield session.name, folder


def lay_out_projects(at: Path) -> Iterator[tuple[str, Path]]:
    """The project of each session of the Claude Code CLI, by the session's id, which is its log's name."""
    for name, script in make_claude_code.SESSIONS:
        with tempfile.TemporaryDirectory(prefix="claude-") as temporary:
            project = Folder(Path(os.path.realpath(temporary)), name)
            session = _Beginning(project, seeded(11, script.__name__), make_claude_code.FIRST_DAY)
            try:
                script(session)
            except LaidOutError:
                yield session.id, Path(shutil.copytree(project.path(project.cwd), at / session.id, symlinks=True))


class _Beginning(Session):
    """A session that goes no further than what it begins with."""

    def files(self, contents: Mapping[str, str], *commands: str) -> None:
        super().files(contents, *commands)
        raise LaidOutError


def repositories(at: Path) -> Iterator[tuple[str, Path]]:
    """The repository of each issue, as its one commit."""
    for task in tasks().values():
        folder = at / task.instance
        for name, text in task.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.removeprefix("\n"))
            path.chmod(0o755 if text.removeprefix("\n").startswith("#!") else 0o644)
        subprocess.run(["bash", "-c", swe_box.COMMIT], cwd=folder, env=PLAIN, capture_output=True, check=True)
        yield task.instance, folder


SAMPLES: Final = (
    Sample("terminal", "terminal", "terminal", find_recorded, {**SETTINGS, **GIT}),
    Sample("terminal", "terminal", "terminal", lay_out_projects, {**SHELL, **GIT}),
    Sample("swe", "swe", "swe", repositories, {**SETTINGS, **BOX, **GIT}),
)


def main() -> None:
    """Replays what the command line names, and prints a table."""
    parser = argparse.ArgumentParser(description="Replays the samples.")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "worlds")
    parser.add_argument("--only", nargs="*", choices=sorted({sample.name for sample in SAMPLES}))
    asked = parser.parse_args()
    by_domain: dict[str, dict[str, Any]] = {}
    begun = time.monotonic()
    for sample in SAMPLES:
        if asked.only and sample.name not in asked.only:
            continue
        out = asked.out / sample.name
        Run(load_recipe(sample.recipe), [str(ROOT / "samples" / sample.name)], str(out)).run("judge")
        with tempfile.TemporaryDirectory(prefix="bases-") as temporary:
            bases = tuple(f"{name}={folder}" for name, folder in sample.bases(Path(temporary)))
            limits = Limits(address=0)
            settings = ReplaySettings(sample.world, bases, limits, sample.variables)
            by_domain |= count_by_domain(Replay(str(out), settings).run())
    print("| domain | same | volatile | differs | not run | why not |\n|---|---:|---:|---:|---:|---|")
    for domain, of in by_domain.items():
        why = ", ".join(f"{reason} {count}" for reason, count in of["reasons"].items())
        print(f"| {domain} | {of['same']} | {of['volatile']} | {of['differs']} | {of['not_run']} | {why} |")
    print(f"\n{time.monotonic() - begun:.0f} s; the folders: {asked.out}")


if __name__ == "__main__":
    main()
