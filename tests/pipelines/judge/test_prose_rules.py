"""A filter of datatrove as a rule of a recipe: what it drops has its own reason in verdicts and rejects."""

import json
from pathlib import Path

import polars as pl

from tests.pipelines.judge.test_near_duplicates import atif
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run

RECIPE = """
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
    Run(parse_recipe(RECIPE, "p"), [str(raw)], str(out), Execution()).run()
    verdicts = pl.read_parquet(out / "verdicts" / "*" / "*.parquet")
    whys = verdicts.select("reason", "why.datatrove:GopherQualityFilter", "why.shouting").unique().sort("reason")
    assert whys.rows() == [
        (None, None, None),
        ("prose", "gopher_short_doc", None),
        ("shouting", None, "RegexFilter"),
    ]
    rejects = pl.read_parquet(out / "rejects" / "judge" / "*.parquet").sort("reason")
    assert rejects.select("reason", "detail").rows() == [
        ("prose", "gopher_short_doc, by the recipe's rule"),
        ("shouting", "RegexFilter, by the recipe's rule"),
    ]
