"""Precision of the classes of characters on spans that were judged by eye.

    python -m benchmarks.spans OUT

OUT is a run over the corpora. `labels/spans.tsv` holds, of spans that were drawn by hash, the row (sixteen hex digits
of the digest of its `row_id`), the first byte and the one after the last, the domain, and the class that a reader gave
it who saw the action and what went before. A span is told rightly where most of its bytes are. What replicates tell is
not asked: a class that was judged to be volatile is told wrongly by every other.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from trajmill.pipelines.render.loss_spans import CLASS_OF_LABEL, CLASSES
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_transitions
from trajmill.quality.spans import Labelling

JUDGED: Final = Path(__file__).parent / "labels" / "spans.tsv"


class Judged(NamedTuple):
    """A span as it was judged: bytes [begin, end) of a row's next observation, and its class."""

    row: str
    begin: int
    end: int
    domain: str
    label: str


def read_judged(path: Path = JUDGED) -> list[Judged]:
    """The spans that were judged, in the order of the file."""
    lines = (line.split("\t") for line in path.read_text("utf-8").splitlines()[1:])
    return [Judged(row, int(begin), int(end), domain, label) for row, begin, end, domain, label in lines]


def digest(row_id: str) -> str:
    """Return the name of a row in the file of labels."""
    return hashlib.sha256(row_id.encode()).hexdigest()[:16]


def main_class(spans: Iterable[tuple[int, int, str]], begin: int, end: int) -> str:
    """The class of most bytes between begin and end; bytes without a label are new."""
    sizes: Counter[str] = Counter()
    for first, last, label in spans:
        sizes[CLASS_OF_LABEL[label]] += max(min(last, end) - max(first, begin), 0)
    sizes["new"] += end - begin - sum(sizes.values())
    return max(CLASSES, key=lambda label: sizes[label])


def read_spans(out: Path) -> Iterator[tuple[str, Sequence[tuple[int, int, str]]]]:
    """(name of the row, its spans) of each row of a run."""
    folder = Folder(str(out / "transitions"))
    for path in sorted((out / "transitions").glob("*/*.parquet")):
        labelling = Labelling()
        for batch in read_transitions(folder, f"{path.parent.name}/{path.name}"):
            for spans in labelling.add(batch):
                yield from zip(map(digest, batch["row_id"].to_pylist()), _span_tuples(spans), strict=True)


def _span_tuples(batch: pa.RecordBatch) -> list[list[tuple[int, int, str]]]:
    return [[(span["begin"], span["end"], span["label"]) for span in row] for row in batch["spans"].to_pylist()]


def table(judged: Iterable[Judged], spans_by_row: Mapping[str, Sequence[tuple[int, int, str]]]) -> str:
    """Rows of domains, columns of classes: how many of the spans that are told to be of a class are of it."""
    right: Counter[tuple[str, str]] = Counter()
    number: Counter[tuple[str, str]] = Counter()
    domains: defaultdict[str, int] = defaultdict(int)
    for judgment in judged:
        domains[judgment.domain] += 1
        if judgment.row in spans_by_row:
            label = main_class(spans_by_row[judgment.row], judgment.begin, judgment.end)
            number[judgment.domain, label] += 1
            right[judgment.domain, label] += label == judgment.label
    lines = ["| domain | spans | " + " | ".join(CLASSES) + " |", "|---|---|" + "---|" * len(CLASSES)]
    for domain in sorted(domains):
        cells = [
            f"{right[domain, label]} of {number[domain, label]}" if number[domain, label] else "" for label in CLASSES
        ]
        lines.append(f"| {domain} | {domains[domain]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("out", type=Path, help="the folder of a run over the corpora")
    judged = read_judged()
    wanted = {judgment.row for judgment in judged}
    spans_by_row = {row: spans for row, spans in read_spans(asked.parse_args().out) if row in wanted}
    print(table(judged, spans_by_row))


if __name__ == "__main__":
    main()
