"""What every connector must do, over its fixtures: `tests/fixtures/<name>/{input,expected,bad}`.

A case is a family of formats; what fails in it is told by format and fixture. TRAJMILL_CONNECTOR takes one format.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FUZZ, ROOT
from tests.failures import every
from tests.golden.digests import VERSIONS, digest_of
from tests.rows import assembled, blob_at, golden_line, golden_row, line, parsed
from trajmill.connectors.connector import HEAD_BYTES, MemoryBlob
from trajmill.connectors.registry import connectors, sniff
from trajmill.schemas import Assembler, ParseError, Reject, spool
from trajmill.schemas.invariants import check

FIXTURES = ROOT / "tests" / "fixtures"
ONE = os.environ.get("TRAJMILL_CONNECTOR")
NAMES = [ONE] if ONE else sorted(connectors())
"""All formats, or the one that is worked on."""


@cache
def entries(name: str, folder: str) -> list[Path]:
    directory = FIXTURES / name / folder
    return sorted(path for path in directory.iterdir() if path.suffix != ".reason") if directory.is_dir() else []


held = cache(blob_at)
"""The blob of a fixture, read once."""


def families(names: list[str]) -> list:
    """The formats by family, which is the package that their connectors lie in."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(type(connectors()[name]).__module__.split(".")[2], []).append(name)
    return [pytest.param(members, id=family) for family, members in sorted(groups.items())]


by_family = pytest.mark.parametrize("names", families(NAMES))


def fixtures(names: list[str], folder: str = "input") -> Iterator[tuple[str, str, Path]]:
    """(what it is called, format, path) of each fixture of the formats."""
    return ((f"{name}/{path.name}", name, path) for name in names for path in entries(name, folder))


@cache
def read(name: str, path: Path) -> tuple[list[dict[str, Any]], list[Reject]]:
    return parsed(connectors()[name], held(path))


def expected(name: str, path: Path) -> list[str]:
    return (FIXTURES / name / "expected" / f"{path.name}.jsonl").read_text("utf-8").splitlines()


@by_family
def test_a_connector_has_fixtures_and_says_what_it_is(names):
    with every() as case:
        for name in names:
            connector = connectors()[name]
            with case(name):
                assert entries(name, "input"), f"{name} has no fixture to read"
                assert entries(name, "bad"), f"{name} has no fixture to refuse"
                assert connector.name == name
                assert connector.version
                assert connector.title
                assert connector.domains


@by_family
def test_a_log_becomes_the_transitions_that_were_read_by_eye(names):
    with every() as case:
        for called, name, path in fixtures(names):
            with case(called):
                rows, _ = read(name, path)
                wanted = expected(name, path)
                assert [golden_line(row) for row in rows] == wanted
                assert [line(golden_row(entry)) for entry in wanted] == [line(row) for row in rows]


@by_family
def test_output_that_changes_raises_the_version(names):
    known = json.loads(VERSIONS.read_text("utf-8"))
    with every() as case:
        for name in names:
            with case(name):
                assert [connectors()[name].version, digest_of(connectors()[name])] == known[name], (
                    "raise its version if that is meant, then run python -m tests.golden.make versions"
                )


@by_family
def test_reading_again_in_files_and_not_in_memory_gives_the_same_and_only_declared_domains(names, monkeypatch):
    with every() as case:
        for called, name, path in fixtures(names):
            with case(called):
                rows, rejects = read(name, path)
                with monkeypatch.context() as patch:
                    patch.setattr(spool, "HELD_BYTES", 0)
                    assert parsed(connectors()[name], held(path)) == (rows, rejects)
                assert {row["domain"] for row in rows} <= set(connectors()[name].domains)


@by_family
def test_a_log_of_one_file_is_recognized_as_what_it_is(names):
    with every() as case:
        for called, name, path in fixtures(names):
            with case(called):
                if path.is_file():
                    guesses = sniff(path.read_bytes()[:HEAD_BYTES], path.name)
                    assert guesses[0][0].name == name
                    assert guesses[0][1].why


@by_family
def test_a_log_of_several_files_is_joined_whole(names):
    with every() as case:
        for called, name, path in fixtures(names):
            if path.is_file():
                continue
            with case(called):
                connector, blob = connectors()[name], held(path)
                logs = list(connector.join([f"somewhere/{path.name}/{member}" for member in blob.members]))
                assert len(logs) == 1
                own = {f"somewhere/{path.name}/{member}" for member in blob.members if member not in logs[0].shared}
                assert logs[0].uri == f"somewhere/{path.name}" or own == {logs[0].uri}
                assert set(logs[0].members) <= set(blob.members)
                head = blob.read(logs[0].anchor)[:HEAD_BYTES]
                assert connector.sniff(head, logs[0].members[logs[0].anchor]) is not None


@by_family
def test_a_bad_log_is_refused_for_its_reason(names):
    with every() as case:
        for called, name, path in fixtures(names, "bad"):
            with case(called):
                reasons: list[str] = []
                try:
                    records = connectors()[name].parse(held(path))
                    reasons.extend(record.reason for record in records if isinstance(record, Reject))
                except ParseError as error:
                    reasons.append(error.reason)
                wanted = path.with_name(f"{path.name}.reason").read_text("utf-8").split()
                assert wanted[0] in reasons


@by_family
def test_a_log_cut_at_any_byte_raises_nothing_but_a_parse_error(names):
    @settings(max_examples=6 * FUZZ)
    @given(data=st.data())
    def cut(name, reads, data):
        blob = held(data.draw(st.sampled_from(entries(name, "input"))))
        member = data.draw(st.sampled_from(blob.members))
        content = {part: blob.read(part) for part in blob.members}
        content[member] = content[member][: data.draw(st.integers(0, len(content[member])))]
        reads(MemoryBlob(blob.uri, content))

    each(names, cut)


@by_family
def test_a_log_with_damaged_bytes_raises_nothing_but_a_parse_error(names):
    @settings(max_examples=6 * FUZZ)
    @given(data=st.data())
    def damaged(name, reads, data):
        blob = held(data.draw(st.sampled_from(entries(name, "input"))))
        member = data.draw(st.sampled_from(blob.members))
        content = {part: blob.read(part) for part in blob.members}
        offset = data.draw(st.integers(0, max(0, len(content[member]) - 1)))
        junk = data.draw(JUNK)
        content[member] = content[member][:offset] + junk + content[member][offset + len(junk) :]
        reads(MemoryBlob(blob.uri, content))

    each(names, damaged)


JUNK = st.one_of(st.binary(min_size=1, max_size=6), st.sampled_from([b"null", b'"', b"[[[[", b"-1", b"{}"]))


@by_family
def test_arbitrary_bytes_raise_nothing_but_a_parse_error(names):
    @settings(max_examples=6 * FUZZ)
    @given(data=st.binary(max_size=300))
    def arbitrary(name, reads, data):
        connectors()[name].sniff(data, "file")
        reads(MemoryBlob("log", data))

    each(names, arbitrary)


Reads = Callable[[MemoryBlob], None]
"""Reads a log that a connector may refuse; fails where it raises anything but a parse error, or says nothing."""


def each(names: list[str], tried: Callable[[str, Reads], None]) -> None:
    """Lets `tried` read logs of every format, which may be refused and may not break the schema."""
    with every() as case:
        for name in names:
            with case(name):
                only_parse_errors(name, partial(tried, name))


def only_parse_errors(name: str, tried: Callable[[Reads], None]) -> None:
    """Fails where a log that `tried` reads comes to anything but a parse error, rejects or rows of the schema.

    A check costs more than it costs to read a small log: all rows are checked together, and those of each log only
    where that fails, or where the cases are random and the smallest that fails is looked for.
    """
    broken = Exception()
    if FUZZ == 1:
        assembler = Assembler()
        tried(partial(_read, name, assembler))
        try:
            check(assembler.take())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is looked for in each log
            broken = error
        else:
            return

    def alone(blob: MemoryBlob) -> None:
        assembler = Assembler()
        with naming(blob):
            _read(name, assembler, blob)
            check(assembler.take())

    tried(alone)
    if FUZZ == 1:
        raise broken


@contextmanager
def naming(blob: MemoryBlob) -> Iterator[None]:
    """Says of what is raised in the block which log was read."""
    try:
        yield
    except Exception as error:
        error.add_note(f"while {blob.uri} was read")
        raise


def _read(name: str, assembler: Assembler, blob: MemoryBlob) -> None:
    before = assembler.num_rows
    refused: ParseError | None = None
    rejects: list[Reject] = []
    try:
        with naming(blob):
            rejects = assembled(connectors()[name], blob, assembler, f"{before}/{blob.uri}")
    except ParseError as error:
        refused = error
    if refused is None:
        assert rejects or assembler.num_rows > before
    else:
        assert refused.reason
        assert -1 <= refused.offset <= max(len(blob.read(member)) for member in blob.members)
