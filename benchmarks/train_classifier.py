"""`python -m benchmarks.train_classifier OUT MODEL`: train a fastText model of good and bad rows for `classifier`.

The verdicts of OUT are the labels: a target is good, what a rule took out is bad. A fifth of the groups is held out.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import fasttext
import numpy as np
import xxhash

from trajmill.pipelines.judge.reasons import REASONS
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table, read_transitions, transition_files
from trajmill.quality.signal import Measured
from trajmill.quality.signals.classifier import lines_of
from trajmill.quality.tokens import TokenCounter


def read_labelled_lines(out: str) -> Iterator[tuple[str, str]]:
    """The group and the labelled line of each row whose use the recipe's rules decided."""
    transitions, names = transition_files(out)
    for name in names:
        columns = read_table(Folder(out) / "verdicts", name, ["use", "reason", "group"]).to_pydict().values()
        verdicts = zip(*columns, strict=True)
        for batch in read_transitions(transitions, name):
            lines = lines_of(Measured.of(batch, TokenCounter()))
            for index, (use, reason, group) in zip(lines.index.tolist(), verdicts, strict=False):
                if index >= 0 and reason not in {known_reason.name for known_reason in REASONS}:
                    yield group, f"__label__{'good' if use == 'target' else 'bad'} {lines.texts[index].as_py()}"


def train(lines: Iterable[str], model: str, dim: int = 32, epochs: int = 10) -> None:
    """Train in one thread, from start vectors given for every word: the library would leave most of them unset."""
    rows = sorted(set(lines))
    counts = Counter(word for row in rows for word in set(row.split()[1:]))
    words = ["</s>", *sorted(word for word, _ in counts.most_common(100_000))]
    start = np.random.Generator(np.random.PCG64(0)).uniform(-1 / dim, 1 / dim, (len(words), dim))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rows.txt").write_text("\n".join(rows) + "\n", "utf-8")
        vectors = [f"{word} {' '.join(map(str, numbers))}" for word, numbers in zip(words, start.tolist(), strict=True)]
        (Path(folder) / "start.vec").write_text("\n".join([f"{len(words)} {dim}", *vectors]) + "\n", "utf-8")
        options = {"pretrainedVectors": f"{folder}/start.vec", "dim": dim, "bucket": 0, "thread": 1, "verbose": 0}
        fasttext.train_supervised(f"{folder}/rows.txt", epoch=epochs, lr=0.5, **options).save_model(model)


def main() -> None:
    """Train on four fifths of the groups, and print how much of the rest is told rightly."""
    sides: tuple[list[str], list[str]] = ([], [])
    for group, line in read_labelled_lines(sys.argv[1]):
        sides[xxhash.xxh3_64_intdigest(group) % 5 == 0].append(line)
    train(sides[0], sys.argv[2])
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as held_out:
        held_out.write("\n".join(sides[1]) + "\n")
        held_out.flush()
        for label, scores in fasttext.load_model(sys.argv[2]).test_label(held_out.name).items():
            print(f"{label}: precision {scores['precision']:.3f}, recall {scores['recall']:.3f}")


if __name__ == "__main__":
    main()
