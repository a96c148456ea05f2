"""No input takes more than a gigabyte of a process that reads it, whatever it becomes when it is read."""

import pytest

from tests.pipelines.bombs import Milled, milled

MOST = 1000
"""Megabytes over those of a process that is idle."""


@pytest.mark.parametrize(
    ("name", "transitions", "rejects"),
    [
        ("line_of_lists", 6, {"too_many_values": 1}),
        ("xml_nodes", 0, {"too_many_nodes": 2, "no_observation": 1}),
        ("parquet_list", 0, {"row_too_large": 1, "no_transitions": 1}),
    ],
)
def test_a_bomb_is_refused_for_its_reason_and_takes_less_than_a_gigabyte(name, transitions, rejects):
    found = milled(name, 3 << 30)
    assert isinstance(found, Milled), found
    assert (found.transitions, found.rejects) == (transitions, rejects)
    assert found.megabytes < MOST
