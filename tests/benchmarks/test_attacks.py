"""The table of attacks tells what came of each, the bad too."""

from __future__ import annotations

import pytest

from benchmarks import attacks
from benchmarks.attacks import CANARY, RECIPE, outcome
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run


def test_an_attack_is_told_by_its_reason_beside_a_good_log():
    found = outcome("overlapping_zip")
    assert found.code == 0
    assert found.result == "the good log milled, `bomb` 1"
    assert 50 < found.peak < 1000
    assert found.seconds > 0


@pytest.mark.parametrize(
    ("content", "made", "told"),
    [
        ("Look.", False, "the good log milled"),
        (f"Look at {CANARY}.", False, "**a file outside was read**"),
        ("Look.", True, "**code of the log was run**"),
    ],
)
def test_what_must_not_happen_is_told(tmp_path, content, made, told):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "good.jsonl").write_bytes(attacks.log_of(content))
    Run(parse_recipe(RECIPE, "recipe"), [str(raw)], str(tmp_path / "out")).run("normalize")
    assert told in attacks._result(tmp_path / "out", 0, "", made)


def test_a_good_log_that_is_lost_and_a_traceback_are_told(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "other.jsonl").write_bytes(attacks.GOOD)
    Run(parse_recipe(RECIPE, "recipe"), [str(raw)], str(tmp_path / "out")).run("normalize")
    assert "**the good log is lost**" in attacks._result(tmp_path / "out", 0, "", made=False)
    assert attacks._result(tmp_path / "out", 1, "Traceback\nValueError: x\n", made=False) == "**code 1**: ValueError: x"
