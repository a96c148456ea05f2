"""Display forms of a log's texts by kind: a terminal's screen, a tree, folded JSON, a patch, or plain text.

Everything is bounded: content that is too large, too deep or not of its declared kind is shown as text, and texts are
cut. The events of trees and of JSON form a flat list, so that the depth of a log never becomes recursion depth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels."""

_LARGEST: Final = 20_000
_NODES: Final = 1500
_LABEL_CHARACTERS: Final = 40


class Area(NamedTuple):
    """Box of a node.

    Attributes:
        mark: Number of the node, such as `#7`.
        label: Name of a leaf node; otherwise empty.
        left: Left edge in pixels of the drawing.
        top: Top edge in pixels of the drawing.
        width: Width in pixels of the drawing.
        height: Height in pixels of the drawing.
        size: Font size of the label.
        is_target: True for the target of the action.
    """

    mark: str
    label: str
    left: int
    top: int
    width: int
    height: int
    size: int
    is_target: bool
    role: str


@dataclass(frozen=True, slots=True)
class Wireframe:
    """Drawing of a screen: its size in pixels, and its areas from back to front."""

    width: int
    height: int
    areas: Sequence[Area]


def wireframe(nodes: Iterable[tuple[str, str, str, Box]], target: str = "") -> Wireframe | None:
    """Draw nodes with boxes, given as number, role, name and box; return None if no box has an area.

    The first such box is the frame; boxes outside of it are left out.
    """
    known = [node for node in nodes if node[3][0] < node[3][2] and node[3][1] < node[3][3]][:_NODES]
    if not known:
        return None
    x, y, right, bottom = known[0][3]
    width, height = min(right - x, _LARGEST), min(bottom - y, _LARGEST)
    holders = {node[3] for node, after in pairwise(known) if _holds(node[3], after[3])}
    areas = []
    for mark, role, name, (left, top, end, low) in known:
        if left >= x + width or top >= y + height or end <= x or low <= y:
            continue
        box = max(left - x, 0), max(top - y, 0), min(end - x, width), min(low - y, height)
        label = "" if (left, top, end, low) in holders else name[:_LABEL_CHARACTERS]
        areas.append(_area(mark, role, label, box, is_target=mark == target))
    return Wireframe(width, height, areas)


def _area(mark: str, role: str, label: str, box: Box, *, is_target: bool) -> Area:
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    size = max(6, min(height * 6 // 10, (width - 8) * 17 // (10 * max(len(label), 1)), 48))
    return Area(mark, label, left, top, width, height, size, is_target, role)


def _holds(outer: Box, inner: Box) -> bool:
    return outer[0] <= inner[0] and outer[1] <= inner[1] and outer[2] >= inner[2] and outer[3] >= inner[3]


SHOWN_CHARACTERS: Final = 100_000
"""Characters of a text shown on a page."""

_EVENTS: Final = 6000
_DEPTH: Final = 200
_OPEN_DEPTH: Final = 3
"""Levels of JSON that are unfolded initially."""

_PATCH: Final = re.compile(r"^(?:diff --git |--- \S.*\n\+\+\+ \S)", re.MULTILINE)
_LINE: Final = re.compile(
    r"(?P<indent> *)#(?P<id>[0-9]{1,9}) (?P<role>[a-z0-9_.-]+)(?: (?P<name>\"(?:[^\"\\]|\\.)*\"))?(?P<rest>.*)"
)
_VALUE: Final = re.compile(r" value=(\"(?:[^\"\\]|\\.)*\")")
_BOUNDS: Final = re.compile(r" \[(-?\d{1,9}),(-?\d{1,9})\]\[(-?\d{1,9}),(-?\d{1,9})\]$")


class Event(NamedTuple):
    """Piece of a foldable structure.

    Attributes:
        kind: `open`, `close` or `leaf`.
        unfolded: True if it is unfolded initially.
        mark: Prefix: the key of JSON, the number of a tree's node.
        head: Type of JSON, or role of a node.
        text: Value of JSON, or name of a node.
    """

    kind: str
    unfolded: bool = True
    mark: str = ""
    head: str = ""
    text: str = ""
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """Text in its display form.

    Attributes:
        kind: `screen`, `tree`, `json`, `patch`, `text`, or `nothing` if there is none.
        text: The text, cut; for a tree, the text before it (the head of an HTTP answer).
        left: Number of characters cut off.
        events: Events of a tree or of JSON.
        lines: Lines of a patch, each with its kind: `file`, `place`, `new`, `gone` or `same`.
        frame: Wireframe of a tree whose nodes have boxes; otherwise None.
    """

    kind: str
    text: str = ""
    left: int = 0
    events: Sequence[Event] = ()
    lines: Sequence[tuple[str, str]] = ()
    frame: Wireframe | None = None


NOTHING: Final = Shown("nothing")


def shown(observation: Mapping[str, Any] | None, target: str = "") -> Shown:
    """Return the display form of an observation.

    Args:
        target: Number of the action's target, such as `#7`; marked if the tree has boxes.
    """
    if observation is None or observation["content"] is None:
        return NOTHING
    content, dialect = observation["content"], observation["dialect"] or ""
    if "uitree/" in dialect:
        return _tree(content, target)
    if dialect.startswith("ansi-screen"):
        return _text(content, "screen")
    return shown_text(content, is_json="json" in (observation["media_type"] or ""))


def shown_text(content: str, *, is_json: bool = False) -> Shown:
    """Return the display form of a text of unknown kind, or of JSON."""
    if is_json or content[:1] in ("{", "["):
        shown = _json(content)
        if shown is not None:
            return shown
    if _PATCH.search(content[:SHOWN_CHARACTERS]):
        return _patch(content)
    return _text(content, "text")


def _text(content: str, kind: str) -> Shown:
    return Shown(kind, content[:SHOWN_CHARACTERS], max(0, len(content) - SHOWN_CHARACTERS))


def _patch(content: str) -> Shown:
    cut = _text(content, "patch")
    return Shown("patch", "", cut.left, lines=[(_patch_kind(line), line) for line in cut.text.split("\n")])


def _patch_kind(line: str) -> str:
    if line.startswith(("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "rename ", "similarity ")):
        return "file"
    if line.startswith("@@"):
        return "place"
    return {"+": "new", "-": "gone"}.get(line[:1], "same")


class _Pairs(list[tuple[str, Any]]):
    """Object of JSON as written, including duplicate keys."""


def _json(content: str) -> Shown | None:
    """Return folded JSON; None if the text is not JSON, or is too large or too deep to be folded."""
    if len(content) > SHOWN_CHARACTERS:
        return None
    try:
        value = json.loads(content, object_pairs_hook=_Pairs, parse_float=_Literal, parse_int=_Literal)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list):
        return None
    events = []
    for event in _json_events(value):
        events.append(event)
        if len(events) > _EVENTS or event.head == "too deep":
            return None
    return Shown("json", events=events)


class _Literal(str):
    """Number as it is written."""

    __slots__ = ()


def _json_events(value: Any) -> Iterator[Event]:
    waiting: list[Any] = [("", value, 0)]
    while waiting:
        entry = waiting.pop()
        if entry is None:
            yield Event("close")
            continue
        mark, node, depth = entry
        if not isinstance(node, list) or not node:
            yield Event("leaf", mark=mark, head=_json_kind(node), text=_json_text(node))
            continue
        is_object = isinstance(node, _Pairs)
        word = f"{len(node)} {'key' if is_object else 'item'}{'s' if len(node) > 1 else ''}"
        yield Event("open", depth < _OPEN_DEPTH, mark, "too deep" if depth > _DEPTH else "", "", word)
        waiting.append(None)
        pairs = node if is_object else enumerate(node)
        waiting.extend((str(key), inner, depth + 1) for key, inner in reversed(list(pairs)))


def _json_kind(value: Any) -> str:
    if isinstance(value, _Literal):
        return "number"
    return "string" if isinstance(value, str) else "word"


def _json_text(value: Any) -> str:
    if isinstance(value, list):
        return "{}" if isinstance(value, _Pairs) else "[]"
    return value if isinstance(value, str) else json.dumps(value)


def _tree(content: str, target: str) -> Shown:
    """Return a tree with the text before it; plain text if a line does not belong to a tree."""
    lines = content.split("\n")
    begin = next((index for index, line in enumerate(lines) if line.startswith("#")), len(lines))
    nodes = [_LINE.fullmatch(line) for line in lines[begin:]]
    while nodes and nodes[-1] is None and not lines[begin + len(nodes) - 1]:
        nodes.pop()
    matches = [node for node in nodes if node is not None]
    if not matches or len(matches) != len(nodes) or len(matches) > _EVENTS:
        return _text(content, "text")
    boxes = [(shown_node, box) for shown_node in matches if (box := _box(shown_node)) is not None]
    frame = wireframe(
        [(f"#{shown_node['id']}", shown_node["role"], _node_text(shown_node), box) for shown_node, box in boxes], target
    )
    return Shown("tree", "\n".join(lines[:begin]).strip("\n"), 0, list(_tree_events(matches)), frame=frame)


def _box(node: re.Match[str]) -> Box | None:
    met = _BOUNDS.search(node["rest"])
    return (int(met[1]), int(met[2]), int(met[3]), int(met[4])) if met else None


def _node_name(node: re.Match[str]) -> str:
    return _plain(node["name"]) if node["name"] else ""


def _node_text(node: re.Match[str]) -> str:
    """Return the text that a node shows: the value of a field, otherwise its name."""
    value = _VALUE.match(node["rest"])
    return _plain(value[1]) if value else _node_name(node)


def _plain(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return quoted


def _tree_events(nodes: Sequence[re.Match[str]]) -> Iterator[Event]:
    open_at: list[int] = []
    for number, node in enumerate(nodes):
        depth = len(node["indent"])
        while open_at and open_at[-1] >= depth:
            open_at.pop()
            yield Event("close")
        rest = _BOUNDS.sub("", node["rest"]).strip()
        has_children = number + 1 < len(nodes) and len(nodes[number + 1]["indent"]) > depth
        deep = len(open_at) >= _DEPTH
        kind = "open" if has_children and not deep else "leaf"
        yield Event(kind, True, f"#{node['id']}", node["role"], _node_name(node), rest)
        if kind == "open":
            open_at.append(depth)
    yield from (Event("close") for _ in open_at)
