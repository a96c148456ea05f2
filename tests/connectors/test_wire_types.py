"""Logs of the wire whose values have other types than the format says become rejects, never another exception."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.rows import parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.schemas import ParseError

NAMES = ("mcp_jsonrpc", "mcp_recorder", "agent_vcr", "mcp_interceptor", "vcr_cassette", "mcp_inspector", "otel_genai")
ODD: tuple[object, ...] = (
    None,
    True,
    0,
    -1.5,
    "",
    "x",
    [],
    {},
    [None],
    {"": None},
    "[1]",
    "data: {}\n\n",
    10**30,
    "\ud800",
    {"role": "tool"},
)


def places(value, path=()):
    """Paths of every member and element of a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from places(one, (*path, key))


def changed(value, path, odd):
    """The value with another one at the path."""
    if not path:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], odd)
    return copy


def documents(name):
    """The fixtures as lists of JSON values: the lines of one that has lines, else the one document."""
    for path in sorted((ROOT / "tests" / "fixtures" / name / "input").iterdir()):
        if path.suffix in (".yaml", ".json", ".vcr") and path.name != "pretty.json":
            text = path.read_text("utf-8")
            yield [yaml.load(text, yaml.CSafeLoader) if path.suffix == ".yaml" else json.loads(text)]
        elif path.suffix in (".jsonl", ".log") and path.stem not in ("stdio", "editor", "editor-old"):
            yield [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=24, deadline=None)
@given(data=st.data())
def test_odd_values_anywhere_raise_nothing_but_a_parse_error(name, data):
    values = data.draw(st.sampled_from(list(documents(name))))
    for _ in range(data.draw(st.integers(1, 3))):
        values = changed(values, data.draw(st.sampled_from(list(places(values)))), data.draw(st.sampled_from(ODD)))
    text = "\n".join(json.dumps(one, default=lambda _: "") for one in values)
    try:
        rows, rejects = parsed(connectors()[name], MemoryBlob("log", text.encode()))
    except ParseError:
        return
    assert rows or rejects
