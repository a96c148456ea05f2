"""What every connector must do, over its fixtures: `tests/fixtures/<name>/{input,expected,bad}`."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.connector import HEAD_BYTES, MemoryBlob
from connectors.registry import connectors, sniff
from schemas import ParseError, Reject, spool
from tests.conftest import FUZZ, ROOT
from tests.golden.digests import digest_of
from tests.golden.make import VERSIONS
from tests.rows import blob_at, golden_line, golden_row, line, parsed

FIXTURES = ROOT / "tests" / "fixtures"
NAMES = sorted(connectors())


def entries(name: str, folder: str) -> list[Path]:
    place = FIXTURES / name / folder
    return sorted(path for path in place.iterdir() if path.suffix != ".reason") if place.is_dir() else []


def cases(folder: str) -> list:
    return [pytest.param(name, path, id=f"{name}-{path.name}") for name in NAMES for path in entries(name, folder)]


@pytest.mark.parametrize("name", NAMES)
def test_a_connector_has_fixtures_and_says_what_it_is(name):
    one = connectors()[name]
    assert entries(name, "input"), f"{name} has no fixture to read"
    assert entries(name, "bad"), f"{name} has no fixture to refuse"
    assert one.name == name
    assert one.version
    assert one.title
    assert one.domains


@pytest.mark.parametrize(("name", "path"), cases("input"))
def test_a_log_becomes_the_transitions_that_were_read_by_eye(name, path):
    rows, _ = parsed(connectors()[name], blob_at(path))
    expected = (FIXTURES / name / "expected" / f"{path.name}.jsonl").read_text("utf-8").splitlines()
    assert [golden_line(row) for row in rows] == expected
    assert [line(golden_row(told)) for told in expected] == [line(row) for row in rows]


@pytest.mark.parametrize("name", NAMES)
def test_output_that_changes_raises_the_version(name):
    known = json.loads(VERSIONS.read_text("utf-8"))
    assert [connectors()[name].version, digest_of(connectors()[name])] == known[name], (
        "raise its version if that is meant, then run python -m tests.golden.make versions"
    )


@pytest.mark.parametrize(("name", "path"), cases("input"))
def test_what_is_kept_in_a_file_and_not_in_memory_makes_no_difference(name, path, monkeypatch):
    monkeypatch.setattr(spool, "HELD_BYTES", 0)
    expected = (FIXTURES / name / "expected" / f"{path.name}.jsonl").read_text("utf-8").splitlines()
    rows, _ = parsed(connectors()[name], blob_at(path))
    assert [golden_line(row) for row in rows] == expected


@pytest.mark.parametrize(("name", "path"), cases("input"))
def test_reading_twice_gives_the_same_and_only_declared_domains(name, path):
    one, blob = connectors()[name], blob_at(path)
    rows, rejects = parsed(one, blob)
    assert parsed(one, blob) == (rows, rejects)
    assert {row["domain"] for row in rows} <= set(one.domains)


@pytest.mark.parametrize(("name", "path"), cases("input"))
def test_a_log_of_one_file_is_recognized_as_what_it_is(name, path):
    if path.is_file():
        found = sniff(path.read_bytes()[:HEAD_BYTES], path.name)
        assert found[0][0].name == name
        assert found[0][1].why


@pytest.mark.parametrize(("name", "path"), [case for case in cases("input") if case.values[1].is_dir()])
def test_a_log_of_several_files_is_joined_whole(name, path):
    one, blob = connectors()[name], blob_at(path)
    logs = list(one.join([f"somewhere/{path.name}/{member}" for member in blob.members]))
    assert len(logs) == 1
    assert logs[0].uri == f"somewhere/{path.name}"
    assert set(logs[0].members) <= set(blob.members)
    assert one.sniff(blob.read(logs[0].anchor)[:HEAD_BYTES], logs[0].members[logs[0].anchor]) is not None


@pytest.mark.parametrize(("name", "path"), cases("bad"))
def test_a_bad_log_is_refused_for_its_reason(name, path):
    blob = blob_at(path)
    reasons: list[str] = []
    try:
        reasons.extend(found.reason for found in connectors()[name].parse(blob) if isinstance(found, Reject))
    except ParseError as error:
        reasons.append(error.reason)
    wanted = path.with_name(f"{path.name}.reason").read_text("utf-8").split()
    assert wanted[0] in reasons


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40 * FUZZ)
@given(data=st.data())
def test_a_log_cut_at_any_byte_raises_nothing_but_a_parse_error(name, data):
    blob = blob_at(data.draw(st.sampled_from(entries(name, "input"))))
    member = data.draw(st.sampled_from(blob.members))
    content = {one: blob.read(one) for one in blob.members}
    content[member] = content[member][: data.draw(st.integers(0, len(content[member])))]
    only_parse_errors(name, MemoryBlob(blob.uri, content))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40 * FUZZ)
@given(data=st.data())
def test_a_log_with_damaged_bytes_raises_nothing_but_a_parse_error(name, data):
    blob = blob_at(data.draw(st.sampled_from(entries(name, "input"))))
    member = data.draw(st.sampled_from(blob.members))
    content = {one: blob.read(one) for one in blob.members}
    place = data.draw(st.integers(0, max(0, len(content[member]) - 1)))
    junk = data.draw(
        st.one_of(st.binary(min_size=1, max_size=6), st.sampled_from([b"null", b'"', b"[[[[", b"-1", b"{}"]))
    )
    content[member] = content[member][:place] + junk + content[member][place + len(junk) :]
    only_parse_errors(name, MemoryBlob(blob.uri, content))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25 * FUZZ)
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_raise_nothing_but_a_parse_error(name, data):
    connectors()[name].sniff(data, "file")
    only_parse_errors(name, MemoryBlob("log", data))


def only_parse_errors(name: str, blob: MemoryBlob) -> None:
    caught: ParseError | None = None
    try:
        rows, rejects = parsed(connectors()[name], blob)
    except ParseError as error:
        caught = error
    if caught is None:
        assert rows or rejects
    else:
        assert caught.reason
        assert -1 <= caught.offset <= max(len(blob.read(member)) for member in blob.members)
