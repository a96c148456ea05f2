"""`python -m benchmarks.replay_elsewhere FOLDER`: replays of sessions that were recorded in other systems, by others.

Three systems are made in FOLDER by debootstrap, each with a user, a home and variables of its own. In each the sessions
of `replay_elsewhere.toml` are recorded twice, terminals by asciinema, calls by an agent's own shell in a chroot. Rows
that are equal in both recordings are deterministic. The first recordings are replayed in boxes; then once more with 200
deterministic answers falsified. It needs root, debootstrap, bubblewrap and a mirror of Debian.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import random
import re
import select
import shutil
import struct
import subprocess
import termios
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from samples.makers.claude_code_log import MODEL
from samples.writing import claude_code as cli
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.worlds.replay.engines import Limits
from trajmill.worlds.replay.replay import Replay, ReplaySettings

Row = dict[str, Any]
SESSIONS: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["session"]
PACKAGES: Final = "python3,git,make,gcc,libc6-dev,jq,sqlite3,perl,procps,less,file,xxd,asciinema,tzdata"
MIRROR: Final = "http://deb.debian.org/debian"
PROMPT: Final = r"\u@\h:\w\\\$ "
_PROMPTED: Final = re.compile(rb"[$#] (?:\x1b\[\?2004h)?\Z")
LIES: Final = 200
CERTIFIED: Final = ("same", "volatile")


@dataclass(frozen=True, slots=True)
class System:
    """A base system, and who works in it.

    Attributes:
        suite: of Debian.
        work: the folder that sessions lie in.
        variables: that its sessions are given.
    """

    suite: str
    user: str
    home: str
    work: str
    variables: Mapping[str, str] = field(default_factory=dict)


SYSTEMS: Final = (
    System("bookworm", "maria", "/home/maria", "/home/maria/src", {"LANG": "C.UTF-8"}),
    System("trixie", "kim", "/data/kim", "/data/kim", {"LANG": "C.UTF-8", "TZ": "Asia/Kolkata", "PYTHONUTF8": "1"}),
    System("bullseye", "root", "/root", "/app", {"LC_ALL": "C.UTF-8", "EDITOR": "vi", "PYTHONDONTWRITEBYTECODE": "1"}),
)
_ENTER: Final = """
set -e
mount -t proc proc {root}/proc
mount --rbind /dev {root}/dev
hostname {suite}
for each in $(seq $((RANDOM % 300))); do (:); done
exec chroot {root} setpriv --reuid={uid} --regid={uid} --clear-groups env -i {variables} \\
    bash -c 'cd "$1"; shift; "$@"; exit $?' enter {folder} {command}
"""


def make_root(folder: Path, system: System) -> Path:
    """The root of a system, made if it is not there."""
    root = folder / system.suite
    if not (root / "usr/bin/asciinema").exists():
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", system.suite, str(root), MIRROR]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if system.user not in (root / "etc/passwd").read_text():
        command = ["chroot", str(root), "useradd", "--home-dir", system.home, "-m", "-s", "/bin/bash", system.user]
        subprocess.run(command, check=True, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    return root


class Recorder:
    """Records sessions in a system.

    Args:
        system: and who works in it.
        raw: the folder that logs are written to.
    """

    def __init__(self, root: Path, system: System, raw: Path) -> None:
        self._root, self._system, self._raw = root, system, raw
        passwd = (root / "etc/passwd").read_text().splitlines()
        self._uid = next(line.split(":")[2] for line in passwd if line.startswith(f"{system.user}:"))

    def record(self, session: Mapping[str, Any], base: Path) -> None:
        """Records a session in a copy of its base."""
        name, folder = session["name"], f"{self._system.work}/{session['name']}"
        real = Path(f"{self._root}{folder}")
        shutil.rmtree(real, ignore_errors=True)
        shutil.copytree(base, real, symlinks=True)
        for path in (real.parent, real, *real.rglob("*")):
            shutil.chown(path, int(self._uid), int(self._uid))
        if "typed" in session:
            self._typed(session["typed"], folder)
            (self._root / "tmp/out.cast").rename(self._raw / f"{name}.cast")
        else:
            (self._raw / f"{name}.jsonl").write_text(self._called(session["called"], name, folder))
        shutil.rmtree(real)

    def _command(self, folder: str, command: str, **more: str) -> list[str]:
        system = self._system
        variables = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": system.home, "USER": system.user}
        variables |= {"LOGNAME": system.user, "SHELL": "/bin/bash", **system.variables, **more}
        exports = " ".join(f"{name}='{value}'" for name, value in variables.items())
        script = _ENTER.format(
            root=self._root, suite=system.suite, uid=self._uid, variables=exports, folder=folder, command=command
        )
        return ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "bash", "-c", script]

    def _typed(self, keys: list[str], folder: str) -> None:
        shell = f"env PS1='{PROMPT}' bash --noprofile --norc"
        recorder = f'asciinema rec -q --stdin --overwrite -c "{shell}" /tmp/out.cast'
        command = self._command(folder, recorder, TERM="xterm-256color")
        child, terminal = pty.fork()
        if not child:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
            os.execvp(command[0], command)
        _read(terminal)
        for line in keys:
            os.write(terminal, f"{line}\r".encode())
            _read(terminal)
        os.write(terminal, b"exit\r")
        _read(terminal)
        os.waitpid(child, 0)
        os.close(terminal)

    def _called(self, calls: list[str], name: str, folder: str) -> str:
        lines: list[Row] = []
        head = cli.head(None, folder, f"{name}-{self._system.suite}", "main")
        shown = f"{self._root}{folder}"

        def add(kind: str, message: Row) -> None:
            moment = f"2026-10-05T10:{len(lines) // 60:02}:{len(lines) % 60:02}.000Z"
            parent = lines[-1]["uuid"] if lines else None
            line = {**head, "parentUuid": parent, "uuid": f"{name}-{len(lines)}", "timestamp": moment, "type": kind}
            lines.append({**line, "message": message})

        add("user", {"role": "user", "content": f"Work on {name} in {self._system.suite}."})
        for number, call in enumerate(calls):
            tool, _, path = call.partition(" ")
            arguments = {"file_path": f"{folder}/{path}"} if tool == "Read" else {"command": call}
            block = cli.use(f"call-{number}", "Read" if tool == "Read" else "Bash", arguments)
            add("assistant", cli.answer(f"m{number}", MODEL, block, new=1, cached=1, spoken=1))
            if tool == "Read":
                text, failed = cli.numbered(Path(f"{shown}/{path}").read_text().splitlines(), 1), False
            else:
                text, failed = self._ran(folder, call)
            add("user", {"role": "user", "content": [cli.result(f"call-{number}", text, failed=failed)]})
        return "".join(f"{json.dumps(line)}\n" for line in lines)

    def _ran(self, folder: str, call: str) -> tuple[str, bool]:
        Path(f"{self._root}/tmp/call.sh").write_text(f"eval \"$(cat <<'_CALL_'\n{call}\n_CALL_\n)\"")
        command = self._command(folder, "bash --noprofile --norc /tmp/call.sh")
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        both = [text.strip("\n") for text in (done.stdout, done.stderr) if text.strip("\n")]
        if done.returncode:
            both.insert(0, f"Exit code {done.returncode}")
        return re.sub(r"(?m)^/tmp/call\.sh: ", "/bin/bash: ", "\n".join(both)), done.returncode != 0


def _read(terminal: int) -> None:
    """Reads what a terminal puts out until it shows a prompt, or ends."""
    output, until = b"", time.monotonic() + 10
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 0.25)
        if not ready:
            if _PROMPTED.search(output):
                return
            continue
        try:
            output += os.read(terminal, 1 << 16)
        except OSError:
            return


def laid_out(folder: Path) -> None:
    """Writes what sessions begin with."""
    for session in SESSIONS:
        base = folder / session["name"]
        base.mkdir(parents=True)
        for name, text in session.get("files", {}).items():
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text(text)


def tables(folder: Path) -> dict[tuple[str, int], Row]:
    """Rows of tables by log and step."""
    rows = [row for file in sorted(folder.rglob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    return {(row["provenance"]["uri"].rpartition("/")[2], row["step"]): row for row in rows}


def shown(row: Row) -> str:
    """The answer of a row without blanks at ends."""
    text = (row["next_observation"] or {}).get("content") or ""
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


class Liar(Replay):
    """Replays rows whose answers were falsified."""

    lies: Mapping[str, str]

    def _replay_rows(self, rows: list[Row], is_kept: bool) -> Any:
        falsified_rows = [
            {**row, "next_observation": {**row["next_observation"], "content": self.lies[row["row_id"]]}}
            if row["row_id"] in self.lies
            else row
            for row in rows
        ]
        return super()._replay_rows(falsified_rows, is_kept)


def falsify(row: Row, chance: random.Random) -> Iterator[str]:
    """Falsehoods that a row's answer could tell: a number, a word or a line that is another, one too many, one less."""
    text = row["next_observation"]["content"]
    before = (row["observation"] or {}).get("content") or "" if row["next_observation"]["form"] == "screen" else ""
    lines = text.rstrip().split("\n")
    new = [
        number
        for number, line in enumerate(lines)
        if line.strip() and line not in before and not re.search(r"[$#](?: |$)", line)
    ]
    if not new:
        return
    at = chance.choice(new)
    line = lines[at]
    masked = re.sub(
        r"bash: line \d+:", lambda match: " " * len(match[0]), line
    )  # each harness counts lines its own way
    digits, words = [*re.finditer(r"\d", masked)], [*re.finditer(r"[A-Za-z]{3,}", masked)]
    kinds = []
    if digits:
        hit = chance.choice(digits)
        kinds.append([f"{line[: hit.start()]}{(int(hit[0]) + 1) % 10}{line[hit.end() :]}"])
    if words:
        hit = chance.choice(words)
        kinds.append([f"{line[: hit.start()]}{hit[0][::-1] if hit[0][::-1] != hit[0] else 'other'}{line[hit.end() :]}"])
    kinds += [[line, "and one more"], []]
    for kind in chance.sample(kinds, len(kinds)):
        yield "\n".join([*lines[:at], *kind, *lines[at + 1 :]])


def record_twice(root: Path, system: System, work: Path) -> tuple[Path, Path]:
    """Record all sessions in a system two times, and return the judged run of each recording."""
    first, second = outs = work / system.suite / "first", work / system.suite / "second"
    for out in outs:
        raw = out.with_name(f"raw-{out.name}")
        raw.mkdir(parents=True)
        for session in SESSIONS:
            Recorder(root, system, raw).record(session, work / "bases" / session["name"])
        Run(load_recipe("terminal"), [str(raw)], str(out)).run("judge")
    return first, second


def read_replays(out: Path) -> dict[str, Row]:
    """The rows of a run's replays by row id."""
    rows = [row for file in (out / "replays").rglob("*.parquet") for row in pq.read_table(file).to_pylist()]
    return {row["row_id"]: row for row in rows}


def choose_lies(rows: Iterable[Row], chance: random.Random, count: int) -> dict[str, str]:
    """Falsified answers of so many rows, by row id."""
    lies: dict[str, str] = {}
    for row in rows:
        lie = next((text for text in falsify(row, chance) if text != row["next_observation"]["content"]), None)
        if lie is not None and len(lies) < count:
            lies[row["row_id"]] = lie
    return lies


def main() -> None:
    """Record, replay, falsify, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="that systems and recordings are written to")
    parser.add_argument("--show", action="store_true", help="print what differs, and what was certified wrongly")
    asked = parser.parse_args()
    work = asked.folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    laid_out(work / "bases")
    bases = tuple(f"{session['name']}={work / 'bases' / session['name']}" for session in SESSIONS)
    totals = {"deterministic": Counter[str](), "others": Counter[str]()}
    chance = random.Random(7)
    print("| system | answers | rows | same | volatile | differs | not run | falsified | certified |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for left, system in zip((3, 2, 1), SYSTEMS, strict=True):
        root = make_root(asked.folder, system)
        out, out_again = record_twice(root, system, work)
        rows, again = tables(out / "transitions"), tables(out_again / "transitions")
        settings = ReplaySettings("terminal", bases, Limits(address=0), system.variables, str(root), system.user)
        Replay(str(out), settings).run()
        replays = read_replays(out)
        by_answers: dict[str, list[Row]] = {"deterministic": [], "others": []}
        for key, row in rows.items():
            is_steady = key in again and shown(row) == shown(again[key])
            by_answers["deterministic" if is_steady else "others"].append(row)
            replay = replays[row["row_id"]]
            if asked.show and replay["replayed"] not in CERTIFIED:
                print(key, is_steady, replay["replayed"], replay["reason"], replay["difference"], sep="\n  ")
        certain = [row for row in by_answers["deterministic"] if replays[row["row_id"]]["replayed"] in CERTIFIED]
        liar = Liar(str(out), settings)
        missing = LIES - totals["deterministic"]["falsified"]
        liar.lies = choose_lies(chance.sample(certain, len(certain)), chance, -(-missing // left))
        liar.run()
        passed = {row_id: row for row_id, row in read_replays(out).items() if row_id in liar.lies}
        passed = {row_id: row for row_id, row in passed.items() if row["replayed"] in CERTIFIED}
        for row_id, row in passed.items() if asked.show else ():
            print("certified", liar.lies[row_id], row["difference"], sep="\n  ")
        for answers, its_rows in by_answers.items():
            counts = Counter({"rows": len(its_rows)}) + Counter(replays[row["row_id"]]["replayed"] for row in its_rows)
            if answers == "deterministic":
                counts += Counter(falsified=len(liar.lies), certified=len(passed))
            totals[answers] += counts
            print_row(system.suite, answers, counts)
    for answers, sums in totals.items():
        print_row("all", answers, sums)


def print_row(system: str, answers: str, counts: Mapping[str, int]) -> None:
    """Print a row of the table."""
    names = ("rows", "same", "volatile", "differs", "not_run", "falsified", "certified")
    print(f"| {system} | {answers} | " + " | ".join(f"{counts.get(name, 0)}" for name in names) + " |", flush=True)


if __name__ == "__main__":
    main()
