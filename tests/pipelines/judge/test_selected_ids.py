"""A recipe includes or excludes trajectories by the files of ids that the viewer saves."""

import json
from pathlib import Path

import polars as pl
import pytest

from tests.app.viewer.test_viewer import client_of
from tests.pipelines.generations.test_append_near_copies import Logs, reject, verdicts
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError


def recipe(**judge: str) -> Recipe:
    return parse_recipe(json.dumps({"name": "near", "source": "tests", "domains": ["terminal"], "judge": judge}), "n")


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Logs:
    """Six sessions, two of which have the same content, and the run over them."""
    log_folder = Logs(tmp_path_factory.mktemp("logs"))
    by_number = {number: log_folder.said(3) for number in range(5)}
    for number, answers in by_number.items():
        log_folder.put(f"a{number}", f"task {number}", answers)
    log_folder.put("copy", "task 0", by_number[0])
    log_folder.add()
    return log_folder


def reasons(logs: Logs, out: Path, **judge: str) -> dict[str, str | None]:
    Run(recipe(**judge), [str(logs.folder / "logs1")], str(out)).run()
    return dict(verdicts(out).select("name", "reason").rows())


def ids(logs: Logs, *names: str) -> str:
    rows = verdicts(Path(logs.out)).filter(pl.col("name").is_in(names))
    return "".join(f"{key}\n" for key in rows["trajectory_id"])


def test_a_selection_that_the_viewer_saved_is_excluded_or_included(tmp_path, logs):
    saved = tmp_path / "trajectories.txt"
    saved.write_text(client_of(logs.out).get("/download/trajectories.txt?q=task+2").text)
    assert reasons(logs, tmp_path / "without", exclude=str(saved))["a2"] == "excluded"
    included = reasons(logs, tmp_path / "alone", include=str(saved))
    assert included == {"a2": None} | dict.fromkeys(("a0", "a1", "a3", "a4", "copy"), "excluded")
    rejected = verdicts(tmp_path / "alone").filter(name="a0")["trajectory_id"].item()
    assert "judge.include" in reject(tmp_path / "alone", rejected)


def test_what_is_excluded_takes_no_copy_with_it(tmp_path, logs):
    first = dict(verdicts(Path(logs.out)).select("name", "reason").rows())
    (keeper,) = (name for name in ("a0", "copy") if first[name] is None)
    (tmp_path / "ids.txt").write_text(ids(logs, keeper))
    after = reasons(logs, tmp_path / "without", exclude=str(tmp_path / "ids.txt"))
    assert {name: reason for name, reason in after.items() if reason} == {keeper: "excluded"}


def test_the_excluded_are_counted_and_ids_of_no_trajectory_are_told(tmp_path, logs):
    unknown = "".join(f"{number:032x}\n" for number in range(12_345))
    (tmp_path / "ids.txt").write_text(f"{unknown}\n{ids(logs, 'a1', 'a3')}")
    raw = [str(logs.folder / "logs1")]
    summary = Run(recipe(exclude=str(tmp_path / "ids.txt")), raw, str(tmp_path / "without")).run()
    assert summary.line("trajectories").lost["excluded"] == 2
    (warning,) = (line for line in summary.warnings if line.startswith("judge.exclude"))
    assert "12,345" in warning
    assert f"{0:032x}" in warning
    assert "12,342 more" in warning


def test_other_ids_in_the_file_are_judged_by_in_the_same_folder(tmp_path, logs):
    file, out = tmp_path / "ids.txt", tmp_path / "without"
    for name in ("a1", "a3"):
        file.write_text(ids(logs, name))
        after = reasons(logs, out, exclude=str(file))
        assert [of for of, reason in after.items() if reason == "excluded"] == [name]
    manifest = json.loads((out / "shards" / "manifest.json").read_text())
    assert len(manifest["models"]["judge.exclude"]) == 64


@pytest.mark.parametrize("key", ["include", "exclude"])
@pytest.mark.parametrize("content", [None, b"\xff", b"0123\n", b'{"trajectory_id": "0"}\n'])
def test_a_file_that_holds_no_ids_is_refused_with_the_recipe(tmp_path, key, content):
    path = tmp_path / "ids.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"judge\.{key}"):
        recipe(**{key: str(path)})
