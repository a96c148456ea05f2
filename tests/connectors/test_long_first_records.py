"""A format is recognized though its first record is longer than the beginning of a file that is looked at."""

import json
from collections.abc import Iterator
from functools import reduce
from io import BytesIO
from itertools import islice
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import pytest
import yaml

from tests.connectors.mutations import Path, documents, places, replaced, written
from tests.connectors.test_contract import FIXTURES, by_family, entries, held
from tests.failures import every
from trajmill.connectors.connector import HEAD_BYTES, Connector, Sniff
from trajmill.connectors.reading.head_outline import make_outline
from trajmill.connectors.registry import sniff, sniff_one

LONG = 200 << 10


def taker(data: bytes, uri: str) -> str | None:
    guesses = sniff(data[:HEAD_BYTES], uri, longer=lambda: data)
    return guesses[0][0].name if guesses else None


def members(name: str) -> Iterator[tuple[str, list[Any]]]:
    """(its name, its values) of each JSON member of a format's fixtures that is recognized by itself."""
    for path in entries(name, "input"):
        blob = held(path)
        for member in blob.members:
            data = blob.read(member)
            uri = f"{path.name}/{member}" if member else path.name
            values = documents(data)
            if values and taker(data, uri) == name:
                yield uri, values


def value_at(value: Any, at: Path) -> Any:
    return reduce(lambda inner, key: inner[key], at, value)


def longer_text(text: str) -> str:
    return text + (" " * LONG if text.lstrip()[:1] in ("[", "{") else " and more" * (LONG // 9))


def long_texts(first: Any) -> Iterator[Any]:
    """The record with a long text in the place of its first prose, and of its longest."""
    paths = [at for at in places(first) if isinstance(text := value_at(first, at), str) and text.count(" ") > 1]
    longest = sorted(paths, key=lambda at: -len(value_at(first, at)))
    for at in dict.fromkeys([*paths[:1], *longest[:1]]):
        yield replaced(first, at, longer_text(value_at(first, at)))


def long_arrays(first: Any) -> Iterator[Any]:
    """The record with a long array in the place of each of its first short ones."""
    arrays = (
        (at, value)
        for at in places(first)
        if 0 < len(at) < 4 and isinstance(value := value_at(first, at), list) and value and isinstance(value[0], dict)
    )
    for at, value in islice(arrays, 2):
        yield replaced(first, at, value * (LONG // len(json.dumps(value)) + 1))


@by_family
def test_a_log_whose_first_record_has_a_long_text_is_of_the_same_format(names):
    with every() as case:
        for name in names:
            for uri, values in members(name):
                for number, first in enumerate(long_texts(values[0])):
                    with case(f"{uri} {number}"):
                        assert taker(written([first, *values[1:]]), uri) == name


@by_family
def test_a_log_whose_first_record_has_a_long_array_is_of_the_same_format(names):
    with every() as case:
        for name in names:
            for uri, values in members(name):
                for number, first in enumerate(long_arrays(values[0])):
                    with case(f"{uri} {number}"):
                        assert taker(written([first, *values[1:]]), uri) == name


class Styled(str):
    """A text that is written in one style of YAML."""


@pytest.mark.parametrize(("style", "width"), [("|", 80), ('"', 80), ("'", 10**9), (None, 10**9)])
def test_a_cassette_whose_first_body_is_long_is_a_cassette(style, width):
    class Dumper(yaml.SafeDumper):
        """Writes styled texts in the style."""

    Dumper.add_representer(Styled, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style))
    cassette = yaml.safe_load((FIXTURES / "vcr_cassette" / "input" / "anthropic.yaml").read_bytes())
    for interaction in cassette["interactions"][:2]:
        interaction["request"]["body"] = Styled(json.dumps({"words": "and more " * (LONG // 9)}, indent=0))
    data = yaml.dump(cassette, Dumper=Dumper, sort_keys=True, width=width).encode()
    assert b"uri:" not in data[:HEAD_BYTES]
    assert taker(data, "a.yaml") == "vcr_cassette"


def test_an_outline_is_json_and_keeps_each_key():
    first = {
        "a": ['é\\"' * LONG] * 9,
        "b": [{"c": 1}] * LONG,
        "d": json.dumps([{"e": "x" * LONG, "f": 1}] * 3),
        "g": {},
    }
    outline = make_outline(written([first, first]))
    assert len(outline) <= HEAD_BYTES
    value = json.loads(outline.splitlines()[0])
    assert list(value) == list(first)
    assert value["b"][0] == {"c": 1}
    assert list(json.loads(value["d"])[0]) == ["e", "f"]


@pytest.mark.parametrize("data", [b'{"a": 1}\n{"b": [1, 2]}', b"plain words " + b"x" * 99999, b"", b'{"a": "cut'])
def test_what_is_short_or_no_json_is_its_own_outline(data):
    assert make_outline(data) == data[:HEAD_BYTES]


class Named(Connector):
    """A format known by a word that stands at the end of its first record."""

    name = "named"
    version = "1"
    domains = ("mcp",)
    title = "a format of a test"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        return Sniff(0.9, "it says so") if b'"named"' in head else None

    def parse(self, blob):
        yield from ()


def test_a_log_of_several_files_is_known_by_the_outline_of_its_anchor():
    data = written([{"text": "x" * LONG, "named": 1}])
    assert sniff_one(Named(), data[:HEAD_BYTES], "a.json") is None
    assert sniff_one(Named(), data[:HEAD_BYTES], "a.json", longer=lambda: data) is not None


@by_family
def test_a_zip_archive_that_is_not_compressed_is_not_taken_for_what_its_members_hold(names):
    with every() as case:
        for name in names:
            for path in entries(name, "input"):
                for member, data in ((part, held(path).read(part)) for part in held(path).members):
                    archive = BytesIO()
                    with ZipFile(archive, "w", ZIP_STORED) as packed:
                        packed.writestr("readme.txt", "Logs.")
                        packed.writestr(f"logs/{member or path.name}.txt", data)
                    with case(f"{name}/{path.name}/{member}"):
                        assert taker(archive.getvalue(), "logs.zip") is None
