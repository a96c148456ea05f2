"""The end of a run tells where its mixture is not what the recipe asks for, and nothing where it is."""

import io
from typing import Any

from trajmill.app.cli.tables import show_summary
from trajmill.app.console import Printer
from trajmill.pipelines.mix.mixture import Mixture
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.warnings import mixture_warnings


def row(domain: str = "web", component: str = "trajectories", **more: Any) -> dict[str, Any]:
    given = {"samples": 10, "tokens": 1000, "loss_tokens": 500, "available": 1000, "share": None, "shortfall": 0}
    return {"component": component, "domain": domain, **given, **more}


def mixture(asked: dict[str, Any], **stages: list[dict[str, Any]]) -> Mixture:
    return Mixture({}, stages, asked)


MIX = Mix.model_validate({"pools": {"sft": 0.8, "eval": 0.2}})
ASKED = {"sft": {"web": (80.0, 79)}, "eval": {"web": (20.0, 21)}}
SAMPLES = {"sft.web": 79, "eval.web": 30}


def test_a_pool_far_off_its_share_is_told_and_one_that_is_off_by_a_few_is_not():
    asked = {"sft": {"web": (80.0, 70), "swe": (400.0, 320)}, "eval": {"web": (20.0, 30), "swe": (100.0, 180)}}
    (line,) = mixture_warnings(mixture(asked, sft=[row()], eval=[row()]), MIX, SAMPLES)
    assert line == "pool eval was given 180 trajectories of swe, where its share is 100"


def short(budget: int) -> tuple[str, ...]:
    asked = {"components": {"a": {"weight": 0.5}, "b": {"weight": 0.5}}, "budget": budget}
    mix = Mix.model_validate({"pools": {"sft": 0.8, "eval": 0.2}, "stages": {"sft": asked, "eval": {"samples": 40}}})
    rows = [row("web", "a", tokens=40_000), row("", "b", tokens=0, available=0, samples=0, shortfall=budget // 2)]
    return mixture_warnings(mixture(ASKED, sft=rows, eval=[row()]), mix, SAMPLES)


def test_what_falls_short_is_told_with_its_figures():
    assert short(40_000) == (
        "stage sft falls short: component 'b' gave 0 of the 20,000 tokens of its share, and 0 are there",
        "stage eval falls short: it drew 10 of the 40 samples asked for",
    )


def test_a_budget_that_no_sample_fills_is_told_unless_hardly_anything_is_left_of_it():
    mix = Mix.model_validate({"pools": {"sft": 1}, "stages": {"sft": {"budget": 80_000}}})
    told = {
        tokens: mixture_warnings(mixture({"sft": {"web": (9.0, 9)}}, sft=[row(tokens=tokens)]), mix, SAMPLES)
        for tokens in (52_157, 79_199, 79_200)
    }
    assert [len(lines) for lines in told.values()] == [1, 1, 0]
    assert "52,157 of the 80,000" in told[52_157][0]


def test_before_samples_are_made_what_is_drawn_counts():
    drawn = Mixture({"trajectories.sft.web": 79, "trajectories.eval.web": 0, "tokens.eval.web": 9}, {}, ASKED)
    assert mixture_warnings(drawn, MIX) == (
        "pool eval is empty: of 21 trajectories that it was given none is a sample",
    )


def test_a_run_tells_it_at_its_end_and_in_its_record(raw, tmp_path):
    recipe = load_recipe("terminal")
    values = recipe.model_dump(mode="json")
    values["mix"]["stages"] = {"sft": {"budget": 10_000_000}}
    values["mix"]["pools"] = {"sft": 1, "eval": 0.0001}
    recipe = type(recipe).model_validate(values)
    summary = Run(recipe, [str(raw)], str(tmp_path / "out")).run()
    told = io.StringIO()
    show_summary(summary, recipe, Printer(told), is_reported=True)
    assert "pool eval is empty: no group came to it\n" in told.getvalue()
    assert " of the 10,000,000 tokens asked for; short is terminal of component 'trajectories'\n" in told.getvalue()
    assert "pool eval is empty" in (tmp_path / "out" / "run.json").read_text()
