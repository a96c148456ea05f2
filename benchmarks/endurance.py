"""`python -m benchmarks.endurance`: runs that are killed at random moments, and started again.

    python -m benchmarks.endurance --kills 200 --workers 1 2

Tables are printed as Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from benchmarks import kills


def show(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table, each row as soon as it is there."""
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    show(kills.HEADS, kills.rows(given.kills, given.workers, given.seed))


if __name__ == "__main__":
    main()
