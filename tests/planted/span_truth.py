"""Made-up sessions of which it is known, character by character, what each answer is made of.

A shell (a real one runs every command), an editor and a terminal. What only the world knows are words that are drawn
for it alone; what follows from the actions comes from what the agent wrote.
"""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.make import call
from trajmill.schemas import Action, Observation, Step, Trajectory, keystrokes, keystrokes_text

Pieces = list[tuple[str, str]]
"""Texts in order, each with its class."""

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "kelp", "larch")
READS = (
    "cat {0}", "head -n {1} {0}", "tail -n {1} {0}", "sed -n '{1},4p' {0}", "wc -l {0}", "wc -c < {0}",
    "grep -c a {0}", "grep -n e {0}", "nl -ba {0}", "cat -n {0}", "cat {0} | wc -l", "head -{1} {0} | tail -1",
    "sort {0}", "rev {0}", "cut -c1-4 {0}", "tr a-z A-Z < {0}",
)  # fmt: skip
SUMS = (
    "echo $(({0} * {1}))", "expr {0} + {1}", "seq {0} $(({0} + 3))", "printf 'n%d\\n' {1}", "echo '{0}*{1}' | bc",
    "cd / && pwd", "basename a/b/file{0}.txt", "echo $(({0} * {1})) | rev",
)  # fmt: skip
SHORTEST = 8


class Session:
    """A session that is being made: its steps, and the pieces of each answer."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.steps: list[Step] = []
        self.truth: list[Pieces] = []
        self.seen: set[str] = set()

    def nonce(self) -> str:
        """A word that nothing has told before."""
        return "".join(self.random.choices("bcdfghjklmnpqrstvwxz", k=9))

    def phrase(self, count: int) -> str:
        return " ".join(self.random.choices(WORDS, k=count))

    def add(self, action: Action, pieces: Pieces, form: str = "response", exit_code: int | None = None) -> None:
        """Adds a step whose answer are the pieces."""
        text = "".join(text for text, _ in pieces)
        before = self.steps[-1].next_observation if self.steps else None
        after = Observation(text, form=form)
        number = len(self.steps)
        self.steps.append(Step(action, before, after, number, 10 * number, exit_code=exit_code))
        self.truth.append(pieces)
        for line in text.split("\n"):
            self.seen |= {line.rstrip(), re.sub(r"^ *\d+[\t→]", "", line.rstrip())}

    def lined(self, text: str, action: str) -> Pieces:
        """The lines of a text: new, or copied where they were shown or stand in what was said."""
        lines = set(map(str.rstrip, action.split("\n")))
        pieces = []
        for line in re.findall(r"[^\n]*\n|[^\n]+", text):
            bare = line.rstrip("\n").rstrip()
            is_told = len(bare.encode()) >= SHORTEST and (bare in self.seen | lines or bare.strip() in action)
            pieces.append((line, "copied" if is_told else "new"))
        return pieces

    def trajectory(self, name: str, domain: str) -> Trajectory:
        """The session as a trajectory."""
        return Trajectory(name, domain, self.steps)


class Shell:
    """Commands of an agent at a shell, and the names of its files."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.session, self.folder, self.random = session, folder, session.random
        self.names: set[str] = set()
        for number in range(3):
            lines = [self._news() for _ in range(3)] + [session.nonce()[:5]]
            (folder / f"given{number}.txt").write_text("\n".join(lines) + "\n")
            self.names.add(f"given{number}.txt")

    def _news(self) -> str:
        """A line that only the world knows, and that is no other's by chance."""
        return " ".join(self.session.nonce() for _ in range(4))

    def _read(self) -> str:
        name = self.random.choice(sorted(self.names))
        first = self.random.randint(1, 3)
        form = self.random.choice(READS) if self.random.random() < 0.8 else "cat {0}"
        return form.format(name, first)

    def _write(self) -> str:
        name = f"made{self.random.randint(0, 3)}.txt"
        lines = [self.session.phrase(self.random.choice((1, 8))) for _ in range(self.random.randint(2, 5))]
        body = "\n".join(lines)
        template = self.random.choice(("cat > {0} <<'END'\n{1}\nEND", "tee {0} <<'END'\n{1}\nEND", "echo '{2}' > {0}"))
        self.names.add(name)
        return template.format(name, body, lines[0])

    def _sum(self) -> str:
        left, right = self.random.randint(2, 99), self.random.randint(2, 99)
        form = self.random.choice(SUMS)
        return form.format(left, right)

    def _world(self) -> str:
        return "./probe"

    def _change(self) -> str:
        """A program that changes a file."""
        return f"./change {self.random.choice(sorted(self.names))}"

    def turns(self, count: int) -> None:
        """So many calls, each with up to three commands."""
        groups = []
        for _ in range(count):
            kinds = (self._read, self._write, self._sum, self._world, self._change)
            chosen = self.random.choices(kinds, (5, 3, 3, 2, 1), k=self.random.randint(1, 3))
            groups.append([kind() for kind in chosen])
        outputs = iter(self._run([line for parts in groups for line in parts]))
        for parts in groups:
            command = "\n".join(parts)
            pieces = [piece for line in parts for piece in self._told(line, command, next(outputs))]
            self.session.add(call("bash", command=command), pieces, exit_code=0)

    def _told(self, line: str, command: str, output: str) -> Pieces:
        if not line.startswith(("nl", "cat -n")) or output.count("\n") < 2:
            return self.session.lined(output, command)
        bare = re.sub(r"(?m)^ *\d+\t", "", output)
        gutters = re.findall(r"(?m)^ *\d+\t", output)
        pieces = self.session.lined(bare, "")
        return [piece for gutter, pair in zip(gutters, pieces, strict=True) for piece in ((gutter, "frame"), pair)]

    def _run(self, lines: Sequence[str]) -> list[str]:
        """What each command puts out; before each the world has something new to tell."""
        for name, text in (("probe", "cat world"), ("change", 'head -1 world >> "$1"')):
            path = self.folder / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        script = "".join(
            f"printf '{self._news()}\\n{self.session.nonce()}\\n3\\n' > world\n( {line}\n)\nprintf '\\036'\n"
            for line in lines
        )
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, capture_output=True, text=True, check=True)
        assert not done.stderr, done.stderr
        return done.stdout.split("\x1e")[:-1]


def shell_session(seed: int, folder: Path, turns: int = 10) -> Session:
    """A session at a shell whose calls begin anew in the same folder."""
    session = Session(seed)
    Shell(session, folder).turns(turns)
    return session


def editor_session(seed: int) -> Session:
    """Files that an editor creates, shows and changes, and tests that are run between."""
    session = Session(seed)
    path = f"/code/{session.nonce()}.py"
    lines = [session.phrase(session.random.randint(1, 4)) for _ in range(6)]
    action = call("str_replace_editor", command="create", path=path, file_text="\n".join(lines) + "\n")
    session.add(action, [("File created successfully at: ", "frame"), (path, "copied")])

    def listing() -> Pieces:
        pieces: Pieces = [("Here's the result of running `cat -n` on ", "frame"), (path, "copied"), (":\n", "frame")]
        for number, line in enumerate(lines, 1):
            pieces += [(f"{number:6}\t", "frame"), *session.lined(line, ""), ("\n", "frame")]
        return pieces[:-1]

    session.add(call("str_replace_editor", command="view", path=path), listing())
    ran = [("=" * 29 + " test session starts " + "=" * 30 + "\n", "frame"), (f"{session.nonce()} F\n", "new")]
    ran += [("[The command completed with exit code ", "frame"), ("1", "new"), (".]", "frame")]
    session.add(call("execute_bash", command="pytest -q"), ran)
    session.add(call("execute_bash", command="git log"), [(f"{session.nonce()}\n{session.nonce()[:4]}", "new")])
    return session


def terminal_session(seed: int) -> Session:
    """Lines typed behind a prompt, one screen after the other."""
    session = Session(seed)
    prompt = f"{session.nonce()[:4]}@box:~$"
    rows: list[tuple[str, str]] = [(prompt, "new")]
    session.add(Action("wait", "[]"), list(rows), form="screen")
    for _ in range(5):
        line, shown, klass = session.random.choice(
            [
                ("./probe", [session.nonce(), session.nonce()[:4]], "new"),
                (f"echo {session.phrase(3)}", [], "copied"),
            ]
        )
        shown = shown or [line.removeprefix("echo ")]
        rows[-1] = (f"{prompt} {line}", "new")
        rows += [(row, klass) for row in shown]
        rows.append((prompt, "copied"))
        pieces: Pieces = []
        for row, kind in rows:
            is_known = len(row) >= SHORTEST and row in session.seen
            pieces += [(row, "copied" if is_known else kind), ("\n", "frame")]
        typed = [(line + "\n", 0.1)]
        action = Action("keystrokes", keystrokes_text(typed), json.dumps({"keystrokes": keystrokes(typed)}))
        session.add(action, pieces[:-1], form="screen")
        rows = [(row, "copied") for row, _ in rows]
    return session
