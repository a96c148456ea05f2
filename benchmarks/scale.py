"""`python -m benchmarks.scale`: judging ten million trajectories, by their hash records alone.

    python -m benchmarks.scale --millions 10 --steps 30

Of every exchange one partition is made, with records as they come of such a corpus, and answered by the code that
answers it in a run: peak memory and CPU seconds of a process of its own, and what all partitions together exchange.
The worst partitions stand beside them: half of all rollouts in one task, a step that a million trajectories show.
Driver rows are what the process that starts the run does alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.processes import ended, load_ours

ROLLOUTS: Final = 8
"""Rollouts of a task."""

_UNIT_ROWS: Final = 7_500
"""Rows of a unit: a part of 256 MB of logs."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """How much there is: trajectories, steps of each, and into how many partitions records are cut."""

    trajectories: int
    steps: int
    partitions: int

    @property
    def rows(self) -> int:
        """Transitions."""
        return self.trajectories * self.steps

    @property
    def units(self) -> int:
        """Files of transitions."""
        return max(1, self.rows // _UNIT_ROWS)


Numbers = npt.NDArray[np.uint64]
Made = tuple[int, int, Callable[[], Any]]
"""(Records of the whole exchange, of which the partition has so many, what is done with it.)"""


def _chance() -> np.random.Generator:
    return np.random.default_rng(7)


def _hashes(count: int, among: int) -> Numbers:
    """So many hashes of so many different ones."""
    from trajmill.quality.fingerprint import mixed

    return mixed(_chance().integers(0, max(1, among), count, np.uint64) + np.uint64(1))


def _places(found: npt.NDArray[np.void], units: int) -> None:
    chance = _chance()
    found["unit"] = chance.integers(0, units, len(found))
    if "row" in (found.dtype.names or ()):
        found["row"] = chance.integers(0, _UNIT_ROWS, len(found))


def _drain(answers: Iterator[Any]) -> int:
    return sum(len(data) for _, _, data in answers)


def _spilled(found: npt.NDArray[np.void]) -> Iterable[bytes]:
    """Records as they come to one place: a block a unit, read one at a time from where they were spilled."""
    from trajmill.pipelines.execution.exchange import GatheredBlocks, spill
    from trajmill.pipelines.judge.packed_rows import by_unit
    from trajmill.pipelines.storage.folders import Folder

    folder = Folder(tempfile.mkdtemp(prefix="scale-"))
    return GatheredBlocks(folder, [span for _, span in spill(0, by_unit(found), folder)])


def keys(of: Corpus, count: int, whole: int) -> Made:
    """Equal trajectories, or transitions: one of twenty is there twice."""
    from trajmill.pipelines.judge.copies import Copies
    from trajmill.quality.duplicate import KEY

    found = np.zeros(count, KEY)
    found["high"] = _hashes(count, count * 10)
    found["low"], found["tie"] = found["high"], _hashes(count, 1 << 60)
    _places(found, of.units)
    return whole, count, lambda: _drain(Copies(whole=True).losers(0, [found.tobytes()]))


def tasks(of: Corpus, count: int, among: int) -> Made:
    """Rollouts of tasks, and how many different ones each task has."""
    from trajmill.pipelines.judge.near_duplicates import count_rollouts
    from trajmill.quality.near import ROLLOUT

    found = np.zeros(count, ROLLOUT)
    found["task"], found["content"] = _hashes(count, among), _hashes(count, 1 << 60)
    _places(found, of.units)
    return of.trajectories, count, lambda: _drain(count_rollouts(0, [found.tobytes()]))


def steps(of: Corpus, count: int, among: int) -> Made:
    """Steps of rollouts, of which a third are background."""
    from trajmill.pipelines.judge.near_duplicates import NearCopies
    from trajmill.pipelines.recipe.judgement import NearDuplicates
    from trajmill.quality.near import STEP

    found = np.zeros(count, STEP)
    found["kind"], found["content"] = _hashes(count, among), _hashes(count, 1 << 60)
    found["rollouts"] = ROLLOUTS
    _places(found, of.units)
    return of.rows, count, lambda: _drain(NearCopies(NearDuplicates()).background(0, [found.tobytes()]))


def members(of: Corpus, count: int, among: int) -> Made:
    """Members of buckets, and the pairs that meet."""
    from trajmill.pipelines.judge.near_duplicates import NearCopies
    from trajmill.pipelines.recipe.judgement import NearDuplicates
    from trajmill.quality.near import MEMBER

    near = NearDuplicates()
    found = np.zeros(count, MEMBER)
    found["band"], found["tie"], found["rank"] = _hashes(count, among), _hashes(count, 1 << 60), 1
    _places(found, of.units)
    return of.trajectories * near.bands, count, lambda: _drain(NearCopies(near).pairs(0, [found.tobytes()]))


def replicates(of: Corpus, count: int, whole: int) -> Made:
    """Rows of equal environments, histories and actions."""
    from trajmill.pipelines.judge.replicates import _with_domain, tally_groups
    from trajmill.quality.replicate import ROW

    found = np.zeros(count, ROW)
    found["key"], found["answer"] = _hashes(count, count // 2), _hashes(count, count)
    found["content"], found["row"] = _hashes(count, 1 << 60), np.arange(count) % _UNIT_ROWS
    standing: Any = SimpleNamespace(unit=SimpleNamespace(domain="terminal"))
    packed = _with_domain(standing, found.tobytes())
    return whole, count, lambda: _drain(tally_groups(0, [packed]))


def nodes(of: Corpus, count: int, among: int) -> Made:
    """Nodes of groups, each of which two units hold."""
    from trajmill.pipelines.judge.groups import _NODE, tie_groups

    found = np.zeros(count, _NODE)
    found["node"], found["group"] = _hashes(count, among), _hashes(count, 1 << 60)
    _places(found, of.units)
    return 3 * of.trajectories, count, lambda: _drain(tie_groups(0, [found.tobytes()]))


def ties(of: Corpus, count: int) -> Made:
    """Ties of groups between units, all in one place: one for each rollout of a task that is spread over units."""
    from trajmill.pipelines.judge.groups import _TIE, name_groups

    found = np.zeros(count, _TIE)
    found["group"], found["other"] = _hashes(count, 1 << 60), _hashes(count, max(1, count // ROLLOUTS))
    _places(found, of.units)
    blocks = _spilled(found)
    return count, count, lambda: _drain(name_groups(0, blocks))


def alike(of: Corpus, count: int) -> Made:
    """Pairs that are alike, all in one place."""
    from trajmill.pipelines.judge.near_duplicates import NearCopies
    from trajmill.pipelines.recipe.judgement import NearDuplicates
    from trajmill.quality.near import PAIR

    found = np.zeros(count, PAIR)
    _places(found, of.units)
    found["tie"], found["rank"] = _hashes(count, 1 << 60), 2
    found["other_unit"], found["other_row"] = _chance().permutation(found["unit"]), found["row"]
    found["other_row"] += _UNIT_ROWS
    found["other_tie"], found["other_rank"], found["absent"] = found["tie"], 1, 0.1
    blocks = _spilled(found)
    return count, count, lambda: _drain(NearCopies(NearDuplicates()).losers(0, blocks))


def drawn(of: Corpus, count: int) -> Made:
    """Drawing the mixture of what is kept, in the process that starts the run: all but reading and writing files."""
    import pyarrow as pa

    from trajmill.pipelines.mix.candidates import Candidates, Wanted, gather_candidates, training_environments
    from trajmill.pipelines.mix.coded_names import Coded
    from trajmill.pipelines.mix.known import EarlierDraws, Placement
    from trajmill.pipelines.mix.mixture import _ledger, _numbers, make_mixture
    from trajmill.pipelines.recipe.recipe_file import load_recipe
    from trajmill.quality.fingerprint import mixed

    recipe = load_recipe("terminal")
    wanted = Wanted.by(recipe.mix)
    bounds = np.linspace(0, count, max(1, of.units * count // of.trajectories) + 1).astype(np.int64).tolist()

    def unit(number: int) -> Candidates:
        rows = bounds[number + 1] - bounds[number]
        chance = np.random.default_rng(number)
        digits = chance.bytes(16 * rows).hex()
        ids = pa.array([digits[32 * row : 32 * row + 32] for row in range(rows)], pa.string())
        return Candidates(
            unit=np.full(rows, number, np.uint32),
            **wanted.keys(ids),
            group=mixed(chance.integers(0, max(1, count // ROLLOUTS), rows, np.uint64)),
            domain=Coded.alike("terminal", rows),
            source=Coded.alike(f"made {number % 300}", rows),
            kind=Coded.alike("container", rows),
            world_model=Coded.alike("", rows),
            task=mixed(chance.integers(0, count, rows if wanted.tasks else 0, np.uint64)),
            environment=mixed(chance.integers(0, max(1, count // ROLLOUTS), rows, np.uint64)),
            tokens=np.full(rows, 1000, np.uint32),
            loss_tokens=np.full(rows, 500, np.uint32),
            text_bytes=np.full(rows, 30_000, np.uint32),
            signals={},
        )

    def draw() -> int:
        found = gather_candidates(map(unit, range(len(bounds) - 1)))
        made, (groups, pool, copies, _) = make_mixture(
            recipe,
            found,
            lambda _: (found.tokens, found.loss_tokens),
            Placement(found.group, Coded.alike("", len(found))),
            EarlierDraws(),
        )
        for_files = _ledger(groups, pool).num_rows, len(training_environments(found.environment, pool, copies))
        assert min(*for_files, int(_numbers(found, pool, copies, {}).max()))
        return len(made.counts)

    return of.trajectories, count, draw


def units_listed(of: Corpus, count: int) -> Made:
    """Manifests of so many units: sealed and listed as at the end of a stage, and looked at by the progress bar."""
    from trajmill.pipelines.run_record.stage_progress import StageWatch
    from trajmill.pipelines.run_record.summary import StageStart
    from trajmill.pipelines.storage.folders import Folder
    from trajmill.pipelines.storage.units import finish_stage, finish_unit, stage_names, units_of
    from trajmill.schemas import SCHEMA_VERSION
    from trajmill.schemas.manifest import FileEntry, Manifest

    place = Folder(tempfile.mkdtemp(prefix="scale-"))
    labels = [f"terminal-part-{number:05d}-00000000" for number in range(count)]
    for label in labels:
        entry = FileEntry(f"terminal/{label}.parquet", 1, 0, "0" * 64)
        path = Path(place.path(f"transitions/{entry.name}"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        finish_unit(place / "transitions", Manifest("normalize", label, "0", SCHEMA_VERSION, (entry,)))

    def seal() -> int:
        begun = time.process_time()
        finish_stage(place / "transitions", "normalize", "0", labels)
        stage_names(place, "transitions", labels)
        told = time.process_time()
        steps = ((units_of(place / "transitions"), dict.fromkeys(labels, "0")),)
        found = int(StageWatch(StageStart("normalize", count, steps=steps)).look().done)
        print(json.dumps({"seal": told - begun, "progress": time.process_time() - told}), file=sys.stderr)
        return found

    return count, count, seal


def cases(of: Corpus) -> dict[str, Callable[[], Made]]:
    """What is measured, by name."""
    each = of.partitions
    million = min(of.trajectories, 1_000_000)
    return {
        "equal trajectories": lambda: keys(of, of.trajectories // each, of.trajectories),
        "rollouts by task": lambda: tasks(of, of.trajectories // each, of.trajectories // each // ROLLOUTS),
        "… half of all in one task": lambda: tasks(of, of.trajectories // 2, 1),
        "steps": lambda: steps(of, of.rows // each, of.rows // each // 3),
        "… one step in a million": lambda: steps(of, million, 1),
        "members of buckets": lambda: members(of, of.trajectories * 24 // each, of.trajectories * 12 // each),
        "… a million in one": lambda: members(of, million, 1),
        "alike pairs, in one place": lambda: alike(of, of.trajectories // 4),
        "equal transitions": lambda: keys(of, of.rows // each, of.rows),
        "replicates": lambda: replicates(of, of.rows // each, of.rows),
        "nodes of groups": lambda: nodes(of, 3 * of.trajectories // each, 2 * of.trajectories // each),
        "ties of groups, in one place": lambda: ties(of, of.trajectories),
        "driver: the draw": lambda: drawn(of, of.trajectories),
        "driver: manifests of units": lambda: units_listed(of, of.units // 10),
    }


def _done_alone(name: str, of: Corpus) -> None:
    """Does one case in this process, and prints what it took."""
    load_ours()
    whole, count, work = cases(of)[name]()
    Path("/proc/self/clear_refs").write_text("5")
    begun = time.process_time()
    answered = work()
    took = time.process_time() - begun
    told = Path("/proc/self/status").read_text().splitlines()
    peak = int(next(line for line in told if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6
    print(json.dumps({"whole": whole, "count": count, "seconds": took, "peak": peak, "answered": answered}))


def rows(of: Corpus, chosen: list[str]) -> Iterator[tuple[str, ...]]:
    """A row of the table for each case."""
    for name in chosen or cases(of):
        command = [sys.executable, "-m", "benchmarks.scale", "--case", name]
        command += ["--millions", str(of.trajectories / 1e6), "--steps", str(of.steps)]
        said, _ = ended([*command, "--partitions", str(of.partitions)])
        told = json.loads(said.splitlines()[-1])
        share = told["count"] / told["whole"]
        yield (
            name,
            f"{told['whole']:,}",
            f"{told['count']:,}",
            f"{told['peak']:,.0f}",
            f"{told['seconds']:.2f}",
            f"{told['seconds'] / share:,.0f}",
            f"{told['answered'] / share / 1e9:,.2f}",
        )


HEADS: Final = ("exchange", "records", "in the partition", "peak MB", "CPU s", "CPU s of all", "GB answered")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, default=10)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--partitions", type=int, default=1024)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    of = Corpus(int(given.millions * 1e6), given.steps, given.partitions)
    if given.case:
        _done_alone(given.case, of)
        return
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}", flush=True)
    for row in rows(of, given.only):
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
