"""The balance of passages: of each component, what was read is kept, dropped, or equal to one that is kept.

A text that was cut counts once for each of its pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from trajmill.pipelines.run_record.conservation import Line

_MERGED: Final = ("duplicate",)


def passage_lines(components: Sequence[str], counts: Mapping[str, int]) -> tuple[Line, ...]:
    """A line of each component.

    Args:
        components: their names.
        counts: of the manifest of passages.

    Raises:
        ContractError: a sum does not hold.
    """
    return tuple(_line(name, counts) for name in components)


def _line(name: str, counts: Mapping[str, int]) -> Line:
    lead = f"{name}.dropped."
    dropped = {key.removeprefix(lead): number for key, number in sorted(counts.items()) if key.startswith(lead)}
    lost = {reason: number for reason, number in dropped.items() if reason not in _MERGED}
    merged = {reason: number for reason, number in dropped.items() if reason in _MERGED}
    rows, windows, kept = (counts.get(f"{name}.{what}", 0) for what in ("rows", "windows", "kept"))
    return Line(f"passages of {name}", rows + windows, kept, {}, lost, merged).checked()
