"""Spans of next observations that can be known from what stood before."""

import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tests.make import batch_of, call, steps_of, trajectory
from trajmill.quality.replicate import Words
from trajmill.quality.spans import Labelling, _stands_in, with_volatile
from trajmill.schemas import Action, Context, Observation, Step, Trajectory


def told(*trajectories, cuts=()):
    batch = batch_of(*trajectories)
    labelling = Labelling()
    places = [0, *cuts, batch.num_rows]
    parts = [part for a, b in pairwise(places) for part in labelling.add(batch.slice(a, b - a))]
    table = pa.Table.from_batches(parts)
    texts = [row["content"] if row else "" for row in batch["next_observation"].to_pylist()]
    return [
        [(span["label"], (text or "").encode()[span["begin"] : span["end"]].decode()) for span in spans]
        for spans, text in zip(table["spans"].to_pylist(), texts, strict=True)
    ]


def test_lines_shown_before_are_history_and_the_first_observation_is_too():
    long = "a line that is long enough to be told by itself"
    log = trajectory(f"{long}\nsome new line\nshort", f"short\nsome new line  \n{long}\nnewest line")
    steps = steps_of("at the start\nthere it was\nmore words", first="at the start\nthere it was\nunseen line")
    assert told(log) == [[], [("history", long)]]
    assert told(Trajectory("t", "terminal", steps)) == [[("history", "at the start\nthere it was")]]


def test_a_line_of_a_few_words_is_history_only_beside_a_neighbour_but_on_a_screen_by_itself():
    texts = ("    return err(\n  id: string;\n});", "  id: string;\n  name: string;\n    return err(\n  id: string;")
    assert told(trajectory(*texts)) == [[], [("history", "    return err(\n  id: string;")]]
    screens = Trajectory("t", "terminal", steps_of(*texts, form="screen"))
    assert told(screens)[1] == [("history", "  id: string;"), ("history", "    return err(\n  id: string;")]


def test_an_outcome_of_one_line_is_no_copy_of_another_that_was_the_same():
    steps = steps_of("No results were found for it.", "No results were found for it.", form="response")
    assert told(Trajectory("t", "search", steps)) == [[], []]


def test_what_one_trajectory_has_shown_is_no_history_of_another_and_cuts_change_nothing():
    text = "the same line that is long enough to tell\n$ one more"
    trajectories = [trajectory(text, text, native_id=name) for name in ("a", "b")]
    expected = [[], [("history", text)]] * 2
    assert told(*trajectories) == told(*trajectories, cuts=[1, 3]) == expected


def test_fixed_text_is_frame_and_names_in_it_that_the_action_gave_are_copied():
    edit = call("str_replace_editor", command="create", path="/code/a.py", file_text="x")
    steps = [
        Step(edit, None, Observation("File created successfully at: /code/a.py", form="response"), 0, 0),
        Step(call("str_replace_editor", command="view", path="/b"), None, Observation("     9\tab\n    10\tcd"), 1, 0),
        Step(call("bash", command="x"), None, Observation("no\n[The command completed with exit code 3.]"), 2, 0),
    ]
    assert told(Trajectory("t", "swe", steps)) == [
        [("frame", "File created successfully at: "), ("action", "/code/a.py")],
        [("frame", "     9\t"), ("frame", "\n    10\t")],
        [("frame", "[The command completed with exit code "), ("frame", ".]")],
    ]


def test_lines_that_the_action_holds_are_its_own_also_within_a_line():
    cat = call("bash", command="cat > f <<'E'\nfirst line here\nsecond line here\nE")
    echo = call("bash", command='echo "hello you all"')
    steps = [
        Step(cat, None, Observation("first line here\nnothing of it\nsecond line here"), 0, 0),
        Step(echo, None, Observation("hello you all"), 1, 0),
    ]
    assert told(Trajectory("t", "terminal", steps)) == [
        [("action", "first line here"), ("action", "second line here")],
        [("action", "hello you all")],
    ]


def test_the_initial_state_stood_before_and_a_text_of_the_harness_is_its_own():
    steps = [
        Step(Action("a", "b"), None, Observation("table of users\nnew words here"), 0, 0),
        Step(Action("a", "b"), None, Observation("write it again", origin="harness"), 1, 0),
        Step(Action("a", "b"), None, None, 2, 0),
    ]
    log = Trajectory("t", "terminal", steps, context=Context(initial_state="table of users\nand more"))
    assert told(log) == [[("pre_existing", "table of users")], [("harness", "write it again")], []]


def test_volatile_words_cut_into_what_else_is_told():
    text = "pid 4711 listening on port 80"
    words = Words.of(text)
    flags = words.volatile(Words.of("pid 4712 listening on port 80"))
    assert with_volatile([(0, len(text), "history")], text, flags) == [
        (0, 4, "history"),
        (4, 8, "volatile"),
        (8, len(text), "history"),
    ]
    assert with_volatile([], text, flags) == [(4, 8, "volatile")]
    assert with_volatile([(0, len(text), "harness")], text, flags) == [(0, len(text), "harness")]


TEXTS = st.lists(st.text("ab é\n", max_size=60), min_size=1, max_size=5)


@given(TEXTS, st.integers(0, 2**20))
def test_spans_lie_within_the_text_in_order_and_none_over_another(texts, bits):
    batch = batch_of(trajectory(*texts))
    (labelled,) = Labelling().add(batch)
    for row, text in zip(labelled["spans"].to_pylist(), texts, strict=True):
        spans = [(span["begin"], span["end"], span["label"]) for span in row]
        flags = np.array([bits >> at & 1 for at in range(len(Words.of(text).hashes))], bool)
        for span_list in (spans, with_volatile(spans, text, flags)):
            assert all(begin < end <= len(text.encode()) for begin, end, _ in span_list)
            assert all(left[1] <= right[0] for left, right in pairwise(span_list))
            for begin, end, _ in span_list:
                text.encode()[begin:end].decode()


@given(
    st.lists(st.sampled_from(["aba", "b.1", "b.", "12.", *"ab1._/- é"]), max_size=6).map("".join),
    st.sampled_from(["aba", "b.1", "b.", "12."]),
)
@example("aaba", "aba")
@example("aba_", "aba")
def test_a_name_stands_in_values_where_no_part_of_a_name_is_beside_it(values, name):
    whole = re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", values)
    is_name = len(name) >= 3 and not re.fullmatch(r"-?[0-9.]+", name)
    assert _stands_in(name, values) == (is_name and whole is not None)
