"""`python -m benchmarks.growth_plot`: the table of a growing corpus as a picture.

    python -m benchmarks.growth_plot docs/endurance.md docs/images/growth.svg

The table is the one that `python -m benchmarks.endurance --memory` prints, as it stands in a page: CPU seconds and peak
memory by stage, over gigabytes of logs. Both axes go by ratios, so what grows as the logs do is a straight line.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2

from benchmarks.growth import HEADS, LIMIT, STAGES

_TOP, _BOTTOM, _WIDE = 28, 268, 250
_DASHES: Final = dict(zip((*STAGES, "all"), ("2 3", "7 3", "", "9 3 2 3", ""), strict=True))


def figures(page: str) -> list[dict[str, float]]:
    """The rows of the table by their heads, the smallest corpus first.

    Raises:
        ValueError: there is no such table.
    """
    head = f"| {' | '.join(HEADS)} |"
    _, matched, rest = page.partition(head + "\n")
    if not matched:
        raise ValueError(f"no table with the heads {head}")
    rows = []
    for line in rest.splitlines()[1:]:
        if not line.startswith("|"):
            break
        cells = [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        rows.append({name: float(cell) for name, cell in zip(HEADS, cells, strict=True) if cell})
    return sorted(rows, key=lambda row: row["GB"])


def _ratio(value: float, ends: tuple[float, float]) -> float:
    low, high = map(math.log10, ends)
    return (math.log10(max(value, 10**low)) - low) / (high - low)


def _decades(values: Sequence[float]) -> tuple[float, float]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def panel(
    title: str, rows: Sequence[Mapping[str, float]], by_name: Mapping[str, str], limit: float = 0
) -> dict[str, Any]:
    """Build the values that the template draws of some columns, by the names given to lines."""
    sizes = [row["GB"] for row in rows]
    values = [row[head] for row in rows for head in by_name.values()]
    across, up = (min(sizes), max(sizes)), _decades([*values, *([limit] if limit else [])])

    def x(size: float) -> float:
        return round(_ratio(size, across) * _WIDE, 1) if across[0] < across[1] else 0.0

    def y(value: float) -> float:
        return round(_BOTTOM - _ratio(value, up) * (_BOTTOM - _TOP), 1)

    series, taken = list[dict[str, Any]](), list[float]()
    for name, head in sorted(by_name.items(), key=lambda entry: -rows[-1][entry[1]]):
        dots = [(x(row["GB"]), y(row[head])) for row in rows]
        label = max(dots[-1][1] + 4, taken[-1] + 13 if taken else 0)
        taken.append(label)
        points = " ".join(f"{left},{height}" for left, height in dots)
        series.append({"name": name, "dots": dots, "points": points, "label_y": label, "dashes": _DASHES[name]})
    marks = [10.0**power for power in range(round(math.log10(up[0])), round(math.log10(up[1])) + 1)]
    return {
        "title": title,
        "series": series,
        "across": [(x(size), f"{size:g} GB") for size in sizes],
        "up": [(y(mark), f"{mark:,g}") for mark in marks],
        "limit": y(limit) if limit else None,
    }


def draw_picture(rows: Sequence[Mapping[str, float]]) -> str:
    """The picture as SVG."""
    panels = [
        panel("CPU seconds", rows, {**{name: f"{name}: CPU s" for name in STAGES}, "all": "CPU s"}),
        panel("peak memory, MB", rows, {name: f"{name}: peak MB" for name in STAGES}, LIMIT / 1e6),
    ]
    for number, values in enumerate(panels):
        values["left"] = 60 + number * (_WIDE + 140)
    text = Path(__file__).with_name("templates").joinpath("growth.svg").read_text("utf-8")
    template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(text)
    size = {"width": panels[-1]["left"] + _WIDE + 90, "height": _BOTTOM + 30}
    return template.render(panels=panels, wide=_WIDE, top=_TOP, bottom=_BOTTOM, **size)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    options.picture.write_text(draw_picture(figures(options.page.read_text("utf-8"))), "utf-8")


if __name__ == "__main__":
    main()
