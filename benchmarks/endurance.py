"""`python -m benchmarks.endurance`: runs that are killed at random moments, and runs over more and more logs.

    python -m benchmarks.endurance --kills 200 --workers 1 2
    python -m benchmarks.endurance --memory 0.1 1 10 --append 0.01 --folder /where/there/is/room
    python -m benchmarks.endurance --skew 2 --logs claude_code asciicast

Tables are printed as Markdown.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import growth, kills, skew
from benchmarks.logs.long_logs import MADE


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
    parser.add_argument("--memory", type=float, nargs="+", metavar="GB", help="of logs, instead of kills")
    parser.add_argument("--append", type=float, metavar="SHARE", help="of new logs, to the largest of --memory")
    parser.add_argument("--skew", type=float, nargs="+", metavar="GB", help="of one log among a thousand small ones")
    parser.add_argument("--logs", nargs="+", default=skew.LOGS, choices=sorted(MADE), help="what the long log is")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where logs and output are made; removed when done")
    for name in ("task", "place"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        growth.run(Path(options.place), options.workers[0])
        return
    with tempfile.TemporaryDirectory(prefix="endurance-", dir=options.folder) as temporary:
        if options.memory:
            show(growth.HEADS, growth.rows(options.memory, Path(temporary), options.seed))
            if options.append:
                print()
                show(
                    growth.APPENDED,
                    growth.append_rows(Path(temporary), max(options.memory), options.append, options.seed),
                )
        elif options.skew:
            show(skew.HEADS, skew.rows(options.logs, options.skew, Path(temporary), options.seed))
        else:
            show(kills.HEADS, kills.rows(options.kills, options.workers, options.seed))


if __name__ == "__main__":
    main()
