"""Rules by a classifier and by filters of prose."""

import hashlib
import json
import random
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from benchmarks.train_classifier import read_labelled_lines, train
from tests.pipelines.judge.test_near_duplicates import atif
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run

GOOD_WORDS = ["compiled", "tests", "passed", "module", "function", "commit"]
BAD_WORDS = ["spam", "lorem", "blah", "junk", "noise", "void"]


def lines(good: str = "good", bad: str = "bad") -> list[str]:
    chosen = random.Random(1)
    rows = [(good, GOOD_WORDS) if row % 3 else (bad, BAD_WORDS) for row in range(300)]
    return [f"__label__{label} run 0 → {' '.join(chosen.choices(words, k=6))}" for label, words in rows]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "quality.bin"
    train(lines(), str(path))
    return path


def test_the_same_rows_train_the_same_bytes_in_whatever_order_they_come(model: Path, tmp_path: Path):
    train(reversed(lines()), str(tmp_path / "again.bin"))
    assert (tmp_path / "again.bin").read_bytes() == model.read_bytes()


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
    table = pl.read_parquet(judged / "verdicts" / "*" / "*.parquet").sort("use", "reason", "signal.classifier")
    assert Counter(table["reason"].to_list()) == {None: 7, "low_quality": 1, "all_bad": 4}
    rows = table.filter(pl.col("reason") == "low_quality")
    assert (rows["use"].to_list(), rows["kept"].to_list()) == (["context"], [True])
    assert table["signal.classifier"].is_between(0, 1).all()


def test_the_manifest_names_the_model_by_its_digest_and_another_model_judges_anew(judged: Path, model: Path):
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
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
    recipe = parse_recipe(RECIPE.replace("MODEL", str(path)).replace("all_bad", "few"), "q")
    Run(recipe, [str(raw)], str(out)).run("judge")
    before = pl.read_parquet(out / "verdicts" / "*" / "*.parquet")["signal.classifier"].to_list()
    train(lines("bad", "good"), str(path))
    Run(recipe, [str(raw)], str(out)).run("judge")
    after = pl.read_parquet(out / "verdicts" / "*" / "*.parquet")["signal.classifier"].to_list()
    assert before[0] > 0.5 > before[1]
    assert after[0] < 0.5 < after[1]


def test_rows_of_a_run_are_labelled_by_what_its_rules_said_of_them(judged: Path):
    labelled = list(read_labelled_lines(str(judged)))
    assert Counter(line.split()[0] for _, line in labelled) == {"__label__good": 7, "__label__bad": 5}
    assert len({group for group, _ in labelled}) == 3
    assert all("spam junk noise void" in line for _, line in labelled if line.startswith("__label__bad"))


PROSE_RULES_RECIPE = """
name: p
source: tests
domains: [terminal]
judge:
  near_duplicates: null
  signals:
    datatrove:GopherQualityFilter: {min_doc_words: 20}
    shouting: {signal: "datatrove:RegexFilter", regex_exp: "[A-Z]{4,}"}
  rules:
    prose: {signal: "datatrove:GopherQualityFilter", min: 1}
    shouting: {signal: shouting, min: 1}
"""
GOOD = "It was the best of times and it was the worst of times, with all that the people of this town could have."


def test_a_drop_keeps_the_filters_reason(tmp_path: Path):
    raw = tmp_path / "raw"
    raw.mkdir()
    answers = {
        "good": [GOOD, "ok"],
        "short": ["Only a few words of prose.", "ok"],
        "loud": [GOOD, f"{GOOD[:-1]} WHAT."],
    }
    for name, texts in answers.items():
        (raw / f"{name}.json").write_text(json.dumps(atif(name, f"task {name}", texts)))
    out = tmp_path / "out"
    Run(parse_recipe(PROSE_RULES_RECIPE, "p"), [str(raw)], str(out), Execution()).run()
    verdicts = pl.read_parquet(out / "verdicts" / "*" / "*.parquet")
    whys = verdicts.select("reason", "why.datatrove:GopherQualityFilter", "why.shouting").unique().sort("reason")
    assert whys.rows() == [(None, None, None), ("prose", "gopher_short_doc", None), ("shouting", None, "RegexFilter")]
    rejects = pl.read_parquet(out / "rejects" / "judge" / "*.parquet").sort("reason")
    assert rejects.select("reason", "detail").rows() == [
        ("prose", "datatrove:GopherQualityFilter is 0, below 1: gopher_short_doc"),
        ("shouting", "shouting is 0, below 1: RegexFilter"),
    ]
