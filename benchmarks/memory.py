"""Measure the memory that a long log takes: peak of a process that parses it, and of one that normalizes it.

    python -m benchmarks.memory mcp_jsonrpc codex --megabytes 100 400

What grows with the log is the difference of two lengths; what does not is the process itself. Compare with `idle`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.bench import measure
from benchmarks.logs.long_logs import MADE, write


def main() -> None:
    """Prints a row for each log: MB of the log, peak MB of parsing and of normalizing, and seconds of CPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="*", default=list(MADE), metavar="LOG", help=", ".join(MADE))
    parser.add_argument("--megabytes", type=int, nargs="+", default=[100, 400])
    parser.add_argument("--many", action="store_true", help="many sessions in the file instead of one")
    parser.add_argument("--only", choices=("parse", "plain"), help="of the two tasks only this one")
    options = parser.parse_args()
    tasks = [options.only] if options.only else ["parse", "plain"]
    table = Table("log", "MB", *(f"{task}: peak MB" for task in tasks), *(f"{task}: CPU s" for task in tasks))
    for name in options.logs:
        for size in options.megabytes:
            with tempfile.TemporaryDirectory(prefix="trajmill-memory-") as temporary:
                raw, out = Path(temporary) / "raw", Path(temporary) / "out"
                raw.mkdir()
                write(name, size * 1_000_000, raw, options.many)
                costs = [measure(task, name, str(raw), str(out)) for task in tasks]
            table.add_row(name, str(size), *(f"{peak:.0f}" for _, peak in costs), *(f"{cpu:.1f}" for cpu, _ in costs))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
