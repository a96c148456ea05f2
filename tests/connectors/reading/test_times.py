"""Times of logs: what lies between two of them."""

from __future__ import annotations

import pytest

from trajmill.connectors.reading.times import seconds_of_span


@pytest.mark.parametrize(
    ("began", "ended", "seconds"),
    [(80, 95, 0.015), (80.5, 1080.5, 1.0), (80, 80, 0.0), (0, 2500, 2.5)],
)
def test_a_span_of_milliseconds_is_told_in_seconds(began: float, ended: float, seconds: float) -> None:
    assert seconds_of_span(began, ended) == seconds


@pytest.mark.parametrize(("began", "ended"), [(None, 95), (80, None), (None, None), (95, 80)])
def test_a_span_without_one_of_its_ends_or_that_runs_backwards_is_none(
    began: float | None, ended: float | None
) -> None:
    assert seconds_of_span(began, ended) is None
