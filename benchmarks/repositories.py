"""`python -m benchmarks.repositories FOLDER`: agents that mend small repositories, with what goes wrong in such logs.

    python -m benchmarks.repositories out/repositories --tasks 50

A repository holds functions, their tests, and a bug that is put in by chance, so that some fail. An agent that draws
its commands looks, edits, runs the tests and hands in what it changed, one to four times; bash, git, Python and its
`unittest` really run, and the logs are mini-swe-agent's. What commands put out is true; what is asked for is drawn: of
ten runs one is there twice, one was gone on with and saved anew, some were given up before anything ran, some commands
wait until they are killed, and now and then the agent gives two actions, or none, which the harness answers. Choices
come from the seed; how long tests took is of the day.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.repository_parts import BUGS, PARTS, Part
from benchmarks.services import library
from samples.makers.claude_code_tools import SHELL
from samples.makers.swe_forms import MINI_SYSTEM, ONE_ACTION, shown_output, stopped_output
from samples.writing.files import write_file
from samples.writing.json_text import document
from samples.writing.messages import opening

PLACE: Final = "/testbed"
TAKES: Final = (1, 1, 2, 2, 3)
PATIENCE_S: Final = 0.3
"""After which a command that waits is killed."""

_LOOKS: Final = (
    "ls -R . && cat README.md",
    "cat {package}/{module}.py",
    "cat {package}/{other}.py",
    "sed -n '1,{n}p' tests/test_{module}.py",
    "grep -n 'def ' {package}/*.py",
    "grep -rn '{word}' --include=*.py . | head -{n}",
    "wc -l {package}/*.py tests/*.py",
    "git log --oneline && git status --short",
    "git diff --stat",
    "nl -ba {package}/{other}.py | tail -{n}",
    'python3 -c "from {package}.{module} import *; help({function})" | head -12',
)
_TESTS: Final = (
    "python3 -m unittest discover -s tests 2>&1 | tail -25",
    "python3 -m unittest tests.test_{module} 2>&1",
    "python3 -m unittest -v tests.test_{other} 2>&1",
)
_SLIPS: Final = (
    "cat {package}/{function}.py",
    "python3 -m {package}.{word}",
    "sed -i 's/{word}/' {package}/{module}.py",
    "git checkout {word}",
    "python3 -c 'import {package}; {package}.{function}(1, 2, 3, 4)'",
    "pytset tests",
)
_WAITS: Final = ("tail -f README.md", "sleep 60 && python3 -m unittest", "while ! test -e done.txt; do sleep 1; done")


@dataclass(slots=True)
class Repository:
    """A repository on disk, in which commands are run.

    Attributes:
        folder: where it lies.
        package: its name.
        parts: its functions, by the module that each stands in.
        broken: the part with the bug.
        line: the line that was right, and what stands there.
        brought: a module that came from elsewhere, and that no other repository has.
    """

    folder: Path
    package: str
    parts: dict[str, list[Part]]
    broken: Part
    line: tuple[str, str]
    brought: str

    @property
    def module(self) -> str:
        """The module with the bug."""
        return next(name for name, parts in self.parts.items() if self.broken in parts)

    def lay(self) -> None:
        """Writes its files, and commits them."""
        for name, parts in self.parts.items():
            text = "\n\n".join(part.source for part in parts)
            text = text.replace(*self.line) if self.broken in parts else text
            head = f'"""{name.capitalize()} of {self.package}."""\n\n\n'
            write_file(self.folder / self.package / f"{name}.py", head + text)
            write_file(self.folder / "tests" / f"test_{name}.py", tests_of(self.package, name, parts))
        write_file(self.folder / self.package / "brought.py", self.brought)
        write_file(self.folder / self.package / "__init__.py", "")
        write_file(self.folder / "tests" / "__init__.py", "")
        names = "\n".join(f"- {part.name}: {part.says}" for parts in self.parts.values() for part in parts)
        write_file(self.folder / "README.md", f"# {self.package}\n\n{names}\n")
        self.run("git init -q && git add -A && git commit -qm Begin")

    def run(self, command: str) -> dict[str, Any]:
        """{code, output} of a command; the code is None where it had to be killed."""
        real = str(self.folder)
        doing = subprocess.Popen(
            ["bash", "-c", command.replace(PLACE, real)],
            cwd=self.folder,
            env={**SHELL, "HOME": real, "COLUMNS": "80", "PAGER": "cat"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        code: int | None
        try:
            output, _ = doing.communicate(timeout=PATIENCE_S if command in _WAITS else 60)
            code = doing.returncode
        except subprocess.TimeoutExpired:
            os.killpg(doing.pid, 9)
            output, code = doing.communicate()[0], None
        return {"code": code, "output": output.replace(real, PLACE)}


def tests_of(package: str, module: str, parts: list[Part]) -> str:
    """The module that tests others."""
    names = ", ".join(part.name for part in parts)
    head = f"import unittest\n\nfrom {package}.{module} import {names}\n\n\n"
    head += f"class {module.capitalize()}Test(unittest.TestCase):\n"
    cases = [
        f"    def test_{part.name}_{number}(self):\n        self.assertEqual({part.name}({arguments}), {wanted})\n"
        for part in parts
        for number, (arguments, wanted) in enumerate(part.cases, 1)
    ]
    return head + "\n".join(cases)


def draw_repository(rng: random.Random, folder: Path, task: int, module: str) -> Repository:
    """A repository, with its bug."""
    package = f"{rng.choice(('mill', 'yard', 'loom', 'kiln', 'forge', 'dock', 'barn', 'quay'))}{task}"
    chosen = rng.sample(PARTS, 9)
    modules = rng.sample(("units", "words", "lists", "money", "dates", "grid"), 3)
    parts = {name: chosen[at * 3 : at * 3 + 3] for at, name in enumerate(modules)}
    while True:
        broken = rng.choice(chosen)
        right, wrong = rng.choice(BUGS)
        lines_with_right = [line for line in broken.source.splitlines() if right in line]
        if lines_with_right:
            line = rng.choice(lines_with_right)
            pair = line, line.replace(right, wrong, 1)
            return Repository(folder, package, parts, broken, pair, module)


@dataclass(slots=True)
class Talk:
    """The messages of a run, as mini-swe-agent writes them while it goes on."""

    repository: Repository
    rng: random.Random
    messages: list[dict[str, Any]] = field(default_factory=list)

    def does(self, thought: str, command: str) -> dict[str, Any]:
        """A command, and what came of it."""
        result = self.repository.run(command)
        text = f"THOUGHT: {thought}\n\n```bash\n{command}\n```"
        answer = stopped_output(command, result["output"]) if result["code"] is None else shown_output(result)
        self.messages += [{"role": "assistant", "content": text}, {"role": "user", "content": answer}]
        return result

    def slips(self) -> None:
        """Two actions at once, or none: the harness answers."""
        two = self.rng.random() < 0.5
        text = "THOUGHT: Both.\n\n```bash\nls\n```\n\n```bash\ngit diff\n```" if two else "The bug should be gone now."
        self.messages.append({"role": "assistant", "content": text})
        self.messages.append({"role": "user", "content": ONE_ACTION.format(count=2 if two else 0)})

    def looks(self, steps: int) -> None:
        """Looks at what there is, with what comes between."""
        repository, rng = self.repository, self.rng
        for _ in range(steps):
            chance, module = rng.random(), rng.choice(sorted(repository.parts))
            module = "brought" if chance > 0.8 else module
            values = {"package": repository.package, "module": repository.module, "other": module}
            values |= {"n": str(rng.randrange(4, 16)), "function": repository.broken.name}
            values["word"] = rng.choice(("return", "for", "import", "sum", "join", "none"))
            if chance < 0.05:
                self.slips()
            elif chance < 0.1:
                self.does("I try it.", rng.choice(_WAITS))
            else:
                some = _SLIPS if chance < 0.2 else _TESTS if chance < 0.35 else _LOOKS
                self.does(rng.choice(("I look.", "Next.", "I check this.")), rng.choice(some).format(**values))

    def mends(self) -> None:
        """Changes the line, or another one, and looks whether tests pass."""
        repository = self.repository
        right, wrong = repository.line
        path = f"{repository.package}/{repository.module}.py"
        new = right if self.rng.random() < 0.7 else f"{wrong}  # looked at"
        old, new = (re.sub(r"(['\\&/\[\]*.^$])", r"\\\1", text).replace("\\'", "'\\''") for text in (wrong, new))
        self.does("I change it.", f"sed -i 's/^{old}$/{new}/' {path} && git diff")
        self.does("Do the tests pass?", _TESTS[self.rng.randrange(2)].format(module=repository.module))


def play_run(task: int, seed: int, take: int, *, goes_on: bool) -> bytes:
    """The log of a run; one that goes on says more at its end."""
    with tempfile.TemporaryDirectory(prefix="repository-") as temporary:
        rng = random.Random(f"repositories:{seed}:{task}")
        repository = draw_repository(rng, Path(os.path.realpath(temporary)), task, library(seed)[task][1])
        repository.lay()
        rng = random.Random(f"repositories:{seed}:{task}:{take}")
        issue = f"{repository.broken.name} of {repository.package} should give {repository.broken.says}. Find the bug."
        prompt = f"<pr_description>\n{issue}\n</pr_description>\n\nThe repository is in {PLACE}."
        talk = Talk(repository, rng, opening(MINI_SYSTEM, prompt))
        if rng.random() < 0.1:  # given up before anything ran
            talk.messages.append({"role": "assistant", "content": "I cannot see how to begin."})
        else:
            talk.does("I look around.", "ls -R . && cat README.md")
            talk.looks(rng.randrange(4, 12))
            talk.mends()
            talk.looks(rng.randrange(0, 3))
            if goes_on:
                talk.looks(3)
    config = {"model": {"model_name": "scripted"}, "environment": {"cwd": PLACE}}
    info = {"exit_status": "LimitsExceeded", "submission": "", "mini_version": "1.17.0", "config": config}
    fields = {"info": info, "messages": talk.messages, "trajectory_format": "mini-swe-agent-1"}
    return document({**fields, "instance_id": f"yard__{repository.package}-{task}"}, escaped=False) + b"\n"


def runs(tasks: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """The names and bytes of the logs."""
    for task in range(tasks):
        rng = random.Random(f"repositories:{seed}:{task}:takes")
        for take in range(rng.choice(TAKES)):
            log = play_run(task, seed, take, goes_on=False)
            chance = rng.random()
            copies = [log, log] if chance < 0.1 else [log]
            if 0.1 <= chance < 0.2:
                copies.append(play_run(task, seed, take, goes_on=True))
            for number, data in enumerate(copies):
                yield f"{task}/{take}-{number}/task{task}.traj.json", data


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, data in runs(options.tasks, options.seed):
        write_file(options.folder / name, data)


if __name__ == "__main__":
    main()
