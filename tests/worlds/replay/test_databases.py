"""Differences of databases tell rows, and hostile databases are only read."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from trajmill.app.cli.cli import app
from trajmill.pipelines.mix.check_candidates import candidates
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.render.answered import Answered, Known
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError
from trajmill.worlds.replay.databases import database_difference
from trajmill.worlds.replay.replay import Replay, ReplaySettings

BEGUN = """
CREATE TABLE boats (id INTEGER PRIMARY KEY, name TEXT, berth INTEGER);
CREATE TABLE rents (boat INTEGER, day TEXT, who TEXT, PRIMARY KEY (boat, day)) WITHOUT ROWID;
CREATE TABLE notes (text TEXT);
INSERT INTO boats VALUES (1, 'Ina', 2), (2, 'Okke', 3), (3, 'Swantje', 5);
INSERT INTO rents VALUES (1, '2026-05-01', 'Ada');
INSERT INTO notes VALUES ('first'), ('second');
"""
DONE = """
UPDATE boats SET berth = 9 WHERE id = 2;
DELETE FROM boats WHERE id = 3;
INSERT INTO rents VALUES (2, '2026-05-02', 'Grace Hopper');
INSERT INTO notes VALUES ('third');
CREATE TABLE trips (id INTEGER PRIMARY KEY, goal TEXT);
INSERT INTO trips (goal) VALUES ('Sylt');
"""


def databases(folder: Path, begun: str = BEGUN, done: str = DONE) -> tuple[Path, Path]:
    """The database before and after."""
    paths = folder / "initial.db", folder / "final.db"
    for path, script in zip(paths, (begun, begun + done), strict=True):
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(script)
    return paths


def test_a_difference_tells_rows_that_are_new_gone_and_changed(tmp_path: Path) -> None:
    difference = database_difference(*databases(tmp_path))
    assert difference.changed == [
        ("boats", {"id": 2, "name": "Okke", "berth": 3}, {"id": 2, "name": "Okke", "berth": 9}),
    ]
    assert difference.removed == [("boats", {"id": 3, "name": "Swantje", "berth": 5})]
    assert difference.added == [
        ("notes", {"text": "third"}),
        ("rents", {"boat": 2, "day": "2026-05-02", "who": "Grace Hopper"}),
        ("trips", {"id": 1, "goal": "Sylt"}),
    ]
    assert difference.is_whole
    assert difference.written() == ["third", "2", "2026-05-02", "Grace Hopper", "1", "Sylt", "9"]
    assert '+ trips {"id": 1, "goal": "Sylt"}' in difference.to_text()


def test_equal_databases_differ_in_nothing(tmp_path: Path) -> None:
    assert database_difference(*databases(tmp_path, done="")).to_text() == ""


def test_a_difference_ends_at_its_bounds_and_says_so(tmp_path: Path) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
    paths = databases(tmp_path, done=f"{numbers} INSERT INTO notes SELECT i FROM n;")
    difference = database_difference(*paths, rows=10)
    assert len(difference.added) == 11
    assert not difference.is_whole
    assert difference.to_text().endswith("…")


def test_nothing_that_a_database_defines_is_called_and_its_files_stay(tmp_path: Path) -> None:
    hostile = (
        "CREATE VIEW seen AS SELECT load_extension('/tmp/evil.so');"
        "CREATE VIRTUAL TABLE found USING fts5(text);"
        'CREATE TABLE "odd""; DROP TABLE boats; --" ("a b" TEXT);'
        'INSERT INTO "odd""; DROP TABLE boats; --" VALUES (\'x\');'
    )
    paths = databases(tmp_path, done=hostile)
    before = [path.read_bytes() for path in paths]
    difference = database_difference(*paths)
    assert ('odd"; DROP TABLE boats; --', {"a b": "x"}) in difference.added
    assert "seen" not in difference.to_text()
    assert [path.read_bytes() for path in paths] == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["final.db", "initial.db"]


@pytest.mark.parametrize("data", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 4000])
def test_what_is_no_database_is_refused_or_empty(tmp_path: Path, data: bytes) -> None:
    first, last = databases(tmp_path)
    last.write_bytes(data)
    if not data:
        assert not database_difference(first, last).added
        return
    with pytest.raises(ConfigError):
        database_difference(first, last)


def test_a_check_asks_for_what_was_stored_and_told_and_for_nothing_else() -> None:
    turn = Answered(
        key="a", domain="mcp", form="response", tool="list_rents", arguments=None, action="list_rents",
        observation="Ada Lovelace\nGrace Hopper\nEmmy Noether", stored=("Grace Hopper", "Emmy Noether", "elsewhere"),
    )  # fmt: skip
    known = Known()
    known.saw("rent to Grace Hopper, Ada Lovelace")

    def asked(answered: Answered) -> list[Any]:
        return [check["lines"] for check in candidates(answered, known, []) if check["type"] == "read_what_was_written"]

    assert asked(turn) == [["Grace Hopper"]]
    assert asked(replace(turn, stored=())) == []


def awm_run(folder: Path, number: int, who: str) -> None:
    """A run in the form of the Agent World Model: a boat is rented, and the rents are read."""
    folder.mkdir(parents=True)
    databases(folder, done=f"INSERT INTO rents VALUES ({number}, '2026-06-0{number}', '{who}');")
    booking = {"boat": number, "day": f"2026-06-0{number}", "who": who}
    listed = f"Ada\n{who}"
    calls: list[tuple[str, dict[str, Any], Any]] = [
        ("rent_boat", booking, {"ok": True}),
        ("list_rents", {"boat": number}, listed),
    ]
    items = [
        {
            "iteration": index,
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": f"call_{index}",
                    "name": "call_tool",
                    "arguments": {"tool_name": f"mcp_tool_{tool}", "arguments": json.dumps(arguments)},
                }
            ],
            "tool_response": {
                "tool_call_id": f"call_{index}",
                "content": answer if isinstance(answer, str) else json.dumps(answer),
            },
        }
        for index, (tool, arguments, answer) in enumerate(calls, 1)
    ]
    header = {"scenario": "boats", "task_id": number, "task": f"Rent boat {number} to {who}.", "model": "scripted"}
    (folder / "trajectory.json").write_text(json.dumps({**header, "trajectory": items}))
    (folder / "verify.code.json").write_text(json.dumps({"reward_type": "complete"}))


@pytest.fixture
def read(tmp_path: Path) -> tuple[Recipe, Path, Path]:
    """A recipe that asks for databases, the raw runs, and the folder in which these are judged and read."""
    for number, who in enumerate(("Emmy Noether", "Grace Hopper", "Lise Meitner", "Ada Byron"), 1):
        awm_run(tmp_path / "raw" / f"run{number}", number + 1, who)
    recipe = load_recipe("mcp")
    mix = recipe.mix.model_copy(update={"databases": True, "pools": {"rl": 1.0}})
    recipe = recipe.model_copy(update={"mix": mix})
    Run(recipe, [str(tmp_path / "raw")], str(tmp_path / "out")).run("judge")
    Replay(str(tmp_path / "out"), ReplaySettings("awm")).run()
    return recipe, tmp_path / "raw", tmp_path / "out"


def test_checks_of_rl_ask_for_what_the_run_wrote_into_its_database(read: tuple[Recipe, Path, Path]) -> None:
    recipe, raw, out = read
    (replays,) = [pq.read_table(file).to_pylist() for file in (out / "replays").rglob("*.parquet")]
    assert {row["reason"] for row in replays} == {"read"}
    assert all(len(row["written"]) == 3 for row in replays)
    assert sum("+ rents" in (row["difference"] or "") for row in replays) == 4
    Run(recipe, [str(raw)], str(out)).run()
    rows = [row for file in (out / "shards" / "rl").rglob("*.parquet") for row in pq.read_table(file).to_pylist()]
    truths = [json.loads(row["reward_model"]["ground_truth"]) for row in rows]
    assert len(rows) == 4
    checks = [check for truth in truths for check in truth["checks"]]
    lines = [check["lines"] for check in checks if check["type"] == "read_what_was_written"]
    assert sorted(lines) == [["Ada Byron"], ["Emmy Noether"], ["Grace Hopper"], ["Lise Meitner"]]
    outcomes = pq.read_table(next((out / "transitions").rglob("*.parquet")))["outcome"].to_pylist()
    assert all(outcome["resolved"] is True for outcome in outcomes)


def test_the_command_shows_what_changed_in_the_databases_of_each_run(read: tuple[Recipe, Path, Path]) -> None:
    done = CliRunner().invoke(app, ["world", "replay", str(read[2]), "--world", "awm"], catch_exceptions=False)
    shown = [line for line in done.stdout.splitlines() if line.startswith("+ ")]
    assert sorted(shown) == [
        f'+ rents {{"boat": {number}, "day": "2026-06-0{number}", "who": "{who}"}}'
        for number, who in enumerate(("Emmy Noether", "Grace Hopper", "Lise Meitner", "Ada Byron"), 2)
    ]
