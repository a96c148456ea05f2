"""First lines of every JSON type at every place, through every connector: no answer of a connector is an exception."""

import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import pytest

from tests.connectors.mutations import documents, places, replaced, written
from tests.connectors.test_contract import NAMES, Reads, by_family, each, entries, held
from trajmill.connectors.connector import HEAD_BYTES, MemoryBlob
from trajmill.connectors.registry import connectors, sniff

TYPES: tuple[Any, ...] = (
    None, True, 1, 1.5, "", "x", [], {}, [[]], [{}], {"a": 1}, 10**30, float("nan")
)  # fmt: skip
SNIFFED_PLACES = 12
PARSED = 26


@cache
def firsts(name: str) -> list[Any]:
    """The first record of each member of a connector's fixtures that is JSON."""
    blobs = [held(path) for path in entries(name, "input")]
    contents = [documents(blob.read(member)[:HEAD_BYTES]) for blob in blobs for member in blob.members]
    return [values[0] for values in contents if values]


def keys() -> list[str]:
    """Every key that the first records of the fixtures have at their top."""
    return sorted({key for name in NAMES for first in firsts(name) if isinstance(first, dict) for key in first})


def mutants(first: Any, most: int) -> Iterator[Any]:
    """The record with each value in turn, those at its top first, by one of every type."""
    for at in sorted(places(first), key=len)[:most]:
        for stranger in TYPES:
            yield replaced(first, at, stranger)


def turns(first: Any, number: int) -> Iterator[Any]:
    """The record with each value in turn, those at its top first, by one value: each type has its turn."""
    paths = sorted(places(first), key=len)
    for index in range(max(len(paths), len(TYPES))):
        stranger = TYPES[(index * 5 + number) % len(TYPES)]
        yield replaced(first, paths[index % len(paths)], stranger)


@pytest.mark.parametrize("stranger", TYPES, ids=repr)
def test_a_line_of_one_key_with_any_value_is_answered_by_every_connector(stranger):
    for key in keys():
        head = json.dumps({key: stranger}).encode() + b"\n"
        for connector in connectors().values():
            connector.sniff(head, "log.jsonl")


def test_a_first_record_with_any_value_at_any_place_is_answered_by_every_connector():
    for name in NAMES:
        for number, first in enumerate(firsts(name)):
            for mutant in mutants(first, SNIFFED_PLACES if number == 0 else 1):
                head = written([mutant])[:HEAD_BYTES]
                connectors()[name].sniff(head, "log.json")
    for name in NAMES:
        for mutant in islice(turns(firsts(name)[0], 0), len(TYPES)) if firsts(name) else ():
            assert isinstance(sniff(written([mutant])[:HEAD_BYTES], "log.json"), list)


@by_family
def test_a_log_whose_first_record_has_any_value_at_any_place_raises_nothing_but_a_parse_error(names):
    each(names, any_value_at_any_place)


def any_value_at_any_place(name: str, reads: Reads) -> None:
    for path in entries(name, "input")[:1]:
        blob = held(path)
        content = {member: blob.read(member) for member in blob.members}
        for number, (member, data) in enumerate(content.items()):
            values = documents(data) if len(data) < 40_000 else None
            if not values:
                continue
            for mutant in islice(turns(values[0], number), PARSED // len(content) + 1):
                reads(MemoryBlob(blob.uri, {**content, member: written([mutant, *values[1:]])}))
