"""Reasoned shards: SFT samples of a finished run with added reasoning, file by file.

An output file has the name and the row order of its input file, whatever the order of the answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from trajmill.pipelines.mix.sample_columns import images_in
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import ParquetSink, read_batches
from trajmill.pipelines.storage.units import check_file
from trajmill.schemas import ConfigError
from trajmill.schemas.manifest import FileEntry, Manifest
from trajmill.synthesis.output import Output
from trajmill.synthesis.reasoning import REASONED_SCHEMA, Reasoned, Reasoner, Reasoning
from trajmill.synthesis.recorded_run import RecordedRun
from trajmill.synthesis.replies import Spending
from trajmill.synthesis.session import Models, Report, Work, in_order, session

_POOL: Final = "sft/"
_BATCH_CHARS: Final = 16 << 20


def reason(run: RecordedRun, out: Folder, models: Models, how: Reasoning, work: Work, cache: Folder | None) -> Report:
    """Add reasoning to a run's SFT samples and report outcomes and cost.

    Args:
        models: Models that reason and judge.
        work: Concurrency and limits of the work.
        cache: Cache of answers; None places it in `out`.

    Raises:
        ConfigError: The run is not finished, its samples contain images, the folder has other contents, or an endpoint
            refuses the requests.
        ShardError: A shard has changed since it was written, or an endpoint does not answer.
    """
    run.check_apart(out)
    shards, counter, spending = run.shards, run.counter(), Spending(models.max_cost)
    if images_in(shards.counts):
        raise ConfigError("The samples show pictures, which the models are not given: reason over a run without.")
    settings = {name: value for name, value in asdict(how).items() if name not in ("model", "sampling")}
    output = Output(out, "reason", {**models.settings(), **settings, "shards": shards.digest})
    with session(models, cache or output.replies, spending) as (writer, judge):
        output.take()
        reasoner = Reasoner(how, writer, judge, counter, run.templates)
        manifest = _write_shards(run.folder / "shards", shards, output, reasoner.reasoned, work)
    return Report(manifest, spending)


def _write_shards(
    folder: Folder, shards: Manifest, output: Output, reasoned: Callable[[Mapping[str, Any]], Reasoned], work: Work
) -> Manifest:
    counts: Counter[str] = Counter()
    files: list[FileEntry] = []
    taken: Counter[str] = Counter()
    for file in sorted(shards.files, key=lambda file: file.name):
        if not file.name.startswith(_POOL):
            continue
        domain = file.name.split("/")[1]
        left = None if work.limit is None else max(0, work.limit - taken[domain])
        check_file(folder, file.name, file.sha256)
        samples = islice(_rows(folder, file.name), left)
        rows = _count_rows(in_order(reasoned, samples, work.concurrency), domain, counts, taken, work.tell)
        files.append(_write(output.folder, file.name.removeprefix(_POOL), rows))
    return output.seal(files, counts)


def _rows(shards: Folder, name: str) -> Iterator[dict[str, Any]]:
    for batch in read_batches(shards, name):
        yield from batch.to_pylist()


def _count_rows(
    results: Iterable[Reasoned], domain: str, counts: Counter[str], taken: Counter[str], tell: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Yield the rows and count outcomes, rollouts and tokens."""
    for result in results:
        taken[domain] += 1
        counts[f"samples.{result.outcome}.{domain}"] += 1
        for name, number in (+result.rollouts).items():
            counts[f"rollouts.{name}.{domain}"] += number
        if result.row is not None:
            counts[f"tokens.{domain}"] += result.row["num_tokens"]
            counts[f"loss_tokens.{domain}"] += result.row["num_loss_tokens"]
            yield result.row
        tell(result.outcome)


def _write(folder: Folder, name: str, rows: Iterable[Mapping[str, Any]]) -> FileEntry:
    sink = ParquetSink(folder, name, REASONED_SCHEMA, shard=True)
    try:
        waiting: list[Mapping[str, Any]] = []
        size = 0
        for row in rows:
            waiting.append(row)
            size += sum(len(message["content"]) for message in row["messages"])
            if size >= _BATCH_CHARS:
                sink.write(pa.RecordBatch.from_pylist(waiting, schema=REASONED_SCHEMA))
                waiting, size = [], 0
        sink.write(pa.RecordBatch.from_pylist(waiting, schema=REASONED_SCHEMA))
    except BaseException:
        sink.abandon()
        raise
    return sink.close()
