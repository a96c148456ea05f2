"""Forms of text: `jsonl` of `cpt`, `sft_last` (one target each) and `trainers` (shards unchanged).

Control strings inside texts are left to the trainer's tokenizer; they are counted if a tokenizer is given. Only `jsonl`
holds the characters that bear the loss: TRL, LLaMA-Factory and verl train whole messages.
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
from trajmill.pipelines.publish.forms.tokenizing import join_spans

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
    """Write documents as `.jsonl.zst`, with the ranges without loss in the field that datatrove's tokenizer reads."""
    for file in job.shards.files("cpt"):
        name = f"cpt/{file.domain}/{file.stem}.jsonl.zst"
        with job.out.writing(name) as output, Path(output.path).open("wb") as raw:
            with zstandard.ZstdCompressor(level=3).stream_writer(raw, closefd=False) as stream:
                for sample in job.shards.documents(file):
                    stream.write(orjson.dumps(_line(job, sample)) + b"\n")
                    output.rows += 1
                    _count(job, file.domain, sample.text)
            raw.flush()
    if job.opened is not None:
        settings = {"eos_token": job.opened.decoded([job.opened.end_of_document]), "save_loss_metadata": True}
        job.write_yaml("datatrove.yaml", settings, "For datatrove's DocumentTokenizer, with the same tokenizer.")
    mixes.levanter(job, "cpt", ".jsonl.zst")


def _line(job: Job, sample: Document) -> dict[str, Any]:
    spans = [{"begin": span.begin, "end": span.end, "label": span.label} for span in sample.spans]
    about = {"domain": sample.domain, "trajectory_id": sample.trajectory_id, "template": sample.template}
    ranges = gaps(join_spans(sample.spans), len(sample.text))
    if job.opened is not None:
        ranges = widen(ranges, job.opened.starts(sample.text), len(sample.text))
    return {
        "id": sample.id,
        "text": sample.text,
        "source": sample.source,
        "metadata": {**about, "spans": spans, "no_loss_ranges": ranges},
    }


def gaps(spans: list[tuple[int, int]], length: int) -> list[list[int]]:
    """Return the ranges [begin, end) of a text of that length that are in no span."""
    edges = [0, *(edge for span in spans for edge in span), length]
    return [[begin, end] for begin, end in zip(edges[::2], edges[1::2], strict=True) if begin < end]


def widen(ranges: list[list[int]], starts: list[int], length: int) -> list[list[int]]:
    """Widen ranges to the start of the next token, since datatrove trains the token in which a range ends."""
    merged: list[list[int]] = []
    for begin, end in ranges:
        token = bisect_left(starts, end)
        until = starts[token] if token < len(starts) else length
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], until)
        else:
            merged.append([begin, until])
    return merged


def sft_last(job: Job) -> None:
    """Write prompt and completion of single targets, up to the cap per trajectory.

    Targets fully under loss are preferred.
    """
    taken = _choose_targets(job)
    for file in job.shards.files("sft"):
        job.out.parquet(f"sft_last/{file.domain}/{file.stem}.parquet", LAST_SCHEMA, _last_batches(job, file, taken))
    mixes.interleave(job, "sft_last", weighed_as="sft")


def _choose_targets(job: Job) -> set[tuple[str, int]]:
    """Choose (sample, number of its message) of the targets by hash, up to the cap per trajectory."""
    best: dict[str, list[tuple[bool, int, str, int]]] = {}
    for file in job.shards.files("sft"):
        for sample in job.shards.conversations(file):
            for number, unmeant in _targets(sample).items():
                order = -keyed_hash(f"last:{sample.id}:{number}", mixes.SEED)
                heap = best.setdefault(sample.trajectory_id, [])
                heapq.heappush(heap, (not unmeant, order, sample.id, number))
                if len(heap) > job.targets:
                    heapq.heappop(heap)
    return {(key, number) for heap in best.values() for _, _, key, number in heap}


def _targets(sample: Conversation) -> dict[int, int]:
    """Map each message under loss to the number of its characters without loss."""
    unmeant = {}
    for number, message in enumerate(sample.messages):
        meant = sum(end - begin for begin, end in join_spans(message.spans))
        if meant:
            unmeant[number] = len(message.content) - meant
    return unmeant


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
            _count(job, file.domain, *(message_["content"] for message_ in plain[: number + 1]))
        if len(rows) >= _BATCH:
            yield pa.RecordBatch.from_pylist(rows, schema=LAST_SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=LAST_SCHEMA)


def trainers(job: Job) -> None:
    """Write the shards of `sft` unchanged, with configurations of TRL, ms-swift, LLaMA-Factory, verl and Levanter."""
    for file in job.shards.files("sft"):
        with job.out.writing(file.name) as output, Path(output.path).open("wb") as sink:
            with job.shards.folder.open(file.name) as source:
                shutil.copyfileobj(source, sink)
            sink.flush()
            for sample in job.shards.conversations(file):
                output.rows += 1
                _count(job, file.domain, *(message.content for message in sample.messages))
    files = job.out.names(".parquet")
    domains = sorted({name.split("/")[1] for name in files})
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
    info = {"formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": {**tags, "system_tag": "system"}}
    job.write_json(
        "dataset_info.json", {f"trajmill_{domain}": {"file_name": f"sft/{domain}", **info} for domain in domains}
    )
    weights = job.weights("sft")
    factory = {
        "stage": "sft",
        "dataset_dir": ".",
        "dataset": ",".join(f"trajmill_{domain}" for domain in domains),
        "mix_strategy": "interleave_under",
        "interleave_probs": ",".join(str(weights.get(domain, 0.0)) for domain in domains),
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
