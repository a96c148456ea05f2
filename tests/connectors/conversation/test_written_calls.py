"""Calls that stand in an agent's texts, and their answers: what they are read as, and what is refused."""

from __future__ import annotations

import json

import pytest

from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.written_calls import declared, structured

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


@pytest.mark.parametrize(
    "system", [None, "", "Be kind.", '[{"name": ', "<tools>none</tools>", json.dumps([{"name": 1}])]
)
def test_a_system_prompt_without_tools_declares_none(system):
    assert declared(system) == []
