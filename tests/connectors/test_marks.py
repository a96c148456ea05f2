"""Marks of formats: what a format's `sniff` accepts is never ruled out."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import re2

from tests.conftest import ROOT, corpora_folder, real_files
from tests.connectors.mutations import documents
from tests.connectors.test_contract import NAMES, entries, held
from tests.failures import every
from trajmill.connectors.connector import HEAD_BYTES
from trajmill.connectors.marks import MARKS, ruled_out
from trajmill.connectors.reading.head_outline import OUTLINED_BYTES, binary_outline, make_outline
from trajmill.connectors.reading.values import BOM
from trajmill.connectors.registry import FORMATS, connectors, sniff

LATIN1 = re2.Options()
LATIN1.encoding = re2.Options.Encoding.LATIN1


def heads(path: Path) -> Iterator[bytes]:
    """The beginning of a file, and of a longer one its outline, as connectors see them."""
    with path.open("rb") as stream:
        data = stream.read(OUTLINED_BYTES)
    yield binary_outline(data[:HEAD_BYTES].removeprefix(BOM))
    if len(data) > HEAD_BYTES:
        yield make_outline(data)


def blanked(pattern: bytes, text: bytes) -> bytes:
    """The text with a letter of each occurrence of a mark replaced."""
    mark = re2.compile(pattern, LATIN1)
    while (match := mark.search(text)) is not None:
        letters = [place for place in range(*match.span()) if text[place : place + 1].isalnum()]
        if not letters:
            break
        text = text[: letters[-1]] + b"~" + text[letters[-1] + 1 :]
    return text


def accepted_without(name: str, head: bytes, uri: str) -> list[bytes]:
    """The marks of a format without which it still accepts a file."""
    texts = ((mark, blanked(mark, uri.encode() + b"\0" + head)) for mark in MARKS[name])
    missing = [(mark, text.partition(b"\0")) for mark, text in texts if not re2.search(mark, text, LATIN1)]
    return [mark for mark, (named, _, rest) in missing if connectors()[name].sniff(rest, named.decode()) is not None]


def check(files: Iterable[Path], root: Path) -> int:
    """Ask every connector about every file; return how often one accepted."""
    accepted = 0
    with every() as case:
        for path in files:
            uri = path.relative_to(root).as_posix()
            for head in filter(None, heads(path)):
                out = ruled_out(head, uri)
                for name, connector in connectors().items():
                    if connector.sniff(head, uri) is not None:
                        accepted += 1
                        with case(f"{name}: {uri}"):
                            assert name not in out
                            assert accepted_without(name, head, uri) == []
    return accepted


def test_every_format_has_marks():
    assert list(MARKS) == list(FORMATS)


@pytest.mark.parametrize(("folder", "least"), [("samples", 500), ("tests/fixtures", 700)])
def test_no_format_is_ruled_out_that_accepts_a_file_and_none_accepts_a_file_without_its_marks(folder, least):
    assert check(sorted(path for path in (ROOT / folder).rglob("*") if path.is_file()), ROOT / folder) > least


@pytest.mark.corpus
def test_no_format_is_ruled_out_that_accepts_a_real_log(record_property):
    root = corpora_folder()
    files = real_files([""], record_property)
    assert root is not None
    assert check(files, root) > 500


def test_no_format_is_ruled_out_that_accepts_a_record_without_one_of_its_members():
    accepted = 0
    with every() as case:
        for name in NAMES:
            for path in entries(name, "input"):
                blob = held(path)
                records = (documents(blob.read(member)[:HEAD_BYTES]) for member in blob.members)
                for record in (values[0] for values in records if values and isinstance(values[0], dict)):
                    for key in record:
                        head = json.dumps({other: record[other] for other in record if other != key}).encode() + b"\n"
                        if connectors()[name].sniff(head, path.name) is not None:
                            accepted += 1
                            with case(f"{name}: {path.name} without {key}"):
                                assert name not in ruled_out(head, path.name)
    assert accepted > 300


def test_a_log_is_recognized_whose_keys_are_spelled_by_numbers():
    log = b'{"version": 2, "width": 80, "height": 24}\n'
    spelled = log.replace(b"version", "".join(rf"\u{ord(letter):04x}" for letter in "version").encode())
    assert [[connector.name for connector, _ in sniff(head, "log")] for head in (log, spelled)] == [["asciicast"]] * 2
