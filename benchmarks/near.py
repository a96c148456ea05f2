"""`python -m benchmarks.near`: who is lost and who is found by the search for near duplicates, on planted rollouts.

Tasks of rollouts that share a prefix and go on independently; of some a copy is planted whose own part was edited.
Prints, for each share of the prefix, distinct rollouts lost and copies found by how alike their own parts are, the
curve that the bands promise, and the speed of sketching and searching. Nothing here is read from a log.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from trajmill.quality.fingerprint import trajectory_starts
from trajmill.quality.lines import Flags
from trajmill.quality.near import (
    MEMBER,
    STEP,
    Bands,
    background_steps,
    candidates,
    decisive,
    members,
    rollouts,
    second_looks,
    step_kinds,
)
from trajmill.quality.settings import FEW
from trajmill.quality.sketch import Sketches, absent_shares, make_sketches
from trajmill.schemas import Action, Assembler, Observation, Origin, Step, Trajectory

VOCABULARY = [f"word{number}" for number in range(20_000)]


@dataclass(frozen=True, slots=True)
class Planted:
    """A corpus: texts of each trajectory's steps, its task, and of which trajectory it is a copy (-1: of none)."""

    logs: list[list[str]]
    tasks: list[int]
    copy_of: list[int]


def plant_copies(tasks: int, rollouts: int, steps: int, words: int, shared: float, copies: int, seed: int) -> Planted:
    """Rollouts with a shared prefix; of each task's, some are copied with 1 to 9 % of their own words changed."""
    random_ = random.Random(seed)
    logs: list[list[str]] = []
    owner: list[int] = []
    copy_of: list[int] = []

    def said() -> str:
        return " ".join(random_.choices(VOCABULARY, k=words))

    for task in range(tasks):
        prefix = [said() for _ in range(round(steps * shared))]
        first = len(logs)
        logs += [prefix + [said() for _ in range(steps - len(prefix))] for _ in range(rollouts)]
        for number in range(copies):
            share = random_.uniform(0.01, 0.09)
            tail = logs[first + number][len(prefix) :]
            edited = [" ".join("edited" if random_.random() < share else w for w in text.split()) for text in tail]
            logs.append(prefix + edited)
        owner += [task] * (rollouts + copies)
        copy_of += [-1] * rollouts + list(range(first, first + copies))
    return Planted(logs, owner, copy_of)


def batch_of(corpus: Planted) -> pa.RecordBatch:
    """The corpus as transitions."""
    digest = hashlib.sha256(b"").hexdigest()
    origin = Origin("planted", "benchmark", "planted", "1", lambda _: digest)
    assembler = Assembler()
    for number, texts in enumerate(corpus.logs):
        steps, before = [], None
        for step_number, text in enumerate(texts):
            after = Observation(text)
            steps.append(Step(Action("run", f"run step {step_number}", "{}"), before, after, step_number, step_number))
            before = after
        assembler.add(Trajectory(str(number), "terminal", steps), origin, {})
    return assembler.take()


def search_copies(corpus: Planted, bands: Bands) -> tuple[set[int], np.ndarray, dict[str, float]]:
    """(who goes, own parts' Jaccard similarity of each copy to its original, CPU seconds by stage)."""
    batch = batch_of(corpus)
    begin = time.process_time()
    sketched = make_sketches(batch)
    sketches = Sketches.of([sketched], trajectory_starts(batch), sketched.nbytes)
    sketching = time.process_time() - begin
    begin = time.process_time()
    steps = np.zeros(len(sketches.step), STEP)
    task = np.repeat(corpus.tasks, sketches.lengths).astype(np.uint64)
    steps["kind"] = step_kinds(task, sketches.step)
    steps["content"] = np.repeat(sketches.sequence(), sketches.lengths)
    steps["rollouts"] = rollouts(task, steps["content"])
    background = background_steps(steps, 3, 0.2)
    count = len(sketches.starts)
    who = np.zeros(count, MEMBER)
    who["tie"], who["row"] = np.arange(count), sketches.starts
    pairs = candidates(members(sketches, np.arange(count), background, bands, who))
    alike = _alike(sketches, background, pairs)
    alike = np.concatenate([alike, _alike(sketches, background, second_looks(alike))])
    gone = set(np.searchsorted(sketches.starts, alike["row"][decisive(alike, np.arange(len(alike)))]).tolist())
    searching = time.process_time() - begin
    own = [set(sketches.own_rows(np.array([number]), background)[2].tolist()) for number in range(count)]
    shares = [
        len(own[number] & own[source]) / max(len(own[number] | own[source]), 1) if source >= 0 else np.nan
        for number, source in enumerate(corpus.copy_of)
    ]
    return gone, np.array(shares), {"sketch": sketching, "search": searching}


def _alike(sketches: Sketches, background: Flags, pairs: np.ndarray) -> np.ndarray:
    """Of the pairs those of which one may go."""
    mine, theirs = (np.searchsorted(sketches.starts, pairs[name]) for name in ("row", "other_row"))
    absent, size = absent_shares(sketches, mine, background, sketches, theirs)
    sequence = sketches.sequence()
    pairs["absent"] = np.where(sequence[mine] == sequence[theirs], 0, np.where(size < FEW, 1, absent))
    return pairs[pairs["absent"] < 0.2]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--rollouts", type=int, default=20)
    parser.add_argument("--copies", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    bands = Bands()
    table = Table(
        "shared prefix",
        "rollouts",
        "distinct lost",
        "copies J>=0.8",
        "found",
        "others",
        "found",
        "sketch MB/s",
        "search MB/s",
    )
    for shared in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9):
        corpus = plant_copies(options.tasks, options.rollouts, 20, 60, shared, options.copies, options.seed)
        gone, alike, seconds = search_copies(corpus, bands)
        is_copy = np.array(corpus.copy_of) >= 0
        goes = np.isin(np.arange(len(is_copy)), list(gone))
        near, far = is_copy & (alike >= 0.8), is_copy & (alike < 0.8)
        size = sum(len(text) for log in corpus.logs for text in log) / 1e6
        table.add_row(
            f"{shared:.0%}",
            str(int((~is_copy).sum())),
            f"{goes[~is_copy].mean():.2%}",
            str(int(near.sum())),
            f"{goes[near].mean():.1%}" if near.any() else "",
            str(int(far.sum())),
            f"{goes[far].mean():.1%}" if far.any() else "",
            *(f"{size / seconds[stage]:.0f}" for stage in ("sketch", "search")),
        )
    console = Console(width=120)
    console.print(table)
    curve = ", ".join(
        f"{similarity:.1f}: {1 - (1 - similarity**bands.rows) ** bands.bands:.3f}"
        for similarity in np.arange(0.1, 1, 0.1)
    )
    console.print(f"probability of meeting in one of {bands.bands} bands of {bands.rows}, by similarity: {curve}")


if __name__ == "__main__":
    main()
