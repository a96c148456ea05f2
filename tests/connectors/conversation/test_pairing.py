"""Conversations as steps: pairing of calls with results, turns, voices, and the shapes of different makers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.conversation.calls import MessageError, call
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.shapes import conversation_in, parts
from trajmill.connectors.conversation.turns import Call, Result, Said, System, Text
from trajmill.schemas import call_text

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


def test_a_result_written_twice_counts_once_and_another_one_is_refused():
    messages = [agent(openai_call("a", {}, "1")), tool("A", "1"), tool("A", "1"), tool("B", "1")]
    result = conversation_in(messages)
    assert [step.next_observation and step.next_observation.content for step in result.steps] == ["A"]
    assert [(reject.reason, reject.result.content) for reject in result.unmatched] == [("result_repeated", "B")]


def test_what_the_agent_said_last_is_no_answer_where_the_harness_says_it_back():
    def ended(name: str, content: str) -> list[tuple[str, str | None]]:
        return shown([agent(openai_call(name, {"message": "It flies."}, "1")), tool(content, "1")])

    assert ended("finish", "It flies.\n") == [("finish", None)]
    assert ended("finish", "Tests fail.") == [("finish", "Tests fail.")]
    assert ended("echo", "It flies.") == [("echo", "It flies.")]


def test_arguments_nested_too_deeply_are_refused():
    with pytest.raises(MessageError, match="nested_too_deeply"):
        call("f", '{"a":' * 500 + "1" + "}" * 500, None, 0)


def test_a_python_literal_is_read_but_nothing_of_it_is_run():
    part = parts({"role": "tool_call", "content": "{'name': 'f', 'arguments': {'a': None}}"}, 0)[0]
    assert isinstance(part, Call)
    assert part.arguments == '{"a": null}'
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
    messages = [user("Go.")]
    for number, turn in enumerate(turns):
        messages.append(
            agent(*(openai_call(name, arguments, f"{number}.{i}") for i, (name, arguments, _) in enumerate(turn)))
        )
        messages += [tool(seen, f"{number}.{i}") for i, (_, _, seen) in enumerate(turn)]
    return messages


def as_anthropic(turns: list[Turn]) -> list[Message]:
    messages = [user("Go.")]
    for number, turn in enumerate(turns):
        uses = [
            {"type": "tool_use", "id": f"{number}.{i}", "name": name, "input": arguments}
            for i, (name, arguments, _) in enumerate(turn)
        ]
        results = [
            {"type": "tool_result", "tool_use_id": f"{number}.{i}", "content": [{"type": "text", "text": seen}]}
            for i, (_, _, seen) in enumerate(turn)
        ]
        messages += [{"role": "assistant", "content": uses}, {"role": "user", "content": results[::-1]}]
    return messages


def as_gemini(turns: list[Turn]) -> list[Message]:
    messages: list[Message] = [{"role": "user", "parts": [{"text": "Go."}]}]
    for number, turn in enumerate(turns):
        calls = [
            {"functionCall": {"name": name, "args": arguments, "id": f"{number}.{i}"}}
            for i, (name, arguments, _) in enumerate(turn)
        ]
        back = [
            {"functionResponse": {"name": name, "id": f"{number}.{i}", "response": seen}}
            for i, (name, _, seen) in enumerate(turn)
        ]
        messages += [{"role": "model", "parts": calls}, {"role": "user", "parts": back}]
    return messages


def as_items(turns: list[Turn]) -> list[Message]:
    items = [user("Go.")]
    for number, turn in enumerate(turns):
        for i, (name, arguments, _) in enumerate(turn):
            item = {"type": "function_call", "id": "fc", "call_id": f"{number}.{i}", "name": name}
            items.append({**item, "arguments": json.dumps(arguments)})
        for i, (_, _, seen) in enumerate(turn):
            items.append({"type": "function_call_output", "call_id": f"{number}.{i}", "output": seen})
    return items


def as_dataset(turns: list[Turn]) -> list[Message]:
    messages: list[Message] = [{"from": "human", "value": "Go."}]
    for turn in turns:
        messages += [
            {"from": "function_call", "value": json.dumps({"name": name, "arguments": arguments})}
            for name, arguments, _ in turn
        ]
        messages += [{"from": "observation", "value": seen} for _, _, seen in turn]
    return messages


NAMES = st.sampled_from(["find", "read", "write"])
ARGUMENTS = st.dictionaries(
    st.text(max_size=4), st.one_of(st.integers(-(2**63), 2**63), st.text(max_size=6), st.none()), max_size=3
)
TURNS = st.lists(st.lists(st.tuples(NAMES, ARGUMENTS, st.text(max_size=8)), min_size=1, max_size=4), max_size=5)


@given(turns=TURNS)
def test_the_same_conversation_in_five_shapes_comes_to_the_same_steps(turns):
    wanted = [
        (number, index, len(turn), call_text(name, arguments), seen)
        for number, turn in enumerate(turns)
        for index, (name, arguments, seen) in enumerate(turn)
    ]
    for shape in (as_openai, as_anthropic, as_gemini, as_items, as_dataset):
        result = conversation_in(shape(turns))
        steps = [
            (step.turn, step.call_index, step.num_calls, step.action.text, step.next_observation.content)
            for step in result.steps
            if step.next_observation is not None
        ]
        assert steps == wanted, shape.__name__
        assert (result.instruction, result.unmatched) == ("Go.", [])


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


@given(found=PARTS)
def test_every_call_is_one_step_and_every_result_is_used_once_or_refused(found):
    result = conversation(found)
    calls = [part for part in found if isinstance(part, Call)]
    assert [step.action.text for step in result.steps if step.action.name != "message"] == [part.text for part in calls]
    results = [part.content for part in found if isinstance(part, Result)]
    shown = [step.next_observation for step in result.steps if step.action.name != "message" and step.next_observation]
    refused = [reject.result.content for reject in result.unmatched]
    assert len(shown) + len(refused) <= len(results)
    assert set(refused) | {observation.content for observation in shown} == set(results)
    texts = {part.text for part in found if isinstance(part, Text)}
    heard = {part.text for part in found if isinstance(part, Said)} | set(results)
    for step in result.steps:
        for seen in (step.observation, step.next_observation):
            assert seen is None or seen.content is None or seen.content in heard or seen.content not in texts


_ID = st.sampled_from([None, "1", "2", "3"])
_MESSAGE = st.one_of(
    st.lists(st.builds(openai_call, st.sampled_from("fg"), st.just({}), _ID), max_size=3).map(
        lambda made: agent(*made)
    ),
    st.builds(tool, st.sampled_from(["A", "B"]), _ID, st.sampled_from([None, "f", "g"])),
    st.just(user("u")),
)


@given(st.lists(_MESSAGE, max_size=12))
def test_a_conversation_that_is_held_pairs_as_one_whose_turns_stand_in_a_file(messages):
    in_memory, streamed = conversation_in(messages), conversation_in(tuple(messages))
    assert (in_memory.steps, in_memory.calls, in_memory.unmatched) == (
        list(streamed.steps),
        streamed.calls,
        streamed.unmatched,
    )


def test_code_that_gemini_runs_is_a_call_and_a_picture_that_it_draws_is_nobody_s_answer():
    parts_ = [
        {"executableCode": {"language": "PYTHON", "code": "1/0"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}},
        {"text": "Look"},
        {"inlineData": {"mimeType": "image/png", "data": "aGVsbG8="}},
    ]
    result = conversation_in([{"parts": [{"text": "Divide."}]}, {"role": "model", "parts": parts_}])
    assert result.instruction == "Divide."
    first, second = result.steps
    assert first.action.name == "code_execution"
    assert first.next_observation is not None
    assert (first.next_observation.content, first.next_observation.is_error) == ("ZeroDivisionError", True)
    assert second.action.name == "message"
    assert second.next_observation is None


def test_the_context_with_which_gemini_begins_and_the_model_s_thanks_are_the_client_s():
    history = as_gemini([[("ls", {}, "a")]])
    context = {"role": "user", "parts": [{"text": "<session_context>\nToday is Monday.\n</session_context>"}]}
    thanks = {"role": "model", "parts": [{"text": "Got it. Thanks for the additional context!"}]}
    got = conversation_in([context, thanks, *history])
    assert got.instruction == "Go."
    assert [step.action.name for step in got.steps] == ["ls"]


def test_reminders_of_a_harness_are_neither_the_tools_words_nor_the_users():
    reminder = "<system-reminder>\nBe brief.\n</system-reminder>"
    asked = {"role": "user", "content": [{"type": "text", "text": reminder}, {"type": "text", "text": "Go."}]}
    tool_use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "read", "input": {}}]}
    blocks = [
        {"type": "tool_result", "tool_use_id": "t", "content": f"a\n<system-reminder> in a file\n\n{reminder}\n"},
        {"type": "text", "text": f"{reminder}\nAnd then stop."},
    ]
    reply = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    result = conversation_in([asked, tool_use, {"role": "user", "content": blocks}, reply])
    assert result.instruction == "Go."
    first, last = result.steps
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
    result = conversation_in(items)
    assert not result.unmatched
    assert [(step.action.name, step.turn) for step in result.steps] == [
        ("web_search", 0),
        ("computer", 1),
        ("code_interpreter", 2),
        ("image_generation", 3),
        ("local_shell", 4),
    ]
    after = [step.next_observation for step in result.steps]
    assert [observation and observation.content for observation in after] == [
        None,
        None,
        '{"type": "logs", "logs": "1"}',
        None,
        "a.txt",
    ]
    assert [[file.role for file in observation.attachments] if observation else None for observation in after] == [
        None,
        ["image"],
        [],
        ["image"],
        [],
    ]


def test_a_call_of_a_later_response_is_no_parallel_call():
    def paused(key: str) -> Message:
        use = {"type": "server_tool_use", "id": key, "name": "find", "input": {}}
        return {"role": "assistant", "stop_reason": "pause_turn", "content": [use]}

    back = [{"type": "find_tool_result", "tool_use_id": key, "content": key.upper()} for key in "ab"]
    messages = [user("do"), paused("a"), paused("b"), {"role": "assistant", "content": back}]
    steps = conversation_in(messages).steps
    assert [(step.turn, step.num_calls) for step in steps] == [(0, 1), (1, 1)]
    assert [step.next_observation and step.next_observation.content for step in steps] == ["A", "B"]
