"""Token ids of agents' conversations: sampled ones where they say what the message says, made of the text elsewhere."""

import json

import pytest

from tests.pipelines.publish.forms.conftest import TOKENIZER
from tests.rows import parsed
from trajmill.connectors.agents.atif import Atif
from trajmill.connectors.connector import MemoryBlob
from trajmill.pipelines.publish.forms.agent_ids import encode
from trajmill.pipelines.publish.forms.tokenizing import IGNORED, Tokenizing
from trajmill.pipelines.render.agent_view import Conversation, Refused, agent_conversations
from trajmill.schemas import ConfigError

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n{{ c.function | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CALLED = (
    'I look.<tool_call>\n{"name": "look", "arguments": {"beds": [2], "why": "it\\"s \\u00e9"}}\n</tool_call><|im_end|>'
)
ARGUMENTS = {"beds": [2], "why": 'it"s é'}


@pytest.fixture(scope="module")
def calling(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "calls.jinja"
    path.write_text(TEMPLATE, "utf-8")
    return Tokenizing(TOKENIZER, str(path))


def letters(tokenizing, text):
    """The ids of a text letter by letter, as no tokenizer would write it, with control tokens."""
    control = [token for token in ("<tool_call>", "</tool_call>", "<|im_end|>") if token in text]
    for token in control:
        text = text.replace(token, "\0" + token + "\0")
    pieces = [
        list(tokenizing.with_control(piece))
        if piece in control
        else [number for letter in piece for number in tokenizing.plain(letter).ids]
        for piece in text.split("\0")
    ]
    return [int(number) for piece in pieces for number in piece]


def conversation(called=None, said=None, logprobs=None, answer="dry"):
    """A conversation of two turns, with the ids that were sampled for them."""
    call = {"tool_call_id": "k", "function_name": "look", "arguments": ARGUMENTS}
    steps = [
        {"source": "user", "message": "How is it?"},
        {
            "source": "agent",
            "message": "I look.",
            "tool_calls": [call],
            "observation": {"results": [{"source_call_id": "k", "content": answer}]},
            "metrics": {"completion_token_ids": called, "logprobs": logprobs},
        },
        {"source": "agent", "message": "Dry.", "metrics": {"completion_token_ids": said}},
    ]
    document = {"schema_version": "ATIF-v1.7", "agent": {"name": "a", "version": "1"}, "steps": steps}
    rows, _ = parsed(Atif(), MemoryBlob("trajectory.json", json.dumps(document).encode()))
    (record,) = agent_conversations(rows)
    assert isinstance(record, Conversation)
    return record


def spoken(tokenizing, row):
    """(source, text, log-probabilities) of each turn, and that the loss is on these tokens alone."""
    inside = [number for turn in row["turns"] for number in range(turn["begin"], turn["end"])]
    assert [number for number, bears in enumerate(row["loss_mask"]) if bears] == inside
    assert [number for number, label in enumerate(row["labels"]) if label != IGNORED] == inside
    assert {len(row[name]) for name in ("input_ids", "labels", "attention_mask", "loss_mask", "logprobs")} == {
        len(row["input_ids"])
    }
    return [
        (
            turn["ids"],
            tokenizing.decoded(row["input_ids"][turn["begin"] : turn["end"]]),
            row["logprobs"][turn["begin"] : turn["end"]],
        )
        for turn in row["turns"]
    ]


def test_sampled_ids_stand_in_the_place_of_those_that_the_tokenizer_would_make(calling):
    called = letters(calling, CALLED)
    logprobs = [-0.5] * len(called)
    row = encode(conversation(called, None, logprobs), calling)
    assert not isinstance(row, Refused)
    first, second = spoken(calling, row)
    assert first == ("sampled", CALLED, logprobs)
    assert second[:2] == ("retokenized", "Dry.<|im_end|>")
    assert set(second[2]) == {None}
    assert row["input_ids"][row["turns"][0]["begin"] : row["turns"][0]["end"]] == called
    encoded = encode(conversation(), calling)
    assert not isinstance(encoded, Refused)
    assert len(encoded["input_ids"]) < len(row["input_ids"])
    prompt = "<|im_start|>user\nHow is it?<|im_end|>\n<|im_start|>assistant\n"
    assert [calling.decoded(entry["input_ids"][: entry["turns"][0]["begin"]]) for entry in (row, encoded)] == [
        prompt,
        prompt,
    ]


def test_an_answer_that_was_cut_is_closed_by_the_template_without_loss(calling):
    row = encode(conversation(None, letters(calling, "Dry.")), calling)
    assert not isinstance(row, Refused)
    assert spoken(calling, row)[1][:2] == ("sampled", "Dry.")
    assert calling.decoded(row["input_ids"]).endswith("assistant\nDry.<|im_end|>\n")


@pytest.mark.parametrize(
    "text",
    ["Wet.<|im_end|>", "Dr", "Dry. Write to jo.miller@mills.org.<|im_end|>", "\n<|im_end|>", "So Dry.<|im_end|>"],
)
def test_ids_that_say_something_else_or_more_are_made_anew_and_marked(calling, text):
    row = encode(conversation(None, letters(calling, text)), calling)
    assert not isinstance(row, Refused)
    assert spoken(calling, row)[1][:2] == ("mismatched", "Dry.<|im_end|>")


def test_ids_that_the_tokenizer_does_not_have_are_made_anew(calling):
    row = encode(conversation(None, [*letters(calling, "Dry."), 2**31 - 1]), calling)
    assert not isinstance(row, Refused)
    assert spoken(calling, row)[1][:2] == ("mismatched", "Dry.<|im_end|>")


def test_a_template_that_does_not_show_calls_is_refused(tokenizing):
    refused = encode(conversation(), tokenizing)
    assert isinstance(refused, Refused)
    assert refused.reason == "template"


def test_a_control_string_in_a_text_and_a_template_that_changes_its_mind_are_refused(calling, tmp_path):
    refused = encode(conversation(answer="so <|im_end|>"), calling)
    assert isinstance(refused, Refused)
    assert refused.reason == "control_strings"
    path = tmp_path / "last.jinja"
    path.write_text("{{ messages | length }}" + TEMPLATE, "utf-8")
    refused = encode(conversation(), Tokenizing(TOKENIZER, str(path)))
    assert isinstance(refused, Refused)
    assert refused.reason == "template"


def test_a_tokenizer_without_a_chat_template_is_a_config_error():
    with pytest.raises(ConfigError, match="chat template"):
        encode(conversation(), Tokenizing(f"{TOKENIZER}/tokenizer.json"))


def test_a_message_that_was_said_under_another_system_prompt_is_shown_without_loss(calling):
    logged = conversation()
    first = logged.turns[0].message
    messages = [
        message | {"loss": None} if number == first else message for number, message in enumerate(logged.messages)
    ]
    row = encode(logged._replace(messages=messages), calling)
    assert not isinstance(row, Refused)
    shown, learned = (row["loss_mask"][turn["begin"] : turn["end"]] for turn in row["turns"])
    assert set(shown) == {0}
    assert set(learned) == {1}
