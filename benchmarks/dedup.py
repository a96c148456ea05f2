"""`python -m benchmarks.dedup`: what it costs to find planted copies among documents, and how many are found.

The same documents go through our pipeline and through the four MinHash stages of datatrove, with its default tokenizer
and with one that only splits at blanks: shingles of 5 words, 14 bands of 8. Each runs in a process of its own, one
after the other. CPU seconds are those that the system accounts to the process and its children, less what loading code
took.

A document is a trajectory of one step: an action of one word, and the document as what it led to. Our side counts the
judge stage, from the Parquet file of transitions to the Parquet file of verdicts, with all that it does beside (hashes,
sizes, exact duplicates, groups, rejects); turning documents into transitions is told apart. The other side counts all
four stages, from the Parquet file of documents to the Parquet file of those kept; its stages are told apart.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.logs.documents import Planted, Score, plant_documents, score
from benchmarks.processes import Task, load_ours, measure_task, work

MODULE: Final = "benchmarks.dedup"
DOCUMENTS: Final = "documents.parquet"
RECIPE: Final = Path(__file__).with_name("dedup.yaml")
BANDS, ROWS, WORDS = 14, 8, 5
AIMS: Final = {"datatrove": 50.0, "datatrove, str.split": 5.0}
"""How many times the CPU seconds of our judge stage each of these should take."""

_GROUP: Final = 10_000
"""Documents of a row group, as a data set of the Hub has them."""


def write(documents: Planted, folder: Path) -> None:
    """Writes the documents as one Parquet file that both sides read."""
    folder.mkdir(parents=True, exist_ok=True)
    count = len(documents.texts)
    table = pa.table({"id": [f"{n:07}" for n in range(count)], "text": documents.texts, "action": ["read"] * count})
    pq.write_table(table, folder / DOCUMENTS, row_group_size=_GROUP, compression="zstd")


def normalize_documents(folder: Path) -> Iterator[str]:
    """Makes transitions of the documents."""
    from trajmill.pipelines.recipe.recipe_file import load_recipe
    from trajmill.pipelines.run import Run

    Run(load_recipe(str(RECIPE)), [str(folder / DOCUMENTS)], str(folder / "ours")).run("normalize")
    yield "normalize"


def judge_documents(folder: Path) -> Iterator[str]:
    """Judges the transitions that `normalize_documents` made."""
    from trajmill.pipelines.recipe.recipe_file import load_recipe
    from trajmill.pipelines.run import Run

    Run(load_recipe(str(RECIPE)), [str(folder / DOCUMENTS)], str(folder / "ours")).run("judge")
    yield "judge"


def ours_kept(folder: Path) -> list[int]:
    """The numbers of the documents that our verdicts keep."""
    numbers: list[int] = []
    for verdicts in sorted((folder / "ours" / "verdicts").rglob("*.parquet")):
        name = verdicts.relative_to(folder / "ours" / "verdicts")
        native = pq.read_table(folder / "ours" / "transitions" / name, columns=["native_id"])["native_id"]
        numbers += map(int, native.filter(pq.read_table(verdicts, columns=["kept"])["kept"]).to_pylist())
    return numbers


def load_theirs() -> None:
    """Loads all that the four stages need."""
    from datatrove.utils.word_tokenizers import load_word_tokenizer

    for name in ("executor", "pipeline.dedup", "pipeline.readers", "pipeline.writers"):
        import_module(f"datatrove.{name}")
    load_word_tokenizer("eng").word_tokenize("words")


def four_stages(base: Path, *, split: bool) -> Iterator[str]:
    """The four stages of datatrove, told as each is done, by one worker."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import (
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
        MinhashDedupSignature,
    )
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.readers import ParquetReader
    from datatrove.pipeline.writers import ParquetWriter

    config = MinhashConfig(n_grams=WORDS, num_buckets=BANDS, hashes_per_bucket=ROWS)
    out = base / ("split" if split else "default")
    folder = {name: str(out / name) for name in ("signatures", "buckets", "remove", "kept")}
    reader = ParquetReader(str(base), glob_pattern=DOCUMENTS)
    language: Any = _splitter() if split else "eng"
    stages = {
        "signature": [reader, MinhashDedupSignature(folder["signatures"], config, language=language)],
        "buckets": [MinhashDedupBuckets(folder["signatures"], folder["buckets"], config=config)],
        "cluster": [MinhashDedupCluster(folder["buckets"], folder["remove"], config=config)],
        "filter": [reader, MinhashDedupFilter(folder["remove"]), ParquetWriter(folder["kept"])],
    }
    for name, steps in stages.items():
        tasks = BANDS if name == "buckets" else 1
        LocalPipelineExecutor(steps, tasks=tasks, workers=1, logging_dir=str(out / "logs" / name)).run()
        yield name


def _splitter() -> Any:
    """A tokenizer of datatrove that splits at blanks."""
    from datatrove.utils.word_tokenizers import WordTokenizer

    class Splitter(WordTokenizer):
        def word_tokenize(self, text: str) -> list[str]:
            return text.split()

        def sent_tokenize(self, text: str) -> list[str]:
            return text.splitlines()

        def span_tokenize(self, text: str) -> list[tuple[int, int]]:
            return [(0, len(text))]

    return Splitter()


def theirs_kept(base: Path, *, split: bool) -> list[int]:
    """The numbers of the documents that datatrove kept."""
    files = sorted((base / ("split" if split else "default") / "kept").glob("*.parquet"))
    return [int(key) for file in files for key in pq.read_table(file, columns=["id"])["id"].to_pylist()]


TASKS: Final[dict[str, Task]] = {
    "normalize": (load_ours, normalize_documents),
    "judge": (load_ours, judge_documents),
    "datatrove": (load_theirs, lambda place: four_stages(place, split=False)),
    "datatrove, str.split": (load_theirs, lambda place: four_stages(place, split=True)),
}


def compare_peers(truth: Planted, base: Path, peers: list[str]) -> list[dict[str, Any]]:
    """The figures of each side, ours first."""
    write(truth, base)
    prepared, _, _ = measure_task(MODULE, "normalize", base)
    ours, memory, _ = measure_task(MODULE, "judge", base)
    rows = [_row("trajmill", ours, memory, {"normalize (not counted)": prepared}, score(truth, ours_kept(base)))]
    for peer in peers:
        seconds, memory, stages = measure_task(MODULE, peer, base)
        survivors = theirs_kept(base, split=peer != "datatrove")
        rows.append(_row(peer, seconds, memory, stages, score(truth, survivors)) | {"ratio": seconds / ours})
    return rows


def _row(name: str, seconds: float, memory: float, stages: dict[str, float], scored: Score) -> dict[str, Any]:
    return {
        "name": name,
        "cpu": seconds,
        "peak_mb": memory,
        "stages": stages,
        "precision": scored.precision,
        "recall": scored.recall,
        "near_recall": scored.near_recall,
    }


def show(rows: list[dict[str, Any]], truth: Planted) -> None:
    """Prints the figures as a table, and as rows for docs/benchmarks.md."""
    size = sum(len(text.encode()) for text in truth.texts) / 1e6
    console = Console(width=120)
    console.print(f"{len(truth.texts)} documents, {size:.1f} MB, {len(set(truth.group.tolist()))} originals")
    names = ("", "CPU s", "times ours", "aim", "MB per CPU-s", "peak MB", "precision", "recall", "of near copies")
    cells = []
    for row in rows:
        ratio, aim = row.get("ratio"), AIMS.get(row["name"])
        cells.append(
            (
                row["name"],
                f"{row['cpu']:.2f}",
                f"{ratio:.1f}" if ratio else "",
                f"{aim:.0f}" if aim else "",
                f"{size / row['cpu']:.1f}",
                f"{row['peak_mb']:.0f}",
                f"{row['precision']:.4f}",
                f"{row['recall']:.3f}",
                f"{row['near_recall']:.3f}",
            )
        )
    table = Table(*names)
    for cell in cells:
        table.add_row(*cell)
    console.print(table)
    for row in rows:
        console.print(f"{row['name']}: " + ", ".join(f"{name} {spent:.2f} s" for name, spent in row["stages"].items()))
    console.print("\nfor docs/benchmarks.md:")
    for cell in cells:
        print(f"| {' | '.join(cell)} |")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--peers", nargs="*", default=list(AIMS), choices=list(AIMS))
    parser.add_argument("--json", type=Path)
    for name in ("task", "place"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        work(TASKS, options.task, Path(options.place))
        return
    truth = plant_documents(options.documents, options.seed)
    with tempfile.TemporaryDirectory(prefix="trajmill-dedup-") as temporary:
        rows = compare_peers(truth, Path(temporary), options.peers)
    show(rows, truth)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
