"""Folding of leaves that add nothing into their container, and lookup of the control at a leaf.

Toolkits give the text of a link or a button an element of its own, and browsers do so even for the blank between two
links. This module does not read files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from trajmill.connectors.desktop.widgets import INTERACTIVE
from trajmill.connectors.screens.tree import Node

_TOPS: Final = frozenset({"window", "dialog", "document"})
"""Roles whose name is a title, so that the same words in the content are shown a second time."""

_PLAIN: Final = frozenset({"text", "image", "heading", "group"})
"""Roles of the parts of a control, which are no controls themselves."""

_ROWS: Final = frozenset({"listitem", "treeitem"})


def fold(nodes: Sequence[Node], depths: Sequence[int], top: Node | None = None) -> tuple[list[Node], list[int]]:
    """Leave out text leaves that are empty or repeat a text of their container.

    Args:
        depths: their depths; a child is one level deeper than its parent.
        top: the container of the nodes of the least depth.

    Returns:
        The nodes that are kept, with their depths.
    """
    parents: list[int] = []
    path: list[int] = []
    first = min(depths, default=0)
    for index, depth in enumerate(depths):
        del path[depth - first :]
        parents.append(path[-1] if path else -1)
        path.append(index)
    keeps = [True] * len(nodes)
    is_leaf = [True] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        node, around = nodes[index], parents[index]
        if node.role == "text" and is_leaf[index] and _adds_nothing(node, nodes[around] if around >= 0 else top):
            keeps[index] = False
        elif around >= 0:
            is_leaf[around] = False
    shown = [index for index, stays in enumerate(keeps) if stays]
    return [nodes[index] for index in shown], [depths[index] for index in shown]


def _adds_nothing(leaf: Node, around: Node | None) -> bool:
    if leaf.ident or leaf.value or leaf.description:
        return False
    if not leaf.name:
        return not leaf.states
    if around is None or around.role in _TOPS or not set(leaf.states) <= set(around.states):
        return False
    return any(_stands_in(leaf.name, text) for text in (around.name, around.value, around.description))


def _stands_in(part: str, text: str) -> bool:
    """Return True if a text occurs in another as whole words."""
    if part == text or part not in text:
        return part == text
    before, after = r"(?<!\w)" * part[0].isalnum(), r"(?!\w)" * part[-1].isalnum()
    return re.search(before + re.escape(part) + after, text) is not None


def control_around(index: int, nodes: Sequence[Node], depths: Sequence[int]) -> int:
    """Return the index of the control that a node is part of, such as the link of a picture; else the node's own index.

    The chosen entry of a closed combobox is part of it.
    """
    depth, is_part = depths[index], nodes[index].role in _PLAIN and "clickable" not in nodes[index].states
    for above in range(index - 1, -1, -1):
        if depths[above] >= depth:
            continue
        node, depth = nodes[above], depths[above]
        if node.role == "combobox" and (is_part or "collapsed" in node.states):
            return above
        if is_part and node.role in INTERACTIVE and (node.name or node.role not in _ROWS):
            return above
        is_part = is_part and node.role in _PLAIN
    return index
