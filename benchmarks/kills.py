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
from trajmill.pipelines.storage.folders import is_unfinished

MEGABYTES: Final = 5
_MARK: Final = "TRAJMILL_TRIAL"
_GRACE_S: Final = 5.0
_OF_THE_RUN: Final = frozenset({"run.json", "run.log", "trajmill.json", ".lock", "checksums.json"})
"""Files that say when and by whom, and the checksums of such files: another in every run."""

_STAGES: Final = ("transitions", "measures", "verdicts", "shards")
_MADE_ANEW: Final = ("benchmarks", "replicates", "card")
"""The index of benchmarks, the report of replicates and the card, which are made anew: no parts of the work."""


@dataclass
class Told:
    """Result of all kills with one number of workers.

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


def kill_runs(workers: int, kills: int, seed: int, base: Path) -> Told:
    """Kills runs over the same logs until there were so many kills and their last trial is done."""
    raw, temporary = base / "raw", base / "tmp"
    temporary.mkdir(exist_ok=True)
    write_mixed(raw, MEGABYTES * 1_000_000)
    chance = random.Random(f"{seed}/{workers}")
    begun = time.monotonic()
    _start(raw, base / "whole", workers, temporary, "").wait()
    result = Told(workers, time.monotonic() - begun)
    wanted = digests(base / "whole")
    assert wanted, "the undisturbed run wrote nothing"
    while result.kills < kills:
        out = base / f"trial-{result.trials}"
        result.trials += 1
        while _kill_once(raw, out, chance, result, temporary):
            pass
        outputs = digests(out)
        result.different += sum(wanted.get(name) != outputs.get(name) for name in wanted.keys() | outputs.keys())
        result.scratch[1] += len(list(temporary.glob("trajmill-*")))
        subprocess.run(["rm", "-rf", str(out)], check=True)
        print(json.dumps({**vars(result), "reached": dict(result.reached)}), file=sys.stderr, flush=True)
    return result


def digests(out: Path) -> dict[str, str]:
    """Name → sha256 of every file of a finished run, but for those that say when it ran."""
    files = (path for path in out.rglob("*") if path.is_file() and path.name not in _OF_THE_RUN)
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _start(raw: Path, out: Path, workers: int, temporary: Path, mark: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "trajmill", "run", "all", "--raw", str(raw), "--out", str(out)]
    environment = {**os.environ, _MARK: mark, "TMPDIR": str(temporary)}
    with (out.parent / "said.log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--part-size", "1MB", "--workers", str(workers)], env=environment, stdout=log, stderr=log
        )


def _kill_once(raw: Path, out: Path, chance: random.Random, result: Told, temporary: Path) -> bool:
    """Starts the run and kills it, unless it ends before; returns whether it was killed.

    Raises:
        SystemExit: a run that was left alone did not end well.
    """
    before = dict(_finished_units(out))
    mark = token_hex(8)
    process, begun = _start(raw, out, result.workers, temporary, mark), time.monotonic()
    moment = chance.uniform(0.2, result.seconds * 1.15)
    try:
        process.wait(moment)
        was_killed = False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        was_killed = True
    if not was_killed and process.returncode != 0:
        tail = (out.parent / "said.log").read_text("utf-8", "replace")[-4_000:]  # the folder goes with this process
        raise SystemExit(f"a run that was started again ended with {process.returncode}:\n{tail}")
    if not was_killed and not before:
        result.seconds = time.monotonic() - begun  # a machine that others use is now faster and now slower
    if was_killed:
        result.kills += 1
        result.reached[_stage_reached(out)] += 1
        waited, left = _left_of(mark)
        result.orphans += left
        result.slowest = max(result.slowest, waited)
        result.scratch[0] += len(list(temporary.glob("trajmill-*")))
    after = dict(_finished_units(out))
    for unit, files in before.items():
        stage = unit.split("/")[0]
        result.finished[stage] += 1
        result.again[stage] += unit not in after or after[unit] != files
    return was_killed


def _finished_units(out: Path) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    """Finished units, with what tells their files from such as are written anew."""
    for stage in _STAGES:
        for path in sorted((out / "_units" / stage).glob("*.json")):
            if is_unfinished(path.name):
                continue
            files = [out / stage / entry["name"] for entry in json.loads(path.read_bytes())["files"]]
            if path.stem not in _MADE_ANEW and all(file.exists() for file in files):
                yield f"{stage}/{path.stem}", tuple((file.stat().st_ino, file.stat().st_mtime_ns) for file in files)


def _stage_reached(out: Path) -> str:
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
        left = [process for process in Path("/proc").iterdir() if process.name.isdigit() and _is_of(process, mark)]
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
        with tempfile.TemporaryDirectory(prefix="kills-") as temporary:
            result = kill_runs(count, kills, seed, Path(temporary))
        stages = " / ".join(f"{result.reached[name]}" for name in ("plan", "normalize", "judge", "mix", "done"))
        again = " / ".join(f"{result.again[name]} of {result.finished[name]}" for name in _STAGES)
        yield (
            f"{count}",
            f"{result.kills}",
            f"{result.trials}",
            stages,
            f"{result.orphans}",
            f"{result.slowest:.1f}",
            f"{result.scratch[0]} → {result.scratch[1]}",
            again,
            f"{result.different}",
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
