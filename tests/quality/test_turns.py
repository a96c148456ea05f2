import json
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, call
from trajmill.quality.registry import signal
from trajmill.quality.shingle import words
from trajmill.quality.signal import Measured
from trajmill.quality.texts import Texts
from trajmill.quality.tokens import TokenCounter
from trajmill.quality.turns import KEEPS, SHORT, Turns, compare_texts, keeps_loss, new_text
from trajmill.quality.values import action_values, decode_leaves
from trajmill.schemas import KEYSTROKES, Action, Observation, Step, Trajectory, call_text, keystrokes_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(st.sampled_from('ab "\\\n{}[],:é\t'), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('kq:"\\', max_size=3), inner, max_size=3),
    max_leaves=6,
)


def acting(*rows, form="stream", domain="terminal"):
    """A trajectory of (action, observation, next observation)."""
    steps = []
    for number, (action, before, after) in enumerate(rows):
        first, seen = (Observation(text, form=form) if text is not None else None for text in (before, after))
        steps.append(Step(action, first, seen, number, 0))
    return Measured.of(batch_of(Trajectory("t", domain, steps)), TokenCounter())


def said(text):
    return Action("", text)


def texts_of(texts):
    return [texts.texts[index].as_py() if index >= 0 else None for index in texts.index.tolist()]


def leaves(value):
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value if isinstance(value, str) else json.dumps(value)]


def word_list(text):
    return re.findall(r"\w+", text)


@given(JSON, st.booleans())
def test_the_values_of_json_are_its_leaves_and_no_keys(value, ascii_only):
    decoded = decode_leaves(pa.array([json.dumps(value, ensure_ascii=ascii_only)]))[0].as_py()
    assert word_list(decoded) == word_list("\n".join(leaves(value)))


def test_values_are_decoded_one_a_line():
    decoded = decode_leaves(
        pa.array(['{"path": "/a/b", "lines": [1, 2], "new": "x = \\"y\\"\\nz"}', "{}", '{"a": "\\u00e9t\\u00e9"}'])
    )
    assert decoded.to_pylist() == ["/a/b\n1\n2\nx =  y  z", "", "été"]


def test_each_form_of_action_gives_its_values():
    actions = [
        call("open", path="a.txt"),
        said("ls -l [a-z]*"),
        Action(KEYSTROKES, keystrokes_text([("echo hi\n", 2.5), ("C-c", None)])),
        Action("look", call_text("look", None)),
        said("[ -f x ] && cat x"),
    ]
    values = texts_of(action_values(acting(*((action, None, "x") for action in actions))))
    assert values[:4] == ["a.txt", "ls -l [a-z]*", "echo hi \nC-c", ""]
    assert word_list(values[4]) == ["f", "x", "cat", "x"]


def test_words_of_many_texts_are_told_apart_by_text():
    texts = ["one two ONE", "", None, "two", "日本"]
    hashes, offsets = words(pa.array(texts, pa.string()))
    assert offsets.tolist() == [0, 3, 3, 3, 4, 6]
    assert hashes[0] == hashes[2] != hashes[1] == hashes[3]


def test_the_words_of_a_text_do_not_depend_on_its_block():
    text = "word other " * 60_000
    hashes, offsets = words(pa.array(["a b", text, "a b"]))
    assert offsets.tolist() == [0, 2, 120_002, 120_004]
    assert hashes[:2].tolist() == hashes[-2:].tolist()
    assert len(set(hashes[2:-2].tolist())) == 2


PROSE = st.text(st.sampled_from("abc AB.\n"), max_size=14)


@given(st.lists(st.tuples(st.none() | PROSE, st.none() | PROSE), max_size=6))
def test_measures_are_those_of_the_paper(rows):
    columns = [pa.array([row[side] for row in rows], pa.string()).dictionary_encode() for side in (0, 1)]
    measures = compare_texts(*map(Texts.of, columns))
    for number, (action, shown) in enumerate(rows):
        known = action is not None and shown is not None
        a, o = (set(word_list(text.lower())) if known else set() for text in (action or "", shown or ""))
        assert measures.overlap[number] == (len(a & o) / len(a) if a else 0)
        assert measures.novelty[number] == (len(o - a) / len(o) if o else 0)
        assert measures.known[number] == bool(a and o)
        if known:
            assert measures.ratio[number] == len(shown) / max(len(action), 1)


@pytest.mark.parametrize(
    ("action", "shown", "name"),
    [
        ("one two three", "one two three", "echo"),
        ("one two three four", "one two three four five", "echo"),
        ("one two", "one", "boilerplate"),
        ("one two three four", "one two five four", "echo"),
        ("one two three four five", "one two three six seven", "boilerplate"),
        ("one two three four five six seven", "one two eight", "transform"),
        ("one", "alpha beta gamma", "retrieval"),
        ("one two", "one two three four", "expansion"),
        ("one two three four five six", "seven", "action"),
        ("one two three four", "one two three five six seven", "expansion"),
        ("!!!", "anything at all", "other"),
        ("one", "", "other"),
    ],
)
def test_categories_follow_their_signatures_echo_first(action, shown, name):
    measured = acting((said(action), None, shown))
    assert signal("turn_category").measure(measured).tolist() == [list(KEEPS).index(name)]


@pytest.mark.parametrize(
    ("overlap", "novelty", "ratio", "size", "name"),
    [
        (0.7, 0.29, 1, 999, "echo"),
        (0.7, 0.3, 1, 999, "boilerplate"),
        (0.69, 0.29, 1, 999, "boilerplate"),
        (0.5, 0.49, 0.9, 999, "boilerplate"),
        (0.49, 0.49, 0.99, 999, "transform"),
        (0.49, 0.49, 1, 999, "other"),
        (0, 0.6, 1.01, 999, "retrieval"),
        (0, 0.6, 1, 999, "action"),
        (0.5, 0.5, 1.51, 999, "expansion"),
        (0.5, 0.5, 1.5, 999, "other"),
        (0.49, 0.5, 1.51, 999, "other"),
        (0.49, 0.5, 1.51, SHORT + 1, "other"),
        (0.49, 0.5, 1.51, SHORT, "action"),
        (0.49, 0.5, 1, 999, "action"),
    ],
)
def test_categories_begin_and_end_at_their_bounds(overlap, novelty, ratio, size, name):
    columns = (np.array([value]) for value in (overlap, novelty, ratio, size, True))
    assert Turns(*columns).categories().tolist() == [list(KEEPS).index(name)]


def test_of_a_screen_only_new_lines_count_and_of_a_stream_all():
    action, before, after = said("echo hi"), "$ echo hi  \nold", "$ echo hi\nold\n\thi there"
    assert texts_of(new_text(acting((action, before, after), form="screen"))) == ["\thi there"]
    assert texts_of(new_text(acting((action, before, after)))) == [after]
    assert texts_of(new_text(acting((action, None, after), form="screen"))) == [after]
    both = acting((action, "a\nb", "b\nc\na\nd"), (action, "b\nc\na\nd", "a\nb"), (action, "x", None), form="screen")
    assert texts_of(new_text(both)) == ["c\nd", "", None]


@given(st.lists(st.tuples(*[st.lists(st.sampled_from("abcé"), max_size=5).map("\n".join)] * 2), min_size=1, max_size=5))
def test_new_lines_are_those_that_the_screen_before_does_not_hold(pairs):
    measured = acting(*((said("x"), *pair) for pair in pairs), form="state")
    texts = texts_of(new_text(measured))
    for (before, after), text in zip(pairs, texts, strict=True):
        new = [line for line in after.split("\n") if line not in before.split("\n")]
        assert [line for line in text.split("\n") if line] == [line for line in new if line]


def test_an_echo_is_told_by_values_and_new_lines_where_names_and_standing_lines_would_hide_it():
    action = call("echo_text", text="hello")
    measured = acting((action, "a b c", "a b c\nhello"), form="screen")
    assert signal("turn_category").measure(measured).tolist() == [list(KEEPS).index("echo")]
    assert measured.once(lambda m: compare_texts(m.texts("action", "text"), new_text(m))).overlap[0] == 0.2


def test_the_mask_keeps_each_category_at_its_share():
    def kept(action, shown):
        measured = acting(*((said(f"{action} {n}"), None, f"{shown}") for n in range(2_000)))
        return keeps_loss(measured).mean()

    assert 0.03 < kept("one two three four five", "one two three four five") < 0.07
    assert 0.07 < kept("one two three four five six", "one two three four seven eight nine") < 0.13
    assert 0.46 < kept("one two three four five six", "one two") < 0.54
    assert kept("!", "") == 1
    assert kept("one", "alpha beta gamma delta epsilon") == 1


def test_an_error_keeps_its_loss_though_it_says_the_action_back():
    def kept(word):
        measured = acting(*((said(f"cat one two three {n}"), None, f"{word}: one two three {n}") for n in range(400)))
        return signal("turn_mask").measure(measured).mean()

    assert kept("cat") < 0.1
    assert kept("error") == 1
