"""The files that measuring a unit writes, by its label and what each holds."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

FileKind: TypeAlias = Literal["benchmarks", "replicates", "variety", "spans", "sketch", "costs", "answers", "edges"]
"""What a unit shows of benchmarks, the histories of its rows, what these are about, what its trajectories tell of their
texts, their sketches, what rows cost in samples, the answers by which checks of RL are tried, and lines at
edges of answers."""


def measure_file(label: str, kind: FileKind) -> str:
    """The file of a kind of measures."""
    return f"{label}.{kind}.parquet"


def measure_files(label: str) -> tuple[str, ...]:
    """Every file that measuring a unit can write."""
    return (f"{label}.parquet", *(measure_file(label, kind) for kind in get_args(FileKind)))
