"""Table of the simulation instructions of a run.

This module selects the trajectories and writes the table.
"""

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
    """Selection of the trajectories that get instructions.

    Attributes:
        domains: Domains of the trajectories, keys of `KINDS`.
        share: Share of the trajectories to draw by hash, from 0 to 1.

    Raises:
        ConfigError: A pool or a domain is unknown.
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
    """Write instructions for a run's trajectories and report outcomes and cost.

    Args:
        models: Models that write and judge.
        how: Settings of the instructions.
        chosen: Selection of the trajectories.
        work: Concurrency and limits of the work.
        cache: Cache of answers; None places it in `out`.

    Raises:
        ConfigError: The run is not finished, the folder has other contents, or an endpoint refuses the requests.
        ShardError: A file has changed since it was written, or an endpoint does not answer.
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
    """Return the ids of the domain's trajectories in the pools that the draw selects."""
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
    """Yield each selected trajectory of a domain once, in the order of the files."""
    left = _find_wanted_ids(run, domain, chosen)
    folder, names = transition_files(run.folder.url)
    for name in names if left else ():
        if name.split("/")[0] != domain:
            continue
        for rows in trajectories(_read_kept_rows(run, folder, name)):
            key = rows[0]["trajectory_id"]
            # a trajectory with several segments is longer than the text that a model is shown
            if key in left and rows[0]["num_segments"] == 1:
                left.remove(key)
                shown = turns(rows, run.view)
                texts = tuple(turn.user for turn in shown), tuple(turn.observation for turn in shown)
                yield Logged(key, domain, rows[0]["task"]["instruction"] or "", _answer(rows), *texts)


def _read_kept_rows(run: RecordedRun, transitions: Folder, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file's kept trajectories, with their use and the trajectory's number among the kept ones."""
    wanted = ["use", "kept"]
    verdicts = (row for batch in read_batches(run.folder / "verdicts", name, wanted) for row in batch.to_pylist())
    ordinal = 0
    for batch in read_transitions(transitions, name):
        for row, verdict in zip(batch.to_pylist(), islice(verdicts, batch.num_rows), strict=True):
            if verdict["kept"]:
                ordinal += row["step"] == 0
                yield {**row, "use": verdict["use"], "ordinal": ordinal}


def _answer(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the answer that the agent submitted at the end; empty if there is none."""
    last = rows[-1]["action"]
    if last["name"] != _FINISH or not last["arguments"]:
        return ""
    arguments = json.loads(last["arguments"])
    answer = arguments.get("answer") if isinstance(arguments, dict) else None
    return answer if isinstance(answer, str) else ""
