"""Large files of rows, read in slices: the same comes out of any parts, and a slice costs no more than itself."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.pipelines.test_run import shards_of
from trajmill.connectors.apis.chat_tools import ChatTools
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.plan import file_slices
from trajmill.pipelines.plan.plan import Plan, make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.summary import Summary
from trajmill.schemas import scan_transitions

RECIPE = parse_recipe('{"name": "rows", "source": "tests", "normalize": {"max_reject_ratio": 0.5}}', "rows")
SLICE = 5000


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_slices, "SLICE_BYTES", SLICE)


def conversation(number: int, said: str = "") -> dict[str, Any]:
    chance = random.Random(number)
    words = " ".join(chance.choices(["amber", "birch", "cedar", "dune", "ember", "fjord", "grove"], k=40))
    call = {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": json.dumps({"n": number})}}
    return {
        "id": f"row-{number}",
        "messages": [
            {"role": "user", "content": f"What is known of {number}?"},
            {"role": "assistant", "content": said or None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": words},
        ],
    }


def lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in JSON Lines and in Parquet: copies in several slices, a damaged line, a line longer than two slices."""
    folder = tmp_path_factory.mktemp("raw")
    rows = [conversation(number % 37) for number in range(45)]
    long = conversation(99, "x" * 2 * SLICE)
    data = lines(rows[:20]) + b'{"messages": [\n' + lines([long, *rows[20:], {"id": "said", "messages": []}])
    (folder / "rows.jsonl").write_bytes(data)
    table = pa.Table.from_pylist([conversation(number) for number in range(100, 150)])
    pq.write_table(table, folder / "rows.parquet", row_group_size=6, compression="none")
    return folder


def run(raw: Path, out: Path, execution: Execution | None = None) -> Summary:
    return Run(RECIPE, [str(raw)], str(out), execution or Execution()).run()


@pytest.fixture(scope="module")
def finished(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_slices, "SLICE_BYTES", SLICE)
        run(raw, out, Execution(part_bytes=1 << 30))
    return out


def tables_of(out: Path, folder: str) -> list[Any]:
    return pl.read_parquet(f"{out}/{folder}/**/*.parquet").rows()


@pytest.mark.parametrize(
    "execution",
    [
        Execution(part_bytes=1),
        Execution(2, part_bytes=3 * SLICE),
        Execution(part_bytes=9000, beam=("--runner=FnApiRunner",)),
    ],
)
def test_however_slices_are_put_into_parts_the_same_comes_out(raw, finished, tmp_path, execution):
    summary = run(raw, tmp_path, execution)
    assert len(summary.plan.parts) > 4
    assert shards_of(tmp_path) == shards_of(finished)
    for folder in ("transitions", "rejects/normalize", "rejects/judge", "verdicts"):
        assert sorted(map(repr, tables_of(tmp_path, folder))) == sorted(map(repr, tables_of(finished, folder)))


def test_slices_hold_every_row_of_the_whole_at_its_place_with_the_digest_of_the_whole(
    raw, finished, tmp_path, monkeypatch
):
    monkeypatch.setattr(file_slices, "SLICE_BYTES", 1 << 30)
    whole = run(raw, tmp_path)
    assert len(whole.plan.parts) == 1
    cut, kept = (scan_transitions(out).drop("row_id").collect().rows() for out in (finished, tmp_path))
    assert cut == kept
    ids = scan_transitions(finished).collect()["row_id"]
    assert ids.n_unique() == len(ids) == 96
    places = [pl.read_parquet(f"{out}/rejects/normalize/*.parquet").rows() for out in (finished, tmp_path)]
    assert places[0] == places[1]
    assert len(places[0]) == 2


def test_a_slice_in_which_no_row_begins_is_no_loss(raw, finished):
    inputs = Plan.from_json((finished / "plan.json").read_bytes())
    size = (raw / "rows.jsonl").stat().st_size
    slices = [one for part in inputs.parts for one in part.inputs if one.uri == "rows.jsonl"]
    assert [one.begin for one in slices] == list(range(0, size, SLICE))
    assert sum(one.bytes for one in slices) == size
    assert [(one.uri, one.bytes) for one in inputs.inputs] == [
        (name, (raw / name).stat().st_size) for name in ("rows.jsonl", "rows.parquet")
    ]
    rejects = pl.read_parquet(f"{finished}/rejects/normalize/*.parquet")
    assert set(rejects["unit"]) == {"record"}


def test_a_row_without_an_action_is_a_reject_in_whatever_slice_it_is(tmp_path):
    acts = [
        {"id": 0, "source": "agent", "action": "run", "args": {"command": "ls"}},
        {"id": 1, "source": "agent", "observation": "run", "content": "a.txt", "cause": 0},
    ]
    idle = [{"id": 0, "source": "user", "action": "message", "args": {"content": "Wait."}}]
    histories = [acts if number % 3 < 2 else idle for number in range(150)] + [idle] * 150
    rows = [
        {"instance_id": f"row-{number}", "instruction": "Look.", "history": history}
        for number, history in enumerate(histories)
    ]
    (tmp_path / "output.jsonl").write_bytes(lines(rows))
    Run(RECIPE, [str(tmp_path / "output.jsonl")], str(tmp_path / "out"), Execution(part_bytes=1)).run("normalize")
    assert scan_transitions(tmp_path / "out").collect().height == 100
    rejects = pl.read_parquet(f"{tmp_path}/out/rejects/normalize/*.parquet")
    begins = [len(lines(rows[:number])) for number, history in enumerate(histories) if history is idle]
    assert (
        rejects.filter((pl.col("reason") == "no_transitions") & (pl.col("offset") >= 0))["offset"].to_list() == begins
    )


def test_a_session_and_what_is_compressed_are_read_whole(tmp_path):
    session = sorted(
        (ROOT / "samples" / "terminal" / "claude_code").rglob("*.jsonl"), key=lambda path: path.stat().st_size
    )
    shutil.copy(session[-1], tmp_path / "session.jsonl")
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(lines(conversation(number) for number in range(900))))
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert {one.uri: one.bytes > SLICE for one in plan.inputs} == {"rows.jsonl.gz": True, "session.jsonl": True}
    assert [one.file_slice for part in plan.parts for one in part.inputs] == [None, None]


def test_a_file_that_was_read_in_slices_is_known_and_what_it_grew_by_is_added(tmp_path):
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    rows = [conversation(number) for number in range(40)]
    (raw / "rows.jsonl").write_bytes(lines(rows))
    values = {**RECIPE.model_dump(mode="json"), "normalize": {"grown": "extend"}}
    recipe = Recipe.model_validate(values)
    Run(recipe, [str(raw)], str(out)).run()
    again = Append(recipe, [str(raw)], str(out)).run()
    assert (again.summary, again.known) == (None, 1)
    (raw / "copy.jsonl").write_bytes(lines(rows))
    copied = Append(recipe, [str(raw)], str(out)).run()
    assert (copied.summary, copied.known) == (None, 2)
    (raw / "rows.jsonl").write_bytes(lines([*rows, conversation(77)]))
    grown = Append(recipe, [str(raw)], str(out)).run()
    assert grown.summary is not None
    assert [line.kept for line in grown.summary.lines if line.unit == "trajectories"] == [1]


def test_a_connectors_bug_costs_the_slice_that_it_was_met_in(tmp_path, monkeypatch):
    (tmp_path / "rows.jsonl").write_bytes(lines(conversation(number) for number in range(40)))
    parsed = ChatTools.conversation

    def conversation_of(self: ChatTools, blob: Any, value: Any, offset: int) -> Any:
        if value["id"] == "row-30":
            raise KeyError("thirty")
        return parsed(self, blob, value, offset)

    monkeypatch.setattr(ChatTools, "conversation", conversation_of)
    lenient = Execution(strict=False)
    Run(RECIPE, [str(tmp_path / "rows.jsonl")], str(tmp_path / "out"), lenient).run("normalize")
    rejects = pl.read_parquet(f"{tmp_path}/out/rejects/normalize/*.parquet")
    assert rejects.select("unit", "reason", "uri").rows() == [("input", "connector_error", "rows.jsonl")]
    kept = scan_transitions(tmp_path / "out").collect()
    lost = {f"row-{number}" for number in range(40)} - set(kept["native_id"])
    begins = {f"row-{number}": len(lines(conversation(one) for one in range(number))) for number in range(40)}
    assert lost == {name for name, begin in begins.items() if begin // SLICE == begins["row-30"] // SLICE}
