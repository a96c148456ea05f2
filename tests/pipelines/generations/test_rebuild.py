"""Rebuilding: groups keep the pools that they have in the old folder, and what it forgot does not come back."""

from pathlib import Path

import polars as pl
import pytest

from tests.pipelines.generations.test_append_near_copies import Logs, of, verdicts
from trajmill.pipelines.generations.append import Append, run_with_pools_of
from trajmill.pipelines.generations.forgetting import Forgetting
from trajmill.pipelines.generations.traces import Selection
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError

OLD = parse_recipe('{"name": "n", "source": "tests", "domains": ["terminal"], "mix": {"seed": 1}}', "n")
NEW = parse_recipe(
    '{"name": "n", "source": "tests", "domains": ["terminal"], "mix": {"seed": 2, "pools": {"sft": 1, "eval": 3}}}', "n"
)


def put(logs: Logs, name: str, first: int, last: int) -> None:
    for number in range(first, last):
        logs.put(f"{name}{number}", f"task {number}", logs.said(3))


@pytest.mark.parametrize("generations", [1, 2])
def test_another_recipe_leaves_every_group_in_its_pool(tmp_path, generations):
    logs = Logs(tmp_path, OLD)
    put(logs, "a", 0, 8)
    before = logs.add()
    if generations == 2:
        put(logs, "b", 6, 10)
        before = pl.concat([before, logs.add()])
    put(logs, "c", 0, 12)
    raws = [str(tmp_path / f"logs{number + 1}") for number in range(generations + 1)]
    out = tmp_path / "anew"
    run_with_pools_of(logs.out, NEW, raws, str(out))
    after = verdicts(out)
    pools = {name: of(after, name)["pool"] for name in before["name"]}
    assert pools == {name: of(before, name)["pool"] for name in before["name"]}
    new = {of(after, f"c{number}")["pool"] for number in range(10, 12)}
    assert new <= {"sft", "eval"}
    assert verify(str(out)).is_whole
    with pytest.raises(ConfigError):
        Run(NEW, raws, str(out)).run()


def test_what_the_old_folder_forgot_is_not_read_and_the_new_one_is_added_to(tmp_path):
    logs = Logs(tmp_path, OLD)
    put(logs, "a", 0, 6)
    before = logs.add()
    Forgetting(OLD, logs.out).forget(Selection(sources=("a3.json",)))
    out = tmp_path / "anew"
    run_with_pools_of(logs.out, NEW, [str(tmp_path / "logs1")], str(out))
    assert verdicts(out)["name"].to_list() == ["a0", "a1", "a2", "a4", "a5"]
    put(logs, "b", 0, 4)
    made = Append(NEW, [str(tmp_path / "logs1"), str(tmp_path / "logs2")], str(out)).run()
    after = verdicts(out / made.generation.folder)
    for number in (0, 1, 2):
        assert of(after, f"b{number}")["pool"] == of(before, f"a{number}")["pool"]


def test_a_folder_without_a_run_has_no_pools_to_keep(tmp_path):
    logs = Logs(tmp_path, OLD)
    put(logs, "a", 0, 1)
    (tmp_path / "old").mkdir()
    with pytest.raises(ConfigError):
        run_with_pools_of(str(tmp_path / "old"), NEW, [str(tmp_path / "logs1")], str(tmp_path / "anew"))
    assert not Path(tmp_path / "anew").exists()
