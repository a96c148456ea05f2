"""Fixed text of tools and screens lies within the text."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trajmill.quality.boilerplate import frames, in_bytes


@given(st.text("[]#|+-=1 2\t→:\r\na", max_size=80), st.sampled_from(["", "http", "tree"]))
def test_frames_lie_in_the_text_in_order(text, kind):
    frame, spans = frames(text, kind)
    assert all(0 <= begin < end <= len(text) for begin, end in frame)
    assert all(left[1] <= right[0] for left, right in pairwise(frame))
    assert all(0 <= begin <= end <= len(text) for begin, end in spans)


@given(st.text("a\x7f\x80\u07ff\u0800\uffff\U00010000", max_size=9))
def test_spans_in_characters_are_found_in_bytes(text):
    cuts = [len(text[:size].encode()) for size in range(len(text) + 1)]
    spans = [(begin, end, "x") for begin, end in pairwise(range(len(text) + 1))]
    assert in_bytes(text, spans) == [(begin, end, "x") for begin, end in pairwise(cuts)]
