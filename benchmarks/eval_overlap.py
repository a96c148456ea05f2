"""Trajectories of eval whose lines training shows too: `python -m benchmarks.eval_overlap OUT [--share 0.8]`.

A trajectory's lines are those of its answers, each once. One of eval overlaps where a single trajectory of another pool
holds at least a share of its lines. Pools are compared within each domain of a run's OUT.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import polars as pl


def main() -> None:
    """Print a row for each domain: trajectories of eval, and those that overlap."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--share", type=float, default=0.8)
    asked = parser.parse_args()
    draws = pl.read_parquet(asked.out / "draws" / "*-part-*.parquet").filter(pl.col("copies") > 0)
    pools = dict(draws.select("trajectory_id", "pool").iter_rows())
    lines: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    answers = pl.scan_parquet(asked.out / "transitions" / "*" / "*.parquet").select(
        pl.col("domain").cast(pl.String), "trajectory_id", pl.col("next_observation").struct.field("content")
    )
    for domain, trajectory, text in answers.collect().iter_rows():
        if trajectory in pools:
            lines[domain][trajectory].update(filter(None, map(str.strip, (text or "").splitlines())))
    print("| domain | eval | overlapping |\n|---|--:|--:|")
    for domain, trajectories in sorted(lines.items()):
        trained = [shown for trajectory, shown in trajectories.items() if pools[trajectory] != "eval"]
        evaluated = [shown for trajectory, shown in trajectories.items() if pools[trajectory] == "eval" and shown]
        near = sum(any(len(mine & theirs) >= asked.share * len(mine) for theirs in trained) for mine in evaluated)
        print(f"| {domain} | {len(evaluated)} | {near} |")


if __name__ == "__main__":
    main()
