"""Forms that stay text: `jsonl` of `cpt`, `sft_last` (one target each) and `trainers` (shards as they are).

Control strings inside texts stay as they stand, for the trainer's tokenizer to take as it does; a tokenizer that is
given counts them. Only `jsonl` says which characters bear the loss: TRL, LLaMA-Factory and verl train whole messages.
"""

from __future__ import annotations

import heapq
import shutil
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import zstandard

from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.publish.forms import mixes
from trajmill.pipelines.publish.forms.job import Job
from trajmill.pipelines.publish.forms.stored_samples import Conversation, Document, ShardFile
from trajmill.pipelines.publish.forms.tokenizing import joined_spans

_TURN: Final = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
LAST_SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("domain", pa.string()),
        ("trajectory_id", pa.string()),
        ("prompt", _TURN),
        ("completion", _TURN),
    ]
)
_BATCH: Final = 64

_TRAINERS: Final = """\
# Conversations for trainers

`sft/<domain>` holds the shards as they are: `messages` (role, content, loss), which all of these read.

| trainer | what to give it | what it trains |
|---|---|---|
| ms-swift | `swift.yaml` | messages whose `loss` is true, whole |
| TRL | `trl.yaml` | every message of the assistant, whole; also those with `loss: false` |
| LLaMA-Factory | `dataset_info.json`, `llamafactory.yaml` | the same |
| verl | `verl.yaml` | the same |

None of them knows spans. The forms `ids`, `llamafactory` and `swift` train what was meant and nothing else.
"""


def jsonl(job: Job) -> None:
    """`.jsonl.zst` of documents, with the ranges without loss where datatrove's tokenizer looks for them."""
    for file in job.shards.files("cpt"):
        name = f"cpt/{file.domain}/{file.stem}.jsonl.zst"
        with job.out.writing(name) as made, Path(made.path).open("wb") as raw:
            with zstandard.ZstdCompressor(level=3).stream_writer(raw, closefd=False) as stream:
                for sample in job.shards.documents(file):
                    stream.write(orjson.dumps(_line(job, sample)) + b"\n")
                    made.rows += 1
                    _count(job, file.domain, sample.text)
            raw.flush()
    if job.opened is not None:
        told = {"eos_token": job.opened.decoded([job.opened.end_of_document]), "save_loss_metadata": True}
        job.write_yaml("datatrove.yaml", told, "For datatrove's DocumentTokenizer, with the same tokenizer.")
    mixes.levanter(job, "cpt", ".jsonl.zst")


def _line(job: Job, sample: Document) -> dict[str, Any]:
    spans = [{"begin": one.begin, "end": one.end, "label": one.label} for one in sample.spans]
    about = {"domain": sample.domain, "trajectory_id": sample.trajectory_id, "template": sample.template}
    ranges = gaps(joined_spans(sample.spans), len(sample.text))
    if job.opened is not None:
        ranges = widened(ranges, job.opened.starts(sample.text), len(sample.text))
    return {
        "id": sample.id,
        "text": sample.text,
        "source": sample.source,
        "metadata": {**about, "spans": spans, "no_loss_ranges": ranges},
    }


def gaps(spans: list[tuple[int, int]], length: int) -> list[list[int]]:
    """The ranges [begin, end) of a text of that length that lie in no span."""
    edges = [0, *(edge for span in spans for edge in span), length]
    return [[begin, end] for begin, end in zip(edges[::2], edges[1::2], strict=True) if begin < end]


def widened(ranges: list[list[int]], starts: list[int], length: int) -> list[list[int]]:
    """Ranges up to where a token begins: datatrove trains the token that a range without loss ends in."""
    made: list[list[int]] = []
    for begin, end in ranges:
        at = bisect_left(starts, end)
        until = starts[at] if at < len(starts) else length
        if made and begin <= made[-1][1]:
            made[-1][1] = max(made[-1][1], until)
        else:
            made.append([begin, until])
    return made


def sft_last(job: Job) -> None:
    """Prompt and completion of single targets, of a trajectory no more than the cap: those wholly meant go first."""
    taken = _taken(job)
    for file in job.shards.files("sft"):
        job.out.parquet(f"sft_last/{file.domain}/{file.stem}.parquet", LAST_SCHEMA, _last_batches(job, file, taken))
    mixes.interleave(job, "sft_last", of="sft")


def _taken(job: Job) -> set[tuple[str, int]]:
    """(sample, number of its message) of the targets, at most so many a trajectory, chosen by hash."""
    best: dict[str, list[tuple[bool, int, str, int]]] = {}
    for file in job.shards.files("sft"):
        for sample in job.shards.conversations(file):
            for number, unmeant in _targets(sample).items():
                order = -keyed_hash(f"last:{sample.id}:{number}", mixes.SEED)
                held = best.setdefault(sample.trajectory_id, [])
                heapq.heappush(held, (not unmeant, order, sample.id, number))
                if len(held) > job.targets:
                    heapq.heappop(held)
    return {(key, number) for held in best.values() for _, _, key, number in held}


def _targets(sample: Conversation) -> dict[int, int]:
    """Messages that bear loss, with how many of their characters bear none."""
    found = {}
    for number, message in enumerate(sample.messages):
        meant = sum(end - begin for begin, end in joined_spans(message.spans))
        if meant:
            found[number] = len(message.content) - meant
    return found


def _last_batches(job: Job, file: ShardFile, taken: set[tuple[str, int]]) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, Any]] = []
    for sample in job.shards.conversations(file):
        plain = [{"role": message.role, "content": message.content} for message in sample.messages]
        for number, unmeant in _targets(sample).items():
            if (sample.id, number) not in taken:
                job.leave_out(file.domain, "over_cap")
                continue
            rows.append(
                {
                    "id": f"{sample.id}:{number}",
                    "domain": sample.domain,
                    "trajectory_id": sample.trajectory_id,
                    "prompt": plain[:number],
                    "completion": plain[number : number + 1],
                }
            )
            job.out.counts[f"unmeant_characters.{file.domain}"] += unmeant
            _count(job, file.domain, *(one["content"] for one in plain[: number + 1]))
        if len(rows) >= _BATCH:
            yield pa.RecordBatch.from_pylist(rows, schema=LAST_SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=LAST_SCHEMA)


def trainers(job: Job) -> None:
    """The shards of `sft` as they are, with what TRL, ms-swift, LLaMA-Factory, verl and Levanter are told of them."""
    for file in job.shards.files("sft"):
        with job.out.writing(file.name) as made, Path(made.path).open("wb") as sink:
            with job.shards.folder.open(file.name) as source:
                shutil.copyfileobj(source, sink)
            sink.flush()
            for sample in job.shards.conversations(file):
                made.rows += 1
                _count(job, file.domain, *(message.content for message in sample.messages))
    files = job.out.names(".parquet")
    domains = sorted({name.split("/")[1] for name in files})
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
    info = {
        "formatting": "sharegpt",
        "columns": {"messages": "messages"},
        "tags": {**tags, "system_tag": "system"},
    }
    job.write_json("dataset_info.json", {f"trajmill_{one}": {"file_name": f"sft/{one}", **info} for one in domains})
    weights = job.weights("sft")
    factory = {
        "stage": "sft",
        "dataset_dir": ".",
        "dataset": ",".join(f"trajmill_{one}" for one in domains),
        "mix_strategy": "interleave_under",
        "interleave_probs": ",".join(str(weights.get(one, 0.0)) for one in domains),
        "mask_history": False,
    }
    job.write_yaml("llamafactory.yaml", factory, "It ignores `loss`: for turns without it take the form llamafactory.")
    trl = {"datasets": [{"path": "parquet", "data_files": files, "split": "train"}], "assistant_only_loss": True}
    job.write_yaml("trl.yaml", trl, "It ignores `loss`: for turns without it take the form ids.")
    job.write_yaml("swift.yaml", {"dataset": files, "loss_scale": "default"}, "It honours `loss`.")
    verl = {"data": {"train_files": files, "messages_key": "messages", "max_length": 262_144, "truncation": "error"}}
    job.write_yaml("verl.yaml", verl, "It ignores `loss`: for turns without it take the form ids.")
    mixes.levanter(job, "sft", ".parquet")
    mixes.interleave(job, "sft")
    job.out.write("README.md", _TRAINERS)


def _count(job: Job, domain: str, *texts: str) -> None:
    job.out.counts[f"samples.{domain}"] += 1
    if job.opened is not None:
        job.out.counts[f"control_strings.{domain}"] += sum(map(job.opened.control_strings, texts))
