"""The agent view says what logs say, message for message, and what of it they do not hold."""

import json
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.agent_requests import compare_requests
from tests.conftest import ROOT, corpora_folder
from tests.rows import blob_at, parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.pipelines.render.agent_view import Conversation, agent_conversations
from trajmill.schemas import sampled_text

FIXTURES = ROOT / "tests" / "fixtures"

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("look", "dig")]


def asked(name, key, arguments):
    return {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}


TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "You garden.\n\n"},
    {"role": "user", "content": "  How is bed 2? "},
    {
        "role": "assistant",
        "content": "A moment.",
        "reasoning_content": "Both.",
        "tool_calls": [asked("look", "a", '{"bed": 2, "depth": 1.5}'), asked("dig", "b", '{"bed": }')],
    },
    {"role": "tool", "tool_call_id": "a", "name": "look", "content": '{"soil":  "dry"}\n'},
    {"role": "tool", "tool_call_id": "b", "name": "dig", "content": "invalid arguments"},
    {"role": "user", "content": "Only look."},
    {"role": "user", "content": "Please."},
    {"role": "assistant", "content": "Dry. More?"},
    {"role": "user", "content": "Yes: bed 3."},
    {"role": "assistant", "content": None, "tool_calls": [asked("look", "a", '{"bed": 3}')]},
    {"role": "tool", "tool_call_id": "a", "name": "look", "content": ""},
    {"role": "assistant", "content": "Nothing there."},
]


def rows_of(talk, tools=TOOLS):
    data = json.dumps({"tools": tools, "messages": talk}, ensure_ascii=False).encode()
    rows, _ = parsed(connectors()["chat_tools"], MemoryBlob("talk.json", data))
    return rows


def conversations(name, blob):
    rows, _ = parsed(connectors()[name], blob)
    return [agent_conversation(list(group)) for _, group in groupby(rows, key=lambda row: row["trajectory_id"])]


def agent_conversation(rows, reasoning="keep"):
    """The conversation of a trajectory that was not compacted."""
    (conversation,) = agent_conversations(rows, reasoning)
    return conversation


def departures(conversation):
    """What of a conversation is not as the log has it."""
    return {name: value for name, value in conversation.fidelity._asdict().items() if value != "logged"}


def text_of(content):
    if isinstance(content, list):
        spoken = [block for block in content if block.get("type", "text") in ("text", "tool_reference")]
        return "\n".join(block["text"] if "text" in block else json.dumps(block) for block in spoken)
    return content or ""


def arguments_of(written):
    try:
        return json.loads(written or "{}") if isinstance(written, str) else written
    except ValueError:
        return written


def plain(messages):
    """Messages of OpenAI's or Anthropic's shape as (role, text, calls or id), answers of a turn in order of ids."""
    entries: list[tuple[Any, ...]] = []
    for message in messages:
        blocks = message["content"] if isinstance(message.get("content"), list) else []
        calls = message.get("tool_calls") or []
        calls = json.loads(calls) if isinstance(calls, str) else calls
        requests = [
            (call["id"], call["function"]["name"], arguments_of(call["function"]["arguments"])) for call in calls
        ]
        requests += [
            (block["id"], block["name"], block["input"]) for block in blocks if block.get("type") == "tool_use"
        ]
        answers = [
            ("tool", text_of(block.get("content")), block["tool_use_id"])
            for block in blocks
            if block.get("type") == "tool_result"
        ]
        if message["role"] == "tool":
            answers.append(("tool", text_of(message.get("content")), message["tool_call_id"]))
        entries += answers
        if not answers or (message["role"] == "user" and text_of(message.get("content"))):
            entries.append(
                (message["role"].replace("developer", "system"), text_of(message.get("content")), requests or None)
            )
    ordered: list[tuple[Any, ...]] = []
    for is_answer, members in groupby(entries, key=lambda entry: entry[0] == "tool"):
        group = list(members)
        ordered += sorted(group, key=lambda entry: entry[2]) if is_answer else group
    while ordered and ordered[-1][0] == "user":
        ordered.pop()
    return ordered


def test_a_conversation_comes_back_message_for_message_with_its_tools():
    conversation = agent_conversation(rows_of(TALK))
    assert isinstance(conversation, Conversation)
    assert plain(conversation.messages) == plain(TALK)
    assert [message["reasoning_content"] for message in conversation.messages if message["role"] == "assistant"] == [
        message.get("reasoning_content") for message in TALK if message["role"] == "assistant"
    ]
    assert json.loads(conversation.tools or "") == TOOLS


def without(number):
    return [*TALK[:number], *TALK[number + 1 :]]


def restored(talk, tools=TOOLS):
    conversation = agent_conversation(rows_of(talk, tools))
    assert isinstance(conversation, Conversation), conversation
    return conversation


def test_words_of_the_harness_are_a_user_named_harness_and_the_row_says_so():
    note = {"role": "system", "content": "Two calls are left."}
    conversation = restored([*TALK[:5], note, *TALK[5:]])
    assert [(message["role"], message["content"], message["name"]) for message in conversation.messages[5:7]] == [
        ("user", "Two calls are left.", "harness"),
        ("user", "Only look.", None),
    ]
    assert departures(conversation) == {"harness": "as_user"}


def test_a_conversation_ends_with_the_call_whose_answer_is_not_logged():
    conversation = restored(without(4))
    assert plain(conversation.messages) == plain(TALK[:3])
    assert departures(conversation) == {"end": "unanswered"}


def test_a_conversation_ends_before_a_picture_that_the_agent_saw():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,bm90IGEgcGljdHVyZQ=="}}
    seen = {"role": "user", "content": [{"type": "text", "text": "See."}, picture]}
    conversation = restored([*TALK[:8], seen, *TALK[9:]])
    assert plain(conversation.messages) == plain(TALK[:8])
    assert departures(conversation) == {"end": "attachments"}


def test_a_missing_task_and_system_prompt_are_told():
    assert departures(restored(TALK[2:5])) == {"system": "not_logged", "task": "not_logged"}
    assert [message["role"] for message in restored(TALK[2:5]).messages] == ["assistant", "tool", "tool"]


def test_tools_that_the_log_does_not_declare_are_not_made_up():
    conversation = restored(TALK, [])
    assert conversation.tools is None
    assert departures(conversation) == {"tools": "not_logged"}


def test_answers_of_calls_with_one_id_stand_in_the_order_of_the_calls():
    talk = [
        *TALK[:2],
        {"role": "assistant", "content": None, "tool_calls": [asked("look", "a", "{}"), asked("dig", "a", "{}")]},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "tool", "tool_call_id": "a", "content": "y"},
    ]
    conversation = restored(talk)
    assert [(message["name"], message["content"]) for message in conversation.messages[3:]] == [
        ("look", "x"),
        ("dig", "y"),
    ]


def test_a_call_that_the_provider_answered_is_a_message_with_its_answer():
    talk = [
        *TALK[:2],
        {"role": "assistant", "content": None, "tool_calls": [asked("look", "mcp_0a1b", "{}")]},
        {"role": "tool", "tool_call_id": "mcp_0a1b", "content": "x"},
        {"role": "assistant", "content": "x it is."},
    ]
    conversation = restored(talk)
    assert [message["role"] for message in conversation.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert departures(conversation) == {"calls": "hosted"}


def changed(rows, index, **more):
    return [{**row, **more} if number == index else row for number, row in enumerate(rows)]


def test_a_part_of_a_conversation_is_refused():
    rows = rows_of(TALK)
    assert agent_conversation(rows[1:])[0] == "incomplete"
    assert agent_conversation(changed(rows, 0, relation="continuation"))[0] == "continuation"
    shown = rows[0]["next_observation"]
    assert agent_conversation(changed(rows, 0, observation={**shown, "content": "A screen."}))[0] == "unasked"


def test_a_conversation_ends_before_a_turn_to_which_nobody_said_anything():
    rows = changed(rows_of([*TALK[:2], *TALK[7:]]), 1, observation=None)
    alone = changed(rows, 0, next_observation=None)
    conversation = agent_conversation(alone)
    assert conversation.messages[-1]["content"] == "Dry. More?"
    assert departures(conversation) == {"end": "unanswered"}
    interleaved = json.dumps([{"role": "user", "content": "Go on."}])
    conversation = agent_conversation(changed(alone, 1, interleaved=interleaved))
    assert [message["content"] for message in conversation.messages[2:4]] == ["Dry. More?", "Go on."]
    assert departures(conversation) == {}


@pytest.mark.parametrize(
    ("more", "reason"), [({"truncation": "recorder"}, "truncated"), ({"dialect": "uitree/1"}, "rewritten")]
)
def test_an_answer_that_the_rows_do_not_hold_as_it_was_ends_the_conversation(more, reason):
    rows = rows_of(TALK)
    conversation = agent_conversation(changed(rows, 0, next_observation={**rows[0]["next_observation"], **more}))
    assert isinstance(conversation, Conversation)
    assert [message["role"] for message in conversation.messages] == ["system", "user", "assistant"]
    assert departures(conversation) == {"end": reason}


def test_an_exit_status_beside_its_answer_is_told():
    conversation = agent_conversation(changed(rows_of(TALK), 0, exit_code=0))
    assert isinstance(conversation, Conversation)
    assert departures(conversation) == {"answers": "unwrapped"}


def test_what_the_agent_said_between_calls_stands_before_them():
    rows = rows_of(TALK)
    action = {**rows[1]["action"], "message": "And dig.", "reasoning": None}
    conversation = agent_conversation(changed(rows, 1, action=action))
    assert isinstance(conversation, Conversation)
    assert conversation.messages[2]["content"] == "A moment.\n\nAnd dig."
    assert departures(conversation) == {"words": "joined"}


@pytest.mark.parametrize(("reasoning", "stays"), [("keep", ["One.", "Two."]), ("strip", []), ("last", ["Two."])])
def test_reasoning_stays_as_it_is_asked_for(reasoning, stays):
    talk: list[dict[str, Any]] = [
        {"role": "user", "content": "Bed 1?"},
        {"role": "assistant", "content": "Dry.", "reasoning_content": "One."},
        {"role": "user", "content": "Bed 2?"},
        {"role": "assistant", "content": None, "reasoning_content": "Two.", "tool_calls": [asked("look", "a", "{}")]},
        {"role": "tool", "tool_call_id": "a", "content": "wet"},
        {"role": "system", "content": "One call is left."},
        {"role": "assistant", "content": "Wet."},
    ]
    conversation = agent_conversation(rows_of(talk), reasoning)
    assert isinstance(conversation, Conversation)
    assert [message["reasoning_content"] for message in conversation.messages if message["reasoning_content"]] == stays
    assert [message["content"] for message in conversation.messages] == [message["content"] for message in talk]


def test_what_was_sampled_for_words_and_reasoning_goes_where_the_reasoning_goes():
    rows = rows_of([*TALK[:5], TALK[7]])
    sampled = [sampled_text([7, 9], [-0.5, -1.0]), None, sampled_text([8], None)]
    for row, text in zip(rows, sampled, strict=True):
        row["action"]["sampled"] = text
    whole, stripped = agent_conversation(rows), agent_conversation(rows, "strip")
    assert whole.turns == [(2, "sampled", [7, 9], [-0.5, -1.0]), (5, "sampled", [8], None)]
    assert stripped.turns == [(2, "retokenized", None, None), (5, "sampled", [8], None)]


def test_what_follows_a_compaction_begins_with_its_summary():
    rows = rows_of(TALK)
    interleaved = json.dumps(
        [{"role": "user", "content": "Gone."}, {"role": "compaction", "content": "Bed 2 was dry."}]
    )
    first, second = agent_conversations(changed(rows, 2, interleaved=interleaved))
    assert isinstance(first, Conversation)
    assert isinstance(second, Conversation)
    assert plain(first.messages) == plain(TALK[:5])
    assert [(message["role"], message["content"]) for message in second.messages[:3]] == [
        ("system", TALK[0]["content"]),
        ("user", "Bed 2 was dry."),
        ("assistant", "Dry. More?"),
    ]
    assert plain(second.messages)[3:] == plain(TALK)[8:]
    assert (first.fidelity.begin, second.fidelity.begin) == ("logged", "compacted")


def test_recordings_of_what_was_done_are_no_conversations():
    rows, _ = parsed(connectors()["har"], blob_at(FIXTURES / "har" / "input" / "chrome.har"))
    assert agent_conversation(rows[: rows[0]["num_steps"]])[0] == "no_conversation"


def test_what_a_simulated_user_was_told_is_not_shown_to_the_agent():
    (conversation, *_) = conversations("tau2", blob_at(FIXTURES / "tau2" / "input" / "results.json"))
    assert isinstance(conversation, Conversation)
    assert [(message["role"], message["content"]) for message in conversation.messages[:4]] == [
        ("system", conversation.messages[0]["content"]),
        ("assistant", "Hi! How can I help you today?"),
        ("user", "My line is dead."),
        ("assistant", "I look at two things."),
    ]
    assert not any("Your line is dead." in (message["content"] or "") for message in conversation.messages)


def lists_of_messages(value):
    """Every list of messages in a document, with the system prompt beside it."""
    if isinstance(value, str) and '"messages"' in value:
        try:
            value = json.loads(value)
        except ValueError:
            return
    if isinstance(value, dict):
        messages = value.get("messages") or value.get("traj")
        if isinstance(messages, list):
            system = value.get("system")
            yield ([{"role": "system", "content": system}] if system else []) + messages
        for item in value.values():
            yield from lists_of_messages(item)
    elif isinstance(value, list):
        for item in value:
            yield from lists_of_messages(item)


def as_logged(path: Path) -> list[list[tuple[Any, ...]]]:
    text = path.read_text()
    if path.suffix == ".jsonl":
        values = [json.loads(line) for line in text.splitlines() if line.strip()]
        if "role" in values[0]:
            values = [{"messages": values}]
    else:
        values = [yaml.load(text, yaml.CSafeLoader) if path.suffix == ".yaml" else json.loads(text)]
    return [plain(messages) for messages in lists_of_messages(values)]


@pytest.mark.parametrize(
    ("name", "path"),
    [("chat_tools", "anthropic.jsonl"), ("tau_bench", "tools.json"), ("vcr_cassette", "agent_and_server.yaml")],
)
def test_what_a_fixture_says_comes_back(name, path):
    file = FIXTURES / name / "input" / path
    talks = [
        conversation for conversation in conversations(name, blob_at(file)) if isinstance(conversation, Conversation)
    ]
    talks = [conversation for conversation in talks if not departures(conversation).keys() & {"calls", "end"}]
    assert talks
    logged = as_logged(file)
    for conversation in talks:
        mine = plain(conversation.messages)
        # the last answer of the model stands beside the messages that it was asked with
        assert any(messages in (mine, mine[:-1]) for messages in logged), mine


def test_what_logs_of_tau_bench_say_comes_back():
    folder = corpora_folder()
    if folder is None:
        pytest.skip("no corpora beside the repository")
    files = sorted((folder / "mcp" / "tau_bench_results").rglob("*.json"))
    count = 0
    for file in files:
        rows, _ = parsed(connectors()["tau_bench"], blob_at(file)) if file.name.startswith("gpt-4o-air") else ([], [])
        logged = as_logged(file) if rows else []
        for _, group in groupby(rows, key=lambda row: row["trajectory_id"]):
            conversation = agent_conversation(list(group))
            assert isinstance(conversation, Conversation)
            assert plain(conversation.messages) in logged
            count += 1
    assert count > 20


def cassette_of(path, requests, answers):
    """A cassette of requests to OpenAI, each with the message that answered it."""
    interactions = [
        {
            "request": {
                "method": "POST",
                "uri": "https://api.openai.com/v1/chat/completions",
                "headers": {},
                "body": json.dumps({"model": "m", "tools": TOOLS, "messages": messages}),
            },
            "response": {
                "status": {"code": 200, "message": ""},
                "headers": {},
                "body": {"string": json.dumps({"choices": [{"message": answer}], "model": "m"})},
            },
        }
        for messages, answer in zip(requests, answers, strict=True)
    ]
    path.write_text(json.dumps({"interactions": interactions, "version": 1}))
    return path


def test_an_agent_that_takes_over_has_a_conversation_under_its_own_system_prompt(tmp_path):
    words: list[dict[str, Any]] = [{"role": "user", "content": "How is bed 2?"}]
    words.append({"role": "assistant", "content": None, "tool_calls": [asked("hand_over", "a", "{}")]})
    words.append({"role": "tool", "tool_call_id": "a", "content": "to the gardener"})
    words.append({"role": "assistant", "content": None, "tool_calls": [asked("look", "b", '{"bed": 2}')]})
    words.append({"role": "tool", "tool_call_id": "b", "content": "dry"})
    words.append({"role": "assistant", "content": "Dry."})
    first, second = ({"role": "system", "content": text} for text in ("You greet.", "You garden."))
    requests = [[first, words[0]], [second, *words[:3]], [second, *words[:5]]]
    path = cassette_of(tmp_path / "taken_over.json", requests, [words[1], words[3], words[5]])
    rows, _ = parsed(connectors()["vcr_cassette"], blob_at(path))
    greeting, gardening = agent_conversations(rows)
    assert isinstance(greeting, Conversation)
    assert isinstance(gardening, Conversation)
    assert plain(greeting.messages) == plain([first, *words[:3]])
    assert plain(gardening.messages) == plain([second, *words])
    assert [message["loss"] for message in gardening.messages if message["role"] == "assistant"] == [None, True, True]
    assert [comparison.outcome for comparison in compare_requests(path)] == 3 * ["restored"]


def test_a_thought_that_a_history_tells_again_is_thought_once(tmp_path):
    thought = {"role": "assistant", "content": None, "reasoning_content": "Look first."}
    called = {**thought, "tool_calls": [asked("look", "a", '{"bed": 2}')]}
    words = [TALK[1], called, {"role": "tool", "tool_call_id": "a", "content": "dry"}]
    path = cassette_of(
        tmp_path / "broken_off.json", [words[:1], words], [thought, {"role": "assistant", "content": "Dry."}]
    )
    rows, _ = parsed(connectors()["vcr_cassette"], blob_at(path))
    conversation = agent_conversation(rows)
    assert [message["reasoning_content"] for message in conversation.messages if message["role"] == "assistant"] == [
        "Look first.",
        None,
    ]


def test_a_request_to_try_again_stands_behind_its_answer_again():
    refused = {"role": "tool", "tool_call_id": "a", "content": "No bed 9.\n\nFix the errors and try again."}
    talk = [*TALK[:2], {**TALK[9], "tool_calls": [asked("look", "a", '{"bed": 9}')]}, refused, *TALK[9:]]
    conversation = restored(talk)
    assert plain(conversation.messages) == plain(talk)
    assert departures(conversation) == {}


def test_a_request_that_says_something_else_is_not_restored(tmp_path):
    requests = [TALK[:2], TALK[:7], TALK[:9]]
    path = cassette_of(tmp_path / "talk.json", requests, [TALK[2], TALK[7], TALK[9]])
    assert [comparison.outcome for comparison in compare_requests(path)] == 3 * ["restored"]
    path.write_text(path.read_text().replace("Only look", "Only dig", 1))
    assert [comparison.outcome for comparison in compare_requests(path)].count("restored") < 3


def test_requests_of_cassettes_come_back():
    folder = corpora_folder()
    if folder is None:
        pytest.skip("no corpora beside the repository")
    files = sorted((folder / "mcp").glob("vcr*/**/*.yaml"))
    outcomes = Counter(comparison.outcome for file in files for comparison in compare_requests(file))
    assert outcomes["restored"] > 40
    assert outcomes["restored"] >= 0.9 * (outcomes["restored"] + outcomes["differs"])


TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' %}{% generation %}{{ m.reasoning_content or '' }}{{ m.content or '' }}
{%- for call in m.tool_calls or [] %}<call>{{ call.function.name }} {{ call.function.arguments }}{% endfor %}<|im_end|>
{%- endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}
{% endfor %}"""


def test_a_trainer_that_masks_by_the_template_trains_what_the_agent_said_and_nothing_else():
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(ROOT / "tests" / "fixtures" / "tokenizer"))
    messages = [
        {**message, "tool_calls": json.loads(message["tool_calls"] or "[]")} for message in restored(TALK).messages
    ]
    encoding = tokenizer.apply_chat_template(
        messages, chat_template=TEMPLATE, return_dict=True, return_assistant_tokens_mask=True
    )
    trained = [token for token, mask in zip(encoding["input_ids"], encoding["assistant_masks"], strict=True) if mask]
    assert tokenizer.decode(trained) == "".join(
        [
            'Both.A moment.<call>look {"bed": 2, "depth": 1.5}<call>dig {"bed": }<|im_end|>',
            "Dry. More?<|im_end|>",
            '<call>look {"bed": 3}<|im_end|>',
            "Nothing there.<|im_end|>",
        ]
    )
