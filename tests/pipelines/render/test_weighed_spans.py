"""Spans that are drawn to bear the loss."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.render.costed import costed
from tests.pipelines.render.test_turns import row
from trajmill.pipelines.mix.samples import samples_of
from trajmill.pipelines.recipe.recipe import LOSS_WEIGHTS, Mix
from trajmill.pipelines.render.loss_spans import CLASSES, SpanWeights, bearing_spans, document_spans, message_spans
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import Turn, document, messages, turns
from trajmill.quality.tokens import TokenCounter

PIECES = st.lists(st.sampled_from(["volatile", "frame", "history", "derivable", None]), min_size=1, max_size=30)
SESSIONS = st.lists(PIECES, min_size=1, max_size=5)
WEIGHTS = st.dictionaries(st.sampled_from(CLASSES), st.sampled_from([0.0, 0.1, 0.5, 1.0]))


def answered(number: int, labels: list[str | None]) -> dict[str, Any]:
    """A row whose answer is made of pieces of three letters, each with its label, None for what is new."""
    spans = [{"begin": 4 * at, "end": 4 * at + 3, "label": label} for at, label in enumerate(labels) if label]
    return row(number, "x", " ".join(["abc"] * len(labels)), spans=spans)


def shown(session: list[list[str | None]]) -> list[Turn]:
    return turns([answered(number, labels) for number, labels in enumerate(session)])


@given(SESSIONS, WEIGHTS, st.integers(0, 3))
def test_what_is_drawn_is_of_what_bears_the_loss_and_by_its_class(session, weights, seed):
    every = bearing_spans(shown(session), None)
    kept = bearing_spans(shown(session), SpanWeights(weights, seed))
    assert all(set(some) <= set(all_) and some == sorted(some) for some, all_ in zip(kept, every, strict=True))
    assert all(some[0] == all_[0] for some, all_ in zip(kept, every, strict=True)), "the marker"
    for label in CLASSES:
        here = [span for spans in kept for span in spans[1:] if span.label == label]
        of = [span for spans in every for span in spans[1:] if span.label == label]
        if weights.get(label, 1.0) == 1:
            assert here == of
        if weights.get(label, 1.0) == 0 and label != "volatile":
            assert not here
        if label == "volatile":
            assert len(here) >= len(of) / 10


@given(SESSIONS, WEIGHTS)
def test_whether_a_span_is_drawn_hangs_on_its_place_alone(session, weights):
    chosen = SpanWeights({**weights, "volatile": 1.0}, 7)
    whole = bearing_spans(shown(session), chosen)
    assert bearing_spans(shown(session)[1:], chosen) == whole[1:], "the same turns in another window"


@given(SESSIONS, WEIGHTS)
def test_documents_and_messages_bear_the_loss_on_the_same_characters(session, weights):
    told, chosen = shown(session), SpanWeights(weights, 1)
    said, text = messages("S", told), document("S", told)
    spans = message_spans(told, chosen)
    of_messages = [said[one["message"]]["content"][one["begin"] : one["end"]] for one in spans]
    assert [text[one["begin"] : one["end"]] for one in document_spans("S", told, chosen)] == of_messages


def test_a_share_is_drawn_that_is_near_the_weight_and_another_seed_draws_others():
    told = shown([["history"] * 1000])
    kept = [set(bearing_spans(told, SpanWeights({"copied": 0.3}, seed))[0]) for seed in (0, 1)]
    numbers = [sum(span.label == "copied" for span in spans) for spans in kept]
    assert all(240 < number < 360 for number in numbers)
    assert kept[0] != kept[1]


@pytest.mark.parametrize("pool", ["sft", "cpt"])
def test_samples_bear_the_loss_where_the_recipe_says(pool):
    more = {**dict.fromkeys(("source", "group"), "s"), "num_segments": 1, "number": 1, "row_id": "r"}
    rows = costed([{**answered(0, ["history", None, "volatile"]), **more}], View(), TokenCounter())
    labels = []
    for loss in ("turns", "spans"):
        mix = Mix(loss=loss, loss_weights={"copied": 0.0})
        ((_, sample),) = samples_of(pool, rows, mix, TokenCounter())
        assert isinstance(sample, dict)
        labels.append([span["label"] for span in sample["spans"]])
    assert [label for label in labels[0] if label != "copied"] == labels[1] != labels[0]


@pytest.mark.parametrize("loss", ["turns", "spans"])
def test_a_recipe_says_whether_spans_are_drawn(loss):
    weights = SpanWeights.of(Mix(loss=loss))
    assert weights == (
        None if loss == "turns" else SpanWeights({str(name): share for name, share in LOSS_WEIGHTS.items()}, 0)
    )


def test_a_class_that_a_recipe_does_not_name_keeps_its_default():
    weights = SpanWeights.of(Mix(loss="spans", loss_weights={"derivable": 0.5}))
    assert weights is not None
    assert weights.shares == {**LOSS_WEIGHTS, "derivable": 0.5}
