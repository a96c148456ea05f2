"""Answer trees of ToolBench: the final path first, every real call in some path, branches hung up where they leave."""

import json
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
