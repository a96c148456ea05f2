"""Scrubbing in a run: rows say how often it touched them, and placeholders hang on the salt of the recipe."""

import json
from pathlib import Path

import polars as pl
import pytest

from tests.pipelines.judge.test_near_duplicates import atif
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def recipe(salt: str | None) -> Recipe:
    normalize = {"max_reject_ratio": 1, **({"scrub_salt": salt} if salt else {})}
    return parse_recipe(json.dumps({"name": "s", "source": "t", "domains": ["terminal"], "normalize": normalize}), "s")


def shown(raw: Path, out: Path, salt: str | None) -> tuple[str, str]:
    """What the secret became in a transition and in the excerpt of a reject."""
    Run(recipe(salt), [str(raw)], str(out)).run("normalize")
    texts = pl.read_parquet(out / "transitions" / "*" / "*.parquet")["next_observation"].struct.field("content")
    rejects = pl.read_parquet(out / "rejects" / "*" / "*.parquet")["excerpt"]
    placeholders = [text[text.index("ghp_") :][: len(SECRET)] for text in (texts[0], rejects[0])]
    return placeholders[0], placeholders[1]


def test_placeholders_hang_on_the_salt_and_on_nothing_else_of_the_run(tmp_path: Path):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.json").write_text(json.dumps(atif("a", "task", [f"token {SECRET} was set", "ok"])))
    (raw / "other.xyz").write_text(f"nothing knows this form, token {SECRET} in it")
    plain = shown(raw, tmp_path / "plain", None)
    salted = shown(raw, tmp_path / "one", "a salt of many characters")
    again = shown(raw, tmp_path / "again", "a salt of many characters")
    resalted = shown(raw, tmp_path / "other", "another salt of many characters")
    assert SECRET not in {*plain, *salted, *resalted}
    assert salted == again
    for index in (0, 1):
        assert len({plain[index], salted[index], resalted[index]}) == 3


def test_a_row_says_how_many_placeholders_its_own_texts_hold(tmp_path: Path):
    log = atif("a", f"log in with {SECRET}", ["ok", f"token {SECRET} was set, {SECRET}", "fine"])
    (tmp_path / "a.json").write_text(json.dumps(log))
    Run(recipe(None), [str(tmp_path / "a.json")], str(tmp_path / "out")).run("normalize")
    rows = pl.read_parquet(tmp_path / "out" / "transitions" / "*" / "*.parquet").sort("step")
    touched = [
        sum((row[side]["content"] or "").count("ghp_") for side in ("observation", "next_observation") if row[side])
        for row in rows.to_dicts()
    ]
    assert SECRET not in str(rows.to_dicts())
    assert "ghp_" in rows["task"][0]["instruction"]
    assert rows["scrubbed"].to_list() == touched == [0, 2, 2]


def test_a_short_salt_is_refused_and_none_is_printed():
    with pytest.raises(ConfigError, match=r"normalize\.scrub_salt"):
        recipe("short")
    assert "a salt of many" not in repr(recipe("a salt of many characters"))
