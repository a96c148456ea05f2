"""Replicates through a whole run: what they agree on is reported, and a cap leaves the best of them with the loss."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.pipelines.judge.test_near_duplicates import atif
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.judge import replicates
from trajmill.pipelines.judge.corpus_rule import Answers
from trajmill.pipelines.judge.packed_rows import partition_records
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.quality.fingerprint import mixed
from trajmill.quality.replicate import ROW
from trajmill.schemas import DOMAINS

START = "total 2\nnotes.txt\nrun.sh"


def listening(number: int) -> str:
    """Ten words, of which the pid and the port are told by no history."""
    return f"server is up\npid {4000 + number} and port {50000 + number} for you"


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six rollouts of one task: equal at first, then volatile words, then ways apart; and a log of another task."""
    folder = tmp_path_factory.mktemp("raw")
    for number in range(6):
        log = atif(f"r{number}", "serve the notes", [START, listening(number), f"after {number}"])
        (folder / f"r{number}.json").write_text(json.dumps(log))
        (folder / f"copy-{number}.json").write_text(json.dumps(log))
    (folder / "other.json").write_text(json.dumps(atif("other", "another task", [START, listening(9), "end"])))
    return folder


def recipe(**judge: object) -> Recipe:
    values = {"name": "r", "source": "tests", "domains": ["terminal"], "judge": {"near_duplicates": None, **judge}}
    return parse_recipe(json.dumps(values), "r")


@pytest.mark.parametrize(("part_bytes", "partitions"), [(1 << 28, None), (3_000, 256)])
def test_the_report_says_what_replicates_agree_on(raw: Path, tmp_path: Path, part_bytes: int, partitions: int | None):
    execution = Execution(part_bytes=part_bytes, partitions=partitions)
    summary = Run(recipe(), [str(raw)], str(tmp_path), execution).run("judge")
    agreement = summary.replicates["terminal"]
    assert agreement == json.loads((tmp_path / "measures" / "replicates.json").read_bytes())["terminal"]
    assert (agreement["groups"], agreement["rows"], agreement["differing"], agreement["compared"]) == (2, 12, 1, 1)
    assert agreement["agreement_where_differing"] == pytest.approx(0.8)
    assert agreement["noise_ceiling"] == pytest.approx(0.9)


def answered(answers: Callable[[int, list[bytes]], Answers], rows: np.ndarray, partitions: int) -> dict[str, Any]:
    """What partitions answer to rows, each unit's with its domain: names of answers with their rows, and tallies."""
    by_name: dict[str, list[bytes]] = {}
    parts: dict[int, list[bytes]] = {}
    for unit, of in enumerate(DOMAINS[:2]):
        for number, data in partition_records(rows[rows["unit"] == unit], "key", partitions):
            parts.setdefault(number, []).append(bytes([DOMAINS.index(of)]) + data)
    for number, blocks in parts.items():
        for name, _, data in answers(number, blocks):
            by_name.setdefault(name, []).append(data)
    tallies = [json.loads(data) for data in by_name.pop("tally", [])]
    summed = {domain: sum((Counter(of) for name, of in tallies if name == domain), Counter()) for domain in DOMAINS[:2]}
    by_name.pop("tools_of_replicates", None)
    arrays = {name: np.concatenate([np.frombuffer(data, ROW) for data in pieces]) for name, pieces in by_name.items()}
    return {"tally": summed, **arrays}


def test_the_ceiling_is_the_mean_over_groups_of_what_their_answers_agree_on():
    tallies: list[Any] = [
        ("terminal", {"groups": 2, "rows": 4, "differing": 1}),
        ("terminal", {"groups": 1, "rows": 5}),
        ("terminal", {"compared": 1, "agreement": 0.123456}),
    ]
    assert json.loads(replicates.report(tallies)) == {
        "terminal": {
            "groups": 3, "rows": 9, "differing": 1, "compared": 1,
            "agreement_where_differing": 0.1235, "noise_ceiling": 0.7078,  # (1 + 1 + 0.123456) / 3
        }
    }  # fmt: skip


def test_a_group_of_two_domains_counts_in_that_of_its_best_row():
    rows = np.zeros(2, ROW)
    rows["key"], rows["content"], rows["unit"], rows["rank"] = 7, (5, 6), (0, 1), (2, 1)
    assert answered(replicates.tally_groups, rows, 64)["tally"][DOMAINS[1]] == {"groups": 1, "rows": 2}


def rollout(native_id: str, answers: list[str], **meta: str) -> str:
    """A Codex rollout in one working folder that makes as many calls as there are answers."""
    lines = [{"type": "session_meta", "payload": {"id": native_id, "cwd": "/a/b/c", "cli_version": "0.99.0", **meta}}]
    for number, text in enumerate(answers):
        call = {"type": "function_call", "name": "shell", "arguments": f'{{"n": {number}}}', "call_id": f"c{number}"}
        answer = {"type": "function_call_output", "call_id": f"c{number}", "output": text}
        lines += [{"type": "response_item", "payload": item} for item in (call, answer)]
    return "".join(json.dumps({"timestamp": "2026-01-05T10:00:00Z", **line}) + "\n" for line in lines)


def test_the_beginning_that_a_branch_shares_with_its_parent_is_no_replicate_of_it(tmp_path: Path):
    texts = {
        "one": rollout("one", [START, listening(1)]),
        "fork": rollout("fork", [START, listening(1), "forked"], forked_from_id="one"),
        "other": rollout("other", [START, listening(2)]),
    }
    logs = tmp_path / "logs"
    logs.mkdir()
    for name, text in texts.items():
        (logs / f"rollout-{name}.jsonl").write_text(text)
    agreement = Run(recipe(), [str(logs)], str(tmp_path / "out")).run("judge").replicates["terminal"]
    assert (agreement["groups"], agreement["rows"], agreement["differing"]) == (2, 4, 1)


@pytest.mark.parametrize("partitions", [128, 4096])
def test_rows_to_compare_are_the_same_in_however_many_partitions(monkeypatch: pytest.MonkeyPatch, partitions: int):
    monkeypatch.setattr(replicates, "SAMPLED", 3)
    chance = np.random.default_rng(5)
    rows = np.zeros(6000, ROW)
    rows["key"] = mixed(chance.integers(0, 1500, len(rows)).astype(np.uint64))
    rows["unit"] = rows["key"] % np.uint64(2)
    for name in ("answer", "content", "rank"):
        rows[name] = chance.integers(0, 9, len(rows))
    rows["row"] = np.arange(len(rows))
    whole, named = (answered(replicates.tally_groups, rows, 64), answered(replicates.tally_part, rows, partitions))
    assert named["tally"] == whole["tally"]
    assert len(named["rows_to_choose_from"]) > len(whole["rows_to_compare"]) > 0
    chosen = answered(replicates.choose_compared, named["rows_to_choose_from"], 64)
    assert np.sort(chosen["rows_to_compare"]).tobytes() == np.sort(whole["rows_to_compare"]).tobytes()


@pytest.mark.parametrize("text", ["", "no log at all\n"])
def test_where_no_log_holds_a_transition_no_report_is_waited_for(tmp_path: Path, text: str):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "r.jsonl").write_text(text)
    values = {"name": "r", "source": "tests", "normalize": {"max_reject_ratio": 1.0}, "judge": {"replicates": {}}}
    run = Run(parse_recipe(json.dumps(values), "r"), [str(tmp_path / "raw")], str(tmp_path / "out"))
    summary = run.run()
    assert (summary.last, summary.replicates, summary.samples) == ("mix", {}, {})
    assert not (tmp_path / "out" / "measures" / "replicates.json").exists()


def test_a_report_does_not_outlive_the_logs_that_it_was_of(raw: Path, tmp_path: Path):
    folder, out = tmp_path / "raw", tmp_path / "out"
    folder.mkdir()
    for number in range(2):
        (folder / f"r{number}.json").write_bytes((raw / f"r{number}.json").read_bytes())
    values = parse_recipe('{"name": "r", "source": "tests", "normalize": {"max_reject_ratio": 1.0}}', "r")
    assert Run(values, [str(folder)], str(out)).run("judge").replicates["terminal"]["groups"]
    for log in folder.iterdir():
        log.write_bytes(b"")
    assert Run(values, [str(folder)], str(out)).run("judge").replicates == {}
    assert not (out / "measures" / "replicates.json").exists()


def test_rows_that_a_rule_takes_from_the_targets_do_not_count(raw: Path, tmp_path: Path):
    # a turn of `listening` has 32 tokens, one of START 21
    values = recipe(rules={"no_numbers": {"signal": "turn_tokens", "max": 31, "use": "context"}})
    agreement = Run(values, [str(raw)], str(tmp_path)).run("judge").replicates["terminal"]
    assert (agreement["groups"], agreement["rows"], agreement["differing"], agreement["noise_ceiling"]) == (
        1,
        6,
        0,
        1.0,
    )


def uses(out: Path) -> pl.DataFrame:
    names = pl.read_parquet(out / "transitions" / "*" / "*.parquet", columns=["trajectory_id", "step", "native_id"])
    table = pl.read_parquet(out / "verdicts" / "*" / "*.parquet").join(names, on=["trajectory_id", "step"])
    return table.select("trajectory_id", "step", "native_id", "kept", "use", "reason").unique().sort(pl.all())


def test_a_cap_leaves_the_first_with_the_loss_whatever_the_parts(raw: Path, tmp_path: Path):
    tables = []
    for part_bytes in (1 << 28, 3_000):
        out = tmp_path / str(part_bytes)
        values = recipe(replicates={"max": 2}, mask_duplicate_transitions=False)
        Run(values, [str(raw)], str(out), Execution(part_bytes=part_bytes)).run("judge")
        tables.append(uses(out))
    assert tables[0].equals(tables[1])
    survivors = tables[0].filter(pl.col("kept") & pl.col("native_id").str.starts_with("r"))
    ids = sorted(survivors["trajectory_id"].unique())
    assert len(ids) == 6
    for step in (0, 1):
        at_step = survivors.filter(pl.col("step") == step).sort("trajectory_id")
        assert at_step["use"].to_list() == ["target"] * 2 + ["context"] * 4
        assert at_step["reason"].to_list() == [None] * 2 + ["replicate"] * 4
    rest = tables[0].filter(pl.col("kept") & ((pl.col("step") == 2) | (pl.col("native_id") == "other")))
    assert set(rest["use"]) == {"target"}


def test_without_the_search_nothing_is_measured_or_capped(raw: Path, tmp_path: Path):
    summary = Run(recipe(replicates=None), [str(raw)], str(tmp_path)).run("judge")
    assert summary.replicates == {}
    assert not list((tmp_path / "measures").glob("*replicates*"))
    assert "replicate" not in set(uses(tmp_path)["reason"])
