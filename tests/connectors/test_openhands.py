"""OpenHands: observations by cause or by place, calls of one reply, and who spoke."""

import io
import json
import zipfile
from dataclasses import replace

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import sniff
from trajmill.connectors.swe.openhands import OpenHands
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import Reject, Step, Trajectory


def run(ident: int | None, command: str, reply: str | None = None, at: str | None = None) -> dict:
    event: dict = {"source": "agent", "action": "run", "args": {"command": command, "thought": ""}}
    if ident is not None:
        event["id"] = ident
    if at is not None:
        event["timestamp"] = at
    if reply is not None:
        event["tool_call_metadata"] = {"tool_call_id": command, "model_response": {"id": reply, "choices": []}}
    return event


def out(cause: int | None, content: str, at: str | None = None, **metadata: object) -> dict:
    event: dict = {"source": "agent", "observation": "run", "content": content, "extras": {"metadata": metadata}}
    if cause is not None:
        event |= {"cause": cause, "id": 1000 + cause}
    if at is not None:
        event["timestamp"] = at
    return event


def read(*events: object) -> tuple[list[Step], list[str]]:
    records = list(OpenHands().parse(MemoryBlob("events.json", json.dumps(events).encode())))
    trajectories = [record for record in records if isinstance(record, Trajectory)]
    assert len(trajectories) == 1
    return list(trajectories[0].steps), [record.reason for record in records if isinstance(record, Reject)]


def answers(steps: list[Step]) -> list[str | None]:
    return [step.next_observation.content if step.next_observation else None for step in steps]


def folder(events: dict[str, object], **beside: object) -> tuple[list[Step], list[tuple[str, str]]]:
    """The steps of a folder of event files, and (reason, member) of what it rejects."""
    members = {
        name: event if isinstance(event, bytes) else json.dumps(event).encode() for name, event in events.items()
    }
    members |= {f"{name}.json": json.dumps(document).encode() for name, document in beside.items()}
    records = list(OpenHands().parse(MemoryBlob("sessions/s", members)))
    trajectories = [record for record in records if isinstance(record, Trajectory)]
    assert len(trajectories) == 1
    return list(trajectories[0].steps), [
        (record.reason, record.member) for record in records if isinstance(record, Reject)
    ]


def files(*events: dict) -> dict[str, object]:
    return {f"events/{number}.json": event for number, event in enumerate(events)}


def test_a_page_of_the_cache_counts_only_where_an_event_has_no_file():
    events = [run(0, "a"), out(0, "of a"), run(2, "b"), out(2, "of b")]
    members = files(*events)
    assert folder(members | {"event_cache/0-4.json": events}) == folder(members)
    del members["events/1.json"]
    steps, rejects = folder(members | {"event_cache/0-4.json": events})
    assert (answers(steps), rejects) == (["of a", "of b"], [])


def test_a_page_that_no_number_needs_is_not_even_read():
    members = files(run(0, "a"), out(0, "of a"))
    assert folder(members | {"event_cache/0-2.json": b"{broken"})[1] == []


def test_two_files_of_one_number_count_once():
    name = "events/event-0000{}-{}.json"
    first, second = "aaaaaaaa-1111", "bbbbbbbb-1111"
    members: dict[str, object] = {name.format(0, first): run(None, "a"), name.format(0, second): run(None, "b")}
    steps, rejects = folder(members)
    assert [json.loads(step.action.arguments or "")["command"] for step in steps] == ["a"]
    assert rejects == [("event_repeated", name.format(0, second))]


def test_a_pickle_beside_the_events_is_never_read():
    class Shut(MemoryBlob):
        def read(self, member: str = "") -> bytes:
            assert not member.endswith(".pkl")
            return super().read(member)

    members = {"events/0.json": json.dumps(run(0, "a")).encode(), "agent_state.pkl": b"cos\nsystem\n."}
    records = list(OpenHands().parse(Shut("sessions/s", members)))
    assert len(records) == 1


def test_a_zip_file_of_a_conversation_is_one_input(tmp_path):
    packed = io.BytesIO()
    ident = "aaaaaaaa-1111-4222-8333-44445555666{}"
    events = [
        {"id": ident.format(0), "timestamp": "2026-01-01T00:00:00", **run(None, "a")},
        {"id": ident.format(1), "timestamp": "2026-01-01T00:00:01", **out(None, "of a")},
    ]
    with zipfile.ZipFile(packed, "w") as archive:
        for number, event in enumerate(events):
            archive.writestr(f"event_{number:06d}_{ident.format(number)}.json", json.dumps(event))
        archive.writestr("meta.json", json.dumps({"id": "conversation", "title": "A"}))
    (tmp_path / "conversation.zip").write_bytes(packed.getvalue())
    plan = make_plan(Recipe(name="zip", source="zip"), [str(tmp_path)])
    assert [(log.connector, len(log.members)) for log in plan.inputs] == [("openhands", 3)]
    assert plan.unrecognized == ()


def test_a_call_whose_reply_was_taken_out_keeps_the_name_and_the_id_that_stand_beside_it():
    def called(action: str, tool: str, **args: object) -> dict:
        metadata = {"tool_call_id": f"call_{tool}", "function_name": tool, "total_calls_in_response": 1}
        return {"source": "agent", "action": action, "args": args, "tool_call_metadata": metadata}

    view = {"path": "/a", "start": 0, "end": -1, "impl_source": "oh_aci", "view_range": None, "thought": "Look."}
    edit = {"path": "/a", "command": "insert", "insert_line": 0, "new_str": "b", "old_str": None, "content": ""}
    steps, _ = read(
        called("run", "execute_bash", command="ls", is_input=False, thought="", cwd="/"),
        called("run", "execute_bash", command="y", is_input=True),
        called("read", "str_replace_editor", **view),
        called("edit", "str_replace_editor", start=1, end=-1, **edit),
        called("run_ipython", "execute_ipython_cell", code="1", kernel_init_code="", include_extra=True),
        called("browse_interactive", "browser", browser_actions="noop()", browsergym_send_msg_to_user=""),
        called("call_tool_mcp", "fetch", name="fetch", arguments={"url": "a"}),
        called("think", "think", thought="So."),
    )
    assert [(step.action.name, json.loads(step.action.arguments or "")) for step in steps] == [
        ("execute_bash", {"command": "ls"}),
        ("execute_bash", {"command": "y", "is_input": "true"}),
        ("str_replace_editor", {"command": "view", "path": "/a"}),
        ("str_replace_editor", {"command": "insert", "path": "/a", "insert_line": 0, "new_str": "b"}),
        ("execute_ipython_cell", {"code": "1"}),
        ("browser", {"code": "noop()"}),
        ("fetch", {"url": "a"}),
        ("think", {"thought": "So."}),
    ]
    assert steps[0].action.call_id == "call_execute_bash"
    assert steps[2].action.reasoning == "Look."


def test_tools_are_those_that_any_prompt_of_the_session_names():
    def prompt(key: str, *names: str) -> dict:
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        return {"id": key, "source": "agent", "kind": "SystemPromptEvent", "tools": tools}

    records = OpenHands().parse(
        MemoryBlob(
            "events.json",
            json.dumps([prompt("a", "run"), run(1, "ls"), out(1, "x"), prompt("b", "run", "browse")]).encode(),
        )
    )
    (trajectory,) = (record for record in records if isinstance(record, Trajectory))
    names = [tool["function"]["name"] for tool in json.loads(trajectory.context.action_space or "")]
    assert names == ["run", "browse"]


def test_events_a_line_are_the_events_of_an_array_and_a_broken_line_is_a_gap():
    events = [run(1, "ls"), out(1, "a"), run(3, "cat a"), out(3, "b"), run(5, "pwd"), out(5, "/")]
    whole, _ = read(*events)
    lines = [json.dumps(event).encode() for event in events]
    assert sniff(b"\n".join(lines), "events.jsonl")[0][0].name == "openhands"

    def parsed(data: bytes) -> tuple[list[Step], list[str]]:
        records = list(OpenHands().parse(MemoryBlob("events.jsonl", data)))
        steps = [step for record in records if isinstance(record, Trajectory) for step in record.steps]
        return steps, [record.reason for record in records if isinstance(record, Reject)]

    steps, rejects = parsed(b"\n".join(lines))
    assert [replace(step, offset=0) for step in steps] == [replace(step, offset=0) for step in whole]
    assert rejects == []
    steps, rejects = parsed(b"\n".join([*lines[:3], lines[3][:-9], *lines[4:]]))
    assert answers(steps) == ["a", None, "/"]
    assert rejects == ["bad_json"]


def test_token_ids_of_a_reply_with_one_call_are_kept():
    def asks(number, *commands):
        calls = [
            {"id": c, "function": {"name": "execute_bash", "arguments": f'{{"command": "{c}"}}'}} for c in commands
        ]
        response = {"id": f"r{number}", "choices": [{"message": {"tool_calls": calls}, "token_ids": [number, 2]}]}
        for place, command in enumerate(commands):
            event = run(command, number + place)
            event["tool_call_metadata"] = {"tool_call_id": command, "model_response": response}
            yield event

    steps, _ = read(*asks(0, "ls"), out(0, "a"), *asks(1, "pwd", "id"), out(1, "/"), out(2, "me"))
    assert [json.loads(step.action.sampled or "null") for step in steps] == [
        {"token_ids": [0, 2], "logprobs": None},
        None,
        None,
    ]
