import json

import pytest
from typer.testing import CliRunner

from tests.pipelines.judge.test_near_duplicates import atif
from trajmill.app.cli.cli import app
from trajmill.app.cli.turn_report import mask_report
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    raw, out = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp("out")
    answers = ["alpha beta gamma delta", "step 3", ""]
    (raw / "one.json").write_text(json.dumps(atif("s", "task", answers)))
    Run(parse_recipe("{name: a, source: b, domains: [terminal]}", "r"), [str(raw)], str(out)).run("normalize")
    return out


def test_turns_are_counted_by_category_under_both_definitions(run):
    for path in (run, run / "transitions"):
        counts = mask_report(str(path)).counts
        assert counts["terminal", "measured"] == {
            "retrieval": 1, "expansion": 0, "action": 0, "transform": 0, "boilerplate": 0, "echo": 1, "other": 1
        }  # fmt: skip
        literal = counts["terminal", "literal"]
        assert (literal.total(), literal["echo"], literal["transform"]) == (3, 0, 1)


def test_the_command_prints_a_row_a_domain_and_definition(run):
    result = CliRunner().invoke(app, ["turns", str(run)], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert result.stdout.count("terminal") == 2
    assert "33.3%" in result.stdout


def test_the_diversity_of_a_run_is_printed_by_domain(run):
    result = CliRunner().invoke(app, ["diversity", str(run)], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "command_head" in result.stdout
    assert "100.0%" in result.stdout


def test_a_folder_without_transitions_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no transitions"):
        mask_report(str(tmp_path))
