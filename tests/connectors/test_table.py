"""Tables of published data sets: layouts that a recipe maps, known layouts, and tables that are not what they say."""

import io
import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.column_mapping import Rows
from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.connectors.published.table import PublishedTable
from trajmill.connectors.published.tables import Table
from trajmill.connectors.swe.swe_rows import SweRows
from trajmill.schemas import ParseError, Reject, Trajectory


def parquet(rows: list, schema: pa.Schema | None = None, **settings: object) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), stream, **settings)
    return stream.getvalue()


def jsonl(rows: list[dict]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def found(data: bytes, columns: dict[str, str] | None = None, **mapping: object) -> list[Trajectory | Reject]:
    rows = Rows(columns=tuple((columns or {}).items()), **mapping)  # type: ignore[arg-type]
    return list(PublishedTable().parse(MemoryBlob("rows", data, Choices(rows=rows))))


def read(data: bytes, columns: dict[str, str] | None = None, **mapping: object) -> list[Trajectory]:
    records = found(data, columns, **mapping)
    assert not [record for record in records if isinstance(record, Reject)]
    return [record for record in records if isinstance(record, Trajectory)]


def seen(trajectory: Trajectory) -> list[tuple[str | None, str, str | None]]:
    """(observation, action, next observation) of each step."""
    return [
        (
            step.observation.content if step.observation else None,
            step.action.text,
            step.next_observation.content if step.next_observation else None,
        )
        for step in trajectory.steps
    ]


EPISODES = {"id": "episode", "observation": "before", "action": "did"}


def episode(name: str, *seen_and_done: tuple[str | None, str | None], **more: object) -> list[dict]:
    return [{"episode": name, "before": before, "did": did, **more} for before, did in seen_and_done]


def test_a_trajectory_with_an_unreadable_row_is_refused_since_what_followed_an_action_is_not_known():
    data = jsonl(episode("a", ("1", "x()"), ("2", "y()"))) + b"{broken\n" + jsonl(episode("a", ("4", "z()")))
    data += jsonl(episode("b", ("5", "x()"), ("6", "y()")))
    records = found(data, layout="transitions", columns=EPISODES)
    assert [record.reason for record in records if isinstance(record, Reject)] == ["bad_json", "row_missing"]
    assert [record.native_id for record in records if isinstance(record, Trajectory)] == ["b"]


def test_rows_that_wait_too_long_for_the_end_of_their_trajectory_end_the_reading(monkeypatch):
    monkeypatch.setattr("trajmill.connectors.published.layouts.OPEN_BYTES", 2000)
    rows = episode("a", *(("x" * 100, "go()") for _ in range(50)))
    with pytest.raises(ParseError, match="rows_too_mixed"):
        found(parquet(rows), layout="transitions", columns=EPISODES)
    shorter = [row for name in "abcdefgh" for row in episode(name, ("x" * 300, "go()"), ("y" * 300, "go()"))]
    assert len(read(parquet(shorter), layout="transitions", columns=EPISODES)) == 8


def test_a_row_without_an_id_and_a_step_without_an_action_are_told():
    rows = [*episode("a", ("1", "x()"), ("2", None), ("3", "z()")), {"episode": None, "before": "?", "did": "x()"}]
    records = found(parquet(rows), layout="transitions", columns=EPISODES)
    assert {(record.reason, record.offset) for record in records if isinstance(record, Reject)} == {
        ("no_action", 1),
        ("no_id", 3),
    }
    whole = next(record for record in records if isinstance(record, Trajectory))
    assert seen(whole) == [("1", "x()", "2"), ("3", "z()", None)]


STEPS = {"steps": "trace", "id": "name", "observation": "obs", "action": "act", "next_observation": "next"}


@pytest.mark.parametrize("as_text", [False, True])
def test_a_list_of_steps_may_be_structs_or_json_text(as_text):
    trace = [{"obs": "1", "act": "open(x)", "next": "2"}, {"obs": None, "act": "shut", "next": None}]
    data = parquet([{"name": "t", "trace": json.dumps(trace) if as_text else trace}])
    trajectory = read(data, layout="steps", columns=STEPS, domain="os")[0]
    assert seen(trajectory) == [("1", "open(x)", "2"), ("2", "shut", None)]
    assert [step.action.name for step in trajectory.steps] == ["open", "shut"]


@pytest.mark.parametrize(
    ("action", "name", "text", "arguments"),
    [
        ({"name": "tap", "arguments": {"x": 1}}, "tap", '{"name": "tap", "arguments": {"x": 1}}', '{"x": 1}'),
        ({"action_type": "type", "input": "hi", "at": 3}, "type", None, '{"input": "hi", "at": 3}'),
        ({"function": {"name": "f", "arguments": '{"a": [1]}'}, "id": "7"}, "f", None, '{"a": [1]}'),
        ('{"tool": "f", "kwargs": {"b": 2}}', "f", None, '{"b": 2}'),
        ("click('12')", "click", "click('12')", None),
        ("Look around & wait", "act", "Look around & wait", None),
        ([{"keystrokes": "ls\n", "duration": 0.5}], "keystrokes", '[{"keystrokes": "ls\\n", "duration": 0.5}]', None),
    ],
)
def test_an_action_is_read_in_the_shapes_it_is_published_in(action, name, text, arguments):
    data = jsonl([{"name": "t", "trace": [{"obs": "1", "act": action, "next": "2"}]}])
    result = read(data, layout="steps", columns=STEPS)[0].steps[0].action
    assert (result.name, result.arguments) == (name, arguments)
    assert text is None or result.text == text


def test_plain_text_is_a_call_of_the_tool_that_the_recipe_names():
    data = jsonl([{"name": "t", "trace": [{"obs": None, "act": "ls -l", "next": "a"}]}])
    action = read(data, layout="steps", columns=STEPS, tool="bash", argument="command")[0].steps[0].action
    assert (action.name, action.text) == ("bash", '{"name": "bash", "arguments": {"command": "ls -l"}}')


def test_parallel_calls_share_a_turn_and_each_has_its_own_answer():
    trace = [
        {"obs": "0", "act": [{"name": "f"}, {"name": "g"}], "next": ["1", "2"]},
        {"act": {"name": "h"}, "next": "3"},
    ]
    steps = read(jsonl([{"name": "t", "trace": trace}]), layout="steps", columns=STEPS)[0].steps
    assert [(step.turn, step.call_index, step.num_calls) for step in steps] == [(0, 0, 2), (0, 1, 2), (1, 0, 1)]
    assert [step.next_observation.content for step in steps if step.next_observation] == ["1", "2", "3"]
    assert steps[2].observation == steps[1].next_observation


@pytest.mark.parametrize("action", [5, ["x", 7], {"x": 1}, [None]])
def test_a_trajectory_with_an_action_that_is_none_is_refused_whole(action):
    good = {"name": "u", "trace": [{"obs": "1", "act": "go", "next": "2"}]}
    bad = {"name": "t", "trace": [{"obs": "1", "act": "go", "next": "2"}, {"obs": "2", "act": action, "next": "3"}]}
    records = found(jsonl([bad, good]), layout="steps", columns=STEPS)
    assert [record.reason for record in records if isinstance(record, Reject)] == ["bad_action"]
    assert [record.native_id for record in records if isinstance(record, Trajectory)] == ["u"]


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Go."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "done", "tool_call_id": "1"},
]


def test_a_conversation_is_read_from_the_column_that_holds_it():
    row = {"talk": CHAT, "meta": {"key": "k-1", "solved": 1}, "defs": json.dumps([{"name": "f"}]), "who": "m-7"}
    columns = {"messages": "talk", "id": "meta.key", "tools": "defs", "model": "who", "resolved": "meta.solved"}
    trajectory = read(parquet([row]), layout="messages", columns=columns, domain="search")[0]
    assert (trajectory.native_id, trajectory.domain, trajectory.agent.model) == ("k-1", "search", "m-7")
    assert (trajectory.task.instruction, trajectory.context.agent_system) == ("Go.", "Be brief.")
    assert trajectory.context.action_space == '[{"name": "f"}]'
    assert trajectory.outcome is not None
    assert trajectory.outcome.resolved is True
    assert seen(trajectory) == [(None, '{"name": "f", "arguments": {"a": 1}}', "done")]


def test_shell_lines_in_fences_are_the_actions_of_an_swe_conversation():
    talk = [
        {"role": "user", "content": "Fix."},
        {"role": "assistant", "content": "See:\n```\nls\n```"},
        {"role": "user", "content": "a.py"},
    ]
    trajectory = read(
        parquet([{"talk": talk, "n": 3}]), layout="messages", columns={"messages": "talk", "task": "n"}, domain="swe"
    )[0]
    assert (trajectory.steps[0].action.name, trajectory.task.id) == ("bash", "3")
    assert trajectory.steps[0].next_observation is not None
    assert trajectory.steps[0].next_observation.content == "a.py"


def test_a_conversation_of_terminus_is_read_by_its_keystrokes_whether_or_not_the_recipe_says_so():
    answer = json.dumps({"analysis": "a", "plan": "p", "commands": [{"keystrokes": "ls\n", "duration": 1}]})
    talk = [
        {"role": "user", "content": "Answer in JSON.\n\nTask Description:\nList.\n\nCurrent terminal state:\n$ "},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "New Terminal Output:\na\n$ "},
    ]
    tables = [{"talk": talk, "n": "k"}], [{"conversations": talk, "task": "k"}]
    columns = {"messages": "talk", "task": "n"}
    mapped = read(parquet(tables[0]), layout="messages", columns=columns, domain="terminal")
    for trajectory in (*mapped, *read(parquet(tables[1]))):
        assert (trajectory.domain, trajectory.task.id, trajectory.task.instruction) == ("terminal", "k", "List.")
        assert seen(trajectory) == [("$", '[{"keystrokes": "ls\\n", "duration": 1.0}]', "a\n$")]


def test_a_row_may_hold_a_whole_log_of_another_format():
    events = ('[0.1, "o", "$ "]', '[0.2, "i", "ls\\r"]', '[0.3, "o", "ls\\r\\na\\r\\n$ "]')
    log = "\n".join(['{"version": 2, "width": 80, "height": 24}', *events, ""])
    rows = [{"cast": log, "name": "first"}, {"cast": "no recording", "name": "second"}, {"cast": None, "name": "third"}]
    records = found(parquet(rows), layout="log", format="asciicast", columns={"content": "cast", "id": "name"})
    whole = [record for record in records if isinstance(record, Trajectory)]
    assert [(trajectory.native_id, trajectory.domain, trajectory.steps[0].offset) for trajectory in whole] == [
        ("first", "terminal", 0)
    ]
    assert [record.offset for record in records if isinstance(record, Reject)] == [1, 2]


def test_a_domain_may_stand_in_a_column_and_must_be_one_of_the_seven():
    rows = episode("a", ("1", "x()"), world="android") + episode("b", ("1", "x()"), world="chess")
    records = found(parquet(rows), layout="transitions", columns={**EPISODES, "domain": "world"})
    assert [record.domain for record in records if isinstance(record, Trajectory)] == ["android"]
    assert [record.reason for record in records if isinstance(record, Reject)] == ["unknown_domain"]


def test_a_simulated_environment_is_marked_in_every_trajectory():
    rows = episode("a", ("1", "x()"))
    mapping = {"kind": "model", "world_model": "m@1", "sampling": '{"temperature": 0}'}
    trajectory = read(parquet(rows), layout="transitions", columns=EPISODES, **mapping)[0]
    assert (trajectory.environment.kind, trajectory.environment.world_model) == ("model", "m@1")
    chat = read(parquet([{"id": "t", "messages": CHAT}]), kind="code")[0]
    assert chat.environment.kind == "code"


def test_what_trajmill_wrote_is_no_raw_log():
    with pytest.raises(ParseError, match="own_output"):
        found(parquet([{"trajectory_id": "0", "next_observation": "x", "provenance": "y"}]))


def test_a_parquet_file_that_states_billions_of_rows_is_refused_before_a_row_is_read():
    data = parquet([{"id": "t", "messages": json.dumps(CHAT)}])
    count = struct.unpack("<I", data[-8:-4])[0]
    footer = data[-8 - count : -8]
    single, many = (
        b"\x16\x02\x19",
        b"\x16\x80\xc8\xaf\xa0\x25\x19",
    )  # i64 of 1, and of 5 000 000 000, as thrift writes it
    grown = footer.replace(single, many, 1)
    forged = data[: -8 - count] + grown + struct.pack("<I", len(grown)) + b"PAR1"
    assert pq.read_metadata(io.BytesIO(forged)).num_rows == 5_000_000_000
    with pytest.raises(ParseError, match="too_many_rows"):
        found(forged)


def test_weird_columns_are_read_as_json_has_them_or_refused_by_row():
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("messages", pa.string()),
            ("deep", pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.decimal128(20, 2)), ("y", pa.binary())])))),
            ("when", pa.timestamp("ns")),
            ("day", pa.date64()),
            ("nan", pa.float64()),
        ]
    )
    row = {"id": "t", "messages": json.dumps(CHAT), "deep": [("k", [{"x": 1, "y": b"\xff"}])], "nan": float("nan")}
    assert len(read(parquet([row, {**row, "when": 1}], schema))) == 2


def test_a_parquet_file_cut_in_its_pages_but_not_in_its_footer_keeps_the_rows_before():
    rows = [{"id": f"{number}", "messages": json.dumps(CHAT) + " " * number} for number in range(60)]
    data = bytearray(parquet(rows, compression="zstd", row_group_size=20))
    offset = pq.read_metadata(io.BytesIO(bytes(data))).row_group(1).column(1).data_page_offset
    data[offset : offset + 60] = b"\xff" * 60
    records: list[Trajectory | Reject] = []
    with pytest.raises(ParseError, match="bad_parquet") as caught:
        records.extend(PublishedTable().parse(MemoryBlob("rows", bytes(data))))
    assert caught.value.offset == 20
    assert [record.native_id for record in records if isinstance(record, Trajectory)] == [
        f"{number}" for number in range(20)
    ]


def test_text_that_is_no_utf8_costs_its_row_alone():
    texts = pa.array([json.dumps(CHAT).encode(), b'[{"role": "\xff"}]', json.dumps(CHAT).encode()]).view(pa.string())
    stream = io.BytesIO()
    pq.write_table(pa.table({"id": ["a", "b", "c"], "messages": texts}), stream)
    records = found(stream.getvalue())
    assert [record.native_id for record in records if isinstance(record, Trajectory)] == ["a", "c"]
    assert [(record.reason, record.offset) for record in records if isinstance(record, Reject)] == [("bad_value", 1)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=5)), min_size=1, max_size=30), st.integers(1, 7))
def test_trajectories_are_the_rows_of_their_ids_however_the_file_is_cut_into_row_groups(rows, size):
    table = [{"episode": name, "before": before, "did": "go()"} for name, before in rows]
    trajectories = read(parquet(table, row_group_size=size), layout="transitions", columns=EPISODES)
    contents = {
        trajectory.native_id: [step.observation.content if step.observation else None for step in trajectory.steps]
        for trajectory in trajectories
    }
    assert contents == {key: [before for name, before in rows if name == key] for key in {name for name, _ in rows}}
    assert trajectories == read(parquet(table), layout="transitions", columns=EPISODES)


def test_a_changed_byte_of_an_arrow_file_costs_rows_or_the_file_and_never_the_process():
    kind = pa.large_list(pa.large_list(pa.large_list(pa.float64())))
    rows = pa.table({"c0": pa.array([None], kind), "c1": pa.array([{"b": 1.5}])})
    stream = io.BytesIO()
    with pa.ipc.new_file(stream, rows.schema) as file:
        file.write_table(rows)
    data = stream.getvalue()
    refused = 0
    for offset in range(len(data)):
        for value in (0, 0xFF, data[offset] ^ 8):
            try:
                list(Table(MemoryBlob("rows", data[:offset] + bytes([value]) + data[offset + 1 :])).rows())
            except ParseError:
                refused += 1
    assert refused > 500


def test_messages_about_an_issue_are_rows_of_swe_without_any_column_that_says_so():
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"<uploaded_files>\n/lamp/{number}\n</uploaded_files>\nLight it."},
                {"role": "assistant", "content": "<function=bash>\n<parameter=command>ls</parameter>\n</function>"},
                {"role": "user", "content": "EXECUTION RESULT of [bash]:\nlamp.py"},
            ]
        }
        for number in range(3)
    ]
    trajectories = read(parquet(rows))
    assert [(trajectory.domain, trajectory.steps[0].offset) for trajectory in trajectories] == [
        ("swe", 0),
        ("swe", 1),
        ("swe", 2),
    ]
    (line,) = SweRows().parse(MemoryBlob("rows.jsonl", jsonl(rows[2:])))
    assert isinstance(line, Trajectory)
    assert seen(trajectories[2]) == seen(line)
