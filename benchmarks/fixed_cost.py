"""Measure what a command costs however little it has to do: CPU time of processes of their own, most of it imports.

Modules are compiled once, as where they are installed, whatever the variables of this process say.

python -m benchmarks.fixed_cost [--times 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
LOG = ROOT / "samples" / "terminal" / "asciicast" / "awk_sales_report.cast"
SESSION = ROOT / "samples" / "terminal" / "claude_code" / "bakery"
AIMS = {
    "one log": 1.5,
    "one session of an agent": 1.5,
    "a wrong recipe": 0.5,
    "plan of a wrong recipe": 0.5,
    "run --help": 0.5,
}
"""CPU-seconds."""


def cpu_seconds(*words: str) -> float:
    """User and system time of one process of the command line, and of what it starts."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "trajmill", *words]
    before = os.times()
    subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, check=False)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def commands(folder: Path) -> dict[str, list[str]]:
    """Commands that are measured, by name; each writes below the folder."""
    wrong = folder / "wrong.yaml"
    wrong.write_text("name: wrong\nsourcee: tests\n")
    logs = ["--raw", str(LOG)]
    out = ["--out", str(folder / "out"), "--overwrite"]
    return {
        "one log": ["run", "terminal", *logs, "--out", str(folder / "one")],
        "one session of an agent": ["run", "terminal", "--raw", str(SESSION), "--out", str(folder / "session")],
        "one log, on Beam's local runner": ["run", "terminal", *logs, *out, "--runner=FnApiRunner"],
        "the same again, all done": ["run", "terminal", *logs, "--out", str(folder / "one")],
        "plan of one log": ["plan", "terminal", *logs],
        "a wrong recipe": ["run", str(wrong), *logs, *out],
        "plan of a wrong recipe": ["plan", str(wrong), *logs],
        "run --help": ["run", "--help"],
    }


def main() -> None:
    """Prints the median of several processes of each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    seconds_by_command: dict[str, list[float]] = {}
    for _ in range(arguments.times):
        with tempfile.TemporaryDirectory() as folder:
            for name, words in commands(Path(folder)).items():
                seconds_by_command.setdefault(name, []).append(cpu_seconds(*words))
    table = Table("command", "CPU-seconds, median", "least", "aim")
    for name, seconds in seconds_by_command.items():
        aim = f"{AIMS[name]}" if name in AIMS else ""
        table.add_row(name, f"{statistics.median(seconds):.2f}", f"{min(seconds):.2f}", aim)
    Console().print(table)


if __name__ == "__main__":
    main()
