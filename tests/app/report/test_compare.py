"""Comparing two runs: counts, settings, and what became of each trajectory."""

import json

import pyarrow as pa
import pytest

from tests.app.cli.test_cli import ran
from tests.app.pages.made_runs import RULES, made_run
from tests.app.report.test_report import examined
from tests.app.viewer.hostile_texts import TEXTS, hostile_run
from tests.make import trajectory
from trajmill.app.report.comparison import DROPPED, GONE, KEPT, MOVED, NEW, OTHER, compare_runs, write_comparison
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import write_parquet
from trajmill.schemas import ConfigError


def run_of(out, fates, pools, rules=RULES):
    """A run of trajectories by the word that they hold: word → why it is dropped; word → its pool."""
    trajectories = [trajectory(word, "more", domain="web") for word in fates]
    keys = made_run(out, trajectories, list(fates.values()), "web")
    ids = dict(zip(fates, keys, strict=True))
    table = pa.table({"trajectory_id": [ids[word].partition("-")[0] for word in pools], "pool": list(pools.values())})
    name = "draws/web-part-00000-aaaaaaaa.parquet"
    write_parquet(Folder(str(out)), name, table.schema, table.combine_chunks().to_batches())
    (out / "run.json").write_text(json.dumps({"version": "1", "recipe": {"judge": {"rules": rules}}}))
    return ids


@pytest.fixture
def two(tmp_path):
    before = {"same": None, "old": None, "worse": None, "better": "near_duplicate", "other": "few_turns", "moved": None}
    after = {"same": None, "new": "loop", "worse": "few_turns", "better": None, "other": "no_target", "moved": None}
    ids = run_of(tmp_path / "one", before, {"same": "sft", "moved": "sft", "old": "cpt", "worse": "sft"})
    rules = {"loop": {**RULES["loop"], "max": 0.6}}
    ids |= run_of(tmp_path / "two", after, {"same": "sft", "moved": "rl", "new": "cpt", "better": "sft"}, rules)
    return str(tmp_path / "one"), str(tmp_path / "two"), ids


def test_it_tells_what_became_of_each_trajectory(two):
    comparison = compare_runs(*two[:2])
    changes = {
        change.kind: (change.before, change.after, change.number, list(change.examples))
        for change in comparison.changes
    }
    ids = two[2]
    assert changes == {
        NEW: ("", "kept", 1, [ids["new"]]),
        GONE: ("kept", "", 1, [ids["old"]]),
        DROPPED: ("kept", "dropped: few_turns", 1, [ids["worse"]]),
        KEPT: ("dropped: near_duplicate", "kept", 1, [ids["better"]]),
        OTHER: ("dropped: few_turns", "dropped: no_target", 1, [ids["other"]]),
        MOVED: ("sft", "rl", 1, [ids["moved"]]),
    }
    assert comparison.same == 1


def test_each_of_exact_copies_counts_as_in_the_run(tmp_path):
    trajectories = [trajectory("word", "more", native_id=name) for name in ("first", "second")]
    for name, fates in (("one", [None, "duplicate_trajectory"]), ("two", [None, None])):
        made_run(tmp_path / name, trajectories, fates, "terminal")
    comparison = compare_runs(str(tmp_path / "one"), str(tmp_path / "two"))
    assert comparison.domains["terminal"]["trajectories"] == (2, 2)
    assert comparison.domains["terminal"]["kept"] == (1, 2)
    assert comparison.reasons == {"duplicate_trajectory": (1, 0)}
    assert (comparison.same, comparison.of(KEPT)) == (1, 1)


def test_the_command_names_examples_that_can_be_looked_at(two, tmp_path):
    first, second, ids = two
    page = tmp_path / "changes.html"
    code, output, complained = ran("compare", first, second, "--html", page)
    assert (code, complained) == (0, "")
    assert "judge.rules.loop.max: 0.5 → 0.6" in output
    assert "kept before, dropped now, web, kept → dropped: few_turns: 1" in output
    assert ran("inspect", second, "--trajectory", ids["worse"])[0] == 0
    for id_ in ids.values():
        assert (id_ in output) == (id_ != ids["same"])
    assert examined(page.read_text()) > 50
    assert all(id_ in page.read_text() for id_ in ids.values() if id_ != ids["same"])
    same = ran("compare", second, second)[1]
    assert "recipe: the same settings" in same
    assert "trajectories: 6 as they were\n" in same


def test_nothing_of_hostile_runs_is_more_than_text(two, tmp_path):
    out = tmp_path / "hostile"
    hostile_run(out, "\n".join(TEXTS))
    record = json.loads((out / "run.json").read_text())
    record["recipe"]["\n".join(TEXTS)] = "\n".join(TEXTS)
    (out / "run.json").write_text(json.dumps(record))
    write_comparison(compare_runs(two[0], str(out)), (TEXTS[0], TEXTS[1]), str(tmp_path / "page.html"))
    assert examined((tmp_path / "page.html").read_text()) > 50
    code, output, _ = ran("compare", two[0], out)
    assert code == 0
    assert "\x1b" not in output


def test_what_is_not_judged_is_not_compared(two, tmp_path):
    with pytest.raises(ConfigError):
        compare_runs(two[0], str(tmp_path / "none"))
