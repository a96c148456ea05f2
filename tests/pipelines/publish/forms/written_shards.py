"""Shards by the contract of their columns, made of texts that are hard to tokenize."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import write_parquet
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.manifest import Manifest

MARKER = "**Environment Observation:**\n"
_COMMON = [
    ("id", pa.string()), ("domain", pa.string()), ("source", pa.string()), ("trajectory_id", pa.string()),
    ("group", pa.string()), ("num_turns", pa.int32()), ("num_tokens", pa.int64()), ("num_loss_tokens", pa.int64()),
    ("template", pa.string()),
]  # fmt: skip
_SPAN = [("begin", pa.int32()), ("end", pa.int32()), ("label", pa.string())]
CPT = pa.schema([*_COMMON, ("text", pa.string()), ("spans", pa.list_(pa.struct(_SPAN)))])
SFT = pa.schema(
    [
        *_COMMON,
        ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string()), ("loss", pa.bool_())]))),
        ("spans", pa.list_(pa.struct([("message", pa.int32()), *_SPAN]))),
    ]
)
RL = SAMPLE_SCHEMAS["rl"]

SCREENS = (
    "total 4\ndrwxr-xr-x 2 a a 4096 notes\n$ ",
    "\n\n   prompt> \n\n",
    "日本語のテキスト 🙂🙃 naïve\tcafé\n",
    "log: </think> tail <|im_end|>\n<tool_call>{}</tool_call>",
    "started at 12:03:44 with pid 4711\nready\n",
    "",
)
VOLATILE = "12:03:44"


def spans_of(content: str) -> list[dict[str, Any]]:
    """All of the content but its volatile part; the marker is frame."""
    head = len(MARKER)
    spans = [{"begin": 0, "end": head, "label": "frame"}]
    offset = content.find(VOLATILE)
    parts = [(head, len(content))] if offset < 0 else [(head, offset), (offset + len(VOLATILE), len(content))]
    return spans + [{"begin": begin, "end": end, "label": "new"} for begin, end in parts if end > begin]


def conversation(number: int, domain: str) -> dict[str, object]:
    messages: list[dict[str, object]] = [{"role": "system", "content": f"A {domain}.", "loss": None}]
    spans: list[dict[str, object]] = []
    for turn in range(3):
        screen = SCREENS[(number + turn) % len(SCREENS)]
        messages.append(
            {"role": "user", "content": f"### Turn {turn + 1}\n**Action:**\n```json\n{{}}\n```", "loss": None}
        )
        loss = (number + turn) % 4 != 3
        messages.append({"role": "assistant", "content": MARKER + screen, "loss": loss})
        if loss:
            spans += [{"message": len(messages) - 1, **span} for span in spans_of(MARKER + screen)]
    return {**_common(number, domain), "messages": messages, "spans": spans}


def document(number: int, domain: str) -> dict[str, object]:
    text, spans = f"A {domain}.\n\n", []
    for turn in range(3):
        text += f"### Turn {turn + 1}\n**Action:**\nls\n\n"
        content = MARKER + SCREENS[(number + turn) % len(SCREENS)]
        spans += [
            {**span, "begin": span["begin"] + len(text), "end": span["end"] + len(text)} for span in spans_of(content)
        ]
        text += content
    return {**_common(number, domain), "text": text, "spans": spans}


def question(number: int, domain: str) -> dict[str, object]:
    common = _common(number, domain)
    values = {name: common.get(name) for name in ("id", "domain", "trajectory_id", "group", "num_tokens", "template")}
    prompt = f"### Turn 1\n**Action:**\n```text\nls {number}\n```"
    return {
        "data_source": f"trajmill/{domain}",
        "prompt": [{"role": "system", "content": f"A {domain}."}, {"role": "user", "content": prompt}],
        "ability": domain,
        "reward_model": {"style": "rule", "ground_truth": '{"observation":"a"}'},
        "extra_info": {**values, "split": "train", "index": number, "max_response_tokens": 64 + number},
    }


def _common(number: int, domain: str) -> dict[str, object]:
    key = f"{domain}{number:04d}"
    common = {"id": key, "domain": domain, "source": "s", "trajectory_id": key, "group": key, "num_turns": 3}
    return {**common, "num_tokens": 100, "num_loss_tokens": 50, "template": "sft-1@0123456789ab"}


def written(out: Path, samples: int = 12, domains: tuple[str, ...] = ("terminal", "web")) -> Path:
    """Writes the shards of a finished run."""
    folder = Folder(str(out)) / "shards"
    entries, counts = [], {}
    for pool, schema, make in (("cpt", CPT, document), ("sft", SFT, conversation), ("rl", RL, question)):
        for weight, domain in enumerate(domains, 1):
            rows = [make(number, domain) for number in range(samples)]
            batch = pa.RecordBatch.from_pylist(rows, schema=schema)
            name = f"{pool}/{domain}/train-00000-of-00001.parquet"
            entries.append(write_parquet(folder, name, schema, [batch], shard=True))
            counts[f"tokens.{pool}.{domain}"] = 1000 * weight
            counts[f"samples.{pool}.{domain}"] = samples
    manifest = Manifest("mix", "", "0" * 64, SCHEMA_VERSION, tuple(entries), counts)
    folder.write("manifest.json", manifest.to_json())
    return out
