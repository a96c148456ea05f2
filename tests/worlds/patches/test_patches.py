"""A patch leads to what its repository says, never to what its own lines do; hostile ones lead to nothing."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.worlds.recording import SHELL, in_bash, repository
from trajmill.app.cli.cli import app
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError
from trajmill.worlds.patches.patches import Applied, apply
from trajmill.worlds.patches.repository import Repository

LIGHT = "state = 'off'\n\n\ndef shown():\n    return state\n"
FILES = {"lamp/light.py": LIGHT, "README.md": "# lamp\n", ".gitattributes": "*.py filter=evil diff=evil\n"}


def patch(path: str, old: str, new: str) -> str:
    return f"--- a/{path}\n+++ b/{path}\n@@ -1,3 +1,3 @@\n-{old}\n+{new}\n \n \n"


GOOD = patch("lamp/light.py", "state = 'off'", "state = 'on'")
NEW = "diff --git a/new.py b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x = 1\n"


@pytest.fixture
def lamp(tmp_path: Path) -> tuple[Path, str]:
    """A repository with what would run if git did as its settings say, and its commit."""
    commit = repository(tmp_path / "lamp", FILES)
    for name in ("smudge", "clean", "textconv"):
        in_bash(tmp_path / "lamp", [f"git config filter.evil.{name} 'touch {tmp_path}/evil'"])
    in_bash(tmp_path / "lamp", [f"git config core.fsmonitor 'touch {tmp_path}/evil'"])
    hook = tmp_path / "lamp" / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/evil\n")
    hook.chmod(0o755)
    return tmp_path / "lamp", commit


def applied(lamp: tuple[Path, str], text: str) -> Applied:
    result = apply(Repository.at(lamp[0]), lamp[1], text)
    assert isinstance(result, Applied)
    return result


GONE = (
    "diff --git a/README.md b/README.md\ndeleted file mode 100644\n"
    "--- a/README.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-# lamp\n"
)
MOVED = "diff --git a/README.md b/docs/a b.md\nsimilarity index 100%\nrename from README.md\nrename to docs/a b.md\n"
NO_END = NEW.replace("100644", "100755") + "\\ No newline at end of file\n"


@pytest.mark.parametrize("text", [GOOD, NEW, GONE, MOVED, NO_END, GOOD + NEW + GONE])
def test_a_patch_leads_to_what_git_prints_in_a_working_folder(
    lamp: tuple[Path, str], tmp_path: Path, text: str
) -> None:
    (tmp_path / "patch").write_text(text)
    commands = ["git clone -q lamp work && cd work && git apply --index ../patch && git diff --cached"]
    (printed,) = in_bash(tmp_path, commands)
    assert printed.startswith("diff --git ")
    (tmp_path / "evil").unlink(missing_ok=True)
    result = applied(lamp, text)
    assert (result.answer, result.is_refused) == (printed.rstrip("\n"), False)
    assert not (tmp_path / "evil").exists()


def test_before_a_patch_stand_the_files_that_it_touches(lamp: tuple[Path, str]) -> None:
    assert applied(lamp, GOOD + NEW).before == {"lamp/light.py": LIGHT.encode()}
    assert applied(lamp, MOVED).before == {"README.md": b"# lamp\n"}


def test_a_patch_whose_lines_are_not_those_of_the_commit_is_refused_in_the_words_of_git(lamp: tuple[Path, str]) -> None:
    result = applied(lamp, patch("lamp/light.py", "state = 'dim'", "state = 'on'"))
    assert result.is_refused
    assert result.before == {"lamp/light.py": LIGHT.encode()}
    assert result.answer == ("error: patch failed: lamp/light.py:1\nerror: lamp/light.py: patch does not apply")


def test_the_working_folder_does_not_matter_and_stays(lamp: tuple[Path, str]) -> None:
    (lamp[0] / "lamp" / "light.py").write_text("state = 'changed since'\n")
    before = sorted((path, path.stat().st_mtime_ns) for path in lamp[0].rglob("*"))
    assert not applied(lamp, GOOD).is_refused
    assert sorted((path, path.stat().st_mtime_ns) for path in lamp[0].rglob("*")) == before


def test_of_what_trajmill_itself_does_not_show_there_is_no_transition(lamp: tuple[Path, str]) -> None:
    many = "".join(NEW.replace("new.py", f"new{number}.py") for number in range(201))
    assert apply(Repository.at(lamp[0]), lamp[1], many) == "too_large"


@pytest.mark.parametrize("path", ["../../escaped.py", "/tmp/escaped.py", ".git/hooks/escaped", "a/../../escaped.py"])
def test_a_patch_that_leads_out_of_the_folder_is_refused(lamp: tuple[Path, str], path: str) -> None:
    text = NEW.replace("new.py", path)
    assert applied(lamp, text).is_refused
    assert not any("escaped" in name for _, _, names in os.walk(lamp[0].parent) for name in names)


def test_a_patch_does_not_write_through_a_link_that_it_makes(lamp: tuple[Path, str], tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    link = f"diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+{target}\n"
    link += "\\ No newline at end of file\n"
    assert applied(lamp, link + NEW.replace("new.py", "link/new.py")).is_refused
    assert list(target.iterdir()) == []


def test_what_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Repository.at(tmp_path)


@pytest.mark.parametrize("left_out", ["blob:none", "tree:0"])
def test_what_a_partial_clone_lacks_is_not_fetched(lamp: tuple[Path, str], tmp_path: Path, left_out: str) -> None:
    clone = ["git", "clone", "-q", "--no-local", f"--filter={left_out}", "--no-checkout", str(lamp[0])]
    in_bash(lamp[0], ["git config uploadpack.allowFilter true"])
    environment = {**SHELL, "HOME": str(tmp_path)}
    subprocess.run([*clone, str(tmp_path / "part")], env=environment, check=True, capture_output=True)
    with pytest.raises(ConfigError):
        apply(Repository.at(tmp_path / "part"), lamp[1], GOOD)


def test_patches_become_transitions_of_kind_code(lamp: tuple[Path, str], tmp_path: Path) -> None:
    instances = tmp_path / "instances.jsonl"
    instance_rows = [
        {"instance_id": f"acme__lamp-{number}", "repo": "acme/lamp", "base_commit": lamp[1], "problem_statement": issue}
        for number, issue in ((1, "It is dark."), (2, "There is no x."))
    ]
    instances.write_text("".join(json.dumps(instance) + "\n" for instance in instance_rows))
    handed: list[dict[str, Any]] = [
        {"instance_id": "acme__lamp-1", "model_patch": GOOD, "model_name_or_path": "parrot"},
        {"instance_id": "acme__lamp-2", "model_patch": GOOD.replace("off", "dim"), "model_name_or_path": "parrot"},
        {"instance_id": "acme__lamp-1", "model_patch": "", "model_name_or_path": "mute"},
        {"instance_id": "acme__other-1", "model_patch": GOOD, "model_name_or_path": "parrot"},
    ]
    predictions = tmp_path / "preds.json"
    predictions.write_text(json.dumps(handed))
    raw = tmp_path / "raw"
    options = ["--base", f"acme/lamp={lamp[0]}", "--instances", str(instances), "--out", str(raw), "--json"]
    done = CliRunner().invoke(app, ["world", "patches", str(predictions), *options], catch_exceptions=False)
    assert json.loads(done.stdout) == {"applied": 1, "no_base_commit": 1, "no_patch": 1, "refused": 1}
    Run(load_recipe("swe"), [str(raw)], str(tmp_path / "out")).run("normalize")
    rows = [
        row for file in (tmp_path / "out" / "transitions").rglob("*.parquet") for row in pq.read_table(file).to_pylist()
    ]
    good, bad = sorted(rows, key=lambda row: row["task"]["id"])
    assert good["environment"]["kind"] == "code"
    assert good["environment"]["instance_id"] == f"acme/lamp@{lamp[1]}"
    assert good["observation"]["content"].startswith("It is dark.\n\n[start of lamp/light.py]\nstate = 'off'")
    assert json.loads(good["action"]["arguments"]) == {"patch": GOOD}
    assert "+state = 'on'" in good["next_observation"]["content"]
    assert bad["next_observation"]["is_error"]
    assert "error:" in bad["next_observation"]["content"]
