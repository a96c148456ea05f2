"""OpenHands: observations by cause or by place, calls of one reply, and who spoke."""

import io
import json
import zipfile

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.swe.openhands import OpenHands
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import ParseError, Reject, Step, Trajectory


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


def said(source: str, text: str) -> dict:
    return {"source": source, "action": "message", "args": {"content": text}}


def read(*events: object) -> tuple[list[Step], list[str]]:
    found = list(OpenHands().parse(MemoryBlob("events.json", json.dumps(events).encode())))
    made = [one for one in found if isinstance(one, Trajectory)]
    assert len(made) == 1
    return list(made[0].steps), [one.reason for one in found if isinstance(one, Reject)]


def answers(steps: list[Step]) -> list[str | None]:
    return [one.next_observation.content if one.next_observation else None for one in steps]


def test_an_observation_answers_its_cause_and_not_its_neighbour():
    steps, _ = read(run(2, "a"), run(4, "b"), out(4, "of b"), out(2, "of a"))
    assert answers(steps) == ["of a", "of b"]


def test_without_ids_an_observation_answers_the_action_before_it():
    steps, _ = read(run(None, "a"), out(None, "of a"), run(None, "b"), run(None, "c"), out(None, "of c"))
    assert answers(steps) == ["of a", None, "of c"]


def test_pairs_of_action_and_observation_are_read_in_order():
    steps, _ = read([run(None, "a"), out(None, "of a")], [run(None, "b"), out(None, "of b")])
    assert answers(steps) == ["of a", "of b"]


def test_an_id_that_two_actions_have_pairs_by_place():
    steps, _ = read(run(2, "a"), out(2, "of a"), run(2, "b"), out(2, "of b"))
    assert answers(steps) == ["of a", "of b"]


def test_an_observation_logged_twice_counts_once_and_another_of_the_same_cause_is_rejected():
    assert read(run(2, "a"), out(2, "x"), out(2, "x"))[1] == []
    assert read(run(2, "a"), out(2, "x"), out(2, "y"))[1] == ["result_repeated"]


def test_an_observation_whose_cause_is_not_there_is_rejected():
    steps, reasons = read(run(2, "a"), out(9, "of nothing"))
    assert (answers(steps), reasons) == ([None], ["result_without_call"])


def test_calls_of_one_reply_are_one_turn_with_one_observation_before():
    steps, _ = read(
        run(1, "z"), out(1, "start"), run(2, "a", "r"), out(2, "1"), run(4, "b", "r"), out(4, "2"), run(6, "c")
    )
    assert [(one.turn, one.call_index, one.num_calls) for one in steps] == [(0, 0, 1), (1, 0, 2), (1, 1, 2), (2, 0, 1)]
    assert [one.observation.content if one.observation else None for one in steps] == [None, "start", "start", "2"]


def test_the_answer_to_a_message_is_the_users_and_other_words_stand_between_turns():
    steps, _ = read(
        said("user", "Go."),
        run(1, "a"),
        said("user", "Hurry."),
        out(1, "x"),
        said("agent", "Done?"),
        said("user", "Yes."),
    )
    assert answers(steps) == ["x", "Yes."]
    assert steps[1].next_observation is not None
    assert steps[1].next_observation.origin == "user"
    assert json.loads(steps[1].interleaved or "") == [{"role": "user", "content": "Hurry."}]


def test_a_command_that_still_runs_has_no_exit_code():
    steps, _ = read(run(1, "a"), out(1, "x", exit_code=-1), run(3, "b"), out(3, "y", exit_code=0))
    assert [one.exit_code for one in steps] == [None, 0]


def test_a_naive_time_gives_a_duration_and_no_start():
    steps, _ = read(run(1, "a", at="2025-01-01T00:00:00.5"), out(1, "x", at="2025-01-01T00:00:02"))
    assert (steps[0].started_at, steps[0].duration_s) == (None, 1.5)


def test_a_clock_that_went_back_gives_no_duration():
    steps, _ = read(run(1, "a", at="2025-01-01T00:00:02"), out(1, "x", at="2025-01-01T00:00:01"))
    assert steps[0].duration_s is None


def test_a_diff_that_the_agent_never_saw_is_not_its_observation():
    edit = {"id": 1, "source": "agent", "action": "edit", "args": {"path": "/a"}}
    extras = {"formatted_output_and_error": "File created."}
    shown = {"id": 2, "cause": 1, "observation": "edit", "content": "--- a\n+++ b", "extras": extras}
    assert answers(read(edit, shown)[0]) == ["File created."]


def test_words_before_the_first_action_stand_on_it():
    steps, _ = read(said("user", "Go."), said("user", "Hurry."), run(1, "a"), out(1, "x"), run(3, "b"))
    assert json.loads(steps[0].interleaved or "") == [{"role": "user", "content": "Hurry."}]
    assert steps[1].interleaved is None


def test_an_error_without_a_cause_is_the_harnesss_word_between_turns():
    error = {"id": 5, "source": "agent", "observation": "error", "content": "bad call", "extras": {}}
    steps, reasons = read(run(1, "a"), out(1, "x"), error, run(7, "b"))
    assert (answers(steps), reasons) == (["x", None], [])
    assert json.loads(steps[1].interleaved or "") == [{"role": "harness", "content": "bad call"}]


def test_each_line_of_an_output_file_is_a_trajectory_with_its_instance_and_verdict():
    rows = [
        {
            "instance_id": f"a__b-{n}",
            "instruction": "Go.",
            "history": [run(1, "a")],
            "test_result": {"report": {"resolved": ok}},
        }
        for n, ok in enumerate((True, False))
    ]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    made = [one for one in OpenHands().parse(MemoryBlob("output.jsonl", data)) if isinstance(one, Trajectory)]
    assert [(one.task.id, one.outcome.resolved if one.outcome else None) for one in made] == [
        ("a__b-0", True),
        ("a__b-1", False),
    ]
    assert made[1].steps[0].offset == data.index(b'{"instance_id": "a__b-1"')


def test_a_run_that_ends_without_finish_or_a_message_is_truncated_where_it_was_evaluated():
    def ends(history: list[dict], **more: object) -> bool | None:
        data = json.dumps({"instance_id": "a__b-1", "instruction": "Go.", "history": history, **more}) + "\n"
        made = next(iter(OpenHands().parse(MemoryBlob("output.jsonl", data.encode()))))
        assert isinstance(made, Trajectory)
        return made.steps[-1].truncated

    answered = [run(1, "a"), out(1, "x")]
    assert ends(answered)
    assert ends(answered, error="AgentStuckInLoopError: Agent got stuck in a loop")
    assert ends([*answered, said("agent", "Done.")]) is None
    assert read(*answered)[0][-1].truncated is None
    assert read(*answered, run(2, "b"))[0][-1].truncated


def test_an_answer_that_comes_after_later_actions_stood_before_none_of_them():
    delegate = {"id": 3, "source": "agent", "action": "delegate", "args": {"agent": "B", "inputs": {"task": "look"}}}
    back = {"id": 9, "source": "agent", "observation": "delegate", "content": "found", "extras": {}, "cause": 3}
    steps, reasons = read(
        run(1, "a"), out(1, "x"), delegate, run(5, "b"), out(5, "y"), back, run(11, "c"), out(11, "z")
    )
    assert answers(steps) == ["x", "found", "y", "z"]
    assert [step.observation and step.observation.content for step in steps] == [None, "x", "x", "found"]
    assert reasons == []


def folder(events: dict[str, object], **beside: object) -> tuple[list[Step], list[tuple[str, str]]]:
    """The steps of a folder of event files, and (reason, member) of what it rejects."""
    members = {name: one if isinstance(one, bytes) else json.dumps(one).encode() for name, one in events.items()}
    members |= {f"{name}.json": json.dumps(one).encode() for name, one in beside.items()}
    found = list(OpenHands().parse(MemoryBlob("sessions/s", members)))
    made = [one for one in found if isinstance(one, Trajectory)]
    assert len(made) == 1
    return list(made[0].steps), [(one.reason, one.member) for one in found if isinstance(one, Reject)]


def files(*events: dict) -> dict[str, object]:
    return {f"events/{number}.json": one for number, one in enumerate(events)}


def test_events_of_a_folder_come_in_the_order_of_their_numbers_and_not_of_their_names():
    texts = [f"echo {number}" for number in range(12)]
    steps, rejects = folder(files(*(run(None, text) for text in texts)))
    assert [json.loads(one.action.arguments or "")["command"] for one in steps] == texts
    assert [one.member for one in steps] == [f"events/{number}.json" for number in range(12)]
    assert rejects == []


def test_a_page_of_the_cache_counts_only_where_an_event_has_no_file():
    events = [run(0, "a"), out(0, "of a"), run(2, "b"), out(2, "of b")]
    held = files(*events)
    assert folder(held | {"event_cache/0-4.json": events}) == folder(held)
    del held["events/1.json"]
    steps, rejects = folder(held | {"event_cache/0-4.json": events})
    assert (answers(steps), rejects) == (["of a", "of b"], [])


def test_pages_alone_are_a_conversation():
    pages: dict[str, object] = {
        "event_cache/2-4.json": [run(2, "b"), out(2, "of b")],
        "event_cache/0-2.json": [run(0, "a"), out(0, "of a")],
    }
    assert answers(folder(pages)[0]) == ["of a", "of b"]


def test_a_page_that_no_number_needs_is_not_even_read():
    held = files(run(0, "a"), out(0, "of a"))
    assert folder(held | {"event_cache/0-2.json": b"{broken"})[1] == []


def test_a_missing_event_is_told_and_what_the_next_action_saw_is_not_known():
    held = files(run(0, "a"), out(0, "of a"), run(2, "b"), out(2, "of b"), run(4, "c"))
    assert [one.observation.content if one.observation else None for one in folder(held)[0]] == [None, "of a", "of b"]
    del held["events/3.json"]
    steps, rejects = folder(held)
    assert rejects == [("missing_event", "events/4.json")]
    assert answers(steps) == ["of a", None, None]
    assert [one.observation.content if one.observation else None for one in steps] == [None, "of a", None]


def test_no_answer_goes_by_place_over_missing_events():
    held = files(run(None, "a"), run(None, "lost"), out(None, "of the lost one"), run(None, "b"), out(None, "of b"))
    del held["events/1.json"]
    steps, rejects = folder(held)
    assert answers(steps) == [None, "of b"]
    assert [reason for reason, _ in rejects] == ["missing_event", "result_without_call"]


def test_an_answer_that_names_its_cause_is_found_behind_missing_events():
    held = files(run(0, "a"), run(1, "lost"), out(0, "of a"), run(3, "b"))
    del held["events/1.json"]
    steps, _ = folder(held)
    assert answers(steps) == ["of a", None]
    assert [one.observation.content if one.observation else None for one in steps] == [None, "of a"]


def test_a_message_after_missing_events_is_not_taken_for_the_task():
    held = files(said("user", "Go."), said("user", "Hurry."), run(None, "a"))
    task = next(one for one in OpenHands().parse(blob_of(held)) if isinstance(one, Trajectory)).task
    assert task.instruction == "Go."
    del held["events/0.json"]
    found = list(OpenHands().parse(blob_of(held)))
    assert [one.reason for one in found if isinstance(one, Reject)] == ["missing_event"]
    made = next(one for one in found if isinstance(one, Trajectory))
    assert made.task.instruction is None
    assert json.loads(made.steps[0].interleaved or "") == [{"role": "user", "content": "Hurry."}]


def blob_of(events: dict[str, object]) -> MemoryBlob:
    return MemoryBlob("sessions/s", {name: json.dumps(one).encode() for name, one in events.items()})


def test_a_damaged_event_costs_itself_and_is_told_with_its_member():
    steps, rejects = folder(files(run(0, "a"), out(0, "of a"), run(2, "b")) | {"events/1.json": b'{"id": 1, "obs'})
    assert answers(steps) == [None, None]
    assert rejects == [("truncated", "events/1.json"), ("missing_event", "events/2.json")]


def test_two_files_of_one_number_count_once():
    name = "events/event-0000{}-{}.json"
    first, second = "aaaaaaaa-1111", "bbbbbbbb-1111"
    held: dict[str, object] = {name.format(0, first): run(None, "a"), name.format(0, second): run(None, "b")}
    steps, rejects = folder(held)
    assert [json.loads(one.action.arguments or "")["command"] for one in steps] == ["a"]
    assert rejects == [("event_repeated", name.format(0, second))]


def test_a_pickle_beside_the_events_is_never_read():
    class Shut(MemoryBlob):
        def read(self, member: str = "") -> bytes:
            assert not member.endswith(".pkl")
            return super().read(member)

    held = {"events/0.json": json.dumps(run(0, "a")).encode(), "agent_state.pkl": b"cos\nsystem\n."}
    found = list(OpenHands().parse(Shut("sessions/s", held)))
    assert len(found) == 1


def test_a_conversation_is_named_by_what_stands_beside_it_else_by_its_folder():
    def named(uri: str, **beside: object) -> str:
        held = {"events/0.json": json.dumps(run(0, "a")).encode()}
        held |= {f"{name}.json": json.dumps(one).encode() for name, one in beside.items()}
        return next(one.native_id for one in OpenHands().parse(MemoryBlob(uri, held)) if isinstance(one, Trajectory))

    assert named("sessions/0123456789abcdef", metadata={"conversation_id": "c"}) == "c"
    assert named("sessions/0123456789abcdef", base_state={"id": "b"}) == "b"
    assert named("sessions/0123456789abcdef") == "0123456789abcdef"
    assert named("sessions/my conversation") == ""


def test_a_zip_file_of_a_conversation_is_one_input(tmp_path):
    packed = io.BytesIO()
    ident = "aaaaaaaa-1111-4222-8333-44445555666{}"
    events = [
        {"id": ident.format(0), "timestamp": "2026-01-01T00:00:00", **run(None, "a")},
        {"id": ident.format(1), "timestamp": "2026-01-01T00:00:01", **out(None, "of a")},
    ]
    with zipfile.ZipFile(packed, "w") as archive:
        for number, one in enumerate(events):
            archive.writestr(f"event_{number:06d}_{ident.format(number)}.json", json.dumps(one))
        archive.writestr("meta.json", json.dumps({"id": "conversation", "title": "A"}))
    (tmp_path / "conversation.zip").write_bytes(packed.getvalue())
    plan = make_plan(Recipe(name="zip", source="zip"), [str(tmp_path)])
    assert [(one.connector, len(one.members)) for one in plan.inputs] == [("openhands", 3)]
    assert plan.unrecognized == ()


def test_what_the_interface_exports_is_read_as_the_array_that_it_holds():
    events = [run(0, "a"), out(0, "of a")]
    for value in (events, {"trajectory": events}):
        data = json.dumps(value).encode()
        made = next(iter(OpenHands().parse(MemoryBlob("trajectory.json", data))))
        assert isinstance(made, Trajectory)
        assert answers(list(made.steps)) == ["of a"]
        data = json.dumps(value).replace('{"source"', '{"id": 1, "source"').encode()
        assert OpenHands().sniff(data, "trajectory.json") is not None


def test_a_trajectory_of_another_agent_is_not_taken_for_an_export():
    steps = [{"action": "ls", "observation": "a.py", "response": "Look.", "state": "{}", "thought": "Look."}]
    assert OpenHands().sniff(json.dumps({"trajectory": steps}).encode(), "a.traj") is None


def test_an_event_is_recognized_by_shape_and_name_together():
    data = json.dumps({"id": 0, "timestamp": "2026-01-01T00:00:00", **said("user", "Go.")}).encode()
    assert OpenHands().sniff(data, "sessions/s/events/0.json") is not None
    assert OpenHands().sniff(data, "sessions/s/0.json") is None
    assert OpenHands().sniff(b'{"name": "a", "source": 1}', "sessions/s/events/0.json") is None


def test_what_the_agent_said_when_it_finished_is_not_its_observation():
    ended = {
        "kind": "ActionEvent", "source": "agent", "id": "a", "tool_name": "finish", "tool_call_id": "k",
        "tool_call": {"id": "k", "name": "finish", "arguments": "{}"},
    }  # fmt: skip
    echoed = {"content": [{"type": "text", "text": "All done."}], "kind": "FinishObservation"}
    shown = {"kind": "ObservationEvent", "tool_name": "finish", "tool_call_id": "k", "observation": echoed}
    steps, rejects = read(ended, shown)
    assert (answers(steps), steps[0].terminated, rejects) == ([None], True, [])


def test_a_folder_without_a_deed_is_refused():
    with pytest.raises(ParseError) as caught:
        folder(files(said("user", "Go.")))
    assert caught.value.reason == "no_transitions"


def test_both_parts_of_the_agent_sdks_system_prompt_are_what_the_agent_was_given():
    told = {"kind": "SystemPromptEvent", "source": "agent", "id": "a", "tools": []}
    parts = {
        "system_prompt": {"type": "text", "text": "You sift."},
        "dynamic_context": {"type": "text", "text": "Here."},
    }
    for held, wanted in ((parts, "You sift.\nHere."), ({"system_prompt": parts["system_prompt"]}, "You sift.")):
        data = json.dumps([told | held, run(None, "a")]).encode()
        made = next(iter(OpenHands().parse(MemoryBlob("events.json", data))))
        assert isinstance(made, Trajectory)
        assert made.context.agent_system == wanted


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
    assert [(one.action.name, json.loads(one.action.arguments or "")) for one in steps] == [
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


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ('Failed to parse tool call arguments: {"command', "harness"),
        ('Missing required argument "command" in tool call execute_bash', "harness"),
        ("Missing required parameters for function 'execute_bash': {'command'}", "harness"),
        ("Tool bash is not registered. (arguments: {}). Please check the tool name and retry.", "harness"),
        ("Function 'ls' not found in available tools: ['execute_bash']", "harness"),
        ("Parameter 'end' is expected to be an integer.", "harness"),
        ("The action has not been executed.", "harness"),
        ("Stop button pressed. The action has not been executed.", "harness"),
        ("File not found: /a. Your current working directory is /b.", "environment"),
        ("ERROR:\nFailed to parse tool call", "environment"),
    ],
)
def test_an_error_that_says_that_nothing_was_done_is_the_reply_of_the_harness(text, origin):
    steps, _ = read(run(2, "a"), {"source": "agent", "observation": "error", "content": text, "cause": 2, "id": 3})
    seen = steps[0].next_observation
    assert seen is not None
    assert (seen.content, seen.origin, seen.is_error) == (text, origin, True)


def test_tools_are_those_that_any_prompt_of_the_session_names():
    def prompt(key: str, *names: str) -> dict:
        told = [{"type": "function", "function": {"name": name}} for name in names]
        return {"id": key, "source": "agent", "kind": "SystemPromptEvent", "tools": told}

    found = OpenHands().parse(
        MemoryBlob(
            "events.json",
            json.dumps([prompt("a", "run"), run(1, "ls"), out(1, "x"), prompt("b", "run", "browse")]).encode(),
        )
    )
    (made,) = (one for one in found if isinstance(one, Trajectory))
    names = [one["function"]["name"] for one in json.loads(made.context.action_space or "")]
    assert names == ["run", "browse"]


def test_what_the_user_says_once_the_agent_has_finished_answers_nothing():
    finish = {"id": 3, "source": "agent", "action": "finish", "args": {"final_thought": "Done."}}
    steps, _ = read(run(1, "a"), out(1, "of a"), finish, said("user", "Thanks. Now the other."), run(5, "b"))
    assert answers(steps) == ["of a", None, None]
    assert steps[2].interleaved == '[{"role": "user", "content": "Thanks. Now the other."}]'
    assert answers(read(said("agent", "Which one?"), said("user", "The first."))[0]) == ["The first."]
