"""The worked example of docs/mixtures.md: it runs as the page says, and draws what the recipe asks for."""

import json

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from trajmill.pipelines.recipe.recipe_file import parse_recipe

EXAMPLE = ROOT / "docs" / "mixture-recipe.yaml"


def test_the_example_is_the_one_that_the_page_shows():
    assert EXAMPLE.read_text("utf-8").partition("\n")[2] in (ROOT / "docs" / "mixtures.md").read_text("utf-8")


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
        drawn = sum(one["tokens"] for one in stages[name])
        budget = asked[name].budget
        assert budget is not None
        assert 0.95 * budget <= drawn <= budget
    assert {one["component"] for one in stages["cpt"]} == {"worlds", "manuals"}
    (tools,) = (one for one in stages["sft"] if one["component"] == "tools")
    assert tools["epochs"] > 1
