"""Generations by another recipe: what may change, and a new run by the pools of an old one."""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.app.cli.test_cli import ran
from tests.pipelines.generations.test_append import bytes_of
from tests.pipelines.generations.test_append_near_copies import Logs, of, verdicts
from trajmill.pipelines.generations import compatibility
from trajmill.pipelines.generations.append import Append, run_with_pools_of
from trajmill.pipelines.generations.compatibility import changes, record_values, rule_sets
from trajmill.pipelines.generations.forgetting import Forgetting
from trajmill.pipelines.generations.generations import chain, commit
from trajmill.pipelines.generations.traces import Selection
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError

VALUES: dict[str, Any] = {"name": "near", "source": "tests", "domains": ["terminal"]}
NO_LONG: dict[str, Any] = {"judge": {"rules": {"long": {"signal": "length", "max": 2000}}}}


def recipe(**sections: Any) -> Recipe:
    return parse_recipe(json.dumps({**VALUES, **sections}), "near")


STRICT = recipe(**NO_LONG, source="more tests", licence="MIT", mix={"stages": {"sft": {"samples": 100}}})


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Logs:
    """A first run, and logs for a second generation, of which one is a rollout of an earlier task."""
    log_folder = Logs(tmp_path_factory.mktemp("rules"))
    for number in range(4):
        log_folder.put(f"a{number}", f"task {number}", log_folder.said(4))
    log_folder.add()
    log_folder.put("b0", "task 0", log_folder.said(9))
    log_folder.put("b1", "task b", log_folder.said(4))
    return log_folder


def raws(logs: Logs) -> list[str]:
    return [str(logs.folder / "logs1"), str(logs.folder / "logs2")]


@pytest.fixture
def out(logs, tmp_path) -> Path:
    shutil.copytree(logs.out, tmp_path / "out")
    return tmp_path / "out"


def uses(stages: Path) -> set[str]:
    return set(pl.read_parquet(stages / "verdicts" / "*" / "*.parquet")["reason"].drop_nulls())


def test_a_new_rule_applies_to_what_is_new_and_is_told(logs, out):
    before = bytes_of(out / "verdicts")
    result = Append(STRICT, raws(logs), str(out)).run()
    assert bytes_of(out / "verdicts") == before
    assert "long" in uses(out / result.generation.folder)
    assert "long" not in uses(out)
    rows = pl.read_parquet(out / result.generation.folder / "transitions" / "*" / "*.parquet")
    assert set(rows["source"]) == {"more tests"}
    card = (out / "shards" / "README.md").read_text()
    assert f"| 2 | `{STRICT.digest()[:16]}` | " in card
    assert 'source: "tests" → "more tests"' in card
    assert 'judge.rules.long: null → {"max": 2000.0, "signal": "length"}' in card
    assert verify(str(out)).is_whole
    code, output, _ = ran("verify", out)
    assert code == 0
    assert f"generation 2: recipe {STRICT.digest()[:16]}; " in output
    assert '\n  licence: null → "MIT"' in output


def test_a_recipe_goes_on_from_the_one_before_it_and_may_go_back(logs, out, tmp_path):
    Append(STRICT, raws(logs), str(out)).run()
    logs_3 = tmp_path / "logs3"
    shutil.copytree(logs.folder / "logs2", logs_3)
    text = (logs_3 / "b1.json").read_text()
    (logs_3 / "b2.json").write_text(text.replace("b1", "b2").replace("task b", "task c") + "\n")
    result = Append(recipe(), [*raws(logs), str(logs_3)], str(out)).run()
    assert result.generation.number == 3
    sets = rule_sets(chain(Folder(str(out))))
    assert [rule_set.told for rule_set in sets] == ["1", "2", "3"]
    assert 'licence: "MIT" → null' in sets[2].changed
    assert verify(str(out)).is_whole


def test_what_may_not_change_is_named_with_the_command_and_nothing_is_written(logs, out):
    Append(recipe(), raws(logs), str(out)).run()
    before = bytes_of(out)
    changed = recipe(mix={"seed": 5}, judge={"near_duplicates": {"max_absent": 0.3}}, source="more tests")
    with pytest.raises(ConfigError) as raised:
        Append(changed, raws(logs), str(out)).run()
    message = str(raised.value)
    assert "judge.near_duplicates.max_absent: 0.2 → 0.3; mix.seed: 0 → 5. " in message
    assert f"trajmill run RECIPE --raw LOGS --pools-from {out} --out ANOTHER" in message
    assert "source" not in message
    after = bytes_of(out)
    marks = {"trajmill.json", "checksums.json"}
    assert {name: content for name, content in after.items() if name not in marks} == {
        name: content for name, content in before.items() if name not in marks
    }


def test_another_salt_is_named(tmp_path):
    log_folder = Logs(tmp_path, recipe(normalize={"scrub_salt": "0123456789abcdef"}))
    log_folder.put("a", "task", log_folder.said(3))
    log_folder.add()
    log_folder.put("b", "another task", log_folder.said(3))
    for salt in ("fedcba9876543210", None):
        with pytest.raises(ConfigError, match=r"normalize\.scrub_salt"):
            Append(recipe(normalize={"scrub_salt": salt}), [str(tmp_path / "logs1")], log_folder.out).run()
    log_folder.add()
    with pytest.raises(ConfigError, match=r"normalize\.scrub_salt"):
        Append(recipe(normalize={"scrub_salt": "fedcba9876543210"}), [str(tmp_path / "logs1")], log_folder.out).run()


def test_other_scrubbing_and_other_templates_are_refused(logs, out, monkeypatch):
    Append(recipe(), raws(logs), str(out)).run()
    monkeypatch.setattr("trajmill.quality.scrub.VERSION", 99)
    monkeypatch.setattr(compatibility, "templates_digest", lambda _: "0" * 64)
    with pytest.raises(ConfigError, match=r"mix\.templates"):
        Append(recipe(), raws(logs), str(out)).run()


def test_an_append_that_was_killed_after_its_commit_is_completed_by_the_card_of_its_own_recipe(
    logs, out, tmp_path, monkeypatch
):
    whole = tmp_path / "whole"
    shutil.copytree(out, whole)
    Append(STRICT, raws(logs), str(whole)).run()

    def killed(folder, generation):
        assert commit(folder, generation)
        if generation.number == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("trajmill.pipelines.generations.append.commit", killed)
    with pytest.raises(KeyboardInterrupt):
        Append(STRICT, raws(logs), str(out)).run()
    monkeypatch.setattr("trajmill.pipelines.generations.append.commit", commit)
    assert Append(recipe(), raws(logs), str(out)).run().summary is None
    assert bytes_of(out / "shards") == bytes_of(whole / "shards")


def test_budgets_count_what_was_drawn_by_an_earlier_recipe(tmp_path):
    log_folder = Logs(tmp_path, recipe(mix={"pools": {"sft": 1}, "stages": {"sft": {"samples": 3}}}))
    for number in range(5):
        log_folder.put(f"a{number}", f"task {number}", log_folder.said(3))
    log_folder.add()
    log_folder.recipe = recipe(mix={"pools": {"sft": 1}, "stages": {"sft": {"samples": 4}}})
    for number in range(5):
        log_folder.put(f"b{number}", f"task b{number}", log_folder.said(3))
    log_folder.add()
    assert [generation.counts["samples.sft.terminal"] for generation in chain(Folder(log_folder.out))] == [3, 1]


def test_a_connector_of_another_version_reads_what_is_new_and_is_told(logs, out, monkeypatch):
    from trajmill.connectors.registry import connectors

    monkeypatch.setattr(type(connectors()["atif"]), "version", "99")
    result = Append(recipe(), raws(logs), str(out)).run()
    assert result.generation.connectors == {"atif": "99"}
    (_, second) = rule_sets(chain(Folder(str(out))))
    assert second.changed[0].endswith("→ 99")
    assert "connector atif: version" in (out / "shards" / "README.md").read_text()


def test_the_first_run_of_a_folder_may_be_by_another_recipe_than_the_first_append(tmp_path):
    log_folder = Logs(tmp_path, recipe())
    log_folder.put("a", "task", log_folder.said(3))
    log_folder.add()
    Run(STRICT, [str(tmp_path / "logs1")], log_folder.out).run("judge")
    with pytest.raises(ConfigError):
        Append(recipe(mix={"stages": {"sft": {"samples": 2}}}), [str(tmp_path / "logs1")], log_folder.out).run()


BASE: dict[str, Any] = {
    "name": "n",
    "source": "tests",
    "domains": ["terminal"],
    "normalize": {"scrub_salt": "0123456789abcdef"},
    "judge": {"replicates": {"max": 3}},
    "mix": {"stages": {"sft": {"budget": 1000, "bounds": [{"by": "task", "max_share": 0.5}], "max_per_group": 2}}},
}


def later_recipe(**sections: Any) -> Recipe:
    judge = {**BASE["judge"], **sections.pop("judge", {})}
    return parse_recipe(json.dumps({**BASE, **sections, "judge": judge}), "n")


def stages(**values: Any) -> dict[str, Any]:
    return {"mix": {"stages": {"sft": {**BASE["mix"]["stages"]["sft"], **values}}}}


def found(after: Recipe) -> dict[str, bool]:
    return {change.key: change.is_free for change in changes(record_values(later_recipe()), record_values(after))}


@pytest.mark.parametrize(
    ("after", "key"),
    [
        ({"source": "more"}, "source"),
        ({"licence": "MIT"}, "licence"),
        ({"normalize": {**BASE["normalize"], "grown": "ignore"}}, "normalize.grown"),
        ({"judge": {"rules": {"short": {"signal": "length", "min": 1}}}}, "judge.rules.short"),
        ({"judge": {"max_share": {"task": 0.5}}}, "judge.max_share.task"),
        ({"judge": {"replicates": {"max": 2}}}, "judge.replicates.max"),
        (stages(budget=2000), "mix.stages.sft.budget"),
        (stages(bounds=[{"by": "task", "max_share": 0.1}]), "mix.stages.sft.bounds"),
        (stages(max_per_group=3), "mix.stages.sft.max_per_group"),
        (stages(bounds=[{"by": "domain", "max_share": 0.5}]), "mix.stages.sft.bounds"),
        (stages(max_per_group=None), "mix.stages.sft.max_per_group"),
        (stages(components={"all": {"weight": 1}}), "mix.stages.sft.components.all"),
        ({"mix": {"stages": {**BASE["mix"]["stages"], "rl": {"samples": 2}}}}, "mix.stages.rl"),
    ],
)
def test_rules_budgets_and_weights_may_change(after, key):
    is_free = found(later_recipe(**after))
    assert key in is_free
    assert all(is_free.values()), is_free


@pytest.mark.parametrize(
    ("after", "key"),
    [
        ({"name": "other"}, "name"),
        ({"normalize": {"scrub_salt": "fedcba9876543210"}}, "normalize.scrub_salt"),
        ({"normalize": {**BASE["normalize"], "scrub": ["email"]}}, "normalize.scrub"),
        ({"judge": {"near_duplicates": {"bands": 12}}}, "judge.near_duplicates.bands"),
        ({"judge": {"near_duplicates": None}}, "judge.near_duplicates"),
        ({"judge": {"replicates": None}}, "judge.replicates"),
        ({"mix": {**BASE["mix"], "pools": {"sft": 1}}}, "mix.pools.cpt"),
        ({"mix": {**BASE["mix"], "seed": 2}}, "mix.seed"),
        ({"mix": {**BASE["mix"], "group_by": ["site"]}}, "mix.group_by.site"),
        ({"mix": {**BASE["mix"], "edits": "diff"}}, "mix.edits"),
    ],
)
def test_what_ledgers_rest_on_may_not_change(after, key):
    assert found(later_recipe(**after))[key] is False


OLD = parse_recipe('{"name": "n", "source": "tests", "domains": ["terminal"], "mix": {"seed": 1}}', "n")
NEW = parse_recipe(
    '{"name": "n", "source": "tests", "domains": ["terminal"], "mix": {"seed": 2, "pools": {"sft": 1, "eval": 3}}}', "n"
)


def put(logs: Logs, name: str, first: int, last: int) -> None:
    for number in range(first, last):
        logs.put(f"{name}{number}", f"task {number}", logs.said(3))


def test_another_recipe_leaves_every_group_in_its_pool(tmp_path):
    logs = Logs(tmp_path, OLD)
    put(logs, "a", 0, 8)
    before = logs.add()
    put(logs, "b", 6, 10)
    before = pl.concat([before, logs.add()])
    put(logs, "c", 0, 12)
    raws = [str(tmp_path / f"logs{number + 1}") for number in range(3)]
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
    result = Append(NEW, [str(tmp_path / "logs1"), str(tmp_path / "logs2")], str(out)).run()
    after = verdicts(out / result.generation.folder)
    for number in (0, 1, 2):
        assert of(after, f"b{number}")["pool"] == of(before, f"a{number}")["pool"]


def test_a_folder_without_a_run_has_no_pools_to_keep(tmp_path):
    logs = Logs(tmp_path, OLD)
    put(logs, "a", 0, 1)
    (tmp_path / "old").mkdir()
    with pytest.raises(ConfigError):
        run_with_pools_of(str(tmp_path / "old"), NEW, [str(tmp_path / "logs1")], str(tmp_path / "anew"))
    assert not Path(tmp_path / "anew").exists()
