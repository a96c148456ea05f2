"""Drops of rules on real logs: the order in which they are judged, and what is counted of the labels."""

import json
from glob import escape
from pathlib import Path

import pytest

from benchmarks.drops import MORE, NUMBERS, whole_recipe
from benchmarks.labels import LABELS, read_labels
from tests.conftest import corpora_folder
from trajmill.pipelines.judge.reasons import LOST, LOST_ROWS, NO_TARGET, NO_TEXT
from trajmill.quality.registry import signals
from trajmill.schemas import DOMAINS


def test_every_label_speaks_of_a_known_rule_and_says_why_in_a_line():
    known = {*MORE, *LOST, *LOST_ROWS, NO_TARGET, NO_TEXT}.union(*(whole_recipe(d).judge.rules for d in DOMAINS))
    labels = read_labels(LABELS)
    assert len(labels) > 1_000
    for key, label in labels.items():
        assert key.rule in known
        assert 10 <= len(label.reason) <= 120
        assert "\n" not in label.reason
        assert not Path(key.file).is_absolute()


@pytest.mark.corpus
def test_every_label_names_a_file_of_the_corpora(record_property):
    names = {label.file for label in read_labels(LABELS)}
    root = corpora_folder()
    if root is None:
        record_property("corpus_not_read", sorted(names))
        pytest.skip(f"the corpora are not here: {len(names)} files that labels name were not looked for")
    # of a log of several files the beginning of their names
    gone = {name for name in names if not list((root / name).parent.glob(f"{escape((root / name).name)}*"))}
    assert gone == set()


@pytest.mark.parametrize("fault", ["twice", "elsewhere", "verdict"])
def test_a_label_twice_in_the_wrong_file_or_without_a_verdict_is_refused(tmp_path, fault):
    verdict = "so-so" if fault == "verdict" else "right"
    label = {"file": "a", "trajectory": "t", "step": 0, "rule": "loop", "verdict": verdict, "reason": "why it is so"}
    name = "no_op.jsonl" if fault == "elsewhere" else "loop.jsonl"
    (tmp_path / name).write_text(f"{json.dumps(label)}\n" * (2 if fault == "twice" else 1))
    with pytest.raises(ValueError, match=name):
        read_labels(tmp_path)


def test_every_signal_has_a_rule_whose_drops_are_judged_or_is_said_to_be_a_number_only():
    for domain in DOMAINS:
        named = {rule.signal for rule in whole_recipe(domain).judge.ordered_rules()}
        assert set(signals()) - named == NUMBERS, "see MORE and NUMBERS in benchmarks/drops.py"
