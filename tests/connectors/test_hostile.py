"""What every connector makes of hostile values: rejects and parse errors, never another exception.

A case is a family of formats; what fails in it is told by format.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FUZZ, ROOT
from tests.connectors.mutations import STRANGERS, documents, places, replaced, written
from tests.connectors.test_contract import NAMES, by_family, each, entries, families, fixtures, held, read
from tests.failures import every
from tests.rows import parsed
from trajmill.connectors.connector import HEAD_BYTES, MemoryBlob
from trajmill.connectors.registry import connectors, sniff

FORBIDDEN = {
    "dill", "ftplib", "http", "importlib", "joblib", "marshal", "multiprocessing", "os", "pathlib", "pickle",
    "requests", "runpy", "shelve", "shutil", "socket", "ssl", "subprocess", "tempfile", "urllib.request",
}  # fmt: skip


@cache
def json_members(name: str) -> list[tuple[Path, str, list[object]]]:
    """(fixture, member, values) of each member that holds JSON; not to be changed."""
    return [
        (path, member, values)
        for path in entries(name, "input")
        for member in held(path).members
        if (values := documents(held(path).read(member))) is not None
    ]


JSON = [name for name in NAMES if any(values for _, _, values in json_members(name))]
of_json = pytest.mark.parametrize("names", families(JSON))


@cache
def places_in(path: Path, member: str, number: int) -> list[tuple[str | int, ...]]:
    """The places in a value of a member, as `places` gives them."""
    values = documents(held(path).read(member)) or []
    return list(places(values[number]))


def with_member(path: Path, member: str, data: bytes) -> MemoryBlob:
    blob = held(path)
    return MemoryBlob(blob.uri, {one: blob.read(one) for one in blob.members} | {member: data})


@of_json
def test_a_value_of_another_type_raises_nothing_but_a_parse_error(names):
    @settings(max_examples=6 * FUZZ)
    @given(data=st.data())
    def another(name, reads, data):
        path, member, whole = data.draw(st.sampled_from(json_members(name)))
        values = whole.copy()
        for _ in range(data.draw(st.integers(1, 3))):
            number = data.draw(st.integers(0, len(values) - 1))
            pristine = values[number] is whole[number]
            known = places_in(path, member, number) if pristine else list(places(values[number]))
            at = data.draw(st.sampled_from(known))
            values[number] = replaced(values[number], at, data.draw(st.sampled_from(STRANGERS)))
        reads(with_member(path, member, written(values)))

    each(names, another)


DEEP = [b"[" * 20_000 + b"1" + b"]" * 20_000, b'{"a":' * 6_000 + b"1" + b"}" * 6_000]


@of_json
def test_a_document_nested_deeper_than_any_reader_raises_nothing_but_a_parse_error(names):
    @settings(max_examples=4 * FUZZ)
    @given(data=st.data())
    def deeper(name, reads, data):
        path, member, whole = data.draw(st.sampled_from(json_members(name)))
        number = data.draw(st.integers(0, len(whole) - 1))
        at = data.draw(st.sampled_from(places_in(path, member, number)))
        log = written([*whole[:number], replaced(whole[number], at, "DEEP"), *whole[number + 1 :]])
        deep = data.draw(st.sampled_from(DEEP))
        reads(with_member(path, member, log.replace(b'"DEEP"', deep)))

    each(names, deeper)


def encoded(data: bytes, encoding: str) -> bytes:
    return data.decode("utf-8", "replace").encode(encoding, "replace")


def with_nul_bytes(data: bytes, place: int) -> bytes:
    return data[:place] + b"\0" * 64 + data[place:]


CHANGES: list[Callable[[bytes], bytes]] = [
    *(partial(encoded, encoding=encoding) for encoding in ("utf-16", "utf-16-be", "cp1252")),
    lambda data: with_nul_bytes(data, 0),
    lambda data: with_nul_bytes(data, len(data) // 2),
    lambda data: with_nul_bytes(data, len(data)),
    lambda data: data.replace(b"\n", b"\r"),
]


@by_family
def test_another_encoding_nul_bytes_and_bare_carriage_returns_raise_nothing_but_a_parse_error(names):
    """Each change has its turn with the members of a format's logs; a format of few members has them all."""

    def changed(name, reads):
        members = list(every_member(name))
        for number in range(max(len(members), len(CHANGES))):
            path, member, data = members[number % len(members)]
            reads(with_member(path, member, CHANGES[number % len(CHANGES)](data)))

    each(names, changed)


def every_member(name: str) -> Iterator[tuple[Path, str, bytes]]:
    """(fixture, member, its bytes) of each log of a format."""
    for path in entries(name, "input"):
        for member in held(path).members:
            yield path, member, held(path).read(member)


def is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


@by_family
def test_a_byte_order_mark_changes_no_transition_of_a_log_that_is_still_read(names):
    with every() as case:
        for called, name, path in fixtures(names):
            if path.is_file() and is_text(path.read_bytes()) and documents(path.read_bytes()) is not None:
                with case(called):
                    same_with_a_mark(name, path)


def same_with_a_mark(name: str, path: Path) -> None:
    blob = held(path)
    plain, _ = read(name, path)
    marked, _ = parsed(connectors()[name], MemoryBlob(blob.uri, b"\xef\xbb\xbf" + blob.read()))
    assert [row["trajectory_id"] for row in marked] == [row["trajectory_id"] for row in plain]
    head = blob.read()[:HEAD_BYTES]
    told = [[one.name for one, _ in sniff(mark + head, path.name)] for mark in (b"", b"\xef\xbb\xbf")]
    assert told[0] == told[1]


CALLS = re.compile(r"^[^\"'#`]*(?<![\w.])(?<!def )(?:__import__|compile|eval|exec|open)\(", re.MULTILINE)
MODULES = sorted(path for path in (ROOT / "connectors").rglob("*.py") if path.name != "registry.py")


def test_a_connector_opens_no_file_reaches_no_network_and_runs_nothing():
    with every() as case:
        for module in MODULES:
            text = module.read_text("utf-8")
            with case(str(module.relative_to(ROOT))):
                assert not FORBIDDEN & set(re.findall(r"^ *(?:from|import) ([\w.]+)", text, re.MULTILINE))
                assert not CALLS.findall(text)


WATCHED = ("open", "socket.", "subprocess.", "os.", "exec", "import", "pickle.", "shutil.", "urllib.")


@contextmanager
def watched() -> Iterator[list[str]]:
    """The audited events of the block; a hook cannot be taken off, so it is switched."""
    if _HOOK not in _HOOKED:
        _HOOKED.add(_HOOK)
        sys.addaudithook(_HOOK)
    _EVENTS.clear()
    _ON.append(True)
    try:
        yield _EVENTS
    finally:
        _ON.clear()


_EVENTS: list[str] = []
_ON: list[bool] = []
_HOOKED: set[object] = set()


def _HOOK(event: str, args: tuple[object, ...]) -> None:  # noqa: N802
    if _ON and event.startswith(WATCHED):
        _EVENTS.append(f"{event} {args[:1]!r:.200}")


@by_family
def test_reading_a_log_touches_nothing_outside_of_it(names):
    with every() as case:
        for called, name, path in fixtures(names):
            with case(called):
                list(connectors()[name].parse(held(path)))  # what is imported late has been imported
                with watched() as events:
                    list(connectors()[name].parse(held(path)))
                assert events == []


def test_the_watch_sees_what_is_opened():
    with watched() as events:
        Path(__file__).read_bytes()
    assert any("open" in event for event in events)
