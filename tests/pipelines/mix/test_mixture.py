"""The mixture: as a run draws it, as it is planned, and as the documentation shows it."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from tests.app.cli.test_cli import ran, trajmill
from tests.conftest import ROOT
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.mix.mixture_plan import mixture_plan
from trajmill.pipelines.mix.simulation_instructions import INSTRUCTION_SCHEMA
from trajmill.pipelines.recipe.recipe import Mix, Recipe
from trajmill.pipelines.recipe.recipe_file import load_recipe, parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError

SAMPLES = [str(ROOT / "samples" / "terminal" / "asciicast"), str(ROOT / "samples" / "mcp")]
DOMAINS = ["terminal", "mcp"]


def recipe(mix: dict[str, Any], **more: Any) -> Any:
    values = {"extends": "all", "name": "m", "source": "tests", "domains": DOMAINS, "mix": mix, **more}
    return parse_recipe(json.dumps(values), "m")


def counts(out: Path) -> dict[str, int]:
    counted: dict[str, int] = json.loads((out / "shards" / "manifest.json").read_text())["counts"]
    return counted


def files(out: Path) -> dict[Path, bytes]:
    return {path.relative_to(out): path.read_bytes() for path in sorted((out / "shards").rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def replay(tmp_path_factory) -> Path:
    path: Path = tmp_path_factory.mktemp("replay") / "replay.jsonl"
    rows = [{"text": f"Document {number}. " + " ".join(f"w{number}x{n}" for n in range(60))} for number in range(80)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def mixed(replay) -> dict[str, Any]:
    return {
        "pools": {"cpt": 0.5, "sft": 0.2, "rl": 0.2, "eval": 0.1},
        "passages": [{"name": "replay", "kind": "text", "path": str(replay), "licence": "CC0-1.0"}],
        "stages": {
            "cpt": {
                "budget": 30_000,
                "components": {
                    "trajectories": {"weight": 0.6, "weights": {"terminal": 0.5, "mcp": 0.5}},
                    "replay": {"kind": "text", "weight": 0.4},
                },
            },
            "rl": {"samples": 6},
        },
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory, mixed) -> Path:
    out: Path = tmp_path_factory.mktemp("made") / "out"
    summary = Run(recipe(mixed), SAMPLES, str(out)).run()
    assert [line.checked() for line in summary.lines] == list(summary.lines)
    return out


def test_a_stage_holds_its_budget_and_its_weights_in_tokens_of_its_samples(made):
    counted = counts(made)
    tokens = {name: counted[f"tokens.cpt.{name}"] for name in ("terminal", "mcp", "replay")}
    assert 27_000 < sum(tokens.values()) <= 30_000
    assert tokens["replay"] == pytest.approx(12_000, rel=0.1)
    assert tokens["mcp"] == pytest.approx(9_000, rel=0.2)
    rows = json.loads((made / "shards" / "manifest.json").read_text())["mixture"]["stages"]["cpt"]
    drawn = {row["domain"]: (row["tokens"], row["samples"]) for row in rows}
    assert drawn == {
        name: (pytest.approx(size, rel=0.005), counted[f"samples.cpt.{name}"]) for name, size in tokens.items()
    }


def test_passages_are_samples_of_their_own_domain_and_bear_loss_whole(made):
    rows = pl.read_parquet(f"{made}/shards/cpt/replay/*.parquet").to_dicts()
    assert {row["domain"] for row in rows} == {"replay"}
    assert all(row["spans"] == [{"begin": 0, "end": len(row["text"]), "label": None}] for row in rows)
    assert not (made / "shards" / "sft" / "replay").exists()


def test_no_more_samples_of_rl_are_drawn_than_wanted_and_the_rest_is_accounted_for(made):
    counted = counts(made)
    assert sum(number for name, number in counted.items() if name.startswith("samples.rl.")) == 6
    numbers = pl.read_parquet(f"{made}/shards/rl/*/*.parquet")["extra_info"].struct.field("index").to_list()
    assert sorted(numbers) == list(range(6))
    rejects = pl.read_parquet(f"{made}/rejects/mix/*.parquet")
    assert rejects.filter(pl.col("reason") == "not_drawn").height > 0


def test_draws_say_the_pool_of_every_group(made):
    ledger = pl.read_parquet(made / "draws" / "pools.parquet")
    assert ledger["group"].n_unique() == ledger.height
    pools = dict(zip(ledger["group"].to_list(), ledger["pool"].to_list(), strict=True))
    for pool in ("cpt", "sft"):
        shards = pl.read_parquet(f"{made}/shards/{pool}/*/*.parquet", columns=["group"])
        assert {pools[group] for group in shards["group"]} == {pool}


def test_how_the_work_is_cut_changes_no_byte(made, mixed, tmp_path):
    raw = [*reversed(SAMPLES)]
    done = Run(recipe(mixed), raw, str(tmp_path / "out"), Execution(part_bytes=270_000)).run()
    assert len(done.plan.parts) > 3
    assert files(tmp_path / "out") == files(made)


def test_what_is_planned_of_judged_data_is_what_a_run_draws(made, mixed):
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    planned = mixture_plan(recipe(mixed), str(made))
    assert planned.notes == ()
    assert planned.mixture is not None
    drawn = json.loads((made / "shards" / "manifest.json").read_text())["mixture"]
    description = json.loads(json.dumps(planned.mixture.told()))
    assert (description["stages"], description["pools"]) == (drawn["stages"], drawn["pools"])
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before


def test_passages_that_are_not_prepared_are_left_out_of_a_plan_and_it_says_so(made, mixed):
    section = {**mixed["passages"][0], "licence": "MIT"}
    planned = mixture_plan(recipe({**mixed, "passages": [section]}), str(made))
    assert planned.notes == ("Passages as the recipe names them are not prepared there; they are left out here.",)
    assert planned.mixture is not None
    rows = {row["component"]: row for row in planned.mixture.stages["cpt"]}
    assert (rows["replay"]["tokens"], rows["replay"]["shortfall"]) == (0, 12_000)


def test_a_run_that_goes_on_does_nothing_twice(made, mixed):
    before = files(made)
    times = {path: path.stat().st_mtime_ns for path in (made / "shards").rglob("*.parquet")}
    Run(recipe(mixed), SAMPLES, str(made)).run()
    assert files(made) == before
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_instructions_to_the_simulator_are_told_by_prompts_and_counted(raw, tmp_path):
    def samples(name: str, **more: Any) -> pl.DataFrame:
        pools = {"cpt": 0.5, "sft": 0.5}
        Run(recipe({"pools": pools, "prompt_share": 1, **more}), [str(raw)], str(tmp_path / name)).run()
        return pl.read_parquet(f"{tmp_path / name}/shards/sft/*/*.parquet").sort("id")

    plain = samples("plain")
    text = "After three calls every answer is an error of the server. " * 4
    rows = [{"trajectory_id": key, "simulation_instruction": text} for key in plain["trajectory_id"].unique()]
    table = pl.DataFrame(rows).with_columns(
        **{name: pl.lit(None) for name in INSTRUCTION_SCHEMA.names if name not in rows[0]}
    )
    table.write_parquet(tmp_path / "instructions.parquet")
    instructed = samples("told", instructions=str(tmp_path / "instructions.parquet"))
    assert instructed.height > 0
    assert all(text.strip() in row[0]["content"] for row in instructed["messages"])
    assert (instructed["num_tokens"] - plain["num_tokens"] > 30).all()


@pytest.mark.parametrize(
    "mix",
    [
        {"stages": {"rl": {"budget": 100}}},
        {"stages": {"cpt": {"components": {"replay": {"kind": "text"}}}}},
        {"passages": [{"name": "replay", "kind": "text", "path": "x", "licence": "MIT"}]},
        (
            {
                "passages": [{"name": "replay", "kind": "text", "path": "x", "licence": "MIT"}],
                "stages": {"rl": {"components": {"replay": {"kind": "text"}}}},
            }
        ),
        {"templates": "no/such/folder"},
    ],
)
def test_a_mixture_that_cannot_be_made_is_refused_at_launch(mix):
    with pytest.raises(ValidationError):
        Mix.model_validate(mix)


def terminal_recipe(**mix: object) -> Recipe:
    values = load_recipe("terminal").model_dump(mode="json")
    return Recipe.model_validate({**values, "mix": {**values["mix"], **mix}})


def test_a_folder_without_verdicts_says_so(finished):
    shutil.rmtree(finished / "verdicts")
    plan = mixture_plan(terminal_recipe(), str(finished))
    assert plan.mixture is None
    assert plan.notes == (f"{finished} has no verdicts, so nothing can be drawn. Run with --stop-after judge first.",)


def test_verdicts_of_other_transitions_are_none(finished):
    (unit,) = (finished / "verdicts").glob("manifest.json")
    unit.write_text(unit.read_text().replace("terminal/part", "terminal/port"))
    assert mixture_plan(terminal_recipe(), str(finished)).mixture is None


def test_other_rules_and_other_forms_than_those_that_were_judged_and_measured_are_told(made):
    assert mixture_plan(terminal_recipe(), str(made)).notes == ()
    values = terminal_recipe().model_dump(mode="json")
    values["judge"]["rules"]["few_turns"]["min"] = 7
    (judged,) = mixture_plan(Recipe.model_validate(values), str(made)).notes
    assert "a run judges again before it draws" in judged
    (measured,) = mixture_plan(terminal_recipe(actions="native"), str(made)).notes
    assert "a run measures again" in measured


def test_a_plan_that_cannot_be_drawn_ends_as_the_run_would(made):
    short = {"sft": {"budget": 10_000_000, "on_shortfall": "stop"}}
    with pytest.raises(ConfigError, match=r"mix\.stages\.sft"):
        mixture_plan(terminal_recipe(stages=short), str(made))


def test_the_command_prints_the_mixture_and_what_falls_short(made, tmp_path):
    path = tmp_path / "mine.yaml"
    stages = "{sft: {budget: 10000000}, rl: {samples: 1}}"
    path.write_text(f"extends: terminal\nname: mine\nsource: tests\nmix:\n  stages: {stages}\n")
    output = trajmill("plan", path, "--out", made)
    assert re.search(r"sft +│ trajectories +│ terminal +│ +([\d,]+) │ +\1 │ +1\.00 ", output)
    assert " of a budget of 10,000,000, " in output
    assert " of the 10,000,000 tokens asked for; short is mcp, terminal of component 'trajectories'" in output
    assert len(re.findall(r"rl +│ trajectories +│ terminal", output)) == 1
    assert "rl: " in output.split("short is")[0]


def test_the_command_wants_something_to_plan(made):
    assert "give --raw, what is read, or --out, a judged run" in trajmill("plan", "terminal", code=1)


EXAMPLE = ROOT / "docs" / "mixture-recipe.yaml"


def test_the_example_draws_each_stage_within_a_sample_of_its_budget(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages = sorted((ROOT / "docs").glob("*.md"))
    lines = [json.dumps({"page": page.name, "text": page.read_text("utf-8")}) for page in pages]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manuals.jsonl").write_text("\n".join(lines), "utf-8")
    raws = [part for name in ("terminal", "mcp") for part in ("--raw", str(ROOT / "samples" / name))]
    ran("run", str(EXAMPLE), *raws, "--out", "out/mixed")
    stages = json.loads((tmp_path / "out/mixed/shards/manifest.json").read_text("utf-8"))["mixture"]["stages"]
    asked = parse_recipe(EXAMPLE.read_text("utf-8"), "the example").mix.stages
    for name in ("cpt", "sft"):
        drawn = sum(row["tokens"] for row in stages[name])
        budget = asked[name].budget
        assert budget is not None
        assert 0.95 * budget <= drawn <= budget
    assert {row["component"] for row in stages["cpt"]} == {"worlds", "manuals"}
    (tools,) = (row for row in stages["sft"] if row["component"] == "tools")
    assert tools["epochs"] > 1
