"""Rows of eval tell what training shows of their environment, and when they began."""

import json
from collections import Counter
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.mix.candidates import training_environments
from trajmill.pipelines.mix.coded_names import Coded
from trajmill.pipelines.mix.mixture import familiarity
from trajmill.pipelines.mix.samples import began_at, count_eval_kinds
from trajmill.pipelines.publish.card import count_eval_kinds_by_domain
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.recipe.recipe_file import load_recipe, parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import DOMAINS


def told(environment, pool, copies):
    known = np.array(environment, np.uint64)
    return familiarity(known, training_environments(known, Coded.of(pool), np.array(copies))).tolist()


def test_an_environment_that_a_training_pool_draws_is_seen():
    assert told([7, 7, 8], ["sft", "eval", "eval"], [1, 1, 1]) == ["seen", "seen", "unseen"]


def test_an_environment_that_only_eval_has_is_unseen():
    assert told([7, 7], ["eval", "eval"], [1, 1]) == ["unseen", "unseen"]


def test_what_a_training_pool_has_and_does_not_draw_is_unseen():
    assert told([7, 7], ["cpt", "eval"], [0, 1])[1] == "unseen"


def test_an_environment_that_no_log_names_is_unknown():
    assert told([0, 0], ["rl", "eval"], [1, 1]) == ["unknown", "unknown"]


def test_a_moment_is_iso_and_empty_where_it_is_not_known():
    assert began_at(1_772_323_200_000_001) == "2026-03-01T00:00:00.000001Z"
    assert began_at(None) == ""


def test_kinds_of_rows_are_counted_and_summed_by_domain():
    rows = pa.table({"environment": ["seen", "unseen", "seen"], "time": ["after", "unknown", "after"]})
    kinds = count_eval_kinds(rows)
    assert kinds == {"environment_seen": 2, "environment_unseen": 1, "time_after": 2, "time_unknown": 1}
    counts = {"samples.eval.web": 3, **{f"{kind}.eval.web": number for kind, number in kinds.items()}}
    assert count_eval_kinds_by_domain(counts)["web"] | {"time_before": 0} == {
        **dict.fromkeys(("environment_unknown", "time_before"), 0),
        **kinds,
    }


def test_a_date_is_read_from_text_as_well_as_from_yaml():
    assert Mix.model_validate({"after": "2026-03-01"}).after == date(2026, 3, 1)
    with pytest.raises(ValueError):
        Mix.model_validate({"after": "March"})


def test_a_run_tells_its_rows_apart_in_rows_manifest_and_card(raw, tmp_path):
    recipe = load_recipe("terminal")
    mix = recipe.mix.model_copy(update={"after": date(2000, 1, 1), "pools": {"cpt": 0.5, "eval": 0.5}})
    Run(recipe.model_copy(update={"mix": mix}), [str(raw)], str(tmp_path / "out")).run()
    rows = [json.loads(line) for line in (tmp_path / "out/shards/eval/terminal_test.jsonl").read_text().splitlines()]
    assert rows
    assert all(None not in row.values() for row in rows)  # a null beside text keeps JSON from loading
    assert {row["task"] for row in rows} <= set(DOMAINS)
    for row in rows:
        assert row["time"] == ("after" if row["started_at"] else "unknown")
    manifest = json.loads((tmp_path / "out/shards/manifest.json").read_text())
    kinds = manifest["mixture"]["eval"]["terminal"]
    assert kinds["time_after"] == sum(row["time"] == "after" for row in rows)
    assert sum(number for kind, number in kinds.items() if kind.startswith("environment_")) == len(rows)
    assert "or later, or not known when" in (tmp_path / "out/shards/README.md").read_text("utf-8").replace("\n", " ")


def test_rows_of_many_trajectories_stand_in_several_files(raw, tmp_path):
    def lines(shard_bytes: int) -> list[list[str]]:
        out = tmp_path / str(shard_bytes)
        values = {"name": "n", "source": "t", "judge": {"rules": {}}, "domains": ["terminal"]}
        mix = {"pools": {"cpt": 0.1, "eval": 0.9}, "shard_bytes": shard_bytes}
        Run(parse_recipe(json.dumps(values | {"mix": mix}), "n"), [str(raw)], str(out)).run()
        assert verify(str(out)).faults == ()
        files = sorted((out / "shards" / "eval").glob("*_test.jsonl"))
        copies = sorted((out / "shards" / "eval").glob("terminal/test-*.parquet"))
        for file, copy in zip(files, copies, strict=True):
            rows = [json.loads(line)["id"] for line in file.read_text().splitlines()]
            assert rows == pq.read_table(copy)["id"].to_pylist()
        return [file.read_text().splitlines() for file in files]

    whole, parts = lines(1 << 20), lines(1 << 10)
    assert [len(whole), len(parts) > 2] == [1, True]
    assert Counter(whole[0]) == Counter(line for part in parts for line in part)
