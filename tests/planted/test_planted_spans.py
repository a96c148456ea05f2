"""Classes of characters, held against sessions of which every character's class is known."""

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.make import batch_of
from tests.planted.span_truth import Session, editor_session, shell_session, terminal_session
from trajmill.pipelines.render.loss_spans import CLASS_OF_LABEL
from trajmill.quality.replicate import Words
from trajmill.quality.spans import Labelling, with_volatile

SEEDS = range(int(os.environ.get("TRAJMILL_SEEDS", "6")))


def classes(spans: list[dict], text: str) -> list[str]:
    """The class of each character."""
    labels = ["new"] * len(text)
    data = text.encode()
    for span in spans:
        begin, end = len(data[: span["begin"]].decode()), len(data[: span["end"]].decode())
        labels[begin:end] = [CLASS_OF_LABEL[span["label"]]] * (end - begin)
    return labels


def measured(sessions: list[Session], domain: str) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Characters by class: told rightly, told at all, and true; line feeds are not counted."""
    right: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    true: Counter[str] = Counter()
    for number, session in enumerate(sessions):
        (batch,) = Labelling().add(batch_of(session.trajectory(str(number), domain)))
        for spans, pieces in zip(batch["spans"].to_pylist(), session.truth, strict=True):
            text = "".join(text for text, _ in pieces)
            truth = [klass for text, klass in pieces for _ in text]
            for char, label, meant in zip(text, classes(spans, text), truth, strict=True):
                if char != "\n":
                    predicted[label] += 1
                    true[meant] += 1
                    right[label] += label == meant
    return right, predicted, true


def shares(sessions: list[Session], domain: str) -> dict[str, tuple[float, float]]:
    right, predicted, true = measured(sessions, domain)
    scores = {
        klass: (
            round(right[klass] / predicted[klass] if predicted[klass] else 1.0, 3),
            round(right[klass] / true[klass], 3),
        )
        for klass in sorted(true)
    }
    if os.environ.get("TRAJMILL_SHARES"):
        print(domain, {klass: (*pair, true[klass]) for klass, pair in scores.items()})  # noqa: T201
    return scores


def test_what_a_shell_shows_again_is_copied_and_the_gutters_of_its_listings_are_frames(tmp_path: Path):
    sessions = []
    for seed in SEEDS:
        (tmp_path / str(seed)).mkdir()
        sessions.append(shell_session(seed, tmp_path / str(seed), turns=10))
    scores = shares(sessions, "terminal")
    assert all(precision >= 0.98 and recall >= 0.98 for precision, recall in scores.values())


def test_an_editor_shows_frames_paths_that_were_given_and_lines_that_were_written():
    scores = shares([editor_session(seed) for seed in SEEDS], "swe")
    assert all(precision >= 0.98 and recall >= 0.95 for precision, recall in scores.values())


def test_rows_of_a_screen_that_stood_there_before_are_copied():
    scores = shares([terminal_session(seed) for seed in SEEDS], "terminal")
    assert all(precision >= 0.98 and recall >= 0.95 for precision, recall in scores.values())


def test_cuts_between_rows_change_nothing(tmp_path: Path):
    batch = batch_of(*(session.trajectory(name, "swe") for name, session in made_of_every_kind(tmp_path)))
    (whole,) = Labelling().add(batch)
    labelling = Labelling()
    parts = [part for at in range(0, batch.num_rows, 3) for part in labelling.add(batch.slice(at, 3))]
    assert [row for part in parts for row in part["spans"].to_pylist()] == whole["spans"].to_pylist()


def made_of_every_kind(folder: Path) -> list[tuple[str, Session]]:
    return [("a", shell_session(3, folder)), ("b", editor_session(3)), ("c", terminal_session(3))]


@pytest.mark.parametrize("text", ["pid 4711 at 12:00:01 serves /tmp/x9f", "[The command completed with exit code 0.]"])
def test_what_replicates_do_not_agree_on_goes_before_every_other_class(text: str):
    changed = text.replace("4711", "4712").replace("12:00:01", "12:00:09").replace("x9f", "k2d").replace("0.]", "1.]")
    flags = Words.of(text).volatile(Words.of(changed))
    spans = with_volatile([(0, len(text), "frame")], text, flags)
    cut = "".join(text[begin:end] for begin, end, label in spans if label == "volatile")
    assert cut
    assert all(label in ("volatile", "frame") for _, _, label in spans)
    assert "".join(text[begin:end] for begin, end, _ in spans) == text
