"""Groups: connected components over tasks, environment instances and families of trajectories, each of one pool.

Nodes are 64-bit hashes; an edge says that one trajectory has both. A group is named by the smallest node in it, so the
name does not depend on the order of edges. Edges of a whole corpus come together in one place, so their arrays are
written over, a stretch at a time, instead of being copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

Nodes = npt.NDArray[np.uint64]
Ends = tuple[Nodes, Nodes]
"""The two nodes of each edge."""
Labels = npt.NDArray[np.uint32]

_AT_ONCE: Final = 1 << 18
"""Edges of a stretch."""


def components(edges: Nodes) -> tuple[Nodes, Nodes]:
    """Every node of the edges, sorted, and the smallest node of its component.

    Args:
        edges: shape (n, 2); a node alone is an edge to itself.
    """
    ends = edges[:, 0].astype(np.uint64), edges[:, 1].astype(np.uint64)
    nodes = _number_nodes(ends)
    return nodes, nodes[_labels(ends, len(nodes))]


def name_edges(ends: Ends) -> None:
    """Writes the smallest node of each edge's component over the edge's second end.

    Args:
        ends: of the edges.
    """
    nodes = _number_nodes(ends)
    label = _labels(ends, len(nodes))
    first, second = ends
    for some in _stretches(first):
        first[some], second[some] = nodes[first[some]], nodes[label[first[some]]]


def _number_nodes(ends: Ends) -> Nodes:
    """Sort the nodes of the edges, and replace each end by its node's number."""
    nodes = np.concatenate(ends)
    nodes.sort()
    new = np.ones(len(nodes), np.bool_)
    np.not_equal(nodes[1:], nodes[:-1], out=new[1:])
    count = 0
    for some in _stretches(nodes):
        new_nodes = nodes[some][new[some]]
        nodes[count : count + len(new_nodes)] = new_nodes
        count += len(new_nodes)
    nodes.resize(count, refcheck=False)
    for side in ends:
        for some in _stretches(side):
            side[some] = np.searchsorted(nodes, side[some])
    return nodes


def _labels(ends: Ends, count: int) -> Labels:
    """Return the number of the smallest node in the component of each of so many.

    Labels are lowered along edges and shortcut by pointer jumping until nothing changes: O(log n) vectorized rounds.
    """
    label = np.arange(count, dtype=np.uint32)
    while True:
        lowered = label.copy()
        for some in _stretches(ends[0]):
            end_labels = [label[side[some]] for side in ends]
            least = np.minimum(*end_labels)
            for side, labels_of_side in zip(ends, end_labels, strict=True):
                np.minimum.at(lowered, side[some], least)
                np.minimum.at(lowered, labels_of_side, least)
        lowered = lowered[lowered]
        if np.array_equal(lowered, label):
            return label
        label = lowered


def _stretches(values: Nodes) -> Iterator[slice]:
    for begin in range(0, len(values), _AT_ONCE):
        yield slice(begin, begin + _AT_ONCE)
