"""What `benchmarks.mixing` measures is done: shards are made again from verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.mixing import judged, mixed, write_units


def test_shards_of_a_pool_are_made_from_verdicts(tmp_path: Path) -> None:
    write_units(tmp_path, megabytes=0.2, seed=7)
    (tmp_path / "pools.json").write_text(json.dumps({"cpt": 1}))
    assert [*judged(tmp_path), *mixed(tmp_path)] == ["judge", "mix"]
    assert sum(pq.read_metadata(shard).num_rows for shard in (tmp_path / "shards" / "cpt").rglob("*.parquet")) > 5
