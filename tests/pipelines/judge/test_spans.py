"""Spans through a whole run: aligned to the transitions, and volatile where replicates differ, whatever the parts."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from tests.pipelines.judge.test_near_duplicates import atif
from tests.pipelines.judge.test_replicates import raw, recipe
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.run import Run

__all__ = ["raw"]


def found(out: Path) -> pl.DataFrame:
    columns = ["trajectory_id", "step", "next_observation"]
    texts = pl.concat([pl.read_parquet(name, columns=columns) for name in sorted(out.glob("transitions/*/*.parquet"))])
    spans = pl.concat([pl.read_parquet(name) for name in sorted(out.glob("spans/*/*.parquet"))])
    assert spans.select("trajectory_id", "step").equals(texts.select("trajectory_id", "step"))
    text = texts["next_observation"].struct.field("content")
    flags = pl.concat([pl.read_parquet(name, columns=["kept"]) for name in sorted(out.glob("verdicts/*/*.parquet"))])
    whole = pl.concat([spans.with_columns(text.alias("text")), flags], how="horizontal")
    return whole.filter("kept").sort("trajectory_id", "step")


def told(row: dict) -> list[tuple[str, str]]:
    data = row["text"].encode()
    return [(span["label"], data[span["begin"] : span["end"]].decode()) for span in row["spans"]]


def test_what_replicates_do_not_agree_on_is_volatile(raw: Path, tmp_path: Path):
    tables = []
    for part_bytes in (1 << 28, 12_000):
        out = tmp_path / str(part_bytes)
        Run(recipe(spans=True), [str(raw)], str(out), Execution(part_bytes=part_bytes)).run()
        tables.append(found(out))
    assert tables[0].equals(tables[1])
    rows = [row for row in tables[0].iter_rows(named=True) if row["step"] == 1 and "4009" not in row["text"]]
    assert len(rows) == 6
    for row in rows:
        number = row["text"].split("pid 400")[1][0]
        assert told(row) == [("volatile", f"400{number}"), ("volatile", f"5000{number}")]


def test_answers_of_a_tool_whose_replicates_never_agree_are_volatile_as_a_whole(tmp_path: Path):
    folder = tmp_path / "raw"
    folder.mkdir()

    def write(name: str, task: str, *answers: str) -> None:
        log: dict[str, Any] = atif(name, task, ["green", *answers])
        for step, command in zip(log["steps"][1:], ("paint door", "dice roll", "look"), strict=False):
            step["tool_calls"][0]["arguments"]["command"] = command
        (folder / f"{name}.json").write_text(json.dumps(log))

    for task in range(3):
        for number in range(2):
            write(f"{task}-{number}", f"task {task}", f"thrown {task}{number}")
    write("lone", "a task of its own", "thrown 77")
    tables = []
    for part_bytes in (1 << 28, 4_000):
        out = tmp_path / str(part_bytes)
        Run(recipe(spans=True), [str(folder)], str(out), Execution(part_bytes=part_bytes)).run()
        tables.append(found(out))
    assert tables[0].equals(tables[1])
    rows = {row["text"]: told(row) for row in tables[0].iter_rows(named=True)}
    assert rows["thrown 77"] == [("volatile", "thrown 77")]
    assert "volatile" not in dict(rows["green"])
    write("0-2", "task 0", "thrown 01", "a door")
    Run(recipe(spans=True), [str(folder)], str(tmp_path / "agreeing")).run()
    rows = {row["text"]: told(row) for row in found(tmp_path / "agreeing").iter_rows(named=True)}
    assert "volatile" not in dict(rows["thrown 77"])


def test_spans_are_written_only_where_they_are_wanted_and_go_with_the_wish(raw: Path, tmp_path: Path):
    out, second = tmp_path / "out", tmp_path / "other"
    Run(recipe(spans=True), [str(raw)], str(out)).run()
    assert list(out.glob("spans/*/*.parquet"))
    assert (out / "spans" / "manifest.json").exists()
    classed = {path.relative_to(out): path.read_bytes() for path in out.glob("shards/*/*/*")}
    Run(recipe(), [str(raw)], str(second)).run()
    Run(recipe(), [str(raw)], str(out)).run()
    assert not (second / "spans").exists()
    assert not (out / "spans").exists()
    plain = {path.relative_to(second): path.read_bytes() for path in second.glob("shards/*/*/*")}
    assert {path.relative_to(out): path.read_bytes() for path in out.glob("shards/*/*/*")} == plain
    assert plain.keys() == classed.keys()
    assert all(plain[name] != data for name, data in classed.items() if name.parts[1] in ("cpt", "sft"))
