"""Training a fastText classifier of good and bad transitions, with what it is worth on rows that it has not seen.

The same rows give the same model, byte for byte, in whatever order they come: one thread, a fixed seed, and start
vectors for every word. The library itself fills only a tenth of them in one thread and leaves the rest to what happens
to stand in memory, so they are given to it as a file, and no hashed n-grams are used, which could not be given.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import xxhash

from trajmill.pipelines.judge.training_rows import Source, TrainingRow, training_rows
from trajmill.pipelines.storage.folders import Folder, sha256_of
from trajmill.quality.classification import evaluation
from trajmill.quality.fasttext_model import Model
from trajmill.schemas import ConfigError

LIBRARY: Final = "fasttext-numpy2"
_END: Final = "</s>"
"""The library's word for the end of a line."""


@dataclass(frozen=True, slots=True)
class Training:
    """How a classifier is trained.

    Attributes:
        held_out: share of the groups that it is measured on and not trained on.
        seed: of that choice, of the start vectors and of training.
        rows: at most so many are used, chosen by hash.
        vocabulary: words, and pairs of them, that it knows at most: the most common.
        min_count: rows of training in which a word must stand.
        dim: of its vectors.
        epochs: how often it reads the rows.
        lr: rate of learning.
    """

    held_out: float = 0.2
    seed: int = 0
    rows: int = 200_000
    vocabulary: int = 100_000
    min_count: int = 2
    dim: int = 32
    epochs: int = 10
    lr: float = 0.5


def _hash(text: str, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(text.encode(), seed)


def sampled(rows: Iterable[TrainingRow], training: Training) -> list[TrainingRow]:
    """The rows that are used, in an order that does not depend on theirs; equal rows of a group count once."""
    found: dict[TrainingRow, int] = {}
    limit: int | None = None
    for row in rows:
        drawn = _hash(f"{row.group}\0{row.line}", training.seed)
        if limit is None or drawn <= limit:
            found[row] = drawn
        if len(found) >= 2 * training.rows:
            ordered = sorted(found.items(), key=lambda pair: (pair[1], pair[0]))[: training.rows]
            found, limit = dict(ordered), ordered[-1][1]
    return [row for row, _ in sorted(found.items(), key=lambda pair: (pair[1], pair[0]))][: training.rows]


def split(rows: Sequence[TrainingRow], training: Training) -> tuple[list[TrainingRow], list[TrainingRow], int]:
    """(rows to train on, rows held out, how many more were held out but stand among the others word for word)."""
    sides: tuple[list[TrainingRow], list[TrainingRow]] = ([], [])
    for row in rows:
        chance = _hash(f"held out:{row.group}", training.seed) / 2**64
        sides[chance < training.held_out].append(row)
    known = {row.line for row in sides[0]}
    fresh = [row for row in sides[1] if row.line not in known]
    return sides[0], fresh, len(sides[1]) - len(fresh)


def vocabulary(rows: Iterable[TrainingRow], training: Training) -> list[str]:
    """The words that the classifier knows, sorted."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(set(row.line.split()))
    common = [(-number, word) for word, number in counts.items() if number >= training.min_count]
    return sorted(word for _, word in sorted(common)[: training.vocabulary])


def trained(rows: Sequence[TrainingRow], training: Training, path: str) -> None:
    """Trains on the rows in their order and writes the model to a local path."""
    import fasttext

    known = vocabulary(rows, training)
    kept = set(known)
    numbers = np.random.Generator(np.random.PCG64(training.seed))
    start = numbers.uniform(-1 / training.dim, 1 / training.dim, (len(known) + 1, training.dim))
    with tempfile.TemporaryDirectory() as folder:
        vectors, lines = Path(folder) / "start.vec", Path(folder) / "rows.txt"
        with vectors.open("w", encoding="utf-8") as stream:
            stream.write(f"{len(known) + 1} {training.dim}\n")
            for word, values in zip([*known, _END], start, strict=True):
                stream.write(word + " " + " ".join(f"{value:.6f}" for value in values) + "\n")
        with lines.open("w", encoding="utf-8") as stream:
            for row in rows:
                words = " ".join(word for word in row.line.split() if word in kept)
                stream.write(f"__label__{'good' if row.good else 'bad'} {words}\n")
        model = fasttext.train_supervised(
            str(lines),
            pretrainedVectors=str(vectors),
            dim=training.dim,
            epoch=training.epochs,
            lr=training.lr,
            seed=training.seed,
            minCount=1,
            bucket=0,
            wordNgrams=1,
            thread=1,
            verbose=0,
        )
        model.save_model(path)


def _by_class(rows: Sequence[TrainingRow]) -> dict[str, int]:
    good = sum(row.good for row in rows)
    return {"good": good, "bad": len(rows) - good, "groups": len({row.group for row in rows})}


def _checked(rows: Sequence[TrainingRow], what: str) -> None:
    of = _by_class(rows)
    if not of["good"] or not of["bad"]:
        raise ConfigError(
            f"{what} {of['good']} good and {of['bad']} bad rows of {of['groups']} groups; both kinds are needed there. "
            "Give more labelled rows, or another share to hold out."
        )


def _check_free(model: Path, report: Path) -> None:
    """Refuses to replace files, unless they are a model and its report, which says its digest."""
    try:
        if json.loads(report.read_bytes())["model_sha256"] == sha256_of(str(model)):
            return
    except (OSError, ValueError, KeyError, TypeError):
        pass
    for path in (model, report):
        if path.exists():
            raise ConfigError(f"{path} is there, and no model that was trained here. Choose another --out.")


def train_classifier(sources: Sequence[Source], out: str, training: Training | None = None) -> dict[str, Any]:
    """Trains a classifier, writes it to `out` and what it is worth to `out` + `.json`, and returns the latter.

    Raises:
        ConfigError: a source cannot be read, one class is missing among the rows to train on or those held out, or
            there is a file that this did not write.
    """
    _check_free(Path(out), Path(f"{out}.json"))
    training = training or Training()
    counts: Counter[str] = Counter()
    rows = sampled((row for source in sources for row in training_rows(source, counts)), training)
    train, held_out, known = split(rows, training)
    _checked(train, "To train on there are")
    _checked(held_out, "Held out are")
    folder, name = Folder(str(Path(out).parent)), Path(out).name
    with folder.writing(name) as path:
        trained(train, training, path)
    scores = Model(out).probabilities([row.line for row in held_out], ["good"])
    good = np.array([row.good for row in held_out])
    content = "\n".join(f"{row.good} {row.group} {row.line}" for row in rows)
    report = {
        "model_sha256": sha256_of(out),
        "rows_sha256": hashlib.sha256(content.encode()).hexdigest(),
        "library": f"{LIBRARY} {version(LIBRARY)}",
        "labels": sorted({source.labels for source in sources}),
        "training": asdict(training),
        "rows": {**dict(sorted(counts.items())), "used": len(rows)},
        "trained_on": _by_class(train),
        "held_out": {**_by_class(held_out), "left_out_as_trained_on": known},
        "metrics": evaluation(scores, good),
    }
    folder.write(f"{name}.json", json.dumps(report, indent=1).encode() + b"\n")
    return report
