"""Costs of ten million trajectories: a run over a part of such a corpus, extrapolated, and the exchanges of judging.

    python -m benchmarks.scale --gigabytes 1 --millions 10 --steps 30

Of every exchange one partition is made, with records as they come of such a corpus, and answered by the code that
answers it in a run: peak memory and CPU seconds of a process of its own, and what all partitions together exchange.
The worst partitions stand beside them: half of all rollouts in one task, a step that a million trajectories show.
Driver rows are what the process that starts the run does alone. `benchmarks.ratios --long` writes the tables into
docs/scaling.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks import growth
from benchmarks.logs.mixed import write_mixed
from benchmarks.processes import load_ours, run_to_end

ROLLOUTS: Final = 8
"""Rollouts of a task."""

_UNIT_ROWS: Final = 7_500
"""Rows of a unit: a part of 256 MB of logs."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Size of a corpus: trajectories, steps of each, and the number of partitions that records are cut into."""

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


TEN_MILLION: Final = Corpus(10_000_000, 30, 1024)

Numbers = npt.NDArray[np.uint64]
Made = tuple[int, int, Callable[[], Any]]
"""(Records of the whole exchange, of which the partition has so many, what is done with it.)"""


def _chance() -> np.random.Generator:
    return np.random.default_rng(7)


def _hashes(count: int, among: int) -> Numbers:
    """So many hashes of so many different ones."""
    from trajmill.quality.fingerprint import mixed

    return mixed(_chance().integers(0, max(1, among), count, np.uint64) + np.uint64(1))


def _places(records: npt.NDArray[np.void], units: int) -> None:
    chance = _chance()
    records["unit"] = chance.integers(0, units, len(records))
    if "row" in (records.dtype.names or ()):
        records["row"] = chance.integers(0, _UNIT_ROWS, len(records))


def _drain(answers: Iterator[Any]) -> int:
    return sum(len(data) for _, _, data in answers)


def _spill_records(records: npt.NDArray[np.void]) -> Iterable[bytes]:
    """Records as they come to one place: a block a unit, read one at a time from where they were spilled."""
    from trajmill.pipelines.execution.exchange import GatheredBlocks, spill
    from trajmill.pipelines.judge.packed_rows import by_unit
    from trajmill.pipelines.storage.folders import Folder

    folder = Folder(tempfile.mkdtemp(prefix="scale-"))
    return GatheredBlocks(folder, [span for _, span in spill(0, by_unit(records), folder)])


def keys(of: Corpus, count: int, whole: int) -> Made:
    """Equal trajectories, or transitions: one of twenty is there twice."""
    from trajmill.pipelines.judge.copies import Copies
    from trajmill.quality.duplicate import KEY

    records = np.zeros(count, KEY)
    records["high"] = _hashes(count, count * 10)
    records["low"], records["tie"] = records["high"], _hashes(count, 1 << 60)
    _places(records, of.units)
    return whole, count, lambda: _drain(Copies("trajectory").losers(0, [records.tobytes()]))


def tasks(of: Corpus, count: int, among: int) -> Made:
    """Rollouts of tasks, and how many different ones each task has."""
    from trajmill.pipelines.judge.near_duplicates import count_rollouts
    from trajmill.quality.near import ROLLOUT

    records = np.zeros(count, ROLLOUT)
    records["task"], records["content"] = _hashes(count, among), _hashes(count, 1 << 60)
    _places(records, of.units)
    return of.trajectories, count, lambda: _drain(count_rollouts(0, [records.tobytes()]))


def steps(of: Corpus, count: int, among: int) -> Made:
    """Steps of rollouts, of which a third are background."""
    from trajmill.pipelines.judge.near_duplicates import NearCopies
    from trajmill.pipelines.recipe.judgement import NearDuplicates
    from trajmill.quality.near import STEP

    records = np.zeros(count, STEP)
    records["kind"], records["content"] = _hashes(count, among), _hashes(count, 1 << 60)
    records["rollouts"] = ROLLOUTS
    _places(records, of.units)
    return of.rows, count, lambda: _drain(NearCopies(NearDuplicates()).background(0, [records.tobytes()]))


def members(of: Corpus, count: int, among: int) -> Made:
    """Members of buckets, and the pairs that meet."""
    from trajmill.pipelines.judge.near_duplicates import NearCopies
    from trajmill.pipelines.recipe.judgement import NearDuplicates
    from trajmill.quality.near import MEMBER

    near = NearDuplicates()
    records = np.zeros(count, MEMBER)
    records["band"], records["tie"], records["rank"] = _hashes(count, among), _hashes(count, 1 << 60), 1
    _places(records, of.units)
    return of.trajectories * near.bands, count, lambda: _drain(NearCopies(near).pairs(0, [records.tobytes()]))


def replicates(of: Corpus, count: int, whole: int) -> Made:
    """Rows of equal environments, histories and actions."""
    from trajmill.pipelines.judge.replicates import _with_domain, tally_groups
    from trajmill.quality.replicate import ROW

    records = np.zeros(count, ROW)
    records["key"], records["answer"] = _hashes(count, count // 2), _hashes(count, count)
    records["content"], records["row"] = _hashes(count, 1 << 60), np.arange(count) % _UNIT_ROWS
    standing: Any = SimpleNamespace(unit=SimpleNamespace(domain="terminal"))
    packed = _with_domain(standing, records.tobytes())
    return whole, count, lambda: _drain(tally_groups(0, [packed]))


def nodes(of: Corpus, count: int, among: int) -> Made:
    """Nodes of groups, each of which two units hold."""
    from trajmill.pipelines.judge.groups import _NODE, tie_groups

    records = np.zeros(count, _NODE)
    records["node"], records["group"] = _hashes(count, among), _hashes(count, 1 << 60)
    _places(records, of.units)
    return 3 * of.trajectories, count, lambda: _drain(tie_groups(0, [records.tobytes()]))


def ties(of: Corpus, count: int) -> Made:
    """Ties of groups between units, all in one place: one for each rollout of a task that is spread over units."""
    from trajmill.pipelines.judge.groups import _TIE, name_groups

    records = np.zeros(count, _TIE)
    records["group"], records["other"] = _hashes(count, 1 << 60), _hashes(count, max(1, count // ROLLOUTS))
    _places(records, of.units)
    blocks = _spill_records(records)
    return count, count, lambda: _drain(name_groups(0, blocks))


def alike(of: Corpus, count: int) -> Made:
    """Pairs that are alike, all in one place."""
    from trajmill.pipelines.judge.near_duplicates import NearCopies
    from trajmill.pipelines.recipe.judgement import NearDuplicates
    from trajmill.quality.near import PAIR

    records = np.zeros(count, PAIR)
    _places(records, of.units)
    records["tie"], records["rank"] = _hashes(count, 1 << 60), 2
    records["other_unit"], records["other_row"] = _chance().permutation(records["unit"]), records["row"]
    records["other_row"] += _UNIT_ROWS
    records["other_tie"], records["other_rank"], records["absent"] = records["tie"], 1, 0.1
    blocks = _spill_records(records)
    return count, count, lambda: _drain(NearCopies(NearDuplicates()).losers(0, blocks))


def draw_mixture(of: Corpus, count: int) -> Made:
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
            attachments=np.zeros(0, np.uint32),
            signals={},
        )

    def draw() -> int:
        gathered = gather_candidates(map(unit, range(len(bounds) - 1)))
        mixture, (groups, pool, copies, _) = make_mixture(
            recipe,
            gathered,
            lambda _: (gathered.tokens, gathered.loss_tokens),
            Placement(gathered.group, Coded.alike("", len(gathered))),
            EarlierDraws(),
        )
        for_files = _ledger(groups, pool).num_rows, len(training_environments(gathered.environment, pool, copies))
        assert min(*for_files, int(_numbers(gathered, pool, copies, {}).max()))
        return len(mixture.counts)

    return of.trajectories, count, draw


def units_listed(of: Corpus, count: int) -> Made:
    """Manifests of so many units: sealed and listed as at the end of a stage, and looked at by the progress bar."""
    from trajmill.pipelines.run_record.stage_progress import StageWatch
    from trajmill.pipelines.run_record.summary import StageStart
    from trajmill.pipelines.storage.folders import Folder
    from trajmill.pipelines.storage.units import finish_stage, finish_unit, stage_names, units_of
    from trajmill.schemas import SCHEMA_VERSION
    from trajmill.schemas.manifest import FileEntry, Manifest

    folder = Folder(tempfile.mkdtemp(prefix="scale-"))
    labels = [f"terminal-part-{number:05d}-00000000" for number in range(count)]
    for label in labels:
        entry = FileEntry(f"terminal/{label}.parquet", 1, 0, "0" * 64)
        path = Path(folder.path(f"transitions/{entry.name}"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        finish_unit(folder / "transitions", Manifest("normalize", label, "0", SCHEMA_VERSION, (entry,)))

    def seal() -> int:
        begun = time.process_time()
        finish_stage(folder / "transitions", "normalize", "0", labels)
        stage_names(folder, "transitions", labels)
        sealed_at = time.process_time()
        steps = ((units_of(folder / "transitions"), dict.fromkeys(labels, "0")),)
        done = int(StageWatch(StageStart("normalize", count, steps=steps)).look().done)
        print(json.dumps({"seal": sealed_at - begun, "progress": time.process_time() - sealed_at}), file=sys.stderr)
        return done

    return count, count, seal


def cases(of: Corpus) -> dict[str, Callable[[], Made]]:
    """Cases that are measured, by name."""
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
        "driver: the draw": lambda: draw_mixture(of, of.trajectories),
        "driver: manifests of units": lambda: units_listed(of, of.units // 10),
    }


def _done_alone(name: str, of: Corpus) -> None:
    """Does one case in this process, and prints what it took."""
    load_ours()
    loaded = _resident("VmRSS")
    whole, count, work = cases(of)[name]()
    Path("/proc/self/clear_refs").write_text("5")
    begun = time.process_time()
    answered = work()
    took = time.process_time() - begun
    result = {"whole": whole, "count": count, "seconds": took, "peak": _resident("VmHWM"), "answered": answered}
    print(json.dumps({**result, "loaded": loaded}))


def _resident(name: str) -> float:
    """Resident memory of this process in MB: now (`VmRSS`), or its peak (`VmHWM`)."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith(name)).split()[1]) * 1024 / 1e6


def rows(of: Corpus, chosen: Iterable[str] = ()) -> Iterator[tuple[str, ...]]:
    """A row of the table for each case."""
    for name in [*chosen] or cases(of):
        command = [sys.executable, "-m", "benchmarks.scale", "--case", name]
        command += ["--millions", str(of.trajectories / 1e6), "--steps", str(of.steps)]
        output, _ = run_to_end([*command, "--partitions", str(of.partitions)])
        result = json.loads(output.splitlines()[-1])
        share = result["count"] / result["whole"]
        yield (
            name,
            f"{result['whole']:,}",
            f"{result['count']:,}",
            f"{result['peak']:,.0f}",
            f"{result['seconds']:.2f}",
            f"{result['seconds'] / share:,.0f}",
            f"{(result['peak'] - result['loaded']) * 1e6 / result['count']:,.0f}" if share > _ONE_PLACE else "",
        )


_ONE_PLACE: Final = 0.01
"""Share of an exchange above which the memory of a record is told, since it is met in one place."""


HEADS: Final = ("exchange", "records", "in the partition", "peak MB", "CPU s", "CPU s of all", "bytes a record")


def cost_rows(gigabytes: float, base: Path, seed: int) -> Iterator[tuple[str, ...]]:
    """Rows of what a corpus costs by gigabyte, and for ten million and a billion trajectories of `TRAJECTORY_MB`.

    Args:
        gigabytes: size of the generated logs that are run.
        base: where logs and output are made.
        seed: of the logs.
    """
    size = write_mixed(base / "raw", int(gigabytes * 1e9), seed) / 1e9
    stages, totals = growth.measure_run(base)
    seconds = {name: stages[name]["cpu"] / size for name in growth.STAGES}
    for name, cost in seconds.items():
        yield _cost_row(f"{name}, CPU-s", cost, 1 / 3600, "vCPU-hours")
    total = sum(seconds.values())
    yield _cost_row("all stages, CPU-s", total, 1 / 3600, "vCPU-hours")
    yield _cost_row("machines at full use, dollars", total / 3600 * (VCPU_HOUR + 4 * GB_HOUR), 1, "dollars", digits=4)
    stored: Mapping[str, tuple[int, int]] = totals["stored"]
    for name in ("transitions", "measures", "verdicts", "shards"):
        yield _cost_row(f"stored {name}, GB", stored[name][0] / 1e9 / size, 1, "GB")
    files = sum(count for _, count in stored.values()) / size
    yield _cost_row("files written", files, 1e-6, "million")


COST_HEADS: Final = ("what", "of a GB of logs", "of 10 million trajectories", "of a billion")
TRAJECTORY_MB: Final = 1
VCPU_HOUR, GB_HOUR = 0.056, 0.0036
"""Dollars of a vCPU, and of a GB of memory, for an hour."""


def _cost_row(what: str, of_gigabyte: float, factor: float, unit: str, digits: int = 3) -> tuple[str, ...]:
    ten_million = of_gigabyte * 1e7 * TRAJECTORY_MB / 1000 * factor
    return what, f"{of_gigabyte:,.{digits}f}", f"{ten_million:,.0f} {unit}", f"{ten_million * 100:,.0f} {unit}"


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, metavar="GB", help="of logs that are run for the costs")
    parser.add_argument("--millions", type=float, default=10)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--partitions", type=int, default=1024)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    of = Corpus(int(options.millions * 1e6), options.steps, options.partitions)
    if options.case:
        _done_alone(options.case, of)
        return
    if options.gigabytes:
        with tempfile.TemporaryDirectory(prefix="scale-") as temporary:
            _show(COST_HEADS, cost_rows(options.gigabytes, Path(temporary), seed=7))
    _show(HEADS, rows(of, options.only))


def _show(heads: Iterable[str], some: Iterable[Iterable[str]]) -> None:
    print(f"| {' | '.join(heads)} |\n|{'---|' * len([*heads])}", flush=True)
    for row in some:
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
