"""A plan tells what would be drawn of judged data, and where it is not what a run would draw."""

import shutil

import pytest

from tests.app.cli.test_cli import trajmill
from trajmill.pipelines.mix.mixture_plan import mixture_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.schemas import ConfigError


def recipe(**mix: object) -> Recipe:
    values = load_recipe("terminal").model_dump(mode="json")
    return Recipe.model_validate({**values, "mix": {**values["mix"], **mix}})


def test_a_folder_without_verdicts_says_so(finished):
    shutil.rmtree(finished / "verdicts")
    found = mixture_plan(recipe(), str(finished))
    assert found.mixture is None
    assert found.notes == (f"{finished} has no verdicts, so nothing can be drawn. Run with --stop-after judge first.",)


def test_verdicts_of_other_transitions_are_none(finished):
    (unit,) = (finished / "verdicts").glob("manifest.json")
    unit.write_text(unit.read_text().replace("terminal/part", "terminal/port"))
    assert mixture_plan(recipe(), str(finished)).mixture is None


def test_other_rules_and_other_forms_than_those_that_were_judged_and_measured_are_told(made):
    assert mixture_plan(recipe(), str(made)).notes == ()
    values = recipe().model_dump(mode="json")
    values["judge"]["rules"]["few_turns"]["min"] = 7
    (judged,) = mixture_plan(Recipe.model_validate(values), str(made)).notes
    assert "a run judges again before it draws" in judged
    (measured,) = mixture_plan(recipe(actions="native"), str(made)).notes
    assert "a run measures again" in measured


def test_a_plan_that_cannot_be_drawn_ends_as_the_run_would(made):
    short = {"sft": {"budget": 10_000_000, "on_shortfall": "stop"}}
    with pytest.raises(ConfigError, match=r"mix\.stages\.sft"):
        mixture_plan(recipe(stages=short), str(made))


def test_the_command_prints_the_mixture_and_what_falls_short(made, tmp_path):
    path = tmp_path / "mine.yaml"
    stages = "{sft: {budget: 10000000}, rl: {samples: 1}}"
    path.write_text(f"extends: terminal\nname: mine\nsource: tests\nmix:\n  stages: {stages}\n")
    said = trajmill("plan", path, "--out", made)
    assert "| sft | trajectories | terminal | 100.0% | " in said
    assert " of a budget of 10,000,000, " in said
    assert " of the 10,000,000 tokens asked for; short is terminal of component 'trajectories'" in said
    assert said.count("| rl | trajectories | terminal |") == 1
    assert "rl: " in said.split("short is")[0]


def test_the_command_wants_something_to_plan(made):
    assert "give --raw, what is read, or --out, a judged run" in trajmill("plan", "terminal", code=1)
