"""Output folders as a run leaves them, made without one: rows, verdicts, rejects, draws and shards of any text."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.make import batch_of
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import write_parquet
from trajmill.quality.fingerprint import trajectory_starts
from trajmill.schemas import REJECT_SCHEMA, Reject, Trajectory, reject_table, verdict_schema
from trajmill.schemas.transition import encode_schema

NAME = "part-00000-aaaaaaaa"
RULES = {"loop": {"signal": "loop", "max": 0.5, "min": None, "use": "context", "cap": None}}


def there(value):
    """The value, which is not None."""
    assert value is not None
    return value


def made_run(
    out: Path, trajectories: Sequence[Trajectory], reasons: Sequence[str | None], domain: str, uri: str = "log"
) -> list[str]:
    """Writes transitions and verdicts; returns the keys of the trajectories.

    Args:
        out: the output folder.
        trajectories: all of one domain.
        reasons: of each trajectory: None keeps it, `loop` makes its last row context, any other drops it.
        domain: of them.
        uri: of the log.
    """
    folder = Folder(str(out))
    batch = batch_of(*trajectories, uri=uri)
    write_parquet(folder, f"transitions/{domain}/{NAME}.parquet", encode_schema(), [batch])
    starts = trajectory_starts(batch)
    owner = np.cumsum(np.bincount(starts, minlength=batch.num_rows)) - 1
    rows = [
        verdict(reasons[index], is_last=number + 1 == batch.num_rows or owner[number + 1] != index)
        for number, index in enumerate(owner.tolist())
    ]
    schema = verdict_schema(("loop", "turns"), ("loop",))
    keys = {name: batch[name].to_pylist() for name in ("row_id", "trajectory_id", "step")}
    columns = {name: [row[name] for row in rows] for name in schema.names if name not in keys}
    write_parquet(
        folder, f"verdicts/{domain}/{NAME}.parquet", schema, pa.table(keys | columns, schema=schema).to_batches()
    )
    (out / "run.json").write_text(json.dumps({"recipe": {"judge": {"rules": RULES}}}))
    return [batch["row_id"][int(start)].as_py().rpartition("-")[0] for start in starts]


def verdict(reason: str | None, *, is_last: bool) -> dict[str, object]:
    is_kept = reason in (None, "loop")
    loops = reason == "loop" and is_last
    use = "omit" if not is_kept else "context" if loops else "target"
    hashes = dict.fromkeys(("task_node", "instance_node", "own_node", "parent_node", "rank", "origin"), 1)
    return {
        "kept": is_kept, "use": use, "reason": reason if not is_kept or loops else None, "group": "0" * 16,
        "trajectory_hash": bytes(16), "transition_hash": bytes(16), "has_text": True, "text_bytes": 3, "tokens": 1,
        "signal.loop": 0.75 if loops else 0.25, "signal.turns": 2.0, "why.loop": "said thrice" if loops else None,
        **hashes,
    }  # fmt: skip


def made_rejects(out: Path, stage: str, rejects: Sequence[Reject]) -> None:
    """Writes the rejects of a stage."""
    batches = reject_table(rejects).combine_chunks().to_batches()
    write_parquet(Folder(str(out)), f"rejects/{stage}/{NAME}.parquet", REJECT_SCHEMA, batches)


def made_shard(out: Path, pool: str, domain: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Writes the samples of a pool and domain; those of eval as lines of JSON."""
    folder = out / "shards" / pool
    if pool == "eval":
        folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{domain}_test.jsonl").write_text(lines)
        return
    table = pa.Table.from_pylist(list(rows))
    name = f"shards/{pool}/{domain}/train-00000-of-00001.parquet"
    write_parquet(Folder(str(out)), name, table.schema, table.combine_chunks().to_batches())
