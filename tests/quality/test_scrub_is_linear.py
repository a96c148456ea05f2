"""Scrubbing takes time in proportion to a text, whatever is repeated in it."""

import re
from collections.abc import Iterator
from random import Random
from time import process_time
from typing import Final

import pytest

from tests.conftest import FUZZ
from tests.quality.forms import drawn
from tests.quality.planted import plants
from tests.tables import table
from trajmill.quality.scrub import KINDS, scrub_text
from trajmill.quality.scrubbing.detection import _apart, _finders, _nothing
from trajmill.quality.scrubbing.issuers import BY_BEGINNING, BY_MIDDLE
from trajmill.quality.scrubbing.kinds import Span

SMALL: Final = 1 << 12
LARGE: Final = 1 << 15
"""Bytes of the two texts; the large one is eight times the small one."""

MOST: Final = 16
"""How much longer the large one may take; squared would be 64."""

GRAIN: Final = 0.01
"""Seconds that anything may take."""

TRIES: Final = 6

BY_HAND: Final = tuple(table(__file__, "repeated_texts"))


def repeated() -> Iterator[str]:
    """What a hostile log could repeat: by hand, what triggers each finder, each issued form, each planted secret."""
    random = Random(11)
    yield from BY_HAND
    for _, trigger, _ in _finders(frozenset(KINDS), _nothing):
        plain = re.sub(rb"\(\?i([:)])", lambda match: b"(?:" if match[1] == b":" else b"", trigger)
        for _ in range(1 if FUZZ == 1 else 3):
            yield drawn(plain, random, 3).decode("latin-1")
    forms = [*BY_BEGINNING, *(form for _, _, form in BY_MIDDLE)]
    yield "".join(drawn(form.stays, random, 3).decode() for form in forms)
    yield " ".join(drawn(form.stays, random, 3).decode() for form in forms)
    yield " ".join((drawn(form.stays, random, 3) + drawn(form.secret, random, 3)).decode() for form in forms)
    for kind in KINDS:
        yield plants(kind, 1)[0].text + "\n"


CHAINS: Final = ("1234567890eyJaaaaaaaa.ey", "eyJaaaaaaaa.eyeyJaaaaaaaa")
"""Finds each of which overlaps the next."""


def test_what_is_repeated_is_scrubbed_to_its_length() -> None:
    for unit in (*repeated(), *CHAINS):
        text = _of_size(unit, SMALL)
        assert len(scrub_text(text)) == len(text), unit


timed = pytest.mark.skipif(FUZZ == 1, reason="make fuzz compares times")


@timed
@pytest.mark.parametrize("unit", repeated() if FUZZ > 1 else (), ids=lambda unit: repr(unit[:24]))
def test_a_text_eight_times_as_long_takes_about_eight_times_as_long(unit: str) -> None:
    small = large = float("inf")
    for _ in range(TRIES):
        small, large = min(small, _seconds(unit, SMALL)), min(large, _seconds(unit, LARGE))
        if large <= GRAIN + MOST * small:
            return
    pytest.fail(f"{SMALL} bytes take {small:.3f} s, {LARGE} bytes {large:.3f} s")


@timed
@pytest.mark.parametrize("unit", CHAINS)
def test_a_chain_of_finds_each_of_which_overlaps_the_next_takes_time_by_its_length(unit: str) -> None:
    small = large = float("inf")
    for _ in range(TRIES):
        small, large = min(small, _seconds(unit, LARGE)), min(large, _seconds(unit, 4 * LARGE))
        if large <= GRAIN + 6 * small:
            return
    pytest.fail(f"{LARGE} bytes take {small:.3f} s, {4 * LARGE} bytes {large:.3f} s")


def test_of_finds_that_overlap_the_first_in_rank_stays() -> None:
    random = Random(5)
    for _ in range(2000):
        starts = [random.randrange(24) for _ in range(random.randrange(12))]
        finds = [Span(start, start + random.choice((1, 2, 3, 9)), "token") for start in starts]
        spans: list[Span] = []
        for find in finds:
            if all(find.end <= span.start or span.end <= find.start for span in spans):
                spans.append(find)
        assert _apart(finds) == sorted(spans, key=lambda find: find.start)


def _of_size(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def _seconds(unit: str, size: int) -> float:
    text = _of_size(unit, size)
    began = process_time()
    scrub_text(text)
    return process_time() - began
