import numpy as np
import pytest

from benchmarks.effect.arms import ALL_TEXT, EVERYTHING, Arm
from benchmarks.effect.corpus import Shown
from benchmarks.effect.documents import CLASSES, Tokens, trained
from benchmarks.effect.measurement import changed_in
from trajmill.pipelines.recipe.recipe import SpanClass
from trajmill.pipelines.render.loss_spans import Answer
from trajmill.pipelines.render.turns import Turn

ANSWER = "größe 12\nMon 09:30\n$ ls\nneu ü\n"
PARTS = (
    ("größe ", None),
    ("12", "history"),
    ("\n", None),
    ("Mon 09:30", "volatile"),
    ("\n", None),
    ("$ ls", "action"),
)


def turn(step=0, loss=True):
    """A turn whose answer has a span of each kind, in bytes."""
    spans, at = [], 0
    for text, label in PARTS:
        end = at + len(text.encode())
        spans += [{"begin": at, "end": end, "label": label}] if label else []
        at = end
    after = {"content": ANSWER, "origin": "environment", "form": "stream", "dialect": None}
    answer = Answer(ANSWER, key=f"t:{step}", labels=spans, content=ANSWER, shown=ANSWER)
    return Turn(step, "### Turn 1\nls", answer, loss, {"row_id": f"r{step}", "next_observation": after})


@pytest.fixture(scope="module")
def tokens():
    return Tokens(trained([]))  # a token a byte


def document(tokens, arm, *turns):
    return tokens.document(Shown(0, 0, "g", turns or (turn(),)), arm, 0, labelled=True)


def spans_arm(weights: dict[SpanClass, float] | None = None) -> Arm:
    return Arm("one", EVERYTHING, "classes", loss="spans", weights=weights or {})


def borne(found):
    """The text of the answer that bears the loss, a byte a token."""
    is_answer = found.sizes > 0
    return bytes(np.frombuffer(ANSWER.encode(), np.uint8)[found.borne[is_answer]]).decode("utf-8", "replace")


def test_bytes_have_the_class_of_their_character(tokens):
    kinds = document(tokens, Arm(EVERYTHING, "", "")).kinds
    said = [CLASSES[kind] for kind in kinds[kinds > 0]][:-1]
    told = {"history": "copied", "volatile": "volatile", "action": "copied"}
    expected = [told.get(label or "", "new") for text, label in PARTS for _ in text.encode()]
    assert said == expected + ["new"] * (len(said) - len(expected))


def test_a_class_without_loss_is_what_a_mixture_leaves_out(tokens):
    assert borne(document(tokens, spans_arm())) == ANSWER
    assert borne(document(tokens, spans_arm({"copied": 0.0}))) == ANSWER.replace("$ ls", "").replace("12", "")
    assert "09:30" in borne(document(tokens, spans_arm({"volatile": 0.0})))  # the only one of a sample stays


def test_context_bears_nothing_but_where_all_text_does(tokens):
    assert not document(tokens, spans_arm(), turn(loss=False)).borne.any()
    assert document(tokens, Arm(ALL_TEXT, "", "", loss="all"), turn(loss=False)).borne.all()


def test_trajectories_count_as_changed_where_text_or_loss_differs(tokens):
    whole, new = document(tokens, Arm(EVERYTHING, "", "")), document(tokens, spans_arm({"copied": 0.0}))
    assert changed_in([whole], [whole]) == 0
    assert changed_in([whole], [new]) == 1
    assert changed_in([whole], []) == 1
