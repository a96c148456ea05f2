"""A classifier from labelled rows to verdicts: trained alike each time, measured on groups it has not seen."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.pipelines.judge.test_near_duplicates import atif
from trajmill.app.cli.cli import app
from trajmill.pipelines.judge.classifier_training import Training, sampled, split, train_classifier, vocabulary
from trajmill.pipelines.judge.training_rows import Source, TrainingRow, training_rows
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.quality.fasttext_model import Model
from trajmill.schemas import ConfigError

GOOD_WORDS = ["compiled", "tests", "passed", "module", "function", "commit"]
BAD_WORDS = ["spam", "lorem", "blah", "junk", "noise", "void"]


def rows_of(number: int, seed: int = 1) -> list[dict[str, object]]:
    chosen = random.Random(seed)
    made: list[dict[str, object]] = []
    for row in range(number):
        good = row % 3 > 0
        words = " ".join(chosen.choices(GOOD_WORDS if good else BAD_WORDS, k=6))
        made.append(
            {
                "action": f"run {row % 7}",
                "next_observation": words,
                "label": "good" if good else "bad",
                "group": row // 3,
            }
        )
    return made


def table(path: Path, rows: list[dict[str, object]]) -> Source:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Source(str(path))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    train_classifier([table(folder / "rows.jsonl", rows_of(300))], str(folder / "quality.bin"))
    return folder / "quality.bin"


def test_what_it_is_worth_on_groups_not_seen_stands_beside_the_model(model: Path):
    report = json.loads(Path(f"{model}.json").read_bytes())
    assert report["rows"] == {"read": 300, "used": 300}
    assert report["trained_on"]["groups"] + report["held_out"]["groups"] == 100
    assert 10 <= report["held_out"]["groups"] <= 30
    metrics = report["metrics"]
    assert metrics["rows"] == report["held_out"]["good"] + report["held_out"]["bad"]
    assert metrics["roc_auc"] > 0.99
    middle = metrics["thresholds"][4]
    assert (middle["threshold"], middle["precision"], middle["recall"]) == (0.5, 1.0, 1.0)
    assert sum(middle[name] for name in ("true_good", "false_good", "false_bad", "true_bad")) == metrics["rows"]


def test_the_same_rows_give_the_same_bytes_in_whatever_order_they_come(model: Path, tmp_path: Path):
    rows = rows_of(300)
    random.Random(5).shuffle(rows)
    train_classifier([table(tmp_path / "rows.jsonl", rows)], str(tmp_path / "again.bin"))
    assert (tmp_path / "again.bin").read_bytes() == model.read_bytes()
    assert Path(f"{tmp_path}/again.bin.json").read_bytes() == Path(f"{model}.json").read_bytes()


def test_groups_are_never_on_both_sides_and_what_was_trained_on_word_for_word_is_left_out():
    rows = [TrainingRow(f"line {number % 40}", number % 2 == 0, f"g{number}") for number in range(200)]
    train, held_out, known = split(sampled(rows, Training()), Training())
    assert {row.group for row in train}.isdisjoint(row.group for row in held_out)
    assert not {row.line for row in train} & {row.line for row in held_out}
    assert len(train) + len(held_out) + known == 200
    assert known > 0


def test_a_sample_is_by_hash_and_not_by_order():
    rows = [TrainingRow(f"line {number}", True, f"g{number}") for number in range(500)]
    few = Training(rows=50)
    assert sampled(rows, few) == sampled(reversed(rows), few)
    assert sampled(rows, few) != sampled(rows, replace(few, seed=1))
    assert len(sampled(rows, few)) == 50


def test_rare_words_are_not_learned():
    rows = [TrainingRow("common rare1", True, "a"), TrainingRow("common common", False, "b")]
    assert vocabulary(rows, Training()) == ["common"]
    assert vocabulary(rows, Training(min_count=1, vocabulary=1)) == ["common"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"text": "a", "lable": 1}], "no column 'label'"),
        ([{"words": "a", "label": 1}], "neither 'action'"),
        ([{"text": "a", "label": 1}], "both kinds are needed"),
        ([{"text": "a", "label": None}], "0 good and 0 bad"),
    ],
)
def test_rows_that_teach_nothing_are_refused(tmp_path: Path, rows: list[dict[str, object]], words: str):
    with pytest.raises(ConfigError, match=words):
        train_classifier([table(tmp_path / "rows.jsonl", rows)], str(tmp_path / "m.bin"))
    assert not (tmp_path / "m.bin").exists()


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_tables_are_read_with_texts_or_transitions_and_labels_of_many_kinds(tmp_path: Path, ending: str):
    rows: list[dict[str, object]] = [
        {"text": "Hello, 12 World", "label": "True", "group": "g"},
        {"text": None, "label": "True", "group": "g"},
        {"text": "x", "label": None, "group": None},
        {"text": "y z", "label": "ugly", "group": None},
    ]
    path = tmp_path / f"rows.{ending}"
    if ending == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        table(path, rows)
    counts: Counter[str] = Counter()
    found = list(training_rows(Source(str(path)), counts))
    assert found == [
        TrainingRow("hello , 0 world hello_, ,_0 0_world", True, "g"),
        TrainingRow("y z y_z", False, "y z y_z"),
    ]
    assert counts == {"read": 4, "without_text": 1, "without_label": 1}


RECIPE = """
name: q
source: tests
domains: [terminal]
judge:
  near_duplicates: null
  signals:
    classifier: {model: MODEL}
    unlikely: {signal: trajectory_classifier, model: MODEL, label: bad}
  rules:
    low_quality: {signal: classifier, min: 0.5, use: context}
    all_bad: {signal: unlikely, max: 0.5}
"""


@pytest.fixture(scope="module")
def judged(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sessions: good throughout, good with one bad answer, bad throughout."""
    folder, out = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp("out")
    good, bad = "tests passed module commit", "spam junk noise void"
    for name, answers in (("a", [good] * 4), ("b", [good, bad, good, good]), ("c", [bad] * 4)):
        log = atif(name, f"task {name}", [f"{answer} {step}" for step, answer in enumerate(answers)])
        (folder / f"{name}.json").write_text(json.dumps(log).replace("step ", f"step {name} "))
    recipe = parse_recipe(RECIPE.replace("MODEL", str(model)), "q")
    Run(recipe, [str(folder)], str(out)).run()
    return out


def test_rules_decide_by_the_probability_of_rows_and_of_trajectories(judged: Path):
    found = pl.read_parquet(judged / "verdicts" / "*" / "*.parquet").sort("use", "reason", "signal.classifier")
    assert Counter(found["reason"].to_list()) == {None: 7, "low_quality": 1, "all_bad": 4}
    rows = found.filter(pl.col("reason") == "low_quality")
    assert (rows["use"].to_list(), rows["kept"].to_list()) == (["context"], [True])
    assert found["signal.classifier"].is_between(0, 1).all()


def test_the_manifest_names_the_model_by_its_digest_and_another_model_judges_anew(judged: Path, model: Path):
    digest = json.loads(Path(f"{model}.json").read_bytes())["model_sha256"]
    for stage in ("verdicts", "shards"):
        assert json.loads((judged / stage / "manifest.json").read_bytes())["models"] == {
            "signals.classifier": digest,
            "signals.unlikely": digest,
        }


def test_a_model_that_changes_under_its_name_is_measured_with_again(model: Path, tmp_path: Path):
    raw, out, path = tmp_path / "raw", tmp_path / "out", tmp_path / "m.bin"
    raw.mkdir()
    (raw / "a.json").write_text(json.dumps(atif("a", "task", ["tests passed module commit", "spam junk noise void"])))
    path.write_bytes(model.read_bytes())
    Path(f"{path}.json").write_bytes(Path(f"{model}.json").read_bytes())
    recipe = parse_recipe(RECIPE.replace("MODEL", str(path)).replace("all_bad", "few"), "q")
    Run(recipe, [str(raw)], str(out)).run("judge")
    before = pl.read_parquet(out / "verdicts" / "*" / "*.parquet")["signal.classifier"].to_list()
    turned: list[dict[str, object]] = [
        {**row, "label": "good" if row["label"] == "bad" else "bad"} for row in rows_of(300)
    ]
    train_classifier([table(tmp_path / "rows.jsonl", turned)], str(path))
    Run(recipe, [str(raw)], str(out)).run("judge")
    after = pl.read_parquet(out / "verdicts" / "*" / "*.parquet")["signal.classifier"].to_list()
    assert before[0] > 0.5 > before[1]
    assert after[0] < 0.5 < after[1]


def test_verdicts_of_a_run_are_weak_labels(judged: Path, tmp_path: Path):
    counts: Counter[str] = Counter()
    rows = list(training_rows(Source(str(judged), "verdict"), counts))
    assert Counter(row.good for row in rows) == {True: 7, False: 5}
    assert counts == {"read": 12}
    assert len({row.group for row in rows}) == 3
    assert list(training_rows(Source(str(judged), "outcome"), counts)) == []
    assert counts["without_label"] == 12
    with pytest.raises(ConfigError, match="no transitions"):
        list(training_rows(Source(str(tmp_path), "verdict"), counts))


def test_the_command_trains_and_prints_what_the_model_is_worth(tmp_path: Path):
    source = table(tmp_path / "rows.jsonl", rows_of(120))
    arguments = ["train-classifier", source.path, "--out", str(tmp_path / "m.bin"), "--epochs", "5"]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "area below the ROC curve" in result.output
    assert Model(str(tmp_path / "m.bin")).labels == ("bad", "good")
    refused = CliRunner().invoke(app, ["train-classifier", str(tmp_path / "none"), "--out", str(tmp_path / "n.bin")])
    assert refused.exit_code == 1
