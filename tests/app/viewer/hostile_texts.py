"""Texts by which a log attacks who looks at it, and a run that holds one of them wherever a text can stand.

The run is written as a crafted output folder could be, past every check of a pipeline.
"""

import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tests.app.pages.made_runs import NAME, made_rejects, made_run, made_shard
from tests.make import batch_of, trajectory
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import write_parquet
from trajmill.schemas import Reject
from trajmill.schemas.transition import TRANSITION_SCHEMA, encode_schema

LISTENER: Final = "LISTENER"
"""Stands in texts for an address that they try to reach."""

TEXTS: Final = (
    "<script>document.title='owned';fetch('LISTENER/script')</script>",
    "</pre></title></textarea></style></script><script>document.title='owned'</script>",
    "\"><img src=x onerror=\"document.title='owned'\"><img src='LISTENER/img'>",
    "'><svg onload=document.title='owned'><image href='LISTENER/svg'/></svg>",
    "<iframe srcdoc=\"<script>top.document.title='owned'</script>\" src='LISTENER/frame'></iframe>",
    "<link rel=stylesheet href='LISTENER/css'><style>@import url('LISTENER/import');*{display:none}</style>",
    "<meta http-equiv=refresh content=\"0;url=LISTENER/refresh\"><base href='LISTENER/'>",
    "<a href=\"javascript:document.title='owned'\" ping='LISTENER/ping'>x</a><form action=LISTENER><button>",
    "<object data='LISTENER/object'></object><embed src='LISTENER/embed'><video src='LISTENER/video' autoplay>",
    "javascript:document.title='owned'//",
    "data:text/html,<script>document.title='owned'</script>",
    "LISTENER/plain",
    "//127.0.0.1:9/x",
    "{{ 7 * 7 }}{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}${7*7}#{7*7}<%= 7 %>",
    "+ADw-script+AD4-document.title='owned'+ADw-/script+AD4-",
    "<!--<script>--><![CDATA[<script>document.title='owned'</script>]]>",
    "\x1b]0;owned\x07\x1b[2J\x1b]8;;LISTENER/osc\x07x\x1b]8;;\x07\x00\x08\x7f\x9b31m",
    "\u202egnp.exe\u2066\u2069\u200b\u200f\ufeff\u2028\u2029\u00ad\U000e0041",
    "../../../../etc/passwd",
    "a' onmouseover='document.title=1' b=\" onfocus=\"document.title=2\" autofocus",
)


def hostile_run(out: Path, text: str, domain: str = "web") -> list[str]:
    """Writes a run whose every text is the given one; returns the keys of its trajectories."""
    trajectories = [trajectory("one", "two", domain=domain), trajectory("one", domain=domain)]
    keys, batch = made_run(out, trajectories, ["loop", "near_duplicate"], domain), batch_of(*trajectories)
    fixed = ("row_id", "trajectory_id", "domain", "step", "relation", "parent_trajectory_id")
    rows = [
        {name: value if name in fixed else _replaced(name, value, text) for name, value in row.items()}
        for row in batch.to_pylist()
    ]
    for row in rows:
        row["action"] |= {"arguments": json.dumps({"element": text, text: [text, {text: text}]})}
        row["interleaved"] = json.dumps([{"role": text, "content": text}])
        attachment = {"sha256": text, "media_type": text, "role": text, "name": text}
        row["next_observation"] |= {"attachments": [attachment], "dialect": "uitree/1"}
        row["next_observation"]["content"] = f"#1 window {json.dumps(text)} value={json.dumps(text)} [0,0][9,9]"
    table = pa.Table.from_pylist(rows, TRANSITION_SCHEMA).cast(encode_schema())
    name = f"transitions/{domain}/{NAME}.parquet"
    write_parquet(Folder(str(out)), name, encode_schema(), table.combine_chunks().to_batches())
    made_rejects(out, "normalize", [Reject(text, text, text, text, text, 3, text, text, excerpt=text)])
    named = f"nearly equal to one of trajectory {keys[0][:16]}… {text}"
    copy = Reject("trajectory", "near_duplicate", named, text, trajectory_id=keys[1].partition("-")[0])
    made_rejects(out, "judge", [copy])
    message = {"role": text, "content": text, "loss": True}
    span = {"message": 0, "begin": 0, "end": len(text), "label": text}
    sample = {"id": text, "trajectory_id": keys[0].partition("-")[0], "messages": [message], "spans": [span]}
    made_shard(out, "sft", domain, [sample])
    eval_row = {"sample_id": text, "system_str": text, "prompt": [text], "response": [text], text: text}
    made_shard(out, "eval", domain, [eval_row])
    return keys


def pages_of(keys: list[str], domain: str = "web") -> list[str]:
    """The addresses of all pages of such a run."""
    trajectory = (f"/t/{keys[0]}{rest}" for rest in ("", "/1", "/sample", "/0/raw"))
    samples = ("/samples", f"/samples/sft/{domain}/0", f"/samples/eval/{domain}/0")
    rejects = ("/rejects", "/rejects/0", "/rejects/1")
    return ["/", *trajectory, *samples, *rejects, "/copies", f"/copies/{keys[0]}", f"/t/{keys[1]}"]


def _replaced(name: str, value: Any, text: str) -> Any:
    """A value of a row with the text in place of all its own."""
    if isinstance(value, dict):
        return {key: _replaced(f"{name}.{key}", inner, text) for key, inner in value.items()}
    field = name.rpartition(".")[2]
    numbers = ("offset", "resolved", "score", "is_error", "attachments")
    if isinstance(value, str) or (value is None and "." in name and field not in numbers):
        return text
    return text if name in ("native_id", "source") else value
