"""What a screen looks like by the boxes that its tree tells: a drawing for where there is no screenshot, or over it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels."""

_LARGEST: Final = 20_000
_NODES: Final = 1500
_LABEL_CHARACTERS: Final = 40


class Area(NamedTuple):
    """A node's box.

    Attributes:
        mark: its number, as `#7`.
        label: its name, where it is a leaf; else empty.
        left: in pixels of the drawing.
        top: likewise.
        width: likewise.
        height: likewise.
        size: of the label's letters.
        is_target: whether the action is on it.
        role: of the node.
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
    """A drawing of a screen: its size in pixels, and its areas from the back to the front."""

    width: int
    height: int
    areas: Sequence[Area]


def wireframe(nodes: Iterable[tuple[str, str, str, Box]], target: str = "") -> Wireframe | None:
    """The drawing of nodes with boxes: number, role, name, box; None where no box has an area.

    The frame is that of the largest box that begins the screen; what lies outside of it is left out.
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
