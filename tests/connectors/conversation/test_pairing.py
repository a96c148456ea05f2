"""Conversations as steps: pairing of calls with results, turns, voices, and the shapes of different makers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajmill.connectors.conversation.calls import MessageError, call
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.shapes import conversation_in, parts
from trajmill.connectors.conversation.turns import Call, Part, Result, Said, System, Text
from trajmill.schemas import call_text, json_text

Message = dict[str, Any]


def openai_call(name: str, arguments: Any, call_id: str | None = None) -> Message:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": written}}


def agent(*calls: Message, text: str | None = None) -> Message:
    return {"role": "assistant", "content": text, "tool_calls": list(calls) or None}


def tool(content: Any, call_id: str | None = None, name: str | None = None) -> Message:
    return {"role": "tool", "content": content, "tool_call_id": call_id, "name": name}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def shown(messages: list[Message]) -> list[tuple[str, str | None]]:
    """(action, what came next) of each step."""
    steps = conversation_in(messages).steps
    return [(step.action.name, step.next_observation.content if step.next_observation else None) for step in steps]


def test_results_of_parallel_calls_are_found_by_id_in_any_order():
    messages = [agent(openai_call("a", {}, "1"), openai_call("b", {}, "2")), tool("B", "2"), tool("A", "1")]
    assert shown(messages) == [("a", "A"), ("b", "B")]


def test_ids_that_are_numbers_pair_as_texts_do():
    calls = [{**openai_call(name, {}), "id": at} for at, name in enumerate("ab")]
    results: list[Message] = [
        {"role": "tool", "content": name.upper(), "tool_call_id": "ab".index(name)} for name in "ba"
    ]
    assert shown([agent(*calls), *results]) == [("a", "A"), ("b", "B")]
    uses: list[Message] = [{"type": "tool_use", "id": at, "name": name, "input": {}} for at, name in enumerate("ab")]
    told = [{"type": "tool_result", "tool_use_id": at, "content": "ab"[at].upper()} for at in (1, 0)]
    assert shown([{"role": "assistant", "content": uses}, {"role": "user", "content": told}]) == [
        ("a", "A"),
        ("b", "B"),
    ]


def test_a_late_result_is_found_by_an_id_that_no_other_call_has():
    messages = [agent(openai_call("slow", {}, "1")), user("?"), agent(openai_call("fast", {}, "2"))]
    assert shown([*messages, tool("F", "2"), tool("S", "1")]) == [("slow", "S"), ("fast", "F")]


def test_a_repeated_id_pairs_with_the_call_of_its_own_turn():
    messages = [
        agent(openai_call("a", {}, "same")),
        agent_result := tool("first", "same"),
        agent(openai_call("b", {}, "same"), openai_call("c", {}, "same")),
        tool("second", "same"),
        tool("third", "same"),
    ]
    assert agent_result["tool_call_id"] == "same"
    assert shown(messages) == [("a", "first"), ("b", "second"), ("c", "third")]


def test_a_repeated_id_never_reaches_back_to_an_earlier_turn():
    messages = [agent(openai_call("a", {}, "same")), user("go on"), agent(openai_call("b", {}, "same"))]
    found = conversation_in([*messages, tool("B", "same"), tool("late", "same")])
    assert [step.next_observation and step.next_observation.content for step in found.steps] == [None, "B"]
    assert [one.reason for one in found.unmatched] == ["result_without_call"]


def test_a_result_that_comes_before_its_call_is_not_its_answer():
    found = conversation_in([tool("early", "1"), agent(openai_call("a", {}, "2"))])
    assert found.steps[0].next_observation is None
    assert [one.result.content for one in found.unmatched] == ["early"]


def test_a_result_with_a_foreign_id_is_given_to_no_call():
    found = conversation_in([agent(openai_call("a", {}, "1")), tool("?", "9")])
    assert found.steps[0].next_observation is None
    assert [one.reason for one in found.unmatched] == ["result_without_call"]


def test_results_without_ids_go_by_name_and_then_by_order():
    messages = [agent(openai_call("a", {}), openai_call("b", {}), openai_call("b", {}))]
    assert shown([*messages, tool("B1", name="b"), tool("A", name="a"), tool("B2", name="b")]) == [
        ("a", "A"),
        ("b", "B1"),
        ("b", "B2"),
    ]
    found = conversation_in([*messages, tool("?", name="c")])
    assert [one.reason for one in found.unmatched] == ["result_without_call"]


def test_a_result_written_twice_counts_once_and_another_one_is_refused():
    messages = [agent(openai_call("a", {}, "1")), tool("A", "1"), tool("A", "1"), tool("B", "1")]
    found = conversation_in(messages)
    assert [step.next_observation and step.next_observation.content for step in found.steps] == ["A"]
    assert [(one.reason, one.result.content) for one in found.unmatched] == [("result_repeated", "B")]


def test_what_the_agent_writes_in_several_messages_without_an_answer_is_one_turn():
    messages = [agent(text="Both."), agent(openai_call("a", {})), agent(openai_call("b", {})), tool("A"), tool("B")]
    steps = conversation_in(messages).steps
    assert [(step.turn, step.call_index, step.num_calls) for step in steps] == [(0, 0, 2), (0, 1, 2)]
    assert steps[0].action.message == "Both."
    assert shown(messages) == [("a", "A"), ("b", "B")]


def test_the_agents_text_is_never_an_observation_and_the_users_reply_is_the_users():
    messages = [user("Hi"), agent(text="What?"), user("This."), user("And that."), agent(openai_call("a", {}, "1"))]
    found = conversation_in(messages)
    assert found.instruction == "Hi"
    first, second = found.steps
    assert first.next_observation is not None
    assert (first.action.name, first.next_observation.content, first.next_observation.origin) == (
        "message",
        "This.",
        "user",
    )
    assert first.action.text == call_text("message", {"content": "What?"})
    assert second.observation == first.next_observation
    assert second.interleaved == json_text([{"role": "user", "content": "And that."}])


def test_a_task_told_elsewhere_leaves_the_users_first_words_interleaved():
    found = conversation_in([user("Hi"), agent(openai_call("a", {}))], told=True)
    assert found.instruction is None
    assert found.steps[0].interleaved == json_text([{"role": "user", "content": "Hi"}])


def test_a_system_prompt_after_the_first_turn_is_a_note_of_the_harness():
    late = {"role": "system", "content": "Hurry."}
    found = conversation_in(
        [{"role": "system", "content": "Rules."}, agent(openai_call("a", {})), late, agent(text="x")]
    )
    assert found.system == "Rules."
    assert found.steps[1].interleaved == json_text([{"role": "harness", "content": "Hurry."}])


def test_a_call_of_the_user_is_told_apart_from_the_users_words():
    found: list[Part] = [
        Text("Restart it.", 0),
        Said("user_call", call_text("restart", {})),
        Said("tool", "ok"),
        Said("user", "Done."),
        Text("Fine.", 0),
    ]
    first, second = conversation(found).steps
    assert first.next_observation is not None
    assert first.next_observation.content == "Done."
    assert json.loads(second.interleaved or "") == [
        {"role": "user_call", "content": call_text("restart", {})},
        {"role": "tool", "content": "ok"},
    ]


def test_a_thought_in_the_text_is_reasoning_and_only_at_its_head():
    thinking = conversation_in([agent(openai_call("a", {}), text="<think>\nHm.\n</think>\n\nI look.")]).steps[0].action
    assert (thinking.reasoning, thinking.message) == ("Hm.", "I look.")
    quoting = conversation_in([agent(openai_call("a", {}), text="The tag <think>x</think> is text.")]).steps[0].action
    assert (quoting.reasoning, quoting.message) == (None, "The tag <think>x</think> is text.")


@pytest.mark.parametrize(
    ("written", "text", "arguments"),
    [
        ('{"b":1,\n "a":"é"}', '{"b": 1, "a": "é"}', '{"b": 1, "a": "é"}'),
        ("", "{}", None),
        ("null", "{}", None),
        ("{}", "{}", "{}"),
        ('{"a": ', '"{\\"a\\": "', '{"arguments": "{\\"a\\": "}'),
        ("[1, 2]", "[1, 2]", '{"arguments": [1, 2]}'),
        ('{"n": 123456789012345678901234567890}', '{"n": 123456789012345678901234567890}', None),
    ],
)
def test_arguments_are_kept_as_they_are_meant_and_never_mended(written, text, arguments):
    made = call("f", written, None, 0)
    assert made.text == f'{{"name": "f", "arguments": {text}}}'
    assert made.arguments == (text if arguments is None and text != "{}" else arguments)


def test_arguments_nested_too_deeply_are_refused():
    with pytest.raises(MessageError, match="nested_too_deeply"):
        call("f", '{"a":' * 500 + "1" + "}" * 500, None, 0)


def test_a_python_literal_is_read_but_nothing_of_it_is_run():
    made = parts({"role": "tool_call", "content": "{'name': 'f', 'arguments': {'a': None}}"}, 0)[0]
    assert isinstance(made, Call)
    assert made.arguments == '{"a": null}'
    for hostile in (
        "__import__('os').getcwd()",
        "{'name': f()}",
        "(" * 5000,
        "{'name': " + "-" * 5000 + "1}",
        "9" * 9999,
    ):
        with pytest.raises(MessageError, match="bad_message"):
            parts({"role": "tool_call", "content": hostile}, 0)


# one conversation, told in the shapes of five makers
Turn = list[tuple[str, Message, str]]


def as_openai(turns: list[Turn]) -> list[Message]:
    found = [user("Go.")]
    for number, turn in enumerate(turns):
        found.append(agent(*(openai_call(name, told, f"{number}.{i}") for i, (name, told, _) in enumerate(turn))))
        found += [tool(seen, f"{number}.{i}") for i, (_, _, seen) in enumerate(turn)]
    return found


def as_anthropic(turns: list[Turn]) -> list[Message]:
    found = [user("Go.")]
    for number, turn in enumerate(turns):
        uses = [
            {"type": "tool_use", "id": f"{number}.{i}", "name": name, "input": told}
            for i, (name, told, _) in enumerate(turn)
        ]
        results = [
            {"type": "tool_result", "tool_use_id": f"{number}.{i}", "content": [{"type": "text", "text": seen}]}
            for i, (_, _, seen) in enumerate(turn)
        ]
        found += [{"role": "assistant", "content": uses}, {"role": "user", "content": results[::-1]}]
    return found


def as_gemini(turns: list[Turn]) -> list[Message]:
    found: list[Message] = [{"role": "user", "parts": [{"text": "Go."}]}]
    for number, turn in enumerate(turns):
        calls = [
            {"functionCall": {"name": name, "args": told, "id": f"{number}.{i}"}}
            for i, (name, told, _) in enumerate(turn)
        ]
        back = [
            {"functionResponse": {"name": name, "id": f"{number}.{i}", "response": seen}}
            for i, (name, _, seen) in enumerate(turn)
        ]
        found += [{"role": "model", "parts": calls}, {"role": "user", "parts": back}]
    return found


def as_items(turns: list[Turn]) -> list[Message]:
    found = [user("Go.")]
    for number, turn in enumerate(turns):
        for i, (name, told, _) in enumerate(turn):
            item = {"type": "function_call", "id": "fc", "call_id": f"{number}.{i}", "name": name}
            found.append({**item, "arguments": json.dumps(told)})
        for i, (_, _, seen) in enumerate(turn):
            found.append({"type": "function_call_output", "call_id": f"{number}.{i}", "output": seen})
    return found


def as_dataset(turns: list[Turn]) -> list[Message]:
    found: list[Message] = [{"from": "human", "value": "Go."}]
    for turn in turns:
        found += [
            {"from": "function_call", "value": json.dumps({"name": name, "arguments": told})} for name, told, _ in turn
        ]
        found += [{"from": "observation", "value": seen} for _, _, seen in turn]
    return found


NAMES = st.sampled_from(["find", "read", "write"])
ARGUMENTS = st.dictionaries(
    st.text(max_size=4), st.one_of(st.integers(-(2**63), 2**63), st.text(max_size=6), st.none()), max_size=3
)
TURNS = st.lists(st.lists(st.tuples(NAMES, ARGUMENTS, st.text(max_size=8)), min_size=1, max_size=4), max_size=5)


@settings(max_examples=20, deadline=None)
@given(turns=TURNS)
def test_the_same_conversation_in_five_shapes_comes_to_the_same_steps(turns):
    wanted = [
        (number, index, len(turn), call_text(name, told), seen)
        for number, turn in enumerate(turns)
        for index, (name, told, seen) in enumerate(turn)
    ]
    for shape in (as_openai, as_anthropic, as_gemini, as_items, as_dataset):
        found = conversation_in(shape(turns))
        steps = [
            (step.turn, step.call_index, step.num_calls, step.action.text, step.next_observation.content)
            for step in found.steps
            if step.next_observation is not None
        ]
        assert steps == wanted, shape.__name__
        assert (found.instruction, found.unmatched) == ("Go.", [])


@settings(max_examples=20, deadline=None)
@given(turns=st.lists(st.lists(st.sampled_from(["1", "2", None]), min_size=1, max_size=4), max_size=6))
def test_repeated_and_missing_ids_pair_by_place_whenever_results_follow_in_order(turns):
    messages: list[Message] = []
    for number, turn in enumerate(turns):
        messages.append(agent(*(openai_call(f"f{number}", {"call": i}, key) for i, key in enumerate(turn))))
        messages += [tool(f"{number}.{i}", key, f"f{number}") for i, key in enumerate(turn)]
    wanted = [f"{number}.{i}" for number, turn in enumerate(turns) for i in range(len(turn))]
    steps = conversation_in(messages).steps
    assert [step.next_observation.content for step in steps if step.next_observation] == wanted


PARTS = st.lists(
    st.one_of(
        st.builds(lambda name, key: call(name, {}, key, 0), NAMES, st.sampled_from(["1", "2", None])),
        st.builds(
            lambda key, name, text: Result(key, name, text, 0), st.sampled_from(["1", "2", None]), NAMES, st.text()
        ),
        st.builds(lambda text: Text(text, 0), st.text(min_size=1)),
        st.builds(Said, st.sampled_from(["user", "harness"]), st.text()),
        st.builds(System, st.text()),
    ),
    max_size=16,
)


@settings(max_examples=40, deadline=None)
@given(found=PARTS)
def test_every_call_is_one_step_and_every_result_is_used_once_or_refused(found):
    made = conversation(found)
    calls = [part for part in found if isinstance(part, Call)]
    assert [step.action.text for step in made.steps if step.action.name != "message"] == [one.text for one in calls]
    results = [part.content for part in found if isinstance(part, Result)]
    shown = [step.next_observation for step in made.steps if step.action.name != "message" and step.next_observation]
    refused = [one.result.content for one in made.unmatched]
    assert len(shown) + len(refused) <= len(results)
    assert set(refused) | {one.content for one in shown} == set(results)
    said = {part.text for part in found if isinstance(part, Text)}
    heard = {part.text for part in found if isinstance(part, Said)} | set(results)
    for step in made.steps:
        for seen in (step.observation, step.next_observation):
            assert seen is None or seen.content is None or seen.content in heard or seen.content not in said


_ID = st.sampled_from([None, "1", "2", "3"])
_MESSAGE = st.one_of(
    st.lists(st.builds(openai_call, st.sampled_from("fg"), st.just({}), _ID), max_size=3).map(
        lambda made: agent(*made)
    ),
    st.builds(tool, st.sampled_from(["A", "B"]), _ID, st.sampled_from([None, "f", "g"])),
    st.just(user("u")),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(_MESSAGE, max_size=12))
def test_a_conversation_that_is_held_pairs_as_one_whose_turns_stand_in_a_file(messages):
    held, streamed = conversation_in(messages), conversation_in(tuple(messages))
    assert (held.steps, held.calls, held.unmatched) == (list(streamed.steps), streamed.calls, streamed.unmatched)


def test_parallel_calls_of_gemini_without_ids_are_answered_by_name_and_then_by_order():
    def back(name: str, response: Any) -> dict[str, Any]:
        return {"function_response": {"id": None, "name": name, "response": response}, "text": None}

    calls: list[Message] = [
        {"function_call": {"id": None, "name": name, "args": {}}, "thought": None} for name in ("a", "b", "b")
    ]
    answers = [back("b", {"result": "B1"}), back("a", {"error": "no"}), back("b", {"output": {"x": 1}})]
    found = conversation_in([{"role": "model", "parts": calls}, {"role": "user", "parts": answers}]).steps
    told = [(step.next_observation.content, step.next_observation.is_error) for step in found if step.next_observation]
    assert told == [("no", True), ("B1", None), ('{"x": 1}', None)]


def test_code_that_gemini_runs_is_a_call_and_a_picture_that_it_draws_is_nobody_s_answer():
    parts_ = [
        {"executableCode": {"language": "PYTHON", "code": "1/0"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}},
        {"text": "Look"},
        {"inlineData": {"mimeType": "image/png", "data": "aGVsbG8="}},
    ]
    found = conversation_in([{"parts": [{"text": "Divide."}]}, {"role": "model", "parts": parts_}])
    assert found.instruction == "Divide."
    first, second = found.steps
    assert first.action.name == "code_execution"
    assert first.next_observation is not None
    assert (first.next_observation.content, first.next_observation.is_error) == ("ZeroDivisionError", True)
    assert second.action.name == "message"
    assert second.next_observation is None


def test_what_is_said_after_a_call_that_the_api_ran_is_a_turn_of_its_own_though_its_answer_is_not_logged():
    search = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "x"}}
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Not there."}]}
    told = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is y."}]}
    found = conversation_in([user("Go."), search, thought, {**search, "id": "w2"}, told])
    assert not found.unmatched
    assert [(step.action.name, step.turn, step.num_calls) for step in found.steps] == [
        ("web_search", 0, 1),
        ("web_search", 1, 1),
        ("message", 2, 1),
    ]
    assert [step.action.reasoning for step in found.steps] == [None, "Not there.", None]
    assert [step.action.message for step in found.steps] == [None, None, None]
    assert [step.next_observation for step in found.steps] == [None, None, None]


def test_what_only_the_api_can_read_of_a_search_result_is_not_shown():
    hit = {"type": "web_search_result", "title": "Y", "url": "https://y.example", "encrypted_content": "EqgfCio"}
    blocks = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "y"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [hit]},
        {"type": "text", "text": "Found."},
    ]
    first = conversation_in([user("Go."), {"role": "assistant", "content": blocks}]).steps[0]
    assert first.next_observation is not None
    shown = '{"type": "web_search_result", "title": "Y", "url": "https://y.example"}'
    assert first.next_observation.content == shown


def test_reminders_of_a_harness_are_neither_the_tools_words_nor_the_users():
    reminder = "<system-reminder>\nBe brief.\n</system-reminder>"
    asked = {"role": "user", "content": [{"type": "text", "text": reminder}, {"type": "text", "text": "Go."}]}
    made = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "read", "input": {}}]}
    given = [
        {"type": "tool_result", "tool_use_id": "t", "content": f"a\n<system-reminder> in a file\n\n{reminder}\n"},
        {"type": "text", "text": f"{reminder}\nAnd then stop."},
    ]
    told = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    found = conversation_in([asked, made, {"role": "user", "content": given}, told])
    assert found.instruction == "Go."
    first, last = found.steps
    assert first.next_observation is not None
    assert first.next_observation.content == "a\n<system-reminder> in a file"
    assert [first.interleaved and json.loads(first.interleaved), last.interleaved and json.loads(last.interleaved)] == [
        [{"role": "harness", "content": reminder}],
        [
            {"role": "harness", "content": reminder},
            {"role": "harness", "content": reminder},
            {"role": "user", "content": "And then stop."},
        ],
    ]


def test_calls_of_the_apis_own_tools_are_calls_with_what_they_gave():
    items = [
        user("Go."),
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "computer_call", "id": "cu", "call_id": "c1", "action": {"type": "click", "x": 1, "y": 2}},
        {
            "type": "computer_call_output",
            "call_id": "c1",
            "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,aGVsbG8="},
        },
        {"type": "code_interpreter_call", "id": "ci", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]},
        {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "aGVsbG8="},
        {"type": "local_shell_call", "call_id": "ls", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "id": "ls", "output": "a.txt"},
        {"type": "item_reference", "id": "rs_1"},
    ]
    found = conversation_in(items)
    assert not found.unmatched
    assert [(step.action.name, step.turn) for step in found.steps] == [
        ("web_search", 0),
        ("computer", 1),
        ("code_interpreter", 2),
        ("image_generation", 3),
        ("local_shell", 4),
    ]
    after = [step.next_observation for step in found.steps]
    assert [one and one.content for one in after] == [None, None, '{"type": "logs", "logs": "1"}', None, "a.txt"]
    assert [[file.role for file in one.attachments] if one else None for one in after] == [
        None,
        ["image"],
        [],
        ["image"],
        [],
    ]


def test_the_error_of_a_server_tool_of_anthropic_is_told_by_its_type():
    blocks = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s1",
            "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
        },
    ]
    (step,) = conversation_in([user("?"), {"role": "assistant", "content": blocks}]).steps
    assert step.next_observation is not None
    assert step.next_observation.is_error is True


def test_a_binary_resource_in_a_result_is_an_attachment_and_no_text():
    blob = {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "image/png", "blob": "aGVsbG8="}}
    found = conversation_in([agent(openai_call("a", {}, "1")), tool([{"type": "text", "text": "A"}, blob], "1")])
    after = found.steps[0].next_observation
    assert after is not None
    assert (after.content, [one.media_type for one in after.attachments]) == ("A", ["image/png"])


def test_what_the_agent_declines_to_do_is_what_it_said():
    (step,) = conversation_in([user("?"), {"role": "assistant", "content": None, "refusal": "I will not."}]).steps
    assert step.action.arguments == '{"content": "I will not."}'


def test_the_code_that_an_api_states_beside_an_output_is_its_exit_code():
    ran = {"type": "code_execution_result", "stdout": "", "stderr": "no\n", "return_code": 1}
    use = {"type": "server_tool_use", "id": "1", "name": "code_execution", "input": {"code": "x"}}
    result = {"type": "code_execution_tool_result", "tool_use_id": "1", "content": ran}
    (step,) = conversation_in([{"role": "assistant", "content": [use, result]}]).steps
    assert step.exit_code == 1
    ran["return_code"] = True
    (step,) = conversation_in([{"role": "assistant", "content": [use, result]}]).steps
    assert step.exit_code is None


def test_a_call_of_a_later_response_is_no_parallel_call():
    def paused(key: str) -> Message:
        use = {"type": "server_tool_use", "id": key, "name": "find", "input": {}}
        return {"role": "assistant", "stop_reason": "pause_turn", "content": [use]}

    back = [{"type": "find_tool_result", "tool_use_id": key, "content": key.upper()} for key in "ab"]
    messages = [user("do"), paused("a"), paused("b"), {"role": "assistant", "content": back}]
    steps = conversation_in(messages).steps
    assert [(step.turn, step.num_calls) for step in steps] == [(0, 1), (1, 1)]
    assert [step.next_observation and step.next_observation.content for step in steps] == ["A", "B"]


def test_calls_without_ids_are_paired_by_name_and_then_by_place():
    calls = agent(openai_call("a", {"n": 1}), openai_call("b", {}), openai_call("a", {"n": 2}))
    results: list[Message] = [{"role": "tool", "tool_name": name, "content": text} for name, text in ("b3", "a1", "a2")]
    assert shown([calls, *results]) == [("a", "1"), ("b", "3"), ("a", "2")]
    assert shown([calls, *({"role": "tool", "content": text} for text in "123")]) == [
        ("a", "1"),
        ("b", "2"),
        ("a", "3"),
    ]


def test_a_search_for_tools_has_its_own_answer_beside_a_call_that_is_open():
    found: list[Message] = [
        {"type": "function_call", "call_id": "k", "name": "look", "arguments": "{}"},
        {"type": "tool_search_call", "id": "t", "call_id": None, "execution": "server", "arguments": {"paths": ["x"]}},
        {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": [{"name": "x"}]},
        {"type": "function_call_output", "call_id": "k", "output": "dry"},
    ]
    assert shown(found) == [("look", "dry"), ("tool_search", '[{"name": "x"}]')]
    assert conversation_in(found).steps[1].action.arguments == '{"paths": ["x"]}'
