"""Warnings of a run of which nothing is left, or nothing of a domain: what went, and by which reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.judge.reasons import CONTAMINATED
from trajmill.pipelines.run_record.conservation import Line
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.pipelines.storage.units import unit_manifests

_SHOWN = 3
"""Reasons that are named."""

_DROPPED = "trajectories.dropped."


def nothing_kept(lines: Sequence[Line]) -> tuple[str, ...]:
    """The line that says that a run keeps nothing, and why; none where it keeps something."""
    for line in lines:
        if line.unit in ("files", "inputs", "trajectories") and line.entered and not line.kept:
            return (f"nothing is kept: of {line.entered:,} {line.unit}, {_largest({**line.lost, **line.merged})}",)
    return ()


def lost_domains(units: Sequence[Unit], verdicts: Folder, rejects: Folder) -> Iterator[str]:
    """A line for each domain of which judging keeps no trajectory.

    Args:
        units: that were judged.
        verdicts: the folder of their verdicts.
        rejects: the folder of what judging did not carry on.
    """
    for domain in sorted({unit.domain for unit in units}):
        labels = [unit.label for unit in units if unit.domain == domain]
        counts: Counter[str] = Counter()
        for made in unit_manifests(verdicts, labels):
            counts.update(made.counts)
        if counts["trajectories"] and not counts["trajectories.kept"]:
            reasons = {key.removeprefix(_DROPPED): count for key, count in counts.items() if key.startswith(_DROPPED)}
            shown = _benchmarks(labels, rejects) if CONTAMINATED in reasons else {}
            named = f"; they show items of {_largest(shown)}" if shown else ""
            yield f"nothing of {domain} is kept: of {counts['trajectories']:,} trajectories, {_largest(reasons)}{named}"


def _benchmarks(labels: Sequence[str], rejects: Folder) -> Counter[str]:
    """Benchmark → trajectories that show an item of it."""
    found: Counter[str] = Counter()
    for label in labels:
        table = read_table(rejects, f"{label}.parquet", ["reason", "detail"])
        for reason, item in zip(table["reason"].to_pylist(), table["detail"].to_pylist(), strict=True):
            if reason == CONTAMINATED:
                found[item.partition(":")[0]] += 1
    return found


def _largest(counts: Mapping[str, int]) -> str:
    listed = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    more = f" and {len(listed) - _SHOWN} reasons more" if len(listed) > _SHOWN else ""
    return ", ".join(f"{name} {count:,}" for name, count in listed[:_SHOWN]) + more
