"""What the connectors of the search domain do beyond their golden files."""

import io
import json
import zipfile
from collections.abc import Mapping

import pytest

from tests.conftest import ROOT
from trajmill.connectors.connector import HEAD_BYTES, MemoryBlob
from trajmill.connectors.conversation import search_tools as vocabulary
from trajmill.connectors.registry import connectors, sniff
from trajmill.schemas import Observation, Outcome, ParseError, Reject, Step, Trajectory

NAMES = ("webdancer", "search_r1", "react_log", "react_notebook", "inspect")
FIXTURES = ROOT / "tests" / "fixtures"


def read(name: str, data: bytes | str) -> tuple[list[Trajectory], list[Reject]]:
    blob = MemoryBlob("log", data.encode() if isinstance(data, str) else data)
    found = list(connectors()[name].parse(blob))
    return [one for one in found if isinstance(one, Trajectory)], [one for one in found if isinstance(one, Reject)]


def chat(*turns: tuple[str, str], **more: object) -> str:
    messages = [{"role": role, "content": content} for role, content in turns]
    return json.dumps({"type": "chatml", "messages": messages, **more}) + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_answer_stands_in_no_row(name):
    for path in (FIXTURES / name / "expected").iterdir():
        assert "REFERENCE-ANSWER" not in path.read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_no_connector_of_the_domain_claims_the_fixtures_of_another(name):
    for path in (FIXTURES / name / "input").iterdir():
        found = sniff(path.read_bytes()[:HEAD_BYTES], path.name)
        assert [one.name for one, _ in found] == [name]


def test_question_and_answer_seeds_are_recognized_as_nothing():
    seed = json.dumps({"question": "How deep is Lake Mirr?", "answer": "# Report\n" + "deep " * 1000}).encode()
    assert sniff(seed + b"\n", "sample.jsonl") == []


def test_a_notebook_that_holds_no_agent_is_recognized_as_nothing():
    cells = [{"cell_type": "code", "outputs": [], "source": ["print(1)"]}]
    assert sniff(json.dumps({"cells": cells, "nbformat": 4}).encode(), "plot.ipynb") == []


@pytest.mark.parametrize(
    ("name", "word", "tool"),
    [
        ("search", "search", "web_search"),
        ("google-search", "search", "web_search"),
        ("WebSearch", "search", "web_search"),
        ("visit", "visit", "web_extractor"),
        ("memory", "memory", "dict_memory"),
        ("google_scholar", "google_scholar", "google_scholar"),
    ],
)
def test_search_visit_and_memory_are_told_apart(name, word, tool):
    action = vocabulary.call(name, {"q": "é"})
    assert (action.name, action.arguments) == (word, '{"q": "é"}')
    assert json.loads(action.written) == {"name": tool, "arguments": {"q": "é"}}


def test_tags_shown_in_the_prompt_are_no_calls():
    prompt = "Use <tool_call>{}</tool_call>.\n<tools>\n</tools>\n<answer> x </answer>\n\nUser: how deep?"
    log = chat(("user", prompt), ("assistant", '<tool_call>{"name": "search", "arguments": {}}</tool_call>'))
    (found,), _ = read("webdancer", log)
    assert found.task.instruction == "how deep?"
    assert [step.action.name for step in found.steps] == ["search"]


def test_a_call_whose_arguments_nest_too_deeply_keeps_its_text():
    deep = '{"name": "search", "arguments": ' + '{"a": ' * 500 + "1" + "}" * 500 + "}"
    (found,), _ = read("webdancer", chat(("user", "q"), ("assistant", f"<tool_call>{deep}</tool_call>")))
    assert (found.steps[0].action.name, found.steps[0].action.arguments) == ("search", None)
    assert found.steps[0].action.text == deep


def test_information_that_the_model_wrote_itself_is_no_observation():
    log = (
        "<|im_start|>user\nQuestion: q<|im_end|>\n<|im_start|>assistant\n<search> a </search>\n"
        "I guess: <information>made up</information>\n<answer> b </answer>"
    )
    (found,), _ = read("search_r1", log)
    assert [step.next_observation for step in found.steps] == [None, None]


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


def test_an_action_runs_to_the_last_bracket_of_its_line():
    log = "Question: q\nThought 1: t\nAction 1: Search[a [b], c]]\nObservation 1: o\n"
    (found,), _ = read("react_log", log)
    assert found.steps[0].action.arguments == '{"entity": "a [b], c]"}'


def test_a_marker_with_another_number_is_part_of_the_observation():
    log = "Question: q\nThought 1: t\nAction 1: Search[a]\nObservation 1: o\nThought 3: x\nAction 2: y\nAction 1: z\n"
    (found,), _ = read("react_log", log)
    (step,) = found.steps
    assert seen(step).content == "o\nThought 3: x\nAction 2: y\nAction 1: z"


def test_a_transcript_without_thoughts_is_read():
    log = "Question: q\nAction 1: Search[a]\nObservation 1: o\nAction 2: Finish[b]\nObservation 2: Answer is CORRECT\n"
    (found,), _ = read("react_log", log)
    assert [(step.action.name, step.reward) for step in found.steps] == [("search", None), ("task_complete", 1.0)]


def test_repeated_trials_are_all_carried_on():
    episode = "\nQuestion: q\nThought 1: t\nAction 1: Search[a]\nObservation 1: o\nCorrect answer: a\n"
    section = "------------- BEGIN CORRECT AGENTS -------------\n"
    found, rejects = read("react_log", f"BEGIN TRIAL 1\n{section}{episode}\nBEGIN TRIAL 2\n{section}{episode}")
    assert [one.native_id for one in found] == ["trial-1/0", "trial-2/0"]
    assert rejects == []


def test_the_same_line_printed_twice_has_two_offsets():
    episode = "{} Claim: c\nThought 1: t\nAction 1: Search[a]\nObservation 1: o\n\n{{'steps': 1, 'em': 0}} \n"
    cells = [{"outputs": [{"output_type": "stream", "name": "stdout", "text": episode.format(1) + episode.format(2)}]}]
    data = json.dumps({"cells": cells}).encode()
    found, _ = read("react_notebook", data)
    offsets = [one.steps[0].offset for one in found]
    assert len(set(offsets)) == 2
    assert all(data[offset:].startswith(b"Action 1: Search[a]") for offset in offsets)


def sample(*messages: dict, **more: object) -> dict:
    return {"id": 1, "epoch": 1, "messages": [{"role": "user", "content": "q"}, *messages], **more}


def seen(step: Step) -> Observation:
    assert step.next_observation is not None
    return step.next_observation


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
    (found,) = inspected(sample(*(calling(name) for name in names)))
    assert found.domain == domain


def test_a_tool_called_search_keeps_its_name_outside_the_search_domain():
    (found,) = inspected(sample(calling("memory", key="a")))
    assert (found.domain, found.steps[0].action.name) == ("mcp", "memory")
    assert json.loads(found.steps[0].action.text)["name"] == "memory"


def test_ids_that_recur_are_paired_within_their_turn():
    turns = [
        calling("bash", cmd="1"),
        {"role": "tool", "tool_call_id": "c", "content": "one"},
        calling("bash", cmd="2"),
        {"role": "tool", "tool_call_id": "c", "content": "two"},
    ]
    (found,) = inspected(sample(*turns))
    assert [seen(step).content for step in found.steps] == ["one", "two"]


def test_an_attachment_that_the_sample_does_not_hold_is_lost_and_not_invented():
    result = {"role": "tool", "tool_call_id": "c", "content": "attachment://0123456789abcdef"}
    (found,) = inspected(sample(calling("bash"), result, attachments={"other": "text"}))
    lost = seen(found.steps[0])
    assert (lost.content, lost.truncation) == (None, "recorder")


def packed(members: Mapping[str, object]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            archive.writestr(name, json.dumps(value))
    return data.getvalue()


def test_an_archive_without_its_directory_is_read_as_far_as_it_goes():
    first = sample(calling("bash"))
    members = {"_journal/start.json": {"eval": {"task": "k"}}, "samples/1_epoch_1.json": first, "samples/2.json": {}}
    data = packed(members)
    found, rejects = read("inspect", data[: data.rindex(b"samples/2.json", 0, data.rindex(b"PK\x01\x02")) + 3])
    assert [one.task.id for one in found] == ["k/1"]
    assert "truncated" in [reject.reason for reject in rejects]


def test_a_sample_with_nan_in_its_scores_is_read():
    text = json.dumps({"eval": {}, "samples": [sample(calling("bash"), scores={"s": {"value": float("nan")}})]})
    (found,), _ = read("inspect", text)
    assert found.outcome is None


def test_what_webshop_shows_at_its_reset_stands_before_the_first_action():
    found, _ = read("react_notebook", (FIXTURES / "react_notebook" / "input" / "shop.ipynb").read_bytes())
    first, endless, open_end = found
    shown = [step.next_observation or Observation(None) for step in first.steps]
    before = first.steps[0].observation or Observation(None)
    assert first.domain == "web"
    assert first.task.instruction == "a green lamp – under 20 dollars"
    assert [step.action.name for step in first.steps] == ["search", "think", "click", "click"]
    assert (before.content or "").startswith("Webshop \nInstruction:")
    assert "Action: not typed by anybody" in (shown[0].content or "")
    assert [one.origin for one in shown] == ["environment", "harness", "harness", "environment"]
    assert (first.steps[-1].reward, first.steps[-1].terminated) == (0.75, True)
    assert first.outcome == Outcome(False, 0.75, "webshop score")
    assert (endless.steps[-1].truncated, endless.outcome) == (True, None)
    assert open_end.steps[-1].next_observation is None


def test_a_question_that_failed_before_the_model_answered_does_not_hide_the_others():
    failed = {"question": "q", "answer": "a", "error": "Timeout", "messages": [], "prediction": "[Failed]"}
    call = '<think>t</think>\n<tool_call>\n{"name": "search", "arguments": {"query": ["q"]}}\n</tool_call>'
    told = [("system", "s"), ("user", "q"), ("assistant", call), ("user", "<tool_response>\nr\n</tool_response>")]
    whole = {"question": "q", "answer": "a", "messages": [{"role": role, "content": text} for role, text in told]}
    data = "".join(json.dumps(one) + "\n" for one in (failed, whole)).encode()
    assert [one.name for one, _ in sniff(data, "iter1.jsonl")] == ["webdancer"]
    found, rejects = read("webdancer", data)
    assert [step.next_observation for step in found[0].steps] == [Observation("r")]
    assert [one.reason for one in rejects] == ["bad_record"]
    turned = {"task": "t", "tag": [], "type": "chatml", "messages": whole["messages"]}
    assert [one.name for one, _ in sniff(json.dumps(turned).encode() + b"\n", "x.jsonl")] == ["webdancer"]


def test_reflections_are_the_harness_s_in_whichever_order_their_headings_stand():
    told = "You have attempted to answer following question before and failed. Plan:"
    for heads in ((told, "Reflections:"), ("Reflections:", told)):
        lines = [
            "------------- BEGIN CORRECT AGENTS -------------",
            "",
            "Question: Q?",
            *heads,
            "- look",
            "",
            "Thought 1: t",
        ]
        lines += ["Action 1: Search[a]", "Observation 1: b", "Thought 2: t", "Action 2: Finish[c]"]
        (one,), _ = read("react_log", "\n".join([*lines, "Observation 2: Answer is CORRECT", ""]))
        assert one.task.instruction == "Q?"
        assert json.loads(one.steps[0].interleaved or "[]")[0]["content"].startswith(heads[0])


def test_code_of_a_call_that_only_says_python_is_run_by_the_harness_all_the_same():
    talk = [("user", "q"), ("assistant", "<tool_call>\npython\n<code>\nprint(1)\n</code>\n</tool_call>")]
    talk.append(("user", "<tool_response>\n1\n</tool_response>"))
    row = {"question": "q", "messages": [{"role": role, "content": text} for role, text in talk]}
    (one,), _ = read("webdancer", json.dumps(row) + "\n")
    assert (one.steps[0].action.name, one.steps[0].action.arguments) == ("PythonInterpreter", '{"code": "print(1)"}')
