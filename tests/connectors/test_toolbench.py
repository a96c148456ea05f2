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


def names(one: Trajectory) -> list[str]:
    return [step.action.name for step in one.steps]


def test_the_final_path_is_the_main_trajectory_and_the_others_branch_off_it():
    found, rejects = parsed(
        call("a", call("b", call("Finish", code=4)), call("c", call("Finish", code=3))),
        call("d"),
    )
    assert [names(one) for one in found] == [["a", "c", "Finish"], ["a", "b", "Finish"], ["d"]]
    main, second, third = found
    assert (main.native_id, main.relation, main.parent) == ("7_x", None, None)
    assert (second.relation, second.parent, second.parent_step) == ("branch", "7_x", 0)
    assert (third.relation, third.parent, third.parent_step) == ("branch", "7_x", None)
    assert len({one.native_id for one in found}) == 3
    assert rejects == []


def test_a_branch_of_a_branch_hangs_on_the_branch():
    found, _ = parsed(call("Finish", code=3), call("a", call("b"), call("c")))
    assert [names(one) for one in found] == [["Finish"], ["a", "b"], ["a", "c"]]
    assert (found[2].parent, found[2].parent_step) == (found[1].native_id, 0)


def test_of_several_answers_the_stated_one_is_the_main_path():
    first = node("Action", "Finish", node("Action Input", '{"final_answer": "1"}', observation="x", observation_code=3))
    second = node(
        "Action", "Finish", node("Action Input", '{"final_answer": "2"}', observation="x", observation_code=3)
    )
    found, _ = parsed(first, second, answer_generation={"final_answer": '{"final_answer":  "2"}'})
    assert found[0].steps[0].action.arguments == '{"final_answer": "2"}'


def test_what_the_harness_answered_is_not_the_environments():
    found, _ = parsed(call("nothing", call("Finish", code=3), code=1, seen="No such function name: nothing"))
    assert [step.next_observation.origin for step in found[0].steps if step.next_observation] == ["harness", "harness"]
    assert [step.next_observation.is_error for step in found[0].steps if step.next_observation] == [True, False]


def test_more_branches_than_are_carried_on_are_refused_once():
    found, rejects = parsed(*(call(f"f{number}") for number in range(BRANCHES + 10)))
    assert len(found) == BRANCHES + 1
    assert rejects == ["too_many_branches"]


def test_a_deep_tree_is_read_and_never_overflows():
    deep = call("last")
    for number in range(100):
        deep = call(f"f{number}", deep)
    found, _ = parsed(deep)
    assert len(found[0].steps) == 101


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


@pytest.mark.parametrize(
    ("answer", "is_error"),
    [
        ("{'result': [{'title': 'The error'}]}", None),
        ("[{'name': 'error'}]", None),
        ("{'status': 400, 'message': 'no such code'}", True),
        ("{'Error': 'x'}", True),
        ("an error", True),
    ],
)
def test_a_code_for_a_word_in_the_answer_is_no_error_where_the_answer_looks_normal(answer, is_error):
    seen = json.dumps({"error": "Message error...", "response": answer})
    found, _ = parsed(call("a", call("Finish", code=3), code=11, seen=seen))
    observation = found[0].steps[0].next_observation
    assert observation is not None
    assert observation.is_error is is_error
