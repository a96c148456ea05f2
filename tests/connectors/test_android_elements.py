"""What holds for every connector of Android logs: an element that an action names stands in what was seen before it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.android_logs import FIXTURES
from tests.rows import blob_at
from trajmill.connectors.connector import Blob, Choices, Connector, MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.connectors.screens.tree import Tree
from trajmill.schemas import Trajectory

ANDROID = [one for one in connectors().values() if type(one).__module__.startswith("trajmill.connectors.android.")]
CASES = [
    pytest.param(one, path, id=f"{one.name}-{path.name}")
    for one in ANDROID
    if one.name != "autodroid"  # its screens are text of its own, in which elements have its ids
    for path in sorted((FIXTURES / one.name / "input").iterdir())
]


def elements(connector: Connector, blob: Blob) -> list[tuple[Any, str | None, str | None]]:
    """(element, text before, its dialect) of each action that names one, in its text or its arguments."""
    found = []
    for one in connector.parse(blob):
        for step in one.steps if isinstance(one, Trajectory) else ():
            before = step.observation
            shown = (before.content, before.dialect) if before is not None else (None, None)
            told = [json.loads(step.action.text)["arguments"], json.loads(step.action.arguments or "{}")]
            found += [(values["element"], *shown) for values in told if "element" in values]
    return found


def assert_named(connector: Connector, blob: Blob) -> int:
    """How many elements were named; each stands in the tree that it was named in."""
    found = elements(connector, blob)
    for element, text, dialect in found:
        assert re.fullmatch(r"#[1-9][0-9]*", element)
        assert dialect == "uitree/1"
        assert Tree.parse(text or "").node(int(element[1:])) is not None
    return len(found)


@pytest.mark.parametrize(("connector", "path"), CASES)
def test_an_element_is_a_node_of_the_tree_that_it_was_touched_in(connector: Connector, path: Path) -> None:
    assert_named(connector, blob_at(path))


@pytest.mark.parametrize(("connector", "path"), CASES)
def test_a_raw_screen_is_the_logs_own_text_and_has_no_ids(connector: Connector, path: Path) -> None:
    plain = blob_at(path)
    blob = MemoryBlob(plain.uri, {member: plain.read(member) for member in plain.members}, Choices(screen="raw"))
    texts = {blob.read(member).decode("utf-8", "replace") for member in blob.members}
    for element, text, dialect in elements(connector, blob):
        assert isinstance(element, dict)
        assert set(element) <= {"resource_id", "bounds"}
        assert dialect != "uitree/1"
        assert text is not None
        values = [element["bounds"] if isinstance(element["bounds"], str) else None, element.get("resource_id")]
        assert all(value in text for value in values if value)
    for one in connector.parse(blob):
        for step in one.steps if isinstance(one, Trajectory) else ():
            seen = step.observation
            if (
                seen is not None
                and seen.content is not None
                and connector.name in ("uiautomator", "appagent", "droidbot")
            ):
                assert seen.content in texts
