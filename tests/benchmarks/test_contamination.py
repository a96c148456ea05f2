"""Trajectories that a benchmark holds: the planted ones are found again, and what went is counted."""

import json
from pathlib import Path

import pytest

from benchmarks import contamination
from benchmarks.contamination import drawn, sample, table, trajectories
from tests.conftest import ROOT
from tests.pipelines.hostile import GOOD
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run


def rows(words: int, instruction: str | None = None) -> list[dict[str, object]]:
    one = {"action": {"text": "{}"}, "next_observation": {"content": "w " * words}, "domain": "mcp"}
    return [{**one, "task": {"instruction": instruction}}] * 2


def test_items_are_drawn_by_hash_from_what_is_long_enough():
    of = {f"t{number}": rows(number) for number in range(40)}
    names = drawn(of, 5)
    assert names == drawn(dict(reversed(of.items())), 5)
    assert len(set(names)) == 5
    assert all(2 * int(name[1:]) >= contamination.FEWEST for name in names)


def test_what_went_is_told_apart_by_its_instruction():
    of = {"own": rows(9, "go"), "again": rows(9, "go"), "other": rows(9, "stay"), "missed": rows(9)}
    lines = list(table(of, ["own", "missed"], {"own": ["0"], "again": ["0"], "other": ["0"]}))
    assert lines[2] == "| 4 | 2 | 1 | 2 | 1 | 1 |"
    assert lines[4:] == [
        "not found: item 1, mcp, 2 steps, 18 words of observations",
        "of those that went else, by item: 0 took 1",
    ]


def test_every_planted_sample_takes_its_trajectory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    raw = str(ROOT / "samples" / "terminal")
    monkeypatch.setattr("sys.argv", ["contamination", "--raw", raw, "--items", "5"])
    contamination.main()
    counts = [int(cell) for cell in capsys.readouterr().out.splitlines()[2].strip("| ").split(" | ")]
    assert counts[1:3] == [5, 5]
    assert counts[3] < counts[0] / 2


def test_a_sample_has_the_columns_of_the_benchmark(tmp_path: Path):
    from trajmill.connectors.published.agentworldbench import items
    from trajmill.pipelines.storage.paths import Place
    from trajmill.pipelines.storage.stored_blob import StoredBlob

    (tmp_path / "x.jsonl").write_text(json.dumps(sample(7, rows(3))))
    (found,) = items(StoredBlob("x.jsonl", {"": Place(str(tmp_path / "x.jsonl"))}, 1 << 20))
    assert (found.id, found.domain, found.turn, len(found.responses)) == ("7", "mcp", 1, 2)


def test_a_trajectory_of_which_there_are_copies_is_made_an_item_once(tmp_path: Path):
    (tmp_path / "raw").mkdir()
    for copy in ("one.jsonl", "two.jsonl"):
        (tmp_path / "raw" / copy).write_bytes(GOOD)
    run = Run(Recipe(name="t", source="t"), [str(tmp_path / "raw")], str(tmp_path / "out"))
    assert run.run("normalize").line("inputs").kept == 2
    (found,) = trajectories(run).values()
    assert [row["step"] for row in found] == list(range(found[0]["num_steps"]))
