"""Screens are compared without the numbers that we gave to their elements; actions by the places of these."""

import json

import numpy as np
import pytest

from tests.make import batch_of, call
from tests.quality.whole import histories, measured
from trajmill.quality.fingerprint import transition_hashes
from trajmill.quality.replicate import Words, agreement
from trajmill.quality.sketch import make_sketches
from trajmill.quality.without_element_ids import remove_element_ids
from trajmill.schemas import Observation, Step, Trajectory


def screen(*lines: str, dialect: str | None = "uitree/1", form: str = "screen") -> Observation:
    return Observation("\n".join(lines), form=form, dialect=dialect)


BEFORE = ('#1 window "Shop"', '  #2 text "Tea at six"', '  #3 button "Buy"')
AFTER = ('#1 window "Shop"', '  #4 text "In your cart"', '  #2 text "Tea at six"', '  #3 button "Buy"')


def shifted(text: tuple[str, ...], more: int) -> tuple[str, ...]:
    lines = []
    for line in text:
        indent, _, rest = line.partition("#")
        number, _, rest = rest.partition(" ")
        lines.append(f"{indent}#{int(number) + more} {rest}")
    return tuple(lines)


def one(native_id: str, more: int, element: int) -> Trajectory:
    before, after = screen(*shifted(BEFORE, more)), screen(*shifted(AFTER, more))
    return Trajectory(native_id, "web", [Step(call("click", element=f"#{element}"), before, after, 0, 0)])


def test_two_trajectories_that_number_one_screen_in_two_ways_hold_the_same_transition():
    batch = batch_of(one("a", 0, 3), one("b", 40, 43), one("c", 40, 42))
    hashes = transition_hashes(remove_element_ids(batch))
    assert (hashes[0] == hashes[1]).all()
    assert (hashes[0] != hashes[2]).any(), "another element was clicked"
    column = measured(batch)["transition_hash"].to_pylist()
    assert column[0] == column[1] != column[2]
    steps = make_sketches(batch)["step_hash"].to_pylist()
    assert steps[0] == steps[1] != steps[2]
    history, answer = (histories(batch)[name].to_pylist() for name in ("history", "answer"))
    assert history[0] == history[1] != history[2]
    assert len(set(answer)) == 1


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (shifted(BEFORE, 7), 1),
        (AFTER, 0),
        ((BEFORE[0], BEFORE[2].replace("3", "2"), BEFORE[1].replace("2", "3")), 0),
        ((*BEFORE[:2], "    " + BEFORE[2].lstrip()), 0),
        ((*BEFORE[:2], BEFORE[2] + " focused"), 0),
    ],
)
def test_a_screen_of_which_only_our_numbers_differ_is_the_same_and_no_other_is(after, expected):
    steps = [Step(call("click", element="#3"), screen(*BEFORE), screen(*after), 0, 0)]
    batch = batch_of(Trajectory("t", "web", steps))
    assert measured(batch, ["no_op"])["signal.no_op"].to_pylist() == [expected]


def test_texts_of_other_dialects_keep_what_looks_like_a_number():
    lines, others = ("#1 window", "  #2 text"), ("#1 window", "  #3 text")
    for dialect in (None, "browsergym-axtree"):
        steps = [Step(call("wait"), screen(*lines, dialect=dialect), screen(*others, dialect=dialect), 0, 0)]
        batch = batch_of(Trajectory("t", "web", steps))
        assert remove_element_ids(batch) is batch
        assert measured(batch, ["no_op"])["signal.no_op"].to_pylist() == [0]


def test_a_text_that_two_dialects_share_is_a_tree_only_where_it_is_one():
    text = "#1 window\n  #2 text"
    steps = [
        Step(call("a"), screen(text, dialect="uitree/1"), screen(text, dialect="other"), 0, 0),
        Step(
            call("a", element="#2"), None, screen("HTTP 200\n\n#4 text", dialect="http+uitree/1", form="response"), 1, 1
        ),
    ]
    batch = remove_element_ids(batch_of(Trajectory("t", "web", steps)))
    rows = batch.to_pylist()
    assert rows[0]["observation"]["content"] == "window\n  text"
    assert rows[0]["next_observation"]["content"] == text
    assert rows[1]["next_observation"]["content"] == "HTTP 200\n\ntext"
    assert rows[1]["observation"] is None
    assert json.loads(rows[1]["action"]["text"])["arguments"] == {"element": "#2"}


def test_an_action_on_an_element_that_does_not_stand_there_keeps_its_number():
    (row,) = remove_element_ids(batch_of(one("a", 40, 3))).to_pylist()
    assert json.loads(row["action"]["arguments"]) == {"element": "#3"}
    (row,) = remove_element_ids(batch_of(one("a", 40, 43))).to_pylist()
    assert json.loads(row["action"]["arguments"]) == {"element": "#3"}


def test_a_place_is_that_of_the_line_that_begins_with_the_number():
    lines = ('#1 window "see #43 there, or #43 here"', '  #42 text "#43 "', "    #43 button")
    step = Step(call("click", element="#43"), screen(*lines), None, 0, 0)
    (row,) = remove_element_ids(batch_of(Trajectory("t", "web", [step]))).to_pylist()
    assert json.loads(row["action"]["arguments"]) == {"element": "#3"}


def test_replicates_agree_on_trees_of_which_only_numbers_differ():
    texts = ["\n".join(lines) for lines in (AFTER, shifted(AFTER, 5))]
    assert agreement([Words.of(text, tree=True) for text in texts]) == 1
    assert agreement([Words.of(text) for text in texts]) < 1
    flags = Words.of(texts[0], tree=True).volatile(Words.of(texts[1].replace("six", "seven"), tree=True))
    assert np.flatnonzero(flags).tolist() == [Words.of(texts[0]).hashes.tolist().index(Words.of("six").hashes[0])]
