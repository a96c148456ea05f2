"""The model of languages that comes with trajmill, asked as docs/signals.md says."""

import json

import pytest

from tests.conftest import ROOT
from tests.make import batch_of, trajectory
from trajmill.pipelines.recipe.recipe_file import load_recipe, parse_recipe
from trajmill.quality.signal import Measured
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import DOMAINS

SENTENCES = json.loads((ROOT / "benchmarks" / "languages.json").read_text("utf-8"))


RECIPE = """
name: languages
source: made
extends: all
judge:
  signals: {language: {languages: [en, zh]}}
  rules: {other_language: {signal: language, min: 0.3}}
"""


def kept(text: str) -> bool:
    judge = parse_recipe(RECIPE, "languages").judge
    rule = judge.rules["other_language"]
    (told,) = set(judge.made(rule.signal).measure(Measured.of(batch_of(trajectory(text)), TokenCounter())).tolist())
    return told >= rule.min


@pytest.mark.parametrize("language", sorted(SENTENCES))
def test_prose_stays_in_the_languages_of_the_recipe_and_goes_in_any_other(language):
    assert kept("\n".join(SENTENCES[language])) == (language in ("en", "zh"))


@pytest.mark.parametrize("text", ["total 2\ndrwxr-xr-x 2 root", "x = {1: 2}", '#1 button "Weiter"', ""])
def test_what_is_no_prose_stays(text):
    assert kept(text)


@pytest.mark.parametrize(
    "text", ["translate it all to french", "Handle files in different git repos", "option to set model to gpt"]
)
def test_a_line_of_english_that_is_too_short_to_tell_a_language_stays(text):
    assert kept(text)


def test_two_lines_of_another_language_are_enough_to_go():
    assert not kept("\n".join(SENTENCES["fr"][:2]))


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_built_in_recipe_leaves_a_language_out(domain):
    assert "language" not in load_recipe(domain).judge.measured()
