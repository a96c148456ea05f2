"""Simulation instructions of a run: made by a model, checked, and held by the prompts of the samples they are for."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.app.cli.test_cli import ran
from tests.pipelines.render.assembled import samples_of
from tests.pipelines.render.test_turns import row
from tests.synthesis.actors import JUDGE, WRITER, models
from tests.synthesis.chat_server import ChatServer, chat_server
from trajmill.pipelines.mix.simulation_instructions import INSTRUCTION_SCHEMA, read_instructions
from trajmill.pipelines.storage.folders import Folder
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import ConfigError
from trajmill.synthesis.instruction_table import Chosen, instruct
from trajmill.synthesis.instructions import Instructing
from trajmill.synthesis.recorded_run import RecordedRun
from trajmill.synthesis.session import Work

EVERY_POOL = Chosen(pools=("cpt", "sft", "rl"), domains=("terminal",))
TEXT = "Whatever is typed is shown as it is typed, and nothing fails."


def drafted(words: str, text: str = TEXT) -> str:
    quote = re.findall(r"\*\*Environment Observation:\*\*\n(\S+)", words)[0]
    return json.dumps({"instruction": text, "controls": [{"kind": "content", "turn": 1, "quote": quote}]})


def obliging(body: dict[str, Any]) -> str:
    if body["model"] == JUDGE:
        return '{"fulfilled": 5, "specific": 4, "restrained": 4}'
    return f"Here it is:\n```json\n{drafted(body['messages'][0]['content'])}\n```"


def made(run: Path, out: Path, chat: ChatServer, chosen: Chosen = EVERY_POOL, **options: Any):
    work = Work(concurrency=2)
    report = instruct(
        RecordedRun(Folder(str(run))),
        Folder(str(out)),
        models(chat.url),
        Instructing(WRITER, **options),
        chosen,
        work,
        None,
    )
    counts = {name.split(".")[1]: count for name, count in report.manifest.counts.items()}
    return counts, pl.read_parquet(out / "instructions.parquet").to_dicts()


def ids(run: Path) -> set[str]:
    keys = set[str]()
    for file in (run / "shards").glob("*/terminal/train-*.parquet"):
        table = pl.read_parquet(file)
        column = table["extra_info"].struct.field("trajectory_id") if "extra_info" in table else table["trajectory_id"]
        keys.update(column)
    return keys


def test_each_trajectory_of_the_pools_gets_one_instruction(recorded, tmp_path):
    with chat_server(obliging) as chat:
        counts, rows = made(recorded, tmp_path / "out", chat)
        before = chat.met
        again, _ = made(recorded, tmp_path / "out", chat)
        assert chat.met == before
    assert {entry["trajectory_id"] for entry in rows} == ids(recorded)
    assert counts == again == {"kept": len(rows)}
    assert {entry["simulation_instruction"] for entry in rows} == {TEXT}
    assert {entry["origin"] for entry in rows} == {"synthesized"}
    assert read_instructions(tmp_path / "out" / "instructions.parquet") == dict.fromkeys(ids(recorded), TEXT)


def test_a_draft_that_a_rule_speaks_against_is_asked_for_again(recorded, tmp_path):
    def answer(body: dict[str, Any]) -> str:
        words = body["messages"][0]["content"]
        tries[words] = tries.get(words, 0) + 1
        is_first = body["model"] == WRITER and tries[words] == 1
        return drafted(words, "The file `/no/such/place` is empty.") if is_first else obliging(body)

    tries: dict[str, int] = {}
    with chat_server(answer) as chat:
        counts, _ = made(recorded, tmp_path / "one", chat, attempts=1)
        assert set(counts) == {"mentions_absent"}
        tries.clear()
        assert set(made(recorded, tmp_path / "two", chat, attempts=2)[0]) == {"kept"}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ('{"instruction": null}', "nothing"),
        ("I would rather not.", "unreadable"),
        ({"fulfilled": 5, "specific": 1, "restrained": 1}, "below_threshold"),
        ({"fulfilled": 5}, "unjudged"),
    ],
)
def test_what_is_not_written_or_not_found_good_becomes_no_row(recorded, tmp_path, answer, outcome):
    def said(body: dict[str, Any]) -> str:
        if isinstance(answer, dict):
            return json.dumps(answer) if body["model"] == JUDGE else obliging(body)
        return str(answer)

    with chat_server(said) as chat:
        counts, rows = made(recorded, tmp_path / "out", chat)
    assert (set(counts), rows) == ({outcome}, [])


def test_a_share_is_drawn_by_hash_and_unknown_names_are_told(recorded, tmp_path):
    with chat_server(obliging) as chat:
        assert not made(recorded, tmp_path / "out", chat, Chosen(EVERY_POOL.pools, ("terminal",), share=0.0))[1]
        assert not chat.met
    with pytest.raises(ConfigError, match="eval"):
        Chosen(pools=("eval",))
    with pytest.raises(ConfigError, match="web"):
        Chosen(domains=("web",))


def test_the_command_writes_the_table(recorded, tmp_path):
    options = [
        "--model", WRITER, "--judge-model", JUDGE, "--pool", "cpt", "--pool", "sft", "--pool", "rl", "--limit", "1",
    ]  # fmt: skip
    with chat_server(obliging) as chat:
        words = ["model", "instruct", str(recorded), "--out", str(tmp_path / "out"), "--endpoint", chat.url, *options]
        code, output, complained = ran(*words, "--json")
    assert code == 0, complained
    told = json.loads(output)
    assert (told["cost"], told["out"]) == (None, str(tmp_path / "out"))
    assert sum(told["counts"].values()) > 0
    assert pl.read_parquet(tmp_path / "out" / "instructions.parquet").height == 1


def logged_row(instruction: str | None) -> dict[str, Any]:
    context = {"action_space": None, "initial_state": None, "demonstrations": None}
    return {**row(0, "ls", "a"), "trajectory_id": "t", "context": {**context, "simulation_instruction": instruction}}


def told(instruction: str | None, made: dict[str, str]) -> dict[str, Any]:
    """The sample of a trajectory with that instruction in its log, where others were made."""
    (sample,) = samples_of("sft", [logged_row(instruction)], instructions=made)
    return sample


def test_prompts_hold_the_instruction_and_one_that_was_logged_stays():
    plain, instructed = told(None, {"u": TEXT}), told(None, {"t": TEXT})
    assert TEXT not in plain["messages"][0]["content"]
    assert TEXT in instructed["messages"][0]["content"]
    assert instructed["num_tokens"] >= plain["num_tokens"] + TokenCounter().of(TEXT)
    logged = told("As it was logged.", {"t": TEXT})["messages"][0]["content"]
    assert "As it was logged." in logged
    assert TEXT not in logged


@pytest.mark.parametrize(
    "values",
    [
        ({"trajectory_id": ["a", "a"], "simulation_instruction": ["x", "y"]}),
        ({"trajectory_id": ["a"], "simulation_instruction": [" "]}),
        ({"trajectory_id": ["a"]}),
    ],
)
def test_a_table_that_is_none_is_told(tmp_path, values):
    pq.write_table(pa.table(values), tmp_path / "t.parquet")
    with pytest.raises(ConfigError):
        read_instructions(tmp_path / "t.parquet")
    with pytest.raises(ConfigError):
        read_instructions(tmp_path / "none.parquet")


def test_a_users_own_table_needs_two_columns(tmp_path):
    pq.write_table(pa.table({"trajectory_id": ["a"], "simulation_instruction": ["x"]}), tmp_path / "t.parquet")
    assert read_instructions(tmp_path / "t.parquet") == {"a": "x"}
    assert INSTRUCTION_SCHEMA.names[:2] == ["trajectory_id", "simulation_instruction"]
