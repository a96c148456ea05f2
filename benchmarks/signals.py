"""`python -m benchmarks.signals`: what each signal costs, and all of them together, on mixed domains.

Over generated logs of terminals and phones, or over the logs given by `--raw`. Figures are MB of text
(actions and next observations) a CPU-second, reading of Parquet not counted. *Together* is the whole measuring pass:
hashes, nodes, sizes and token counts, with every signal but those told apart, each thing that several need found once.
A signal's own row counts all that it needs, as if it were the only one.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.generate import write_apart
from benchmarks.processes import cpu_seconds
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.parquet import read_transitions, transition_files
from trajmill.quality.fingerprint import struct_text
from trajmill.quality.measure import Measuring
from trajmill.quality.registry import signal, signals
from trajmill.quality.signal import Measured
from trajmill.quality.tokens import TokenCounter, text_bytes

APART: Final = ("predictability", "classifier", "datatrove:")
"""Signals whose names hold one of these are told apart: each row is compressed or judged by a model by itself."""

AIM: Final = 30.0
FORMATS: Final = ("asciicast", "claude_code", "uiautomator", "appagent", "droidbot")
RECIPE: Final = "name: signals\nsource: benchmark\nnormalize: {max_reject_ratio: 1.0}\n"


def generate_logs(folder: Path, megabytes: int) -> str:
    """A folder of generated logs, so many MB in all."""
    for name in FORMATS:
        write_apart(name, megabytes / len(FORMATS), folder / name)
    return str(folder)


def normalize_logs(raw: Sequence[str]) -> dict[str, list[pa.RecordBatch]]:
    """The transitions that are made of logs, by domain."""
    by_domain: dict[str, list[pa.RecordBatch]] = {}
    with tempfile.TemporaryDirectory(prefix="trajmill-normalized-") as out:
        Run(parse_recipe(RECIPE, "signals"), raw, out).run("normalize")
        folder, names = transition_files(out)
        for name in names:
            by_domain.setdefault(name.split("/")[0], []).extend(read_transitions(folder, name))
    return by_domain


def size_of(batches: Iterable[pa.RecordBatch]) -> float:
    """MB of text of actions and next observations."""
    paths = (("action", "text"), ("next_observation", "content"))
    return sum(int(text_bytes(struct_text(batch, *path)).sum()) for batch in batches for path in paths) / 1e6


def seconds(work: Callable[[], Any], rounds: int) -> float:
    """The fewest CPU seconds of so many rounds."""
    return min(cpu_seconds(work) for _ in range(rounds))


def together(batches: Sequence[pa.RecordBatch], names: Sequence[str]) -> None:
    """The whole measuring pass with these signals."""
    measuring = Measuring(names, TokenCounter())
    for batch in batches:
        list(measuring.add(batch))
    list(measuring.rest())


def alone(batches: Sequence[pa.RecordBatch], name: str) -> None:
    """One signal, with all that it needs."""
    for batch in batches:
        signal(name).measure(Measured.of(batch, TokenCounter()))


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--raw", nargs="*", help="logs to measure on; generated ones without")
    parser.add_argument("--megabytes", type=int, default=80, help="of generated logs, in all")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trajmill-signals-") as temporary:
        by_domain = normalize_logs(options.raw or [generate_logs(Path(temporary) / "raw", options.megabytes)])
    every = list(chain.from_iterable(by_domain.values()))
    told_apart = [name for name in signals() if any(word in name for word in APART)]
    cheap = [name for name in signals() if name not in told_apart]
    console = Console(width=120)
    table = Table("domain", "MB of text", "rows", "no signal", "together", "aim")
    for domain, some in {**by_domain, "all": every}.items():
        size = size_of(some)
        rates = [size / seconds(partial(together, some, names), options.rounds) for names in ([], cheap)]
        rows = sum(batch.num_rows for batch in some)
        table.add_row(domain, f"{size:.1f}", str(rows), *(f"{rate:.1f}" for rate in rates), f"{AIM:.0f}")
    console.print("MB of text (actions and next observations) a CPU-second")
    console.print(table)
    table = Table("signal, as if alone", "MB/s", "ms per MB")
    size = size_of(every)
    for name in [*cheap, *told_apart]:
        spent = seconds(partial(alone, every, name), options.rounds)
        table.add_row(name, f"{size / spent:.0f}", f"{1000 * spent / size:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
