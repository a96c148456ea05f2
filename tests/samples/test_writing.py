"""What makers of samples and generators of logs share writes what it says, with the standard library alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from samples.writing.chance import seeded
from samples.writing.files import write_file
from samples.writing.json_text import document, line, lines
from samples.writing.moments import moment, zulu

VALUE = {"said": "hé", "list": [1, 2]}


def test_a_line_is_escaped_and_spaced_unless_it_is_asked_otherwise():
    assert line(VALUE) == b'{"said": "h\\u00e9", "list": [1, 2]}\n'
    assert line(VALUE, escaped=False, compact=True) == '{"said":"hé","list":[1,2]}\n'.encode()


def test_lines_and_documents_read_back_as_they_were():
    assert [json.loads(row) for row in lines([VALUE, [], None]).splitlines()] == [VALUE, [], None]
    assert json.loads(document(VALUE, escaped=False)) == VALUE
    assert not document(VALUE).endswith(b"\n")


def test_times_are_of_utc_to_the_millisecond():
    assert moment(3661.5) == "2026-01-05T01:01:01.500Z"
    assert moment(86_400) == "2026-01-06T00:00:00.000Z"
    east = timezone(timedelta(hours=2))
    at = datetime(2026, 3, 1, 1, 0, 0, 999_999, tzinfo=east)
    assert zulu(at) == zulu(at.astimezone(UTC)) == "2026-02-28T23:00:00.999Z"


def test_the_same_words_give_the_same_chance_and_others_another():
    drawn = [seeded(*words).random() for words in ((7, "a"), (7, "a"), (7, "b"))]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("data", ["é\n", "é\n".encode()])
def test_a_file_is_written_with_its_folders(tmp_path, data):
    write_file(tmp_path / "a" / "b.txt", data)
    assert (tmp_path / "a" / "b.txt").read_bytes() == "é\n".encode()
