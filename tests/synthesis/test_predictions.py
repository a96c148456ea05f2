"""Predictions of a model, and prompts with tags."""

import hashlib
from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.pipelines.recipe.templates import configs
from trajmill.synthesis.judgements import scores_in
from trajmill.synthesis.predictions import (
    Fault,
    Prediction,
    format_prediction,
    is_plain,
    prediction_of,
    without_thoughts,
)
from trajmill.synthesis.replies import Reply
from trajmill.synthesis.tagged_prompts import tag_system_prompt

TAGGED = "<predicted_observation>\n{}\n</predicted_observation>"


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (Reply(f"<think>\nr\n</think>\n\n{TAGGED.format('o')}"), Prediction("r", "o")),
        (Reply(f"r\n</think>\n\n{TAGGED.format('o')}"), Prediction("r", "o")),
        (Reply(TAGGED.format("o"), reasoning="\nr\n"), Prediction("r", "o")),
        (Reply(f"Here: {TAGGED.format('no')} or {TAGGED.format(' o ')}\n", reasoning="r"), Prediction("r", " o ")),
        (Reply("<predicted_observation></predicted_observation>", reasoning="r"), Prediction("r", "")),
        (Reply(TAGGED.format("\no\n"), reasoning="r"), Prediction("r", "\no\n")),
        (Reply(TAGGED.format("a </think> b"), reasoning="r"), Prediction("r", "a </think> b")),
        (Reply(TAGGED.format("o")), Fault.NO_REASONING),
        (Reply(f"<think></think>{TAGGED.format('o')}"), Fault.NO_REASONING),
        (Reply("o", reasoning="r"), Fault.MALFORMED),
        (Reply("<predicted_observation>\no", reasoning="r"), Fault.MALFORMED),
        (Reply(f"{TAGGED.format('o')} That is all.", reasoning="r"), Fault.MALFORMED),
        (Reply(TAGGED.format("o</predicted_observation>"), reasoning="r"), Fault.MALFORMED),
        (Reply(TAGGED.format("**Environment Observation:**\no"), reasoning="r"), Fault.MALFORMED),
        (Reply(TAGGED.format("o"), reasoning="r </think> r"), Fault.MALFORMED),
        (Reply(TAGGED.format("o"), reasoning="r", finish="length"), Fault.CUT),
        (Reply("", finish="refused"), Fault.REFUSED),
    ],
)
def test_an_answer_is_one_prediction_or_says_why_not(reply, found):
    assert prediction_of(reply) == found


PIECES = st.sampled_from(
    ["a", "\n", " ", "<think>", "</think>", "<predicted_observation>", "</predicted_observation>", "**Environment"]
)


@given(st.lists(PIECES, max_size=6).map("".join), st.lists(PIECES, max_size=6).map("".join))
def test_what_is_written_is_read_as_it_was_or_is_not_plain(reasoning, observation):
    prediction = Prediction(reasoning.strip(), observation)
    result = prediction_of(Reply(format_prediction(prediction)))
    assert (result == prediction) == (is_plain(prediction) and bool(prediction.reasoning))


def test_history_is_shown_without_thoughts():
    assert without_thoughts(format_prediction(Prediction("r", "o"))) == "**Environment Observation:**\no"
    assert without_thoughts("**Environment Observation:**\n<think> o") == "**Environment Observation:**\n<think> o"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('{"a": 5, "b": 1}', {"a": 5, "b": 1}),
        ('I took {"a": 1, "b": 1} first.\n```json\n{"a": 2, "b": 3}\n```', {"a": 2, "b": 3}),
        ('<think>{"a": 1, "b": 1}</think> none', None), ('{"a": 5}', None), ('{"a": 0, "b": 1}', None),
        ('{"a": 6, "b": 1}', None), ('{"a": true, "b": 1}', None), ('{"a": "5", "b": 1}', None),
        ('{"a": 4.5, "b": 1}', None), ("[" * 5000 + "{" * 5000, None), ("", None),
    ],
)  # fmt: skip
def test_only_whole_scores_of_one_to_five_are_scores(content, found):
    assert scores_in(Reply(content), ("a", "b")) == found


ENDING = "\n{%- if tagged %}\n\nTag it.\n{%- else %}\n\nHead it.\n{%- endif %}\n"
TEMPLATE = "A world{% if forms %} of {{ forms }}{% endif %}.\n\nHead it." + ENDING


def own(folder: Path, text: str = TEMPLATE) -> str:
    file = folder / "terminal" / "sft-1.md.j2"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return f"terminal/sft-1@{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def rendered(text: str, tagged: bool) -> str:
    return (
        jinja2.Environment(keep_trailing_newline=True).from_string(text).render(forms="x", tagged=tagged).rstrip("\n")
    )


def test_the_words_that_ask_are_exchanged_and_nothing_else(tmp_path):
    reference = own(tmp_path)
    assert tag_system_prompt(rendered(TEMPLATE, False), reference, tmp_path) == rendered(TEMPLATE, True)


def test_a_template_that_is_not_at_hand_or_says_no_such_words_changes_nothing(tmp_path):
    plain = rendered(TEMPLATE, False)
    own(tmp_path)
    assert tag_system_prompt(plain, "terminal/sft-1@000000000000", tmp_path) == plain
    assert tag_system_prompt(plain, "../terminal/sft-1@000000000000", tmp_path) == plain
    assert tag_system_prompt(plain, own(tmp_path, "A world."), tmp_path) == plain


def test_built_in_templates_that_ask_for_tags_are_exchanged():
    known = dict.fromkeys(("action_space", "initial_state", "demonstrations", "simulation_instruction", "screen"), "")
    flags = dict.fromkeys(("ends", "shows_diffs", "keeps_messages", "native"), False)
    met = 0
    for file in Path(str(configs() / "templates")).glob("*/sft-*.md.j2"):
        text = file.read_text("utf-8")
        if "if tagged" not in text:
            continue
        template = jinja2.Environment(keep_trailing_newline=True).from_string(text)
        before, after = (
            template.render(**known, **flags, forms=[], dialects=[], tagged=tagged).rstrip("\n")
            for tagged in (False, True)
        )
        name = f"{file.parent.name}/{file.name.removesuffix('.md.j2')}"
        assert tag_system_prompt(before, f"{name}@{hashlib.sha256(text.encode()).hexdigest()[:12]}") == after, name
        met += 1
    assert met
