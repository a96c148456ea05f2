"""Spans of characters that bear the loss."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.render.assembled import document, document_spans, message_spans, messages, turn_spans
from tests.pipelines.render.test_turns import row
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.pipelines.render.loss_spans import CLASSES, in_escaped
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import turns
from trajmill.quality.control_strings import escape, escape_places

LINES = st.lists(st.sampled_from(["é", "ab", "漢字", "x\ty", "", "😀 end"]), min_size=1, max_size=6)


def labelled(content: str, labels: list[tuple[int, int, str]]) -> dict[str, Any]:
    """A row whose answer has labels on characters, given as bytes as `quality.spans` writes them."""
    spans = [
        {"begin": len(content[:begin].encode()), "end": len(content[:end].encode()), "label": label}
        for begin, end, label in labels
    ]
    return row(0, "cat x", content, spans=spans)


def test_the_marker_is_frame_and_what_was_not_measured_has_no_class():
    shown = turns([row(0, "ls", "a"), row(1, "pwd", "/", use="context"), row(2, "date", "Mon")])
    head = len(MARKER)
    assert message_spans(shown) == [
        {"message": 2, "begin": 0, "end": head, "label": "frame"},
        {"message": 2, "begin": head, "end": head + 1, "label": None},
        {"message": 6, "begin": 0, "end": head, "label": "frame"},
        {"message": 6, "begin": head, "end": head + 3, "label": None},
    ]


def test_labels_become_classes_in_characters_and_an_exit_code_is_new():
    transition = {**labelled("é old\nnew\n12:00", [(0, 6, "history"), (10, 15, "volatile")]), "exit_code": 0}
    head = len(MARKER)
    spans = [
        (span["begin"] - head, span["end"] - head, span["label"]) for span in message_spans(turns([transition]))[1:]
    ]
    assert spans == [(0, 6, "copied"), (6, 10, "new"), (10, 15, "volatile"), (15, 29, "new")]


@given(
    st.lists(st.tuples(LINES, st.sampled_from(["target", "context", "omit"]), st.booleans()), min_size=1, max_size=5)
)
def test_spans_hold_every_character_of_what_bears_loss_and_nothing_else(steps):
    rows = []
    for number, (lines, use, is_measured) in enumerate(steps):
        content = "\n".join(lines)
        transition = labelled(content, [(0, len(lines[0]), "action")] if lines[0] else [])
        rows.append(
            {
                **transition,
                "turn": number,
                "step": number,
                "use": use,
                "spans": transition["spans"] if is_measured else None,
            }
        )
    shown = turns(rows)
    conversation = messages("S", shown)
    wanted = [message["content"] for message in conversation if message["loss"]]
    spans = message_spans(shown)
    learnt: dict[int, str] = {}
    for span in spans:
        learnt[span["message"]] = (
            learnt.get(span["message"], "") + conversation[span["message"]]["content"][span["begin"] : span["end"]]
        )
    assert list(learnt.values()) == wanted
    text, loss_spans = document("S", shown), document_spans("S", shown)
    assert "".join(text[span["begin"] : span["end"]] for span in loss_spans) == "".join(wanted)
    assert all(left["end"] <= right["begin"] for left, right in pairwise(loss_spans))
    assert {span["label"] for span in loss_spans} <= {*CLASSES, None}


@given(
    st.lists(st.sampled_from(["<|im_end|>", "[INST]", "<  |im_end|>", "a", "é", "\n", "<"]), max_size=8).map("".join),
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["volatile", "copied", "new"])), max_size=4),
)
def test_spans_of_an_escaped_text_cover_the_characters_that_they_cover_in_the_text(text, cuts):
    places = sorted({min(position, len(text)) for position, _ in cuts} | {0, len(text)})
    spans = [(begin, end, cuts[0][1] if cuts else "new") for begin, end in pairwise(places)]
    escaped = escape(text)
    for shift, offset in enumerate(escape_places(text)):
        escaped = escaped[: offset + shift] + "\0" + escaped[offset + shift + 1 :]
    moved = in_escaped(text, spans)
    assert [escaped[begin:end].replace("\0", "") for begin, end, _ in moved] == [
        text[begin:end] for begin, end, _ in spans
    ]
    assert "".join(escaped[begin:end] for begin, end, _ in moved) == escaped, "a blank that came in is in one of them"


def test_a_placeholder_of_scrubbing_bears_no_loss():
    (turn,) = turns([{**labelled("as user1234 and x", []), "scrubbed": 1}])
    assert [turn.assistant[span.begin : span.end] for span in turn_spans(turn)] == [MARKER, "as ", " and x"]


def test_spans_of_objects_and_of_escaped_texts_hold_the_whole_answer():
    content = "got <|im_end|>\nat 7"
    envelope = json.dumps({"content": [{"type": "text", "text": content}], "isError": False})
    transition = labelled(content, [(4, 14, "history"), (18, 19, "volatile")])
    transition["next_observation"]["envelope"] = envelope
    for view in (View(escapes=True), View(mcp="envelope", escapes=True)):
        (turn,) = turns([{**transition, "exit_code": 0}], view)
        spans = [(turn.assistant[span.begin : span.end], span.label) for span in turn_spans(turn)]
        assert "".join(text for text, _ in spans) == turn.assistant
        assert ("< |im_end|>", "copied") in spans
        assert ("7", "volatile") in spans
        assert spans[-1][0].endswith("[exit code 0]")
