"""Table of the simulation instructions of a run: selection of trajectories, and writing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import xxhash

from trajmill.pipelines.mix.simulation_instructions import INSTRUCTION_SCHEMA
from trajmill.pipelines.render.turns import trajectories, turns
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, read_transitions, transition_files, write_parquet
from trajmill.pipelines.storage.units import check_file
from trajmill.schemas import ConfigError
from trajmill.synthesis.instruction_rules import KINDS, Logged
from trajmill.synthesis.instructions import Instructed, Instructing, Instructor
from trajmill.synthesis.output import Output
from trajmill.synthesis.recorded_run import RecordedRun
from trajmill.synthesis.replies import Spending
from trajmill.synthesis.session import Models, Report, Work, in_order, session

TABLE: Final = "instructions.parquet"
POOLS: Final = ("sft", "cpt", "rl")
_FINISH: Final = "task_complete"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Selection of the trajectories that are asked for.

    Attributes:
        pools: whose trajectories.
        domains: of them, keys of `KINDS`.
        share: of them, drawn by hash.
        seed: of the draw.

    Raises:
        ConfigError: there is no such pool or domain.
    """

    pools: tuple[str, ...] = ("sft",)
    domains: tuple[str, ...] = tuple(KINDS)
    share: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for kind, names, known in (("pool", self.pools, POOLS), ("domain", self.domains, tuple(KINDS))):
            unknown = sorted(set(names) - set(known))
            if unknown:
                raise ConfigError(
                    f"There are no instructions for {kind} '{unknown[0]}'; there are: {', '.join(known)}."
                )

    def has(self, trajectory_id: str) -> bool:
        """Check whether the draw selects a trajectory."""
        return xxhash.xxh3_64_intdigest(f"instruct:{trajectory_id}".encode(), self.seed) < self.share * 2**64


def instruct(
    run: RecordedRun, out: Folder, models: Models, how: Instructing, chosen: Chosen, work: Work, cache: Folder | None
) -> Report:
    """Make instructions for a run's trajectories, and report outcomes and cost.

    Args:
        run: that is finished.
        out: where to.
        models: that write and judge.
        how: they are used.
        chosen: which trajectories.
        work: how much is done.
        cache: where answers are kept; None is within `out`.

    Raises:
        ConfigError: the run is not finished, or the folder is not ours, or an endpoint does not take our requests.
        ShardError: a file is not what was written, or an endpoint does not answer.
    """
    run.check_apart(out)
    spending = Spending(models.max_cost)
    own = {name: value for name, value in asdict(how).items() if name not in ("model", "sampling")}
    output = Output(out, "instruct", {**models.settings(), **own, **asdict(chosen), "shards": run.shards.digest})
    counts: Counter[str] = Counter()
    with session(models, cache or output.replies, spending) as (writer, judge):
        output.take()
        instructor = Instructor(how, writer, judge)
        rows: list[dict[str, Any]] = []
        for domain in chosen.domains:
            logs = islice(_read_logged(run, domain, chosen), work.limit)
            rows += _count_outcomes(in_order(instructor.instructed, logs, work.concurrency), domain, counts, work)
        batch = pa.RecordBatch.from_pylist(rows, schema=INSTRUCTION_SCHEMA)
        entry = write_parquet(output.folder, TABLE, INSTRUCTION_SCHEMA, [batch], shard=True)
        return Report(output.seal([entry], counts), spending)


def _count_outcomes(
    results: Iterable[Instructed], domain: str, counts: Counter[str], work: Work
) -> Iterator[dict[str, Any]]:
    for result in results:
        counts[f"trajectories.{result.outcome}.{domain}"] += 1
        work.tell(result.outcome)
        if result.row is not None:
            yield result.row


def _find_wanted_ids(run: RecordedRun, domain: str, chosen: Chosen) -> set[str]:
    """The ids of a domain's trajectories in the pools, those that the draw falls on."""
    shards, wanted = run.folder / "shards", set[str]()
    for file in run.shards.files:
        pool, _, rest = file.name.partition("/")
        if pool not in chosen.pools or not rest.startswith(f"{domain}/"):
            continue
        check_file(shards, file.name, file.sha256)
        name = "extra_info" if pool == "rl" else "trajectory_id"
        for batch in read_batches(shards, file.name, [name]):
            column = batch[name]
            ids = pa.compute.struct_field(column, "trajectory_id") if pool == "rl" else column
            wanted.update(filter(chosen.has, ids.to_pylist()))
    return wanted


def _read_logged(run: RecordedRun, domain: str, chosen: Chosen) -> Iterator[Logged]:
    """The trajectories of a domain that are asked for, each once, in the order of their files."""
    left = _find_wanted_ids(run, domain, chosen)
    folder, names = transition_files(run.folder.url)
    for name in names if left else ():
        if name.split("/")[0] != domain:
            continue
        for rows in trajectories(_read_kept_rows(run, folder, name)):
            key = rows[0]["trajectory_id"]
            # one that is split into segments is longer than what a model is shown
            if key in left and rows[0]["num_segments"] == 1:
                left.remove(key)
                shown = turns(rows, run.view)
                texts = tuple(turn.user for turn in shown), tuple(turn.observation for turn in shown)
                yield Logged(key, domain, rows[0]["task"]["instruction"] or "", _answer(rows), *texts)


def _read_kept_rows(run: RecordedRun, transitions: Folder, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a file's kept trajectories with their use, and the number of their trajectory among them."""
    wanted = ["use", "kept"]
    verdicts = (row for batch in read_batches(run.folder / "verdicts", name, wanted) for row in batch.to_pylist())
    ordinal = 0
    for batch in read_transitions(transitions, name):
        for row, verdict in zip(batch.to_pylist(), islice(verdicts, batch.num_rows), strict=True):
            if verdict["kept"]:
                ordinal += row["step"] == 0
                yield {**row, "use": verdict["use"], "ordinal": ordinal}


def _answer(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the answer that the agent handed in when it finished; empty if it did not."""
    last = rows[-1]["action"]
    if last["name"] != _FINISH or not last["arguments"]:
        return ""
    arguments = json.loads(last["arguments"])
    answer = arguments.get("answer") if isinstance(arguments, dict) else None
    return answer if isinstance(answer, str) else ""
