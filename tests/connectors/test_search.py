"""What the connectors of the search domain do beyond their golden files."""

import json

import pytest

from tests.conftest import ROOT
from tests.rows import split_records
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connectors, sniff
from trajmill.schemas import Observation, ParseError, Reject, Trajectory

NAMES = ("webdancer", "search_r1", "react_log", "react_notebook", "inspect")
FIXTURES = ROOT / "tests" / "fixtures"


def read(name: str, data: bytes | str) -> tuple[list[Trajectory], list[Reject]]:
    blob = MemoryBlob("log", data.encode() if isinstance(data, str) else data)
    return split_records(connectors()[name].parse(blob))


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_answer_stands_in_no_row(name):
    for path in (FIXTURES / name / "expected").iterdir():
        assert "REFERENCE-ANSWER" not in path.read_text("utf-8")


def test_information_that_the_model_wrote_itself_is_no_observation():
    log = (
        "<|im_start|>user\nQuestion: q<|im_end|>\n<|im_start|>assistant\n<search> a </search>\n"
        "I guess: <information>made up</information>\n<answer> b </answer>"
    )
    (trajectory,), _ = read("search_r1", log)
    assert [step.next_observation for step in trajectory.steps] == [None, None]


@pytest.mark.parametrize(
    "junk",
    [
        b"<search>" * 100_000,
        b"<answer><search>" * 50_000,
        b"My previous action is invalid." * 20_000,
        b"<|im_start|>user\n" * 30_000,
    ],
)
def test_tags_that_are_never_closed_are_read_in_linear_time(junk):
    with pytest.raises(ParseError):
        read("search_r1", b"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n" + junk)


def sample(*messages: dict, **more: object) -> dict:
    return {"id": 1, "epoch": 1, "messages": [{"role": "user", "content": "q"}, *messages], **more}


def calling(name: str, key: str = "c", **arguments: object) -> dict:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": key, "function": name, "arguments": arguments}],
    }


def inspected(*samples: dict) -> list[Trajectory]:
    log = {"eval": {"run_id": "r", "task_id": "t", "task": "k"}, "samples": samples}
    return read("inspect", json.dumps(log))[0]


@pytest.mark.parametrize(
    ("names", "domain"),
    [
        (["bash", "web_search"], "search"),
        (["web_browser_go"], "web"),
        (["text_editor", "bash"], "swe"),
        (["python"], "terminal"),
        (["computer"], "os"),
        (["get_weather"], "mcp"),
    ],
)
def test_the_tools_of_a_sample_tell_its_domain(names, domain):
    (trajectory,) = inspected(sample(*(calling(name) for name in names)))
    assert trajectory.domain == domain


def test_a_question_that_failed_before_the_model_answered_does_not_hide_the_others():
    failed = {"question": "q", "answer": "a", "error": "Timeout", "messages": [], "prediction": "[Failed]"}
    call = '<think>t</think>\n<tool_call>\n{"name": "search", "arguments": {"query": ["q"]}}\n</tool_call>'
    turns = [("system", "s"), ("user", "q"), ("assistant", call), ("user", "<tool_response>\nr\n</tool_response>")]
    whole = {"question": "q", "answer": "a", "messages": [{"role": role, "content": text} for role, text in turns]}
    data = "".join(json.dumps(row) + "\n" for row in (failed, whole)).encode()
    assert [connector.name for connector, _ in sniff(data, "iter1.jsonl")] == ["webdancer"]
    trajectories, rejects = read("webdancer", data)
    assert [step.next_observation for step in trajectories[0].steps] == [Observation("r")]
    assert [reject.reason for reject in rejects] == ["bad_record"]
    turned = {"task": "t", "tag": [], "type": "chatml", "messages": whole["messages"]}
    assert [connector.name for connector, _ in sniff(json.dumps(turned).encode() + b"\n", "x.jsonl")] == ["webdancer"]


def test_code_of_a_call_that_only_says_python_is_run_by_the_harness_all_the_same():
    talk = [("user", "q"), ("assistant", "<tool_call>\npython\n<code>\nprint(1)\n</code>\n</tool_call>")]
    talk.append(("user", "<tool_response>\n1\n</tool_response>"))
    row = {"question": "q", "messages": [{"role": role, "content": text} for role, text in talk]}
    (trajectory,), _ = read("webdancer", json.dumps(row) + "\n")
    assert (trajectory.steps[0].action.name, trajectory.steps[0].action.arguments) == (
        "PythonInterpreter",
        '{"code": "print(1)"}',
    )
