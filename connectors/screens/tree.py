r"""The compact text of a screen's element tree (dialect `uitree/1`): what a model predicts and a person reads.

One line a node, in document order, two spaces of indent a level, each part only where the node has it:

    #3 switch "Wi-Fi" value="…" description="…" clickable checked id=wifi_toggle [905,560][1031,686]

- `#3`: the node's id. A reader counts nodes from 1 in document order; over the screens of a trajectory they then keep
  their numbers (`connectors.screens.numbers`), and actions name their targets by these. Ids that a system draws afresh
  on every dump never enter: but for the numbers, equal screens have equal text.
- role: a short lower-case word, `button` or `text`; then the name: what labels the node.
- `value`: what it holds (the text of a field); `description`: a second label that differs from the name.
- states that are set, in the order in which the source lists them: `clickable`, `checked`, `disabled`, …
- `id`: the program's own lasting name of the node (a resource id); then the box in pixels: left, top, right, bottom.

Texts are JSON strings, so a line never breaks, and `Tree.parse(text).text == text`. Nothing here knows Android, a
browser or a desktop: its callers decide which nodes get a line.

>>> tree = Tree.parse('''#1 window "Settings" [0,0][1080,2400]
...   #2 switch "Wi-Fi" clickable checked id=wifi_toggle [905,560][1031,686]''')
>>> tree.at(950, 600, "clickable")
2
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from json.encoder import encode_basestring
from typing import Final, TypeAlias

from trajmill.schemas.record import record

DIALECT: Final = "uitree/1"
MAX_DEPTH: Final = 256
"""Largest number of levels of shown nodes; deeper trees are refused, since indentation would grow without bound."""

MAX_TAGS: Final = 400_000
"""Number of tags above which a document is no screen, since an element takes about a kilobyte in memory."""

Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels; right and bottom are the first pixels outside."""


def has_area(box: Box | None) -> bool:
    """Check whether a box contains a pixel; False for None."""
    return box is not None and box[0] < box[2] and box[1] < box[3]


_STRING: Final = r'"(?:[^"\\\x00-\x1f]|\\.)*"'
_WORD: Final = re.compile(r"[A-Za-z0-9_.:/-]+")
_LINE: Final = re.compile(
    rf"(?P<indent>(?:  )*)#(?P<id>[1-9][0-9]{{0,8}}) (?P<role>[a-z0-9_.-]+)(?: (?P<name>{_STRING}))?"
    rf"(?: value=(?P<value>{_STRING}))?(?: description=(?P<description>{_STRING}))?(?P<states>(?: [a-z_]+)*)"
    rf"(?: id=(?P<ident>{_STRING}|[A-Za-z0-9_.:/-]+))?"
    r"(?: \[(?P<left>-?[0-9]{1,9}),(?P<top>-?[0-9]{1,9})\]\[(?P<right>-?[0-9]{1,9}),(?P<bottom>-?[0-9]{1,9})\])?"
)


def render_node(
    role: str,
    name: str = "",
    value: str = "",
    description: str = "",
    states: tuple[str, ...] = (),
    ident: str = "",
    bounds: Box | None = None,
) -> str:
    """Return the text of a node after its id, beginning with a space; the arguments are the fields of `Node`."""
    line = f" {role} {encode_basestring(name)}" if name else f" {role}"
    if value:
        line = f"{line} value={encode_basestring(value)}"
    if description:
        line = f"{line} description={encode_basestring(description)}"
    if states:
        line = f"{line} {' '.join(states)}"
    if ident:
        line = f"{line} id={ident}" if ident.isidentifier() and ident.isascii() else line + _ident(ident)
    if bounds is not None:
        left, top, right, bottom = bounds
        line = f"{line} [{left},{top}][{right},{bottom}]"
    return line


@lru_cache(maxsize=4096)
def _ident(ident: str) -> str:
    """Return the lasting id of a node as in its line, beginning with a space; cached, since a program has few."""
    return f" id={ident}" if _WORD.fullmatch(ident) else f" id={encode_basestring(ident)}"


def tree_text(lines: Iterable[tuple[int, str]], numbers: Sequence[int] = ()) -> str:
    """Return the text of a tree from its nodes in document order, each as (depth, text as in `render_node`).

    Args:
        lines: Depths and texts of the nodes.
        numbers: Ids of the nodes; counted from 1 by default.

    Raises:
        ValueError: The tree has more than `MAX_DEPTH` levels.
    """
    written = []
    for number, (depth, text) in zip(numbers or count(1), lines, strict=False):
        if depth >= MAX_DEPTH:
            raise ValueError(f"the tree has more than {MAX_DEPTH} levels")
        written.append(f"{'  ' * depth}#{number}{text}")
    return "\n".join(written)


@record
class Node:
    """Element without its place in a tree: equal elements of many screens may share one object.

    `states` are words of lower-case letters and `_`; `role` may also contain digits, `.` and `-`. `line` is derived:
    the node's text after its id.
    """

    role: str
    name: str = ""
    value: str = ""
    description: str = ""
    states: tuple[str, ...] = ()
    ident: str = ""
    bounds: Box | None = None
    line: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        line = render_node(self.role, self.name, self.value, self.description, self.states, self.ident, self.bounds)
        self.line = line  # type: ignore[misc]

    def holds(self, x: float, y: float) -> bool:
        """Check whether the point is in the node's box."""
        box = self.bounds
        return box is not None and box[0] <= x < box[2] and box[1] <= y < box[3]


@dataclass(frozen=True, slots=True)
class Tree:
    """Nodes in document order with their depths; the id of the node at index i is i + 1, unless `numbers` has others.

    A node's children are the following nodes one level deeper, up to the next node that is not deeper than it. Nodes of
    depth 0 are windows, the topmost first.
    """

    nodes: Sequence[Node]
    depths: Sequence[int]
    numbers: Sequence[int] = ()

    @property
    def text(self) -> str:
        """Text of the tree, with lines joined by line feeds."""
        lines = ((depth, node.line) for depth, node in zip(self.depths, self.nodes, strict=True))
        return tree_text(lines, self.numbers)

    @classmethod
    def parse(cls, text: str) -> Tree:
        """Parse the text of a tree.

        Raises:
            ValueError: A line is no node, an id is repeated, or a depth skips a level; the message has the line's
                number.
        """
        numbers: dict[int, None] = {}
        nodes: list[Node] = []
        depths: list[int] = []
        for number, line in enumerate(text.split("\n") if text else [], 1):
            match = _LINE.fullmatch(line)
            if match is None or int(match["id"]) in numbers:
                raise ValueError(f"line {number} of the tree: wanted a node with an id of its own, met {line[:80]!r}")
            depth = len(match["indent"]) // 2
            if depth >= MAX_DEPTH or depth > (depths[-1] + 1 if depths else 0):
                raise ValueError(f"line {number} of the tree: indented by {depth} levels, which has no parent")
            nodes.append(_node(match))
            depths.append(depth)
            numbers[int(match["id"])] = None
        return cls(nodes, depths, () if list(numbers) == list(range(1, len(nodes) + 1)) else tuple(numbers))

    def node(self, number: int) -> Node | None:
        """Return the node with an id; None if there is none."""
        known_numbers = range(1, len(self.nodes) + 1) if not self.numbers else self.numbers
        return self.nodes[known_numbers.index(number)] if number in known_numbers else None

    def windows(self) -> Iterator[range]:
        """Yield the indexes of each top-level node and all nodes under it, in document order."""
        starts = [index for index, depth in enumerate(self.depths) if depth == 0]
        for start, end in zip(starts, [*starts[1:], len(self.nodes)], strict=True):
            yield range(start, end)

    def at(self, x: float, y: float, state: str) -> int | None:
        """Return the id of the node with that state that a touch at the point hits; None if there is none.

        Within a window later nodes are drawn over earlier ones and children over their parents, so the last one counts.
        """
        for window in self.windows():
            for index in reversed(window):
                node = self.nodes[index]
                if state in node.states and node.holds(x, y):
                    return self.numbers[index] if self.numbers else index + 1
        return None


def _node(match: re.Match[str]) -> Node:
    ident = match["ident"] or ""
    box = match["left"]
    return Node(
        role=match["role"],
        name=_unquote(match["name"]),
        value=_unquote(match["value"]),
        description=_unquote(match["description"]),
        states=tuple(match["states"].split()),
        ident=_unquote(ident) if ident.startswith('"') else ident,
        bounds=None if box is None else (int(box), int(match["top"]), int(match["right"]), int(match["bottom"])),
    )


def _unquote(quoted: str | None) -> str:
    return str(json.loads(quoted)) if quoted else ""
