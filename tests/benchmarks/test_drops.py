"""Drops of rules on real logs: the order in which they are judged, and what is counted of the labels."""

import json
import random
from glob import escape
from pathlib import Path

import pytest

from benchmarks.drops import (
    ITEMS,
    MORE,
    NUMBER,
    NUMBERS,
    Drop,
    Table,
    ceiling_table,
    domain_table,
    drops_of,
    in_turn,
    interval,
    precision_table,
    rate_table,
    run_over,
    shown,
    whole_recipe,
)
from benchmarks.labels import LABELS, Label, Place, read_labels, write_labels
from tests.conftest import ROOT, corpora_folder
from tests.pipelines.hostile import GOOD
from trajmill.pipelines.judge.reasons import LOST, LOST_ROWS, NO_TARGET, NO_TEXT
from trajmill.quality.registry import signals
from trajmill.schemas import DOMAINS, ConfigError

EMPTY = Table(whole_recipe("terminal"), [], [], {})


def drop(rule="loop", step=-1, file="a", connector="c", domain="swe"):
    return Drop(Place(file, "t", step, rule), domain, connector, 1.0, 0)


def test_every_label_speaks_of_a_known_rule_and_says_why_in_a_line():
    known = {*MORE, *LOST, *LOST_ROWS, NO_TARGET, NO_TEXT}.union(*(whole_recipe(d).judge.rules for d in DOMAINS))
    labels = read_labels(LABELS)
    assert len(labels) > 1_000
    for place, label in labels.items():
        assert place.rule in known
        assert 10 <= len(label.reason) <= 120
        assert "\n" not in label.reason
        assert not Path(place.file).is_absolute()


@pytest.mark.corpus
def test_every_label_names_a_file_of_the_corpora(record_property):
    names = {place.file for place in read_labels(LABELS)}
    root = corpora_folder()
    if root is None:
        record_property("corpus_not_read", sorted(names))
        pytest.skip(f"the corpora are not here: {len(names)} files that labels name were not looked for")
    # of a log of several files the beginning of their names
    gone = {name for name in names if not list((root / name).parent.glob(f"{escape((root / name).name)}*"))}
    assert gone == set()


def test_labels_come_back_as_they_were_written_and_later_ones_count(tmp_path):
    first = Label(Place("a/b", "t", 3, "loop"), "right", "the same click again")
    other = Label(Place("ä", "t", -1, "no_op"), "wrong", "it changed the title")
    write_labels(tmp_path, [first, other])
    assert read_labels(tmp_path) == {first.place: first, other.place: other}
    changed = Label(first.place, "wrong", "another element")
    write_labels(tmp_path, [changed])
    assert read_labels(tmp_path) == {first.place: changed, other.place: other}


@pytest.mark.parametrize("fault", ["twice", "elsewhere", "verdict"])
def test_a_label_twice_in_the_wrong_file_or_without_a_verdict_is_refused(tmp_path, fault):
    line = Label(Place("a", "t", 0, "loop"), "so-so" if fault == "verdict" else "right", "why it is so").line()
    name = "no_op.jsonl" if fault == "elsewhere" else "loop.jsonl"
    (tmp_path / name).write_text(line * (2 if fault == "twice" else 1))
    with pytest.raises(ValueError, match=name):
        read_labels(tmp_path)


def test_the_order_takes_each_format_in_turn_and_depends_on_no_order_of_the_run():
    pairs = [(EMPTY, drop(step=n, connector="many")) for n in range(50)]
    pairs += [(EMPTY, drop(step=n, connector="few")) for n in range(100, 103)]
    ordered = in_turn(pairs)
    shuffled = random.Random(1).sample(pairs, len(pairs))
    assert in_turn(shuffled) == ordered
    assert {d.connector for _, d in ordered[:2]} == {"many", "few"}
    assert [d.connector for _, d in ordered[:6]].count("few") == 3
    assert [d.place.step for _, d in ordered if d.connector == "many"] != list(range(50))


@pytest.mark.parametrize(
    ("right", "of", "low", "high"),
    [(0, 0, 0.0, 1.0), (100, 100, 0.963, 1.0), (84, 100, 0.756, 0.899), (1, 1, 0.207, 1.0)],
)
def test_the_interval_is_that_of_wilson(right, of, low, high):
    assert interval(right, of) == pytest.approx((low, high), abs=1e-3)


def test_precision_counts_what_is_judged_among_the_first_and_tells_of_labels_without_a_drop():
    drops = [drop(step=n) for n in range(NUMBER + 1)]
    told = [(drops[0], "right"), (drops[1], "wrong"), (drops[NUMBER], "wrong"), (drop(step=999), "wrong")]
    labels = {d.place: Label(d.place, verdict, "why it is so") for d, verdict in told}
    row = list(precision_table({"loop": drops}, labels))[2]
    assert row == f"| loop | {NUMBER + 1} | 2 | 1 | 0.50 | 0.09 to 0.91 | 1 wrong |"


def test_every_signal_has_a_rule_whose_drops_are_judged_or_is_said_to_be_a_number_only():
    for domain in DOMAINS:
        named = {rule.signal for rule in whole_recipe(domain).judge.ordered_rules()}
        assert set(signals()) - named == NUMBERS, "see MORE and NUMBERS in benchmarks/drops.py"


def test_a_run_over_samples_is_told_by_rule_domain_action_error_and_outcome(tmp_path):
    table = run_over(whole_recipe("terminal"), str(ROOT / "samples" / "terminal"), str(tmp_path / "terminal"))
    drops = drops_of(table)
    assert set(drops) >= {"few_turns", "turn_mask", "duplicate_trajectory", "no_text"}
    some = next(found[0] for found in drops.values() if found)
    assert table.rows[some.row]["trajectory_id"] == some.place.trajectory
    lines = "\n".join(shown(table, some, 60))
    assert some.place.file in lines
    assert some.place.trajectory in lines
    rates = list(rate_table([table]))
    assert rates[2].startswith(f"| all |  | {len(table.rows)} |")
    assert [row.split(" | ")[0].strip("| ") for row in rates[2:]][:2] == ["all", "domain"]
    counted = dict(zip(sorted(drops), list(domain_table(drops))[2:], strict=True))
    assert f" {len(drops[some.place.rule])} |" in counted[some.place.rule]
    groups = json.loads((tmp_path / "terminal" / "measures" / "replicates.json").read_bytes())["terminal"]["groups"]
    assert [row.split(" | ")[:2] for row in list(ceiling_table(str(tmp_path)))[2:]] == [["| terminal", str(groups)]]


def test_benchmarks_are_named_relative_to_the_corpora():
    assert all(not str(of["path"]).startswith("/") for of in ITEMS.values())
    with pytest.raises(ConfigError):
        whole_recipe("no such domain")


def test_what_a_run_says_of_a_dropped_copy_is_said_of_that_copy_alone(tmp_path):
    for copy in ("one.jsonl", "two.jsonl"):
        (tmp_path / "raw").mkdir(exist_ok=True)
        (tmp_path / "raw" / copy).write_bytes(GOOD)
    table = run_over(whole_recipe("terminal"), str(tmp_path / "raw"), str(tmp_path / "out"))
    copies = [row for row in table.rows if row["step"] == 0]
    assert len({row["trajectory_id"] for row in copies}) == 1
    told = {row["provenance"]["uri"]: table.details.get((row["row_id"], -1)) for row in copies}
    assert [detail is not None for detail in told.values()].count(True) == 1
    (dropped,) = drops_of(table, ["duplicate_trajectory"])["duplicate_trajectory"]
    assert f"detail      {told[dropped.place.file]}" in "\n".join(shown(table, dropped, 60))
