"""Groups: connected components over tasks, environment instances and families of trajectories. A group stays in one
pool.

Nodes are 64-bit hashes; an edge connects two nodes of one trajectory. The smallest node names its group, so the name
does not depend on the order of edges. The edges of a whole corpus are held by one process, so the arrays are
overwritten in slices instead of copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

Nodes = npt.NDArray[np.uint64]
Ends = tuple[Nodes, Nodes]
"""Two nodes of each edge."""
Labels = npt.NDArray[np.uint32]

_AT_ONCE: Final = 1 << 18
"""Edges of a slice."""


def components(edges: Nodes) -> tuple[Nodes, Nodes]:
    """Return every node of the edges, sorted, and the smallest node of its component.

    Args:
        edges: Edges, shape (n, 2); a single node is an edge to itself.
    """
    ends = edges[:, 0].astype(np.uint64), edges[:, 1].astype(np.uint64)
    nodes = _number_nodes(ends)
    return nodes, nodes[_labels(ends, len(nodes))]


def name_edges(ends: Ends) -> None:
    """Replace each edge's second end by the smallest node of its component, in place.

    Args:
        ends: Two nodes of each edge.
    """
    nodes = _number_nodes(ends)
    label = _labels(ends, len(nodes))
    first, second = ends
    for some in _stretches(first):
        first[some], second[some] = nodes[first[some]], nodes[label[first[some]]]


def _number_nodes(ends: Ends) -> Nodes:
    """Return the sorted nodes of the edges, and replace each end by its node's number in place."""
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
    """Return the number of the smallest node in the component of each of `count` nodes.

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
