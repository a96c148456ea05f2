"""Answers that ToolEval converted for its judges, as trees and answers in ToolBench's own form.

A file is an object of questions by their ids, `{id: {query, available_tools, answer: {method, total_steps,
final_answer, answer_details}}}`, or one such question. `answer_details` is a tree of nodes `{role, message, next}`: a
node of role `system` and one of `user`, whose texts were removed, then `assistant` (the model's thought) and `tool`
(name, arguments and response of a call). Codes of answers are not kept, so it is unknown whether an answer is an error.
The response of `Finish` is always empty, and counts as none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.literals import literal_value
from trajmill.connectors.reading.fields import brief, object_of
from trajmill.connectors.reading.values import JsonError, json_value
from trajmill.schemas import json_text

_KEYS: Final = ("query", "available_tools", "answer")
_FINISH: Final = "Finish"
_CODES: Final = {"give_answer": 3, "give_up_and_restart": 4, "give_up": 4}
"""Codes of ToolBench by the return type in the arguments of `Finish`."""


def is_question(value: Any) -> bool:
    """Return True if the value is a question with its converted answer, as far as a file's beginning shows it."""
    return (
        isinstance(value, dict)
        and all(key in value for key in _KEYS)
        and "answer_details" in object_of(value["answer"])
    )


def questions(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (id, question) of the questions of a document; the id of a single question is empty."""
    if is_question(value):
        yield "", value
    elif isinstance(value, dict):
        yield from ((name, question) for name, question in value.items() if is_question(question))


def is_tool_eval(value: Any) -> bool:
    """Return True if the value is a document of converted answers."""
    return next(questions(value), None) is not None


def answer_of(question: Mapping[str, Any]) -> dict[str, Any]:
    """Build the object that ToolBench would write beside the tree of the question."""
    final = object_of(question["answer"]).get("final_answer")
    return {
        "answer_generation": {
            "query": question["query"],
            "function": question["available_tools"],
            "final_answer": final,
        }
    }


def root_of(question: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the tree of a question to ToolBench's form of thoughts, actions and their inputs.

    Raises:
        MessageError: a node does not match the format.
    """
    root: dict[str, Any] = {"node_type": "Action Input", "description": "", "children": []}
    waiting = [(root, object_of(question["answer"]).get("answer_details"))]
    while waiting:
        above, nodes = waiting.pop()
        if not isinstance(nodes, list):
            raise MessageError("bad_node", f"wanted a list of nodes, met {brief(nodes)}")
        for node in nodes:
            if not isinstance(node, dict):
                raise MessageError("bad_node", f"wanted an object as a node, met {brief(node)}")
            converted, end = _node(node)
            above["children"].append(converted)
            waiting.append((end, node.get("next") or []))
    return root


def _node(node: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the node for a node of ToolEval, and the node that becomes the parent of its successors."""
    role, message = node.get("role"), node.get("message")
    if role in ("system", "user"):
        new_node = {"node_type": "Action Input", "description": "", "children": []}
        return new_node, new_node
    if role == "assistant":
        new_node = {"node_type": "Thought", "description": message if isinstance(message, str) else "", "children": []}
        return new_node, new_node
    tool_message = literal_value(message) if isinstance(message, str) else message
    if role != "tool" or not isinstance(tool_message, dict) or not isinstance(tool_message.get("name"), str):
        raise MessageError("bad_node", f"wanted a node of an assistant or of a tool, met {brief(role)}")
    name, arguments, response = tool_message["name"], tool_message.get("arguments"), tool_message.get("response")
    end: dict[str, Any] = {
        "node_type": "Action Input",
        "description": arguments if isinstance(arguments, str) else "" if arguments is None else json_text(arguments),
        "observation": None if name == _FINISH and response == "" else response,
        "observation_code": _code(arguments) if name == _FINISH else None,
        "children": [],
    }
    return {"node_type": "Action", "description": name, "children": [end]}, end


def _code(arguments: Any) -> int | None:
    """Return the code of a `Finish` with these arguments."""
    try:
        value = json_value(arguments) if isinstance(arguments, str) else arguments
    except JsonError:
        return None
    kind = object_of(value).get("return_type")
    return _CODES.get(kind) if isinstance(kind, str) else None
