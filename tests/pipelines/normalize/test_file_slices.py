"""Large files of rows, read in slices: the same comes out of any parts, and a slice costs no more than itself."""

import bz2
import gzip
import json
import lzma
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.conftest import ROOT
from tests.pipelines.test_run import shards_of
from trajmill.connectors.apis.chat_tools import ChatTools
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan import file_slices
from trajmill.pipelines.plan.plan import Plan, make_plan
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.summary import Summary
from trajmill.schemas import ConfigError, ContractError, ParseError, Reject, ShardError, scan_transitions

RECIPE = parse_recipe('{"name": "rows", "source": "tests", "normalize": {"max_reject_ratio": 0.5}}', "rows")
SLICE = 5000


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_slices, "SLICE_BYTES", SLICE)


def conversation(number: int, text: str = "") -> dict[str, Any]:
    chance = random.Random(number)
    words = " ".join(chance.choices(["amber", "birch", "cedar", "dune", "ember", "fjord", "grove"], k=40))
    call = {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": json.dumps({"n": number})}}
    return {
        "id": f"row-{number}",
        "messages": [
            {"role": "user", "content": f"What is known of {number}?"},
            {"role": "assistant", "content": text or None, "tool_calls": [call]},
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


def test_however_slices_are_put_into_parts_the_same_comes_out(raw, finished, tmp_path):
    summary = run(raw, tmp_path, Execution(part_bytes=18_000))
    assert len(summary.plan.parts) > 4
    assert shards_of(tmp_path) == shards_of(finished)
    for folder in ("transitions", "rejects/normalize", "rejects/judge", "verdicts"):
        assert sorted(map(repr, tables_of(tmp_path, folder))) == sorted(map(repr, tables_of(finished, folder)))


def test_slices_hold_every_row_of_the_whole_at_its_place_with_the_digest_of_the_whole(
    raw, finished, tmp_path, monkeypatch
):
    monkeypatch.setattr(file_slices, "SLICE_BYTES", 1 << 30)
    whole = Run(RECIPE, [str(raw)], str(tmp_path)).run("normalize")
    assert len(whole.plan.parts) == 1
    cut, uncut = (scan_transitions(out).drop("row_id").collect().rows() for out in (finished, tmp_path))
    assert cut == uncut
    ids = scan_transitions(finished).collect()["row_id"]
    assert ids.n_unique() == len(ids) == 96
    places = [pl.read_parquet(f"{out}/rejects/normalize/*.parquet").rows() for out in (finished, tmp_path)]
    assert places[0] == places[1]
    assert len(places[0]) == 2


def test_a_slice_in_which_no_row_begins_is_no_loss(raw, finished):
    inputs = Plan.from_json((finished / "plan.json").read_bytes())
    size = (raw / "rows.jsonl").stat().st_size
    slices = [log for part in inputs.parts for log in part.inputs if log.uri == "rows.jsonl"]
    assert [piece.begin for piece in slices] == list(range(0, size, SLICE))
    assert sum(piece.bytes for piece in slices) == size
    assert [(log.uri, log.bytes) for log in inputs.inputs] == [
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


def test_a_session_and_a_compressed_file_of_one_frame_are_read_whole(tmp_path):
    session = sorted(
        (ROOT / "samples" / "terminal" / "claude_code").rglob("*.jsonl"), key=lambda path: path.stat().st_size
    )
    shutil.copy(session[-1], tmp_path / "session.jsonl")
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(lines(conversation(number) for number in range(900))))
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert {log.uri: log.bytes > SLICE for log in plan.inputs} == {"rows.jsonl.gz": True, "session.jsonl": True}
    assert [log.file_slice for part in plan.parts for log in part.inputs] == [None, None]


def packed(rows: list[dict[str, Any]], compress: Callable[[bytes], bytes], count: int, is_apart: bool) -> bytes:
    """Rows as lines in compressed frames of `count` lines each, or of stretches that end within lines."""
    data = lines(rows)
    cuts = [
        0,
        *(len(lines(rows[:number])) - 9 * (not is_apart) for number in range(count, len(rows), count)),
        len(data),
    ]
    return b"".join(compress(data[begin:end]) for begin, end in pairwise(cuts))


def arrow(rows: list[dict[str, Any]], size: int, new: Callable[..., Any], codec: str | None) -> bytes:
    table, sink = pa.Table.from_pylist(rows), pa.BufferOutputStream()
    table = table.set_column(0, "id", table["id"].dictionary_encode())
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        for batch in table.to_batches(max_chunksize=size):
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def array(rows: list[dict[str, Any]], indent: int | None) -> bytes:
    return json.dumps(rows, indent=indent).encode() + b"\n"


ROWS = [conversation(number) for number in range(60)]
FILES = {
    "rows.jsonl.gz": lambda: packed(ROWS, gzip.compress, 2, is_apart=True),
    "members.jsonl.gz": lambda: packed(ROWS, gzip.compress, 3, is_apart=False),
    "rows.jsonl.zst": lambda: packed(ROWS, zstandard.ZstdCompressor().compress, 1, is_apart=True),
    "frames.jsonl.zst": lambda: packed(ROWS, zstandard.ZstdCompressor().compress, 5, is_apart=False),
    "rows.jsonl.bz2": lambda: packed(ROWS, bz2.compress, 4, is_apart=False),
    "rows.jsonl.xz": lambda: packed(ROWS, lzma.compress, 4, is_apart=True),
    "rows.json": lambda: array(ROWS, None),
    "indented.json": lambda: array(ROWS, 1),
    "rows.arrow": lambda: arrow(ROWS, 2, pa.ipc.new_file, None),
    "stream.arrow": lambda: arrow(ROWS, 7, pa.ipc.new_stream, "zstd"),
}


def contents_of(plan: Plan) -> list[Any]:
    """What slices of a file hold, in their order, without the places in it."""
    records = [result for part in plan.parts for log in part.inputs for result, _ in read_input(log, RECIPE)]
    return [
        record if isinstance(record, Reject) else (record.native_id, [replace(step, offset=0) for step in record.steps])
        for record in records
        if not isinstance(record, Reject) or record.reason != "no_transitions"  # of a slice in which no row begins
    ]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What a file of lines holds that is read whole."""
    path = tmp_path_factory.mktemp("whole") / "rows.jsonl"
    path.write_bytes(lines(ROWS))
    records = contents_of(make_plan(RECIPE, [str(path)]))
    assert [native_id for native_id, _ in records] == [row["id"] for row in ROWS]
    return records


@pytest.mark.parametrize("name", FILES)
def test_slices_of_any_size_hold_every_row_once_and_in_order(name, wanted, tmp_path, monkeypatch):
    path, size = tmp_path / name, len(lines(ROWS))
    path.write_bytes(FILES[name]())
    for most in (size // 6, random.Random(name).randrange(size // 30, size)):
        monkeypatch.setattr(file_slices, "SLICE_BYTES", most)
        plan = make_plan(RECIPE, [str(path)])
        slices = [log for part in plan.parts for log in part.inputs]
        assert len(slices) > 3 or most > size // 6
        assert sum(piece.bytes for piece in slices) == path.stat().st_size
        assert contents_of(plan) == wanted, most


def test_an_array_with_more_behind_it_and_a_compressed_array_are_read_whole(tmp_path):
    (tmp_path / "more.json").write_bytes(array(ROWS, 1) + b"[]")
    (tmp_path / "array.json.gz").write_bytes(b"".join(map(gzip.compress, array(ROWS, 1).splitlines(keepends=True))))
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert [(log.uri, log.file_slice) for part in plan.parts for log in part.inputs] == [
        ("array.json.gz", None),
        ("more.json", None),
    ]


def test_a_compressed_file_is_read_whole_if_its_first_frame_is_long_and_not_if_all_are_long_together(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(file_slices, "FRAME_BYTES", 100_000)
    rows = [conversation(number) for number in range(900)]
    assert len(lines(rows)) > 3 * 100_000
    for name, count in (("short", 100), ("long", 800)):
        (tmp_path / f"{name}.jsonl.gz").write_bytes(packed(rows, gzip.compress, count, is_apart=True))
    plan = make_plan(RECIPE, [str(tmp_path)])
    slices = Counter(log.uri for part in plan.parts for log in part.inputs)
    assert slices == {"long.jsonl.gz": 1, "short.jsonl.gz": 9}


def test_a_compressed_file_with_damage_is_read_whole_and_keeps_the_rows_before_it(tmp_path):
    data = packed(ROWS, gzip.compress, 2, is_apart=True)
    (tmp_path / "rows.jsonl.gz").write_bytes(data)
    plan = make_plan(RECIPE, [str(tmp_path)])
    wanted = plan.parts[0].inputs[2].file_slice
    assert wanted is not None
    assert wanted.frame is not None
    begin = wanted.frame
    (tmp_path / "rows.jsonl.gz").write_bytes(data[: begin + 40] + b"\0" * 20 + data[begin + 60 :])
    [damaged] = (log for part in make_plan(RECIPE, [str(tmp_path)]).parts for log in part.inputs)
    records = [result for result, _ in read_input(damaged, RECIPE)]
    assert [record.reason for record in records if isinstance(record, Reject)] == ["bad_compression"]
    whole = [record.native_id for record in records if not isinstance(record, Reject)]
    assert whole == [row["id"] for row in ROWS[: len(whole)]]
    assert len(whole) > 2


@pytest.mark.parametrize("strict", [False, True])
def test_a_fault_met_while_a_file_is_cut_costs_the_cut_and_an_error_that_is_no_fault_of_it_ends_the_plan(
    tmp_path, monkeypatch, strict
):
    (tmp_path / "rows.jsonl").write_bytes(lines(conversation(number) for number in range(40)))

    def cut_over(error: Exception) -> list[Any]:
        def is_sliceable(*_: Any) -> bool:
            raise error

        monkeypatch.setattr(ChatTools, "is_sliceable", is_sliceable)
        plan = make_plan(RECIPE, [str(tmp_path)], strict=strict)
        return [log.file_slice for part in plan.parts for log in part.inputs]

    assert cut_over(ParseError("rows.jsonl", 0, "bad_json", "damage")) == [None]
    ends = [
        OSError(5, "Input/output error"),
        MemoryError(),
        ConfigError("no"),
        ContractError("bug"),
        ShardError("gone"),
    ]
    for error in [*ends, *([KeyError("bug")] if strict else [])]:
        with pytest.raises(type(error)):
            cut_over(error)
    assert strict or cut_over(KeyError("bug")) == [None]


def test_a_file_that_was_read_in_slices_is_known_and_what_it_grew_by_is_added(tmp_path):
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    rows = [conversation(number) for number in range(40)]
    (raw / "rows.jsonl").write_bytes(lines(rows))
    Run(RECIPE, [str(raw)], str(out)).run()
    again = Append(RECIPE, [str(raw)], str(out)).run()
    assert (again.summary, again.known) == (None, 1)
    (raw / "copy.jsonl").write_bytes(lines(rows))
    copied = Append(RECIPE, [str(raw)], str(out)).run()
    assert (copied.summary, copied.known) == (None, 2)
    (raw / "rows.jsonl").write_bytes(lines([*rows, conversation(77)]))
    grown = Append(RECIPE, [str(raw)], str(out)).run()
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
    rows = scan_transitions(tmp_path / "out").collect()
    lost = {f"row-{number}" for number in range(40)} - set(rows["native_id"])
    begins = {f"row-{number}": len(lines(conversation(index) for index in range(number))) for number in range(40)}
    assert lost == {name for name, begin in begins.items() if begin // SLICE == begins["row-30"] // SLICE}
