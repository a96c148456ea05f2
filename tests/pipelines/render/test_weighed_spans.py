"""Spans that are drawn to bear the loss."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.render.assembled import samples_of
from tests.pipelines.render.test_turns import row
from trajmill.pipelines.recipe.recipe import LOSS_WEIGHTS, Mix
from trajmill.pipelines.render.loss_spans import CLASSES, LossSpan, SpanWeights, answer_spans, draw_spans
from trajmill.pipelines.render.turns import turns

PIECES = st.lists(st.sampled_from(["volatile", "frame", "history", "action", None]), min_size=1, max_size=30)
SESSIONS = st.lists(PIECES, min_size=1, max_size=5)
WEIGHTS = st.dictionaries(st.sampled_from(CLASSES), st.sampled_from([0.0, 0.1, 0.5, 1.0]))


def answered(number: int, labels: list[str | None]) -> dict[str, Any]:
    """A row whose answer is made of pieces of three letters, each with its label, None for what is new."""
    spans = [{"begin": 4 * index, "end": 4 * index + 3, "label": label} for index, label in enumerate(labels) if label]
    return row(number, "x", " ".join(["abc"] * len(labels)), spans=spans)


def spans(session: list[list[str | None]], weights: SpanWeights | None = None, begin: int = 0) -> list[list[LossSpan]]:
    """The spans of each answer of a session from a step on, those that are drawn if weights are given."""
    shown = turns([answered(number, labels) for number, labels in enumerate(session)])[begin:]
    every = [(turn.answer.key, answer_spans(turn.answer)) for turn in shown]
    return [own for _, own in every] if weights is None else draw_spans(every, weights)


@given(SESSIONS, WEIGHTS, st.integers(0, 3))
def test_what_is_drawn_is_of_what_bears_the_loss_and_by_its_class(session, weights, seed):
    every = spans(session)
    drawn = spans(session, SpanWeights(weights, seed))
    assert all(set(part) <= set(all_) and part == sorted(part) for part, all_ in zip(drawn, every, strict=True))
    assert all(part[0] == all_[0] for part, all_ in zip(drawn, every, strict=True)), "the marker"
    for label in CLASSES:
        taken = [span for spans in drawn for span in spans[1:] if span.label == label]
        whole = [span for spans in every for span in spans[1:] if span.label == label]
        if weights.get(label, 1.0) == 1:
            assert taken == whole
        if weights.get(label, 1.0) == 0 and label != "volatile":
            assert not taken
        if label == "volatile":
            assert len(taken) >= len(whole) / 10


@given(SESSIONS, WEIGHTS)
def test_documents_and_messages_bear_the_loss_on_the_same_characters(session, weights):
    rows = [answered(number, labels) for number, labels in enumerate(session)]
    mix = Mix(loss="spans", loss_weights=weights, seed=1)
    (chat,), (text,) = samples_of("sft", rows, mix), samples_of("cpt", rows, mix)
    of_messages = [chat["messages"][span["message"]]["content"][span["begin"] : span["end"]] for span in chat["spans"]]
    assert [text["text"][span["begin"] : span["end"]] for span in text["spans"]] == of_messages
    drawn = spans(session, SpanWeights.of(mix))
    assert [span["label"] for span in chat["spans"]] == [span.label for group in drawn for span in group]


def test_a_share_is_drawn_that_is_near_the_weight_and_another_seed_draws_others():
    drawn = [set(spans([["history"] * 1000], SpanWeights({"copied": 0.3}, seed))[0]) for seed in (0, 1)]
    numbers = [sum(span.label == "copied" for span in part) for part in drawn]
    assert all(240 < number < 360 for number in numbers)
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("pool", ["sft", "cpt"])
def test_samples_bear_the_loss_where_the_recipe_says(pool):
    rows = [answered(0, ["history", None, "volatile"])]
    labels = []
    for loss in ("turns", "spans"):
        mix = Mix(loss=loss, loss_weights={"copied": 0.0})
        (sample,) = samples_of(pool, rows, mix)
        labels.append([span["label"] for span in sample["spans"]])
    assert [label for label in labels[0] if label != "copied"] == labels[1] != labels[0]


@pytest.mark.parametrize("loss", ["turns", "spans"])
def test_a_recipe_says_whether_spans_are_drawn(loss):
    weights = SpanWeights.of(Mix(loss=loss))
    assert weights == (
        None if loss == "turns" else SpanWeights({str(name): share for name, share in LOSS_WEIGHTS.items()}, 0)
    )


@pytest.mark.parametrize("pool", ["cpt", "sft"])
def test_samples_that_are_made_together_have_the_spans_of_each_made_alone(pool):
    classes: list[list[str | None]] = [["frame", None, "volatile"], [None]]
    rows = [[answered(number, labels) for number in range(2)] for labels in classes]
    rows[1] = [{**transition, "trajectory_id": "u", "ordinal": 2} for transition in rows[1]]
    alone = [sample for session in rows for sample in samples_of(pool, session, Mix(loss="spans"))]
    together = samples_of(pool, [*rows[0], *rows[1]], Mix(loss="spans"))
    assert [sample["spans"] for sample in together] == [sample["spans"] for sample in alone]
    assert len(together) == 2
