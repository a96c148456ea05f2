"""Files that belong to a log are neither inputs nor rejects, and only if the log itself is recognized."""

import shutil
from pathlib import Path

import pytest

from tests.connectors.test_contract import FIXTURES, NAMES, entries
from tests.tables import table
from trajmill.connectors.registry import connectors
from trajmill.pipelines.plan.plan import Plan, make_plan
from trajmill.pipelines.recipe.recipe import Recipe

RECIPE = Recipe(name="t", source="t")
PNG = b"\x89PNG\r\n\x1a\n"

BESIDE: dict[str, tuple[str, list[str]]] = dict(table(__file__, "files_beside_logs"))
"""Connector → a fixture, and what its recorder leaves beside it."""


def laid_out(folder: Path, name: str) -> tuple[Plan, Plan]:
    """The plans of a fixture by itself and with what is left beside it."""
    fixture, beside = BESIDE[name]
    source = FIXTURES / name / "input" / fixture if fixture else entries(name, "input")[0]
    target = folder / fixture if source.is_dir() else folder / "task"
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        target.mkdir()
        shutil.copy(source, target)
    before = make_plan(RECIPE, [str(folder)], strict=True)
    leave(target, beside)
    return before, make_plan(RECIPE, [str(folder)], strict=True)


def leave(folder: Path, names: list[str]) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(
                PNG if path.suffix == ".png" else b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
            )


@pytest.mark.parametrize("name", BESIDE)
def test_what_a_recorder_leaves_beside_a_log_is_claimed_by_it(tmp_path, name):
    before, after = laid_out(tmp_path, name)
    assert [log.connector for log in before.inputs] == [name]
    assert [(log.uri, log.connector) for log in after.inputs] == [(log.uri, log.connector) for log in before.inputs]
    assert after.unrecognized == ()
    read = sum(len(log.members) for log in after.inputs)
    assert after.claimed == {name: sum(path.is_file() for path in tmp_path.rglob("*")) - read}


def test_without_a_log_nothing_is_claimed(tmp_path):
    names = sorted({name for _, beside in BESIDE.values() for name in beside if name.endswith((".png", ".md", ".css"))})
    leave(tmp_path, names)
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert len(plan.unrecognized) + len(plan.inputs) == len(names)
    assert plan.claimed == {}


def test_what_is_claimed_in_one_folder_is_not_in_another(tmp_path):
    laid_out(tmp_path, "webvoyager")
    leave(tmp_path, ["other/screenshot1_no_box.png", "screenshot1_no_box.png"])
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert [reject.uri for reject in plan.unrecognized] == ["other/screenshot1_no_box.png", "screenshot1_no_box.png"]


def test_a_claimed_file_may_be_compressed_or_in_an_archive(tmp_path):
    laid_out(tmp_path / "raw", "webvoyager")
    (tmp_path / "raw" / "taskTides--0" / "agent.log").rename(tmp_path / "raw" / "taskTides--0" / "agent.log.gz")
    shutil.make_archive(str(tmp_path / "packed" / "logs"), "zip", tmp_path / "raw")
    for folder in ("raw", "packed"):
        plan = make_plan(RECIPE, [str(tmp_path / folder)])
        assert plan.unrecognized == ()
        assert plan.claimed == {"webvoyager": 4}


@pytest.mark.parametrize("name", NAMES)
def test_no_connector_claims_a_log_of_its_own(name):
    pattern = connectors()[name].companions
    never_read = {"refused"}
    logs = [
        path.name for connector in set(NAMES) - never_read for path in entries(connector, "input") if path.is_file()
    ]
    claimed = [log for log in logs if pattern is not None and pattern.fullmatch(log)]
    assert claimed == []
