"""Calls that stand in an agent's texts, and their answers: what they are read as, and what is refused."""

import contextlib
import json
from typing import Any

import pytest

from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.declared_tools import parse_prompt_tools
from trajmill.connectors.conversation.exchanges import Chains, settle_parts
from trajmill.connectors.conversation.shapes import conversation_in
from trajmill.connectors.conversation.written_calls import detect_written

TOOLS = [{"name": name} for name in ("get_bed", "Get User's Beds", "water.now")]
REACT = "Think first.\nThought: why\nAction: the action\nObservation: what it gave"
LOOK = [("look", {"bed": "2"}, "dry")]

CALL = '{"name": "look", "arguments": {"bed": "2"}}'
GIVEN = '{"bed": "2"}'
DRY = "<tool_response>\ndry\n</tool_response>"
F, G = '<tool_call>{"name": "f"}</tool_call>', '<tool_call>{"name": "g"}</tool_call>'
FUNCTION = "<function=look>\n<parameter=bed>\n2\n</parameter>\n</function>"
GLM = "<tool_call>look\n<arg_key>bed</arg_key>\n<arg_value>2</arg_value>\n</tool_call>"
RUNS = "Command is still running in the user's terminal.\nHere's the output so far:"
FEEDBACK = "The user provided the following feedback:\n<feedback>\nStop.\n</feedback>"
KIMI = "<|tool_call_begin|>functions.look:{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
HARMONY = f"<|channel|>commentary to=functions.look <|constrain|>json<|message|>{GIVEN}<|call|>"
MCP = f"<use_mcp_tool>\n<server_name>garden</server_name>\n<tool_name>look</tool_name>\n<arguments>\n{GIVEN}\n"
LEFT = "You have 4 steps left and 2 chances to propose solution left."

FORMS: dict[str, tuple[list[Any], list[Any]]] = {
    "hermes": ([f"<tool_call>\n{CALL}\n</tool_call>", DRY], LOOK),
    "hermes_not_closed": ([f"<tool_call>{CALL}", DRY], LOOK),
    "hermes_as_a_literal": ([f"<tool_call>{CALL}</tool_call>".replace('"', "'"), DRY], LOOK),
    "hermes_parallel": (
        [f"Both.\n{F}\n{G}", "<tool_response>1</tool_response>\n<tool_response>2</tool_response>"],
        [("f", {}, "1"), ("g", {}, "2")],
    ),
    "hermes_list": (
        ['<tool_call>[{"name": "f"}, {"name": "g"}]</tool_call>', ("tool", "1"), ("tool", "2")],
        [("f", {}, "1"), ("g", {}, "2")],
    ),
    "hermes_answer_with_tags": (
        [F, "<tool_response>\n</tool_response> b\n</tool_response>"],
        [("f", {}, "</tool_response> b")],
    ),
    "qwen3_coder": ([f"I look.\n<tool_call>\n{FUNCTION}\n</tool_call>", DRY], LOOK),
    "glm": ([GLM, ("observation", DRY)], LOOK),
    "glm_without_arguments": (["<tool_call>list\n</tool_call>", ("observation", "none")], [("list", {}, "none")]),
    "openhands": (
        [f"Look.\n\n{FUNCTION}", "EXECUTION RESULT of [look]:\ndry\n[Command finished with exit code 0]"],
        LOOK,
    ),
    "openhands_without_its_stop_word": (
        [FUNCTION.removesuffix("</function>"), "EXECUTION RESULT of [look]:\ndry"],
        LOOK,
    ),
    "r2e_gym": ([FUNCTION, "Exit code: 1\nExecution output of [look]:\ndry"], LOOK),
    "parameter_with_tags": (
        ["<function=write>\n<parameter=text>a </parameter> <function=b> c</parameter>\n</function>", "done"],
        [("write", {"text": "a </parameter> <function=b> c"}, "done")],
    ),
    "kimi": (
        [
            f"Now.<|tool_calls_section_begin|>{KIMI.format(0, GIVEN)}{KIMI.format(1, '{}')}<|tool_calls_section_end|>",
            ("tool", "## Return of functions.look:1\nwet"),
            ("tool", "## Return of functions.look:0\ndry"),
        ],
        [*LOOK, ("look", {}, "wet")],
    ),
    "harmony": (
        [
            f"<|channel|>analysis<|message|>I look.<|end|><|start|>assistant{HARMONY}",
            ("tool", "<|start|>functions.look to=assistant<|channel|>commentary<|message|>dry<|end|>"),
        ],
        LOOK,
    ),
    "harmony_recipient_first": (
        [
            f"<|start|>assistant to=functions.look<|channel|>commentary <|constrain|>json<|message|>{GIVEN}<|call|>",
            ("tool", "dry"),
        ],
        LOOK,
    ),
    "mcp": (
        [f"<think>search</think>\n\n{MCP}</arguments>\n</use_mcp_tool>", "dry"],
        [("mcp__garden__look", {"bed": "2"}, "dry")],
    ),
    "cline": (
        ["<read_file>\n<path>a</path>\n</read_file>", "[read_file for 'a'] Result:\n\nwords\n"],
        [("read_file", {"path": "a"}, "words\n")],
    ),
    "cline_with_feedback": (
        [
            "<execute_command>\n<command>oil</command>\n</execute_command>",
            f"[execute_command for 'oil'] Result:\n\n{RUNS}\ndrip\n\n{FEEDBACK}",
        ],
        [("execute_command", {"command": "oil"}, "drip")],
    ),
    "codeact": (
        ["So:\n<execute>\n1 + 1\n</execute>", f"Observation:\nOut[1]: 2\n{LEFT}"],
        [("execute", {"code": "1 + 1"}, "Out[1]: 2")],
    ),
    "opendevin": (
        ["<execute_bash>\nls\n</execute_bash>", "OBSERVATION:\na"],
        [("execute_bash", {"command": "ls"}, "a")],
    ),
    "olmo": (
        [
            '<function_calls>\nlook(bed="2")\nlook(bed="3")\n</function_calls>',
            ("environment", '{"soil": "dry"}\n{"soil": "wet"}'),
        ],
        [("look", {"bed": "2"}, '{"soil": "dry"}'), ("look", {"bed": "3"}, '{"soil": "wet"}')],
    ),
    "one_answer_to_two_calls": (
        ["<function_calls>\nf()\ng()\n</function_calls>", ("environment", "both")],
        [("f", {}, None), ("g", {}, "both")],
    ),
    "toolace": (
        [
            "[get_bed(number=2), water.now(deep=true)]",
            ("tool", '[{"name": "get_bed", "results": {"a": 1}}, {"name": "water.now", "results": "ok"}]'),
        ],
        [("get_bed", {"number": 2}, '{"a": 1}'), ("water.now", {"deep": True}, "ok")],
    ),
    "react": ([("system", REACT), f"Thought: I look.\nAction: look\nAction Input: {GIVEN}", "Observation: dry"], LOOK),
    "react_observed_by_the_harness": (
        [
            ("system", REACT),
            f"Action: look\nAction Input: {GIVEN}\nObservation: dry",
            ("assistant", "Thought: I know."),
        ],
        LOOK,
    ),
    "react_in_one_line": ([("system", REACT), f"Action: look with Action Input: {GIVEN}", "Observation: dry"], LOOK),
    "words_of_a_game": (
        ["Thought:\nA shelf.\n\nAction:\ngo to shelf 1", "On it you see a cup."],
        [("action", {"argument": "go to shelf 1"}, "On it you see a cup.")],
    ),
    "brackets": (
        [("user", REACT), "Thought: So.\nAction: click[Buy Now]", "Observation: Bought."],
        [("click", {"argument": "Buy Now"}, "Bought.")],
    ),
    "parentheses": (
        [("user", REACT), "Thought: So.\nAction: get_neighbors(#0, a.b)", "[c]"],
        [("get_neighbors", {"argument": "#0, a.b"}, "[c]")],
    ),
    "fence_behind_an_action": (
        [
            ("user", "Think: why\nAct: bash"),
            "Think: I list.\n\nAct: bash\n\n```bash\nls\n```",
            "The output of the OS:\n\na b",
            "Think: Two.\n\nAct: answer(2)",
            "Now a new problem.",
        ],
        [("bash", {"argument": "ls"}, "a b"), ("answer", {"argument": "2"}, None)],
    ),
    "smolagents": (
        [
            ("system", "You solve tasks using code blobs."),
            "Thought: add\nCode:\n```py\nprint(2)\n```<end_code>",
            ("tool-response", "Observation:\nExecution logs:\n2"),
        ],
        [("python_interpreter", {"code": "print(2)"}, "2")],
    ),
}


def said(text, role="assistant"):
    return {"role": role, "content": text}


def steps_of(chat, tools=TOOLS):
    """The steps of a conversation, and what stood after each."""
    written = detect_written(chat, None, tools)
    steps = list(conversation_in(chat if written is None else list(written.structured(chat)), 0).steps)
    return steps, [step.next_observation.content if step.next_observation else None for step in steps]


def messages(*texts):
    """A conversation in which agent and user take turns, unless a text comes with its role."""
    chat, roles = [said("How is bed 2?", "user")], {"user": "assistant", "assistant": "user"}
    for text in texts:
        role = text[0] if isinstance(text, tuple) else roles.get(chat[-1]["role"], "assistant")
        chat.append(said(text[1] if isinstance(text, tuple) else text, role))
    return chat


def read(*texts):
    """(name, arguments, answer) of each call."""
    return [
        (step.action.name, json.loads(step.action.arguments or "{}"), shown)
        for step, shown in zip(*steps_of(messages(*texts)), strict=True)
        if step.action.name != "message"
    ]


@pytest.mark.parametrize("form", FORMS)
def test_a_call_of_a_form_is_read_with_its_answer(form):
    texts, calls = FORMS[form]
    assert read(*texts) == calls


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>{}</tool_call>",
        '<tool_call>{"name": }</tool_call>',
        "<tool_call>{1: 2}</tool_call>",
        '<tool_call>{"name": "f"',
        '<tool_call>{"name": "f"} and so on',
        "<tool_call>\nlook(bed)\n</tool_call>",
        "<tool_call>\n<function=look>\n<parameter=bed>2\n</tool_call>",
        GLM.removesuffix("</arg_value>\n</tool_call>"),
        "<function=look>\n<parameter=bed>2",
        "<function=look>\n<parameter=bed>2</parameter>\nand so on\n</function>",
        KIMI.format(0, GIVEN).removesuffix("<|tool_call_end|>"),
        "<|channel|>commentary to=functions.f {}", MCP, "<execute>\n1 + 1",
        "<function_calls>\nlook(2)\n</function_calls>", "<function_calls>\nlook(bed=2)", "[get_bed(1)]",
        "[get_bed(a=1]", "[get_bed(a=1), other()]", "[get_bed(a=b)]", "[get_bed(a=1)] And so on.",
        "[get_bed(a=(1,))]", "[get_bed(a='b]",
        "Thought: a\nAction: look\nAction Input: {}\nObservation: dry\nThought: I know.\nFinal Answer: dry",
    ],
)  # fmt: skip
def test_what_begins_as_a_call_and_is_none_refuses_the_conversation(text):
    with pytest.raises(MessageError) as refused:
        read(text, "dry")
    assert refused.value.reason == "bad_call"


@pytest.mark.parametrize(
    "text",
    [
        "I use <tool_call> and </tool_call> tags.",
        "The tag <tool_call> begins a call.",
        "Say <function=name> for it, or <execute> alone.",
        f"<think>I write {F} then.</think>No call.",
        f"I write {F}.</think>No call.",
        f"Write `{F}` for it.",
        f"So:\n```\n{F}\n```\nIs it clear?",
        "So:\n```xml\n<read_file>\n<path>a</path>\n</read_file>\n```\n",
        "~~~\n<function=f>\n</function>\n~~~",
        "<p><b>Bold</b></p>",
        "[Note (of today)] It is dry.",
        "[1] Bed 2 (east) is dry.",
        "Action: we met.",
        "Code:\n```py\n1\n```",
    ],
)
def test_what_only_mentions_a_call_is_none(text):
    assert read(text, "I see.") == []


@pytest.mark.parametrize(
    "text", [f"```\n{G}\n```\n{F}", f"<think>{G}</think>\n{F}", f"```py\nnot closed\n{F}", f"<think>not closed\n{F}"]
)
def test_calls_behind_fences_thoughts_and_what_is_not_closed_are_read(text):
    assert read(text, "<tool_response>1</tool_response>") == [("f", {}, "1")]


def test_words_of_the_harness_around_an_answer_are_said_by_the_harness():
    steps, shown = steps_of(messages("<execute>\n1\n</execute>", f"Observation:\n1\n{LEFT}", "Two."))
    assert shown[0] == "1"
    assert json.loads(steps[1].interleaved or "") == [{"role": "harness", "content": LEFT}]


def test_a_message_of_the_user_that_follows_no_call_stays_his():
    chat = messages("<function=finish>\n</function>", "Thanks.", "<execute>\n1\n</execute>")
    assert [(name, answer) for name, _, answer in read(*(message["content"] for message in chat[1:]))] == [
        ("finish", None)
    ]


def test_an_answer_of_a_client_to_no_call_refuses_the_conversation():
    with pytest.raises(MessageError) as refused:
        read("<list_files>\n<path>.</path>\n</list_files>", "[read_file for 'a'] Result: x")
    assert refused.value.reason == "result_without_call"


def test_pictures_beside_the_text_of_an_answer_stay_with_it():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    answer = said([{"type": "text", "text": "EXECUTION RESULT of [look]:\nseen"}, picture], "user")
    [step], shown = steps_of([*messages("<function=look>\n</function>"), answer])
    assert shown == ["seen"]
    assert step.next_observation
    assert len(step.next_observation.attachments) == 1


@pytest.mark.parametrize("content", [{"soil": "dry"}, [1, 2], None])
def test_an_answer_that_is_no_text_is_what_it_is(content):
    _, shown = steps_of([*messages(F), said(content, "tool")])
    assert shown == ["" if content is None else json.dumps(content)]


def test_functions_that_stand_beside_the_messages_of_olmo_are_calls_of_declared_tools():
    chat = [
        {"role": "system", "content": "Call functions.", "functions": '[{"name": "look"}]', "function_calls": None},
        said("Bed 2?", "user"),
        {"role": "assistant", "content": None, "function_calls": "look(bed=2)", "functions": None},
        said('{"soil": "dry"}', "environment"),
    ]
    [step], shown = steps_of(chat)
    assert (step.action.name, step.action.arguments, shown) == ("look", '{"bed": 2}', ['{"soil": "dry"}'])
    written = detect_written(chat, None, [])
    assert written
    assert written.tools == [{"name": "look"}]


def test_an_exchange_of_texts_goes_on_with_its_conversation():
    asked = [said("How is bed 2?", "user")]
    call = '<tool_call>{"name": "look"}</tool_call>'
    chains = Chains()
    for reply in (call, "It is dry."):
        response = {"choices": [{"message": said(reply)}]}
        assert chains.take(0, "/v1/chat/completions", {"messages": asked}, response)
        asked = [*asked, said(reply), said("<tool_response>dry</tool_response>", "user")]
    [chain] = chains.chains
    steps = settle_parts(chain.parts).steps
    assert [(step.action.name, step.next_observation and step.next_observation.content) for step in steps] == [
        ("look", "dry"), ("message", None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        f"```a\n{F}\n", "<think>", "`<tool_call>", "<tool_call>   ", "<function=f>\n<parameter=a>", "[get_bed(",
        "<execute>", "Thought: a\nAction: a", "<|channel|>", "<|tool_call_begin|>", "<read_file><",
        "<function_calls>f(", "</parameter> ",
    ],
)  # fmt: skip
def test_a_long_text_of_marks_ends_in_calls_or_in_a_refusal(text):
    with contextlib.suppress(MessageError):
        assert len(read(text * (200_000 // len(text)), "x")) in (0, 200_000 // len(text))


@pytest.mark.parametrize("system", ["", "Be kind.", '[{"name": ', "<tools>none</tools>", json.dumps([{"name": 1}])])
def test_a_system_prompt_without_tools_declares_none(system):
    assert parse_prompt_tools(system) == []
