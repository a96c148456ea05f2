"""Answer trees of ToolBench: the final path first, every real call in some path, branches hung up where they leave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from trajmill.connectors.benches.toolbench import BRANCHES, ToolBench
from trajmill.connectors.connector import MemoryBlob
from trajmill.schemas import ParseError, Reject, Trajectory

Node = dict[str, Any]


def node(kind: str, text: str, *children: Node, **more: Any) -> Node:
    return {"node_type": kind, "description": text, **more, "children": list(children)}


def call(name: str, *children: Node, code: int = 0, seen: str = "ok") -> Node:
    return node("Action", name, node("Action Input", "{}", *children, observation=seen, observation_code=code))


def parsed(*children: Node, **more: Any) -> tuple[list[Trajectory], list[str]]:
    value = {"win": True, "tree": {"tree": node("Action Input", "", *children)}, **more}
    found = list(ToolBench().parse(MemoryBlob("folder/7_x.json", json.dumps(value).encode())))
    return [one for one in found if isinstance(one, Trajectory)], [
        one.reason for one in found if isinstance(one, Reject)
    ]


def test_more_branches_than_are_carried_on_are_refused_once():
    found, rejects = parsed(*(call(f"f{number}") for number in range(BRANCHES + 10)))
    assert len(found) == BRANCHES + 1
    assert rejects == ["too_many_branches"]


@pytest.mark.parametrize(
    "children", [7, [7], [{"node_type": "Action Input", "description": "{}"}], [{"node_type": None}]]
)
def test_a_tree_that_is_none_is_refused(children):
    value = {"win": True, "tree": {"tree": {"node_type": "Action Input", "description": "", "children": children}}}
    with pytest.raises(ParseError, match="bad_node"):
        list(ToolBench().parse(MemoryBlob("x.json", json.dumps(value).encode())))


def calls_of(tree: Node, name: str = "") -> Iterator[tuple[str, str]]:
    """(name, answer) of every call of a tree, in its order."""
    for child in tree["children"]:
        if child["node_type"] == "Action Input":
            yield name, child["observation"]
        yield from calls_of(child, child["description"])


@pytest.mark.corpus
def test_every_call_of_the_real_trees_stands_in_some_trajectory_and_the_answer_in_the_first(corpus):
    for path in (path for path in corpus("toolbench") if path.suffix == ".json"):
        value = json.loads(path.read_bytes())
        found = list(ToolBench().parse(MemoryBlob(path.name, path.read_bytes())))
        kept = [one for one in found if isinstance(one, Trajectory)]
        made = {
            (step.action.name, step.next_observation.content)
            for one in kept
            for step in one.steps
            if step.next_observation
        }
        assert made == set(calls_of(value["tree"]["tree"]))
        asked = value["answer_generation"]["train_messages"][-1]
        answers = [m["content"] for m in asked if m["role"] == "function"]
        assert [s.next_observation.content for s in kept[0].steps if s.next_observation][: len(answers)] == answers
