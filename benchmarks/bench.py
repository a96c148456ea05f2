"""`make bench`: how fast and how large the stages are on generated logs, and what Beam costs beside a plain loop.

Every figure is of a process of its own, by the operating system's account of its CPU time and memory. Runs alternate
between a plain loop and Beam, so that a machine whose speed drifts bends both alike; ratios are of paired runs.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.generate import write_apart
from benchmarks.processes import cpu_seconds, load_ours, run_to_end

AIMS = {"asciicast": 30.0, "uiautomator": 15.0, "claude_code": 60.0}
"""Raw MB per CPU-second through the whole normalize stage."""

DOMAINS = {
    **dict.fromkeys(
        ("asciicast", "asciicast_output", "script", "ttyrec", "claude_code", "codex", "codex_exec"), "terminal"
    ),
    **dict.fromkeys(("mcp_jsonrpc", "mcp_http", "mcp_recorder", "chat_messages", "chat_tools", "otel_genai"), "mcp"),
    **dict.fromkeys(("tau2", "tau_bench", "chat_document"), "mcp"),
    **dict.fromkeys(("swe_rows", "sweagent", "mini_swe_agent"), "swe"),
    **dict.fromkeys(("webdancer", "inspect"), "search"),
    "har": "web",
}
"""Format → the recipe it is measured with, `android` by default."""


def recipe_for(fmt: str) -> Any:
    from trajmill.pipelines.recipe.recipe_file import load_recipe

    return load_recipe(DOMAINS.get(fmt, "android"))


def parse_only(fmt: str, raw: str, out: str) -> None:
    """Parses every input and drops what comes: the connector alone."""
    from trajmill.pipelines.normalize.input_reading import read_input
    from trajmill.pipelines.plan.plan import make_plan

    recipe = recipe_for(fmt)
    for log in make_plan(recipe, [raw]).inputs:
        for _ in read_input(log, recipe):
            pass


def plain(fmt: str, raw: str, out: str) -> None:
    """Plans and normalizes in a plain loop over the same functions that Beam calls."""
    from trajmill.pipelines.normalize.normalizer import Normalizer, normalize_part
    from trajmill.pipelines.plan.plan import make_plan
    from trajmill.pipelines.storage.folders import Folder

    recipe = recipe_for(fmt)
    folder = Folder(out)
    normalizer = Normalizer(recipe, folder / "transitions", folder / "rejects" / "normalize")
    for part in make_plan(recipe, [raw]).parts:
        normalize_part(part, normalizer)


def through(stage: str) -> Callable[[str, str, str], None]:
    """Runs the pipeline up to a stage, through Beam."""

    def run(fmt: str, raw: str, out: str) -> None:
        from trajmill.pipelines.execution.execution import LOCAL, Execution
        from trajmill.pipelines.run import Run

        Run(recipe_for(fmt), [raw], out, Execution(beam=(f"--runner={LOCAL}",))).run(stage)

    return run


def spent() -> float:
    """CPU seconds that this process and the children that it has ended have cost so far."""
    both = [resource.getrusage(whom) for whom in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


TASKS: dict[str, Callable[[str, str, str], None]] = {
    "parse": parse_only,
    "plain": plain,
    "beam": through("normalize"),
    "whole": through("mix"),
}


def measure(task: str, fmt: str, raw: str, out: str) -> tuple[float, float]:
    """(CPU seconds of the work, peak memory in MB) of a task in a process of its own.

    Neither is loading code work, nor what the interpreter does after it, when it takes all modules apart.
    """
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "benchmarks.bench", "--task", task, "--format", fmt, "--raw", raw, "--out", out]
    output, usage = run_to_end(command)
    start, end = map(float, output.split())
    return end - start, usage.ru_maxrss / 1024


def yardstick(megabytes: int = 60) -> float:
    """MB a CPU-second of `orjson.loads` over seeded lines of 3 kB: how fast this machine is just now."""
    import orjson

    line = orjson.dumps(
        {"type": "user", "text": "word number 12345 / path/to/file.py\n" * 60, "list": list(range(120))}
    )
    count = megabytes * 1_000_000 // len(line)
    return count * len(line) / 1e6 / cpu_seconds(lambda: deque(map(orjson.loads, repeat(line, count)), 0))


def size_of(folder: str) -> float:
    """MB of all files below a folder."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6


def bench(fmt: str, megabytes: int, rounds: int, base: Path) -> dict[str, Any]:
    """The figures of one format."""
    raw = base / "raw" / fmt
    print(write_apart(fmt, megabytes, raw), end="")
    out = str(base / "out")
    runs: dict[str, list[tuple[float, float]]] = {task: [] for task in TASKS}
    for _ in range(rounds):
        for task, figures in runs.items():
            figures.append(measure(task, fmt, str(raw), out))
    shutil.rmtree(out, ignore_errors=True)
    size = size_of(str(raw))
    shutil.rmtree(raw)
    cpu = {task: statistics.median(seconds for seconds, _ in figures) for task, figures in runs.items()}
    pairs = zip(runs["beam"], runs["plain"], strict=True)
    return {
        "format": fmt,
        "raw_mb": size,
        "aim": AIMS.get(fmt),
        "parse": size / cpu["parse"],
        "normalize": size / cpu["beam"],
        "whole": size / cpu["whole"],
        "beam_overhead": statistics.median(a[0] / b[0] for a, b in pairs) - 1,
        "peak_mb": max(memory for _, memory in runs["beam"]),
        "whole_peak_mb": max(memory for _, memory in runs["whole"]),
    }


def show(rows: list[dict[str, Any]]) -> None:
    """Prints the figures as a table."""
    table = Table(
        "format", "raw MB", "parse", "normalize", "aim", "to shards", "Beam over a plain loop", "peak MB", "to shards"
    )
    for row in rows:
        table.add_row(
            row["format"],
            f"{row['raw_mb']:.0f}",
            f"{row['parse']:.1f}",
            f"{row['normalize']:.1f}",
            f"{row['aim']:.0f}" if row["aim"] else "",
            f"{row['whole']:.1f}",
            f"{row['beam_overhead']:+.1%}",
            f"{row['peak_mb']:.0f}",
            f"{row['whole_peak_mb']:.0f}",
        )
    console = Console(width=120)
    console.print("raw MB per CPU-second (loading and unloading of code taken off), and peak memory of the process")
    console.print(table)
    console.print(f"yardstick: orjson.loads {yardstick():.0f} MB per CPU-second on this machine just now")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--formats", nargs="*", default=[*AIMS, "asciicast_output", "appagent"])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    for name in ("task", "format", "raw", "out"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        load_ours()
        start = spent()
        TASKS[options.task](options.format, options.raw, options.out)
        print(start, spent())
        return
    with tempfile.TemporaryDirectory(prefix="trajmill-bench-") as temporary:
        rows = [bench(fmt, options.megabytes, options.rounds, Path(temporary)) for fmt in options.formats]
    show(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
