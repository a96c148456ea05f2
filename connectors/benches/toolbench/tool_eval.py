"""Answers as ToolEval converts them for its judges, as the trees and answers that ToolBench itself writes.

A file is an object of questions by their ids, `{id: {query, available_tools, answer: {method, total_steps,
final_answer, answer_details}}}`, or one such question. `answer_details` is a tree of nodes `{role, message, next}`: a
node of role `system` and one of `user`, whose texts were taken out, then `assistant` (what the model thought) and
`tool` (name, arguments and response of a call). Codes of answers are not kept, so whether one is an error is not known;
the response of `Finish` is always empty, and none.
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
"""How the arguments of `Finish` say what ToolBench's codes do."""


def is_question(value: Any) -> bool:
    """Whether the value is a question with its converted answer, as far as the beginning of a file holds it."""
    return (
        isinstance(value, dict)
        and all(key in value for key in _KEYS)
        and "answer_details" in object_of(value["answer"])
    )


def questions(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(id, question) of the questions of a document; the id of a lone one is empty."""
    if is_question(value):
        yield "", value
    elif isinstance(value, dict):
        yield from ((name, one) for name, one in value.items() if is_question(one))


def is_tool_eval(value: Any) -> bool:
    """Whether the value is a document of converted answers."""
    return next(questions(value), None) is not None


def answer_of(question: Mapping[str, Any]) -> dict[str, Any]:
    """What ToolBench would tell beside the tree of the question."""
    final = object_of(question["answer"]).get("final_answer")
    return {
        "answer_generation": {
            "query": question["query"],
            "function": question["available_tools"],
            "final_answer": final,
        }
    }


def root_of(question: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of a question as ToolBench's, of thoughts, actions and their inputs.

    Raises:
        MessageError: a node is not what the format says.
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
            made, end = _node(node)
            above["children"].append(made)
            waiting.append((end, node.get("next") or []))
    return root


def _node(node: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The node that stands for one of ToolEval, and the one that its successors are children of."""
    role, message = node.get("role"), node.get("message")
    if role in ("system", "user"):
        made = {"node_type": "Action Input", "description": "", "children": []}
        return made, made
    if role == "assistant":
        made = {"node_type": "Thought", "description": message if isinstance(message, str) else "", "children": []}
        return made, made
    told = literal_value(message) if isinstance(message, str) else message
    if role != "tool" or not isinstance(told, dict) or not isinstance(told.get("name"), str):
        raise MessageError("bad_node", f"wanted a node of an assistant or of a tool, met {brief(role)}")
    name, given, response = told["name"], told.get("arguments"), told.get("response")
    end: dict[str, Any] = {
        "node_type": "Action Input",
        "description": given if isinstance(given, str) else "" if given is None else json_text(given),
        "observation": None if name == _FINISH and response == "" else response,
        "observation_code": _code(given) if name == _FINISH else None,
        "children": [],
    }
    return {"node_type": "Action", "description": name, "children": [end]}, end


def _code(given: Any) -> int | None:
    """The code of a `Finish` with these arguments."""
    try:
        value = json_value(given) if isinstance(given, str) else given
    except JsonError:
        return None
    kind = object_of(value).get("return_type")
    return _CODES.get(kind) if isinstance(kind, str) else None
