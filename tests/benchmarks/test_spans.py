"""Precision of classes on spans that were judged by eye."""

from __future__ import annotations

from collections import Counter

from benchmarks.spans import Judged, read_judged, table, told_class
from trajmill.pipelines.render.loss_spans import CLASSES
from trajmill.schemas import DOMAINS


def test_every_judged_span_has_a_place_a_domain_and_a_class_and_none_is_judged_twice():
    judged = read_judged()
    assert len({one[:3] for one in judged}) == len(judged)
    assert all(len(one.row) == 16 and 0 <= one.begin < one.end for one in judged)
    assert {one.label for one in judged} <= set(CLASSES)
    counts = Counter(one.domain for one in judged)
    assert set(counts) <= set(DOMAINS)
    assert max(counts.values()) == 200


def test_a_span_is_told_by_most_of_its_bytes():
    spans = [(0, 4, "history"), (6, 20, "frame")]
    assert told_class(spans, 0, 5) == "copied"
    assert told_class(spans, 3, 9) == "frame"
    assert told_class(spans, 4, 7) == "new"
    assert told_class([], 0, 1) == "new"


def test_the_table_counts_what_is_right_of_what_is_told():
    judged = [Judged("a", 0, 4, "swe", "copied"), Judged("a", 4, 8, "swe", "new"), Judged("b", 0, 4, "swe", "frame")]
    told = {"a": [(0, 8, "action")], "b": [(0, 4, "frame")]}
    assert table(judged, told).splitlines()[-1] == "| swe | 3 |  | 1 of 1 | 1 of 2 |  |  |"
