"""The names of the files that measuring a unit writes, by the label of the unit."""

from __future__ import annotations


def matches_name(label: str) -> str:
    """The file of what a unit shows of benchmarks."""
    return f"{label}.benchmarks.parquet"


def replicates_name(label: str) -> str:
    """The file of the histories of a unit's rows."""
    return f"{label}.replicates.parquet"


def variety_name(label: str) -> str:
    """The file of what a unit's rows are about."""
    return f"{label}.variety.parquet"


def spans_name(label: str) -> str:
    """The file of what a unit's trajectories tell of their texts, span by span."""
    return f"{label}.spans.parquet"


def sketch_name(label: str) -> str:
    """The file of the sketches of a unit's trajectories."""
    return f"{label}.sketch.parquet"


def costs_name(label: str) -> str:
    """The file of what a unit's rows cost in samples, in tokens."""
    return f"{label}.costs.parquet"


def answers_name(label: str) -> str:
    """The file of answers of a unit by which checks of RL are tried."""
    return f"{label}.answers.parquet"


def edges_name(label: str) -> str:
    """The file of the lines at the edges of a unit's answers."""
    return f"{label}.edges.parquet"


def measure_names(label: str) -> tuple[str, ...]:
    """Every file that measuring a unit can write."""
    told = (matches_name, replicates_name, variety_name, spans_name, sketch_name, costs_name, answers_name, edges_name)
    return (f"{label}.parquet", *(name(label) for name in told))
