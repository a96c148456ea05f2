"""Answers of MCP shown in the object that they stood in: what is shown, and which characters each span covers."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.pipelines.render.assembled import turn_spans
from tests.pipelines.render.test_turns import row
from trajmill.pipelines.render.fixed_texts import MARKER, STATE
from trajmill.pipelines.render.loss_spans import in_envelope
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import turns

OBJECTS = View(mcp="envelope")
TEXT = st.text(st.sampled_from('aB7 é光😀"\\/\n\t\x01:{}[],'), max_size=30)
WAYS: list[dict[str, Any]] = [{"ensure_ascii": False}, {"ensure_ascii": True, "separators": (",", ":")}]
CLASSES = st.sampled_from(["volatile", "copied", "new"])


def spans_of(content: str, cuts: list[tuple[int, str]]) -> list[tuple[int, int, str]]:
    """Spans that cover a content: each up to a place, and the last up to its end."""
    places = sorted({min(position, len(content)) for position, _ in cuts} | {0, len(content)})
    labels = [label for _, label in cuts] or ["new"]
    return [(begin, end, labels[number % len(labels)]) for number, (begin, end) in enumerate(pairwise(places))]


def envelope_of(texts: list[str], **way: Any) -> str:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    blocks[1:1] = [{"type": "image", "data": "attachment:image/png;bytes=9;sha256=00"}]
    return json.dumps(
        {"content": blocks, "isError": False, "structuredContent": {"text": "other", "n": [1, "b"]}}, **way
    )


@given(st.lists(TEXT, min_size=1, max_size=3), st.lists(st.tuples(st.integers(0, 60), CLASSES), max_size=5))
@example(["text"], [(2, "volatile")])
@example(["", ""], [])
def test_spans_of_the_object_cover_the_characters_that_they_cover_in_the_text(texts, cuts):
    content = "\n".join(texts)
    spans = spans_of(content, cuts)
    for way in WAYS:
        envelope = envelope_of(texts, **way)
        moved = in_envelope(content, envelope, spans)
        assert "".join(envelope[begin:end] for begin, end, _ in moved) == envelope, "all of it, in order"
        whole = {
            label: [content[b:e].replace("\n", "") for b, e, kind in spans if kind == label] for label in ("copied",)
        }
        copied = [json.loads(f'"{envelope[b:e]}"', strict=False) for b, e, label in moved if label == "copied"]
        assert "".join(copied).replace("\n", "") == "".join(whole["copied"])
        volatile = "".join(json.loads(f'"{envelope[b:e]}"', strict=False) for b, e, kind in moved if kind == "volatile")
        for begin, end, label in spans:
            if label == "volatile":
                assert content[begin:end].replace("\n", "") in volatile.replace("\n", "")


def test_what_holds_a_text_together_is_frame_and_what_only_the_object_says_is_new():
    envelope = '{"content":[{"type":"text","text":"a\\nb"}],"isError":true,"_meta":{"took":7}}'
    moved = in_envelope("a\nb", envelope, [(0, 1, "copied"), (1, 3, "new")])
    assert [(envelope[begin:end], label) for begin, end, label in moved] == [
        ('{"content":[{"type":"text","text":"', "frame"),
        ("a", "copied"),
        ("\\nb", "new"),
        ('"}],"isError":true,"_meta":{"took":7}}', "new"),
    ]


def test_a_volatile_word_is_volatile_wherever_the_object_repeats_it():
    content = 'at 12:03:45 "ü" id 77'
    spans = [
        (0, 3, "new"),
        (3, 11, "volatile"),
        (11, 12, "new"),
        (12, 15, "volatile"),
        (15, 19, "new"),
        (19, 21, "volatile"),
    ]
    structured = {"time": "12:03:45", "name": 'a "ü"', "id": 77, "ids": "770", "n": 177, "last": [77]}
    for way in WAYS:
        value = {"content": [{"type": "text", "text": content}], "structuredContent": structured}
        envelope = json.dumps(value, **way)
        words = [
            envelope[begin:end] for begin, end, label in in_envelope(content, envelope, spans) if label == "volatile"
        ]
        quoted = json.dumps('"ü"', **way)[1:-1]
        assert words == ["12:03:45", quoted, "77", "12:03:45", quoted, "77", "77"]


def test_structured_content_that_is_the_text_is_mapped_as_it_stands():
    structured = '{"beds": 2, "names": ["\\"a\\"", "b"]}'
    envelope = f'{{"content": [], "structuredContent": {structured}}}'
    moved = in_envelope(structured, envelope, [(0, 9, "new"), (9, 10, "volatile"), (10, len(structured), "copied")])
    by_label = {label: envelope[begin:end] for begin, end, label in moved}
    assert (by_label["volatile"], by_label["copied"]) == ("2", structured[10:])


def test_a_text_that_the_object_holds_otherwise_has_no_class_but_new():
    assert {label for *_, label in in_envelope("one\ntwo", '{"content": "three"}', [(0, 7, "copied")])} <= {
        "new",
        "frame",
    }


def session() -> list[dict[str, Any]]:
    """Two calls: the state before the second is what the first led to, that before the first what nobody shows."""
    envelopes = [
        '{"content":[{"type":"text","text":"one"}]}',
        '{"content":[{"type":"text","text":"two"}],"isError":true}',
    ]
    rows = [row(0, "a", "one", "zero"), row(1, "b", "two", "one"), row(2, "c", "three", "two")]
    for transition, before, after in zip(rows, [None, *envelopes], [*envelopes, None], strict=True):
        transition |= {"domain": "mcp", "row_id": str(transition["step"])}
        transition["observation"] = {**transition["observation"], "envelope": before}
        transition["next_observation"] = {**transition["next_observation"], "envelope": after}
    return rows


def test_an_answer_is_shown_as_its_object_where_it_has_one_and_states_show_what_answers_showed():
    shown = turns(session(), OBJECTS)
    assert [turn.observation for turn in shown] == [
        '{"content":[{"type":"text","text":"one"}]}',
        '{"content":[{"type":"text","text":"two"}],"isError":true}',
        "three",
    ]
    assert [STATE in turn.user for turn in shown] == [True, False, False]
    assert f"{STATE}zero\n\n" in shown[0].user
    later = turns(session()[1:], OBJECTS)[0]
    assert f'{STATE}{{"content":[{{"type":"text","text":"one"}}]}}\n\n' in later.user, "a window that begins there"
    assert [turn.observation for turn in turns(session())] == ["one", "two", "three"]


def test_spans_of_a_turn_are_those_of_its_object():
    rows = session()
    rows[1] |= {"spans": [{"begin": 0, "end": 1, "label": "volatile"}]}
    turn = turns(rows, OBJECTS)[1]
    labelled = [(turn.assistant[span.begin : span.end], span.label) for span in turn_spans(turn)]
    assert labelled == [
        (MARKER, "frame"),
        ('{"content":[{"type":"text","text":"', "frame"),
        ("t", "volatile"),
        ("wo", "new"),
        ('"}],"isError":true}', "new"),
    ]
