"""Calls that stand in an agent's texts, and their answers: what they are read as, and what is refused."""

from __future__ import annotations

import json

import pytest

from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.written_calls import declared, is_written, names_of, structured

NAMES = frozenset({"get_bed", "Get User's Beds", "water.now"})


def said(text, role="assistant"):
    return {"role": role, "content": text}


def calls(text, names=NAMES):
    [message] = structured([said(text)], names)
    return [(one["name"], one["arguments"]) for one in message["tool_calls"]], message["content"]


def answers(call, *texts, role="tool"):
    _, *found = structured([said(call), *(said(text, role) for text in texts)], NAMES)
    return [(one.get("name"), one["content"]) for one in found]


@pytest.mark.parametrize(
    ("text", "found", "rest"),
    [
        ('<tool_call>{"name": "get_bed", "arguments": {"n": 1}}</tool_call>', [("get_bed", {"n": 1})], ""),
        ("Ah.\n<tool_call>\n{'name': 'f', 'arguments': {'a': True}}\n</tool_call>", [("f", {"a": True})], "Ah."),
        ('<tool_call>{"name": "f", "parameters": {}}</tool_call> So.', [("f", {})], "So."),
        ('<tool_call>{"name": "f"}</tool_call><tool_call>{"name": "g"}', [("f", None), ("g", None)], ""),
        (
            '<think>a <tool_call> it is</think><tool_call>{"name": "f"}</tool_call>',
            [("f", None)],
            "<think>a <tool_call> it is</think>",
        ),
        ("[get_bed()]", [("get_bed", {})], ""),
        ("[Get User's Beds(a=\"it's\", b='[', c=[1, {\"d\": null}])]",
         [("Get User's Beds", {"a": "it's", "b": "[", "c": [1, {"d": None}]})], ""),
        ("[get_bed(a=-1.5), water.now(b=true, c=None)]",
         [("get_bed", {"a": -1.5}), ("water.now", {"b": True, "c": None})], ""),
        ('[get_bed(a="x\\"y, z", b={\'k\': false})]', [("get_bed", {"a": 'x"y, z', "b": {"k": False}})], ""),
    ],
)  # fmt: skip
def test_a_written_call_is_read(text, found, rest):
    assert is_written(said(text), NAMES)
    assert calls(text) == (found, rest)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>{}</tool_call>", '<tool_call>{"name": }</tool_call>', "<tool_call>{1: 2}</tool_call>",
        "[get_bed(1)]",
        "[get_bed(a=1]", "[get_bed(a=1), other()]", "[get_bed(a=b)]", "[get_bed(a=1)] And so on.", "[get_bed(a=(1,))]",
        "[get_bed(a='b]",
    ],
)  # fmt: skip
def test_what_begins_as_a_call_and_is_none_refuses_the_conversation(text):
    with pytest.raises(MessageError) as refused:
        calls(text)
    assert refused.value.reason == "bad_call"


@pytest.mark.parametrize("text", ["", "[1] So it is (see 2).", "[other(a=1)]", "Use <tool_call> tags.", "get_bed(a=1)"])
def test_other_texts_stay_texts(text):
    assert not is_written(said(text), NAMES)
    assert list(structured([said(text)], NAMES)) == [said(text)]


def test_only_the_agent_calls():
    assert not is_written(said('<tool_call>{"name": "f"}</tool_call>', "user"), NAMES)


TWO = '<tool_call>{"name": "f"}</tool_call><tool_call>{"name": "g"}</tool_call>'


@pytest.mark.parametrize(
    ("call", "texts", "found"),
    [
        (TWO, ["<tool_response>1</tool_response>\n<tool_response>\n2\n</tool_response>"], [("f", "1"), ("g", "2")]),
        (TWO, ['<tool_response>{"name": "g", "content": {"a": 1}}</tool_response>'], [("g", '{"a": 1}')]),
        (TWO, ["<tool_response>1</tool_response>"], [(None, "1")]),
        ("[get_bed()]", ['[{"name": "get_bed", "results": {"a": 1}}]'], [("get_bed", '{"a": 1}')]),
        ("[get_bed(), get_bed()]", ['[{"name": "x", "results": 1}, {"name": "y", "results": "2"}]'],
         [("get_bed", "1"), ("get_bed", "2")]),
        ("[get_bed()]", ["[1, 2]"], [("get_bed", "[1, 2]")]),
        ("[get_bed()]", ['{"name": "a bed", "content": "soil", "size": 2}'],
         [("get_bed", '{"name": "a bed", "content": "soil", "size": 2}')]),
    ],
)  # fmt: skip
def test_an_answer_has_the_name_of_its_call(call, texts, found):
    assert answers(call, *texts) == found


def test_a_user_who_brings_tagged_answers_is_a_tool_and_any_other_is_none():
    assert answers(TWO, "<tool_response>1</tool_response>", role="user") == [(None, "1")]
    assert list(structured([said("Hi", "user")], NAMES)) == [said("Hi", "user")]


@pytest.mark.parametrize(
    "system",
    [
        'Tools: <tools>[{"name": "f"}, {"type": "function", "function": {"name": "g"}}]</tools> Use <tool_call> tags.',
        '<tools>\n{"name": "f"}\n{"function": {"name": "g"}}\n</tools>',
        'Functions that you can invoke:\n[{"name": "f", "d": "a [list]"}, {"name": "g"}]. \nUse [f(a=b)].',
    ],
)
def test_declared_tools_are_found_in_the_system_prompt(system):
    assert names_of(declared(system)) == {"f", "g"}


@pytest.mark.parametrize(
    "system", [None, "", "Be kind.", '[{"name": ', "<tools>none</tools>", json.dumps([{"name": 1}])]
)
def test_a_system_prompt_without_tools_declares_none(system):
    assert declared(system) == []
