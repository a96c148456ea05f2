"""`trajmill run LOGS`: a recipe is drafted beside the logs, and is the user's from then on."""

import shutil

import pytest

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from trajmill.schemas.scan import scan_transitions


@pytest.fixture
def logs(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "samples" / "terminal" / "claude_code", tmp_path / "logs")
    shutil.copy(next((ROOT / "samples" / "android").rglob("*.json*")), tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "logs"


def test_logs_alone_are_enough(logs):
    code, said, complained = ran("run", "logs")
    assert code == 0, complained
    assert "terminal" in said
    assert scan_transitions("logs-trajmill").collect().height > 0
    assert "domains: [" in (logs.parent / "logs-trajmill" / "recipe.yaml").read_text("utf-8")


def test_the_recipe_beside_the_logs_is_the_users(logs):
    ran("run", "logs/", "--stop-after", "plan")
    recipe = logs.parent / "logs-trajmill" / "recipe.yaml"
    recipe.write_text("name: mine\nsource: mine\ndomains: [terminal]\n", "utf-8")
    code, said, complained = ran("run", "logs", "--overwrite", "--stop-after", "judge")
    assert code == 0, complained
    assert said.startswith("mine: ")
    assert recipe.read_text("utf-8") == "name: mine\nsource: mine\ndomains: [terminal]\n"


def test_a_recipe_without_logs_asks_for_them(logs):
    code, _, complained = ran("run", "terminal")
    assert code == 1
    assert "--raw LOGS" in complained


def test_a_recipe_of_one_domain_says_what_it_left_out_and_what_takes_it(logs):
    shutil.copytree(ROOT / "samples" / "mcp" / "exchanges", logs / "exchanges")
    code, said, complained = ran("run", "terminal", "--raw", "logs", "--out", "out")
    assert code == 0, complained
    assert "other_domain" in said
    assert "trajmill run LOGS" in said


@pytest.mark.parametrize(
    ("old", "new"), [("replay", "world replay"), ("reason", "model reason"), ("schema", "formats --schema")]
)
def test_a_command_of_before_answers_with_the_new_one(old, new, monkeypatch, capsys):
    from trajmill.app.cli import cli

    monkeypatch.setattr("sys.argv", ["trajmill", old, "out"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert f"trajmill {new}" in capsys.readouterr().err
