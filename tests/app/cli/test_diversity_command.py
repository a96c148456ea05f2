import json

import pytest
from typer.testing import CliRunner

from tests.pipelines.judge.test_near_duplicates import atif
from trajmill.app.cli.cli import app
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    raw, out = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp("out")
    answers = ["alpha beta gamma delta", "step 3", ""]
    (raw / "one.json").write_text(json.dumps(atif("s", "task", answers)))
    Run(parse_recipe("{name: a, source: b, domains: [terminal]}", "r"), [str(raw)], str(out)).run("normalize")
    return out


def test_the_diversity_of_a_run_is_printed_by_domain(run):
    result = CliRunner().invoke(app, ["diversity", str(run)], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "command_head" in result.stdout
    assert "100.0%" in result.stdout
