"""`python -m benchmarks.scrubbing`: what scrubbing costs, and what it replaces in real logs.

    python -m benchmarks.scrubbing                          # speed on generated logs, kinds and issuers that are missed
    python -m benchmarks.scrubbing --raw FOLDER_OF_LOGS     # speed on these, with replacements per MB by kind
    python -m benchmarks.scrubbing --raw FOLDER_OF_LOGS --show host    # each distinct text that a kind replaced
    python -m benchmarks.scrubbing --files FOLDER...        # each distinct text that is replaced in these files
    python -m benchmarks.scrubbing --anchors [--out OUT]    # beside other scanners: see benchmarks.secret_anchors

Logs are parsed and assembled first, by domain, as normalize does; then the scrub of each record batch is timed, as it
is called there. MB are 10^6 bytes of text in the scrubbed columns, a text that several rows share counted once; seconds
are CPU seconds. What a kind replaces is found by scrubbing for that kind alone, so that what two kinds would claim
counts for both.

Kinds of secrets (`tests/quality/secret_kinds.txt`) are planted into answers of tools, with fresh letters each time.
Issuers are those of the newest gitleaks, by its own samples, where Go is installed. Whether what is replaced is a
secret, only a reader of `--show` and `--files` can tell.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from random import SystemRandom
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from benchmarks.secret_anchors import TOOLS, anchors, get_tools, of_gitleaks
from benchmarks.signals import generate_logs, seconds
from tests.quality.secret_kinds import secret_kinds
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.storage.parquet import ROW_GROUP_BYTES
from trajmill.quality.scrub import KINDS, Kind, scrub
from trajmill.quality.scrubbing.columns import Columns
from trajmill.quality.scrubbing.findings import findings
from trajmill.schemas import Assembler, Trajectory

AIM: Final = 120.0
RECIPE: Final = "name: scrubbing\nsource: benchmark\n"
_AROUND: Final = 24
"""Bytes that are shown before and after what was replaced."""


def assemble(raw: Sequence[str]) -> dict[str, list[pa.RecordBatch]]:
    """The transitions of the logs as normalize has them before it scrubs, by domain."""
    recipe = parse_recipe(RECIPE, "scrubbing")
    waiting: dict[str, Assembler] = {}
    by_domain: dict[str, list[pa.RecordBatch]] = {}
    for log in make_plan(recipe, raw).inputs:
        parents: dict[str, str] = {}
        for read, origin in read_input(log, recipe):
            if isinstance(read, Trajectory):
                assembler = waiting.setdefault(read.domain, Assembler())
                for _ in assembler.add_blocks(read, origin, parents):
                    if assembler.nbytes >= ROW_GROUP_BYTES:
                        by_domain.setdefault(read.domain, []).append(assembler.take())
    for domain, assembler in waiting.items():
        if assembler.num_rows:
            by_domain.setdefault(domain, []).append(assembler.take())
    return dict(sorted(by_domain.items()))


def size_of(batches: Sequence[pa.RecordBatch]) -> float:
    """MB of text in the columns that are scrubbed."""
    return sum(len(texts.data) for batch in batches for texts in Columns(batch).texts) / 1e6


def scrub_batches(batches: Sequence[pa.RecordBatch], kinds: Sequence[Kind]) -> list[tuple[pa.RecordBatch, pa.Array]]:
    """Each batch scrubbed as in normalize, with its counts of replacements by row."""
    return [scrub(batch, kinds, per_trajectory=False) for batch in batches]


def find_replaced(batches: Sequence[pa.RecordBatch], kind: Kind) -> Iterator[tuple[bytes, bytes]]:
    """(what stood there, with what stands around it) of each run of bytes that a kind changes, texts once each."""
    for batch in batches:
        fresh, _ = scrub(batch, [kind], per_trajectory=False)
        for before, after in zip(Columns(batch).texts, Columns(fresh).texts, strict=True):
            old, new = before.whole, after.whole[: len(before.whole)]
            places = np.flatnonzero(np.frombuffer(old, np.uint8) != np.frombuffer(new, np.uint8))
            breaks = np.flatnonzero(np.diff(places) > 4) + 1
            for run in np.split(places, breaks) if len(places) else ():
                start, end = int(run[0]), int(run[-1]) + 1
                yield old[start:end], old[max(0, start - _AROUND) : end + _AROUND]


def speeds(console: Console, batches: dict[str, list[pa.RecordBatch]], rounds: int) -> None:
    """Prints the speed by domain and of all together."""
    table = Table("domain", "MB of text", "replacements per MB", "MB per CPU-second", "aim")
    for domain, some in {**batches, "all": list(chain.from_iterable(batches.values()))}.items():
        size = size_of(some)
        hits = sum(pc.sum(counts, min_count=0).as_py() for _, counts in scrub_batches(some, KINDS))
        rate = size / seconds(partial(scrub_batches, some, KINDS), rounds)
        table.add_row(domain, f"{size:.1f}", f"{hits / size:.1f}", f"{rate:.0f}", f"{AIM:.0f}")
    console.print(table)


def kinds(console: Console, batches: Sequence[pa.RecordBatch]) -> None:
    """Prints what each kind replaces."""
    size = size_of(batches)
    table = Table("kind", "replacements", "per MB", "distinct")
    for kind in KINDS:
        counts = Counter(text for text, _ in find_replaced(batches, kind))
        table.add_row(kind, str(counts.total()), f"{counts.total() / size:.1f}", str(len(counts)))
    console.print(table)


def print_missed_kinds(console: Console) -> None:
    """Prints how many kinds of planted secrets stay readable, by family, and which."""
    random, total, left = SystemRandom(), Counter[str](), Counter[str]()
    for kind in secret_kinds():
        total[kind.family] += 1
        if readable := kind.left(random):
            left[kind.family] += 1
            console.print(f"readable: {kind.family}, {kind.name}: {readable}", markup=False, highlight=False)
    table = Table("family", "kinds", "readable")
    for family, count in total.items():
        table.add_row(family, str(count), str(left[family]))
    console.print(table)


def print_replaced_in_files(console: Console, folders: Sequence[str]) -> None:
    """Prints each distinct text that is replaced in the text files of some folders, scrubbed each by itself."""
    seen: dict[tuple[str, str], None] = {}
    for path in (path for folder in folders for path in sorted(Path(folder).rglob("*")) if path.is_file()):
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        try:
            texts = pa.array([data.decode()])
        except UnicodeDecodeError:
            continue
        for finding in findings(texts):
            seen[finding.kind, data[finding.start : finding.end].decode(errors="replace")] = None
    for kind, text in sorted(seen):
        console.print(f"{kind} {text!r}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"{len(seen)} distinct")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", nargs="*", help="logs to measure on; generated ones without")
    parser.add_argument("--megabytes", type=int, default=80, help="of generated logs, in all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--show", choices=KINDS, help="print what this kind replaces, and nothing else")
    parser.add_argument("--files", nargs="+", help="folders of text files to scrub as they are")
    parser.add_argument("--anchors", action="store_true", help="measure beside gitleaks and detect-secrets")
    parser.add_argument("--out", type=Path, help="folder that a run wrote, for --anchors")
    options = parser.parse_args()
    console = Console(width=120)
    if options.files:
        print_replaced_in_files(console, options.files)
        return
    if options.anchors:
        anchors(console, TOOLS.resolve(), options.out, show=False)
        return
    with tempfile.TemporaryDirectory(prefix="trajmill-scrubbing-") as temporary:
        raw = options.raw or [generate_logs(Path(temporary) / "raw", options.megabytes)]
        by_domain = assemble(raw)
    every = list(chain.from_iterable(by_domain.values()))
    if options.show:
        shown = dict(find_replaced(every, options.show))
        for text, around in sorted(shown.items()):
            console.print(f"{text!r} in {around!r}", markup=False, highlight=False, soft_wrap=True)
        return
    speeds(console, by_domain, options.rounds)
    if options.raw:
        kinds(console, every)
        return
    print_missed_kinds(console)
    if shutil.which("go"):
        get_tools(TOOLS.resolve())
        of_gitleaks(console, TOOLS.resolve(), show=False)


if __name__ == "__main__":
    main()
