"""`python -m benchmarks.shells FOLDER`: sessions of a scripted agent in real shells, with what goes wrong in such logs.

    python -m benchmarks.shells out/shells --tasks 60
    python -m benchmarks.effect.sweep out/shells --out out/effect-of-shells --only logs

Each task is a folder of its own with modules of Python's library that no other task has, a table and a repository. An
agent that draws its calls by chance looks at it, one to four times; bash, git and the tools really run, and the logs
are Claude Code's. What it meets is true of shells; what it asks for, and how often a session is there twice, is drawn:
a tenth of the sessions are there once more as they are, a tenth were gone on with and saved anew, some calls are
rejected by the user, answered by the harness or by a sub-agent, and now and then the agent only talks. No model is
asked anything. Ids and choices come from the seed; times in listings, and process ids, are those of the day.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from samples.makers.claude_code_calls import bash, glob, grep, read, todo
from samples.makers.claude_code_log import Session
from samples.makers.claude_code_tools import Call, Folder
from samples.writing.chance import seeded
from samples.writing.files import write_file
from samples.writing.json_text import lines

BEGIN: Final = datetime(2026, 2, 2, 9, tzinfo=UTC)
TAKES: Final = (1, 1, 2, 3, 4)
LINES: Final = 240
"""Of a module, at most."""

_WORDS: Final = ["barley", "oats", "rye", "spelt", "millet", "maize", "wheat", "sorghum", "teff", "quinoa"]
_LOOKS: Final = (
    "ls -la",
    "git log --oneline --stat | head -20",
    "git status --short",
    "wc -l *.py data.csv",
    "head -{n} {file}",
    "tail -n {n} {file}",
    "sed -n '{low},{high}p' {file}",
    "grep -n 'def ' {file} | head -{n}",
    "grep -c import *.py",
    "grep -rn '{word}' --include=*.py . | head -{n}",
    "head -{n} data.csv",
    "cut -d, -f2 data.csv | sort | uniq -c | sort -rn",
    "awk -F, 'NR>1 {{s+=$3}} END {{print s}}' data.csv",
    "sort -t, -k3 -n data.csv | tail -{n}",
    "grep {grain} data.csv | wc -l",
    "python3 -m py_compile {file} && echo compiled",
    "python3 -c 'import ast; print(len(ast.parse(open(\"{file}\").read()).body))'",
    "find . -name '*.py' -size +6k | sort",
    "md5sum {file}",
    "date; echo $$",
    "echo '{word} in {file}' >> notes.txt && cat notes.txt",
    "cp {file} old.py && diff old.py {file} && echo same",
    "seq 1 {n}",
)
_FAILS: Final = (
    "cat {word}.txt",
    "grpe -n def {file}",
    "cd {word} && ls",
    "python3 -c 'import {word}_{grain}'",
    "git checkout {word}",
    "head --line {file}",
    "python3 {file} --{word}",
    "make test",
    "echo 'unclosed",
    "false",
)


def modules(seed: int) -> list[tuple[str, str]]:
    """Modules of Python's library that are neither short nor long, by name, in the order of a draw."""
    root = Path(os.__file__).parent
    sources = [(path.name, path.read_text("utf-8", "replace")) for path in sorted(root.glob("*.py"))]
    chosen = [(name, "".join(text.splitlines(keepends=True)[:LINES])) for name, text in sources if len(text) > 3_000]
    random.Random(seed).shuffle(chosen)
    return chosen


def table(rng: random.Random) -> str:
    """A table of what was delivered."""
    rows = [f"{day},{rng.choice(_WORDS)},{rng.randrange(900)}" for day in range(1, rng.randrange(30, 90))]
    return "\n".join(["day,grain,units", *rows]) + "\n"


def draw_call(rng: random.Random, names: list[str]) -> Callable[[Session], Call]:
    """A call that the agent makes next."""
    low = rng.randrange(1, 150)
    values = {"file": rng.choice(names), "word": rng.choice(("error", "self", "path", "value", "return", "none"))}
    values |= {"n": str(rng.randrange(3, 25)), "low": str(low), "high": str(low + rng.randrange(5, 40))}
    values["grain"] = rng.choice(_WORDS)
    kind = rng.random()
    if kind < 0.15:
        return lambda s: read(s, values["file"])
    if kind < 0.22:
        return lambda s: grep(s, values["word"], values["file"], lines=True)
    if kind < 0.25:
        return lambda _: glob("*.py")
    command = rng.choice(_FAILS if kind < 0.4 else _LOOKS).format(**values)
    return lambda _: bash(command, "Look at it")


def play(s: Session, rng: random.Random, names: list[str], steps: int) -> None:
    """Play the agent's actions after its first look, and what comes between."""
    for _ in range(steps):
        next_call, chance = draw_call(rng, names), rng.random()
        if chance < 0.03:
            s.rejected("Let me see.", next_call(s))
            s.user("No. Look at the rest first.")
        elif chance < 0.07:
            s.turn("", todo(("Look at the modules", "Looking at the modules", "n")))
        elif chance < 0.11:
            s.answer(f"I looked at {rng.choice(names)}. Shall I go on?")
            s.user(rng.choice(("Yes, go on.", "ok continue", "Please do.")))
        elif chance < 0.13:
            asked = Call("Task", {"description": "Look", "prompt": "Which is longest?", "subagent_type": "Explore"})
            s.delegated("", asked, lambda _: None, f"{rng.choice(names)} is the longest, it has most functions.")
        else:
            s.turn(rng.choice(("", "", "Next.", "Now this one.")), next_call(s))


def sessions(tasks: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """The names and bytes of the logs."""
    library = modules(seed)
    each = len(library) // tasks
    for task in range(tasks):
        rng = random.Random(f"{seed}:{task}")
        files = dict(library[task * each : (task + 1) * each])
        names = sorted(files)
        contents = {**files, "data.csv": table(rng), "README.md": f"# Project {task}\n\nHolds {', '.join(names)}.\n"}
        for take in range(rng.choice(TAKES)):
            more, key = rng.choice((0,) * 8 + (1, 2)), f"{seed}:{task}:{take}"
            for copy in range(2 if more else 1):
                with tempfile.TemporaryDirectory(prefix="shells-") as temporary:
                    folder = Folder(Path(os.path.realpath(temporary)), f"project{task}")
                    s = Session(folder, seeded(seed, key), BEGIN + timedelta(hours=task * 5 + take))
                    s.files(contents, "git init -q -b main && git add . && git commit -qm 'As it came'")
                    s.user(f"What does project {task} hold, and does it work?")
                    s.turn("", bash("ls -la && cat README.md", "Look around"))
                    own = random.Random(key)
                    play(s, own, names, own.randrange(6, 22))
                    if copy and more == 1:
                        s.user("And the rest?")
                        play(s, own, names, 3)
                yield f"project{task}/{take}-{copy}.jsonl", lines(s.lines, escaped=False, compact=True)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, data in sessions(options.tasks, options.seed):
        write_file(options.folder / name, data)


if __name__ == "__main__":
    main()
