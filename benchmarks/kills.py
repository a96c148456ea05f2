"""Runs that are killed at random moments and started again until they are done: what they leave, what is done twice.

A trial is one output folder. Its run is started again and again, each time to be killed by SIGKILL at a moment drawn
from the time that an undisturbed run takes; the start that ends by itself ends the trial.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Final

from benchmarks.logs.mixed import write_mixed

MEGABYTES: Final = 5
_MARK: Final = "TRAJMILL_TRIAL"
_GRACE_S: Final = 5.0
_OF_THE_RUN: Final = frozenset({"run.json", "run.log", "trajmill.json", ".lock"})
"""Files that say when and by whom: another in every run."""

_STAGES: Final = ("transitions", "measures", "verdicts", "shards")
_MADE_ANEW: Final = ("benchmarks", "replicates", "card")
"""The index of benchmarks, the report of replicates and the card, which are made anew: no parts of the work."""


@dataclass
class Told:
    """What came of all kills with so many workers.

    Attributes:
        workers: processes of the run.
        seconds: that an undisturbed run took last.
        kills: runs that were killed.
        trials: output folders.
        reached: how far the killed runs had come → how many.
        orphans: processes that were there when the killed one was gone for `_GRACE_S` seconds.
        slowest: seconds after which the last process was gone.
        scratch: folders that killed runs left in TMPDIR, and how many the runs after them left there.
        finished: units that killed runs had finished, by stage.
        again: those of them that were written anew.
        different: files whose bytes are not those of the undisturbed run, or that are missing or too many.
    """

    workers: int
    seconds: float
    kills: int = 0
    trials: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    orphans: int = 0
    slowest: float = 0.0
    scratch: list[int] = field(default_factory=lambda: [0, 0])
    finished: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    different: int = 0


def killed(workers: int, kills: int, seed: int, place: Path) -> Told:
    """Kills runs over the same logs until there were so many kills and their last trial is done."""
    raw, temporary = place / "raw", place / "tmp"
    temporary.mkdir(exist_ok=True)
    write_mixed(raw, MEGABYTES * 1_000_000)
    chance = random.Random(f"{seed}/{workers}")
    begun = time.monotonic()
    _start(raw, place / "whole", workers, temporary, "").wait()
    told = Told(workers, time.monotonic() - begun)
    wanted = digests(place / "whole")
    assert wanted, "the undisturbed run wrote nothing"
    while told.kills < kills:
        out = place / f"trial-{told.trials}"
        told.trials += 1
        while _killed_once(raw, out, chance, told, temporary):
            pass
        found = digests(out)
        told.different += len({*wanted.items()} ^ {*found.items()})
        told.scratch[1] += len(list(temporary.glob("trajmill-*")))
        subprocess.run(["rm", "-rf", str(out)], check=True)
        print(json.dumps({**vars(told), "reached": dict(told.reached)}), file=sys.stderr, flush=True)
    return told


def digests(out: Path) -> dict[str, str]:
    """Name → sha256 of every file of a finished run, but for those that say when it ran."""
    found = (path for path in out.rglob("*") if path.is_file() and path.name not in _OF_THE_RUN)
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def _start(raw: Path, out: Path, workers: int, temporary: Path, mark: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "trajmill", "run", "all", "--raw", str(raw), "--out", str(out)]
    environment = {**os.environ, _MARK: mark, "TMPDIR": str(temporary)}
    with (out.parent / "said.log").open("ab") as said:
        return subprocess.Popen(
            [*command, "--part-size", "1MB", "--workers", str(workers)], env=environment, stdout=said, stderr=said
        )


def _killed_once(raw: Path, out: Path, chance: random.Random, told: Told, temporary: Path) -> bool:
    """Starts the run and kills it, unless it ends before; returns whether it was killed.

    Raises:
        SystemExit: a run that was left alone did not end well.
    """
    before = dict(_finished(out))
    mark = token_hex(8)
    process, begun = _start(raw, out, told.workers, temporary, mark), time.monotonic()
    moment = chance.uniform(0.2, told.seconds * 1.15)
    try:
        process.wait(moment)
        was_killed = False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        was_killed = True
    if not was_killed and process.returncode != 0:
        said = (out.parent / "said.log").read_text("utf-8", "replace")[-4_000:]  # the folder goes with this process
        raise SystemExit(f"a run that was started again ended with {process.returncode}:\n{said}")
    if not was_killed and not before:
        told.seconds = time.monotonic() - begun  # a machine that others use is now faster and now slower
    if was_killed:
        told.kills += 1
        told.reached[_reached(out)] += 1
        waited, left = _left_of(mark)
        told.orphans += left
        told.slowest = max(told.slowest, waited)
        told.scratch[0] += len(list(temporary.glob("trajmill-*")))
    after = dict(_finished(out))
    for unit, files in before.items():
        stage = unit.split("/")[0]
        told.finished[stage] += 1
        told.again[stage] += unit not in after or after[unit] != files
    return was_killed


def _finished(out: Path) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    """Finished units, with what tells their files from such as are written anew."""
    for stage in _STAGES:
        for path in sorted((out / "_units" / stage).glob("*.json")):
            files = [out / stage / one["name"] for one in json.loads(path.read_bytes())["files"]]
            if path.stem not in _MADE_ANEW and all(one.exists() for one in files):
                yield f"{stage}/{path.stem}", tuple((one.stat().st_ino, one.stat().st_mtime_ns) for one in files)


def _reached(out: Path) -> str:
    """The stage in which a killed run was: the first of which there is no manifest."""
    if not (out / "plan.json").exists():
        return "plan"
    for stage, name in (("normalize", "transitions"), ("judge", "verdicts"), ("mix", "shards")):
        if not (out / name / "manifest.json").exists():
            return stage
    return "done"


def _left_of(mark: str) -> tuple[float, int]:
    """(seconds until no process of the trial was there, how many still were when patience ended)."""
    begun = time.monotonic()
    while True:
        left = [one for one in Path("/proc").iterdir() if one.name.isdigit() and _is_of(one, mark)]
        if not left or time.monotonic() - begun > _GRACE_S:
            return time.monotonic() - begun, len(left)
        time.sleep(0.05)


def _is_of(process: Path, mark: str) -> bool:
    try:
        if (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        return f"{_MARK}={mark}".encode() in (process / "environ").read_bytes()
    except OSError:
        return False


def rows(kills: int, workers: list[int], seed: int) -> Iterator[tuple[str, ...]]:
    """A row of the table for each number of workers."""
    for count in workers:
        with tempfile.TemporaryDirectory(prefix="kills-") as place:
            told = killed(count, kills, seed, Path(place))
        stages = " / ".join(f"{told.reached[name]}" for name in ("plan", "normalize", "judge", "mix", "done"))
        again = " / ".join(f"{told.again[name]} of {told.finished[name]}" for name in _STAGES)
        yield (
            f"{count}",
            f"{told.kills}",
            f"{told.trials}",
            stages,
            f"{told.orphans}",
            f"{told.slowest:.1f}",
            f"{told.scratch[0]} → {told.scratch[1]}",
            again,
            f"{told.different}",
        )


HEADS: Final = (
    "workers",
    "kills",
    "runs",
    "killed in plan / normalize / judge / mix / after",
    "orphans",
    "gone after s",
    "folders left in TMPDIR → after the next run",
    "finished units written again: transitions / measures / verdicts / shards",
    "files that differ",
)
