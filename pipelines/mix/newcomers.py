"""Newcomers: which group and pool each trajectory of a later generation has, where nodes keep those they were given.

A trajectory bears nodes: of its task, its instance, its own id and its parent's, and of environments by which the
recipe widens groups. A node that an earlier generation knows has a group and a pool for ever. Newcomers are tried in
their order; one that would join nodes of two pools is told as a bridge, and joins nothing. Besides its own, a
newcomer bears the nodes of the tasks of those that it is like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Node = int


@dataclass(frozen=True, slots=True)
class Place:
    """The group and the pool of a node, for ever."""

    group: int
    pool: str


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of newcomers; arrays of one length, in their order.

    Attributes:
        group: name of each one's group.
        pool: that it joins; empty where none of its nodes is known, so that shares decide.
        bridges: whether it would join two pools; then group and pool mean nothing.
    """

    group: npt.NDArray[np.uint64]
    pool: npt.NDArray[np.object_]
    bridges: npt.NDArray[np.bool_]


def settled(nodes: Sequence[Sequence[Node]], order: Sequence[int], known: Mapping[Node, Place]) -> Settled:
    """The groups of newcomers.

    Args:
        nodes: of each newcomer, at least one.
        order: in which they are tried: numbers of newcomers.
        known: nodes of earlier generations.
    """
    parents: dict[Node, Node] = {}
    places: dict[Node, Place] = {}  # of roots
    bridges = np.zeros(len(nodes), np.bool_)
    for number in order:
        roots = sorted({_root(parents, node) for node in nodes[number]})
        found = [places.get(root) or known.get(root) for root in roots]
        held = sorted({place.pool for place in found if place is not None})
        if len(held) > 1:
            bridges[number] = True
            continue
        for root in roots:
            parents[root] = roots[0]
        if held:
            group = min(place.group for place in found if place is not None)
            places[roots[0]] = Place(group, held[0])
    names = [_root(parents, of[0]) for of in nodes]
    given = [places.get(root) or known.get(root) or Place(root, "") for root in names]
    groups = np.array([place.group for place in given], np.uint64)
    return Settled(groups, np.array([place.pool for place in given], object), bridges)


def _root(parents: dict[Node, Node], node: Node) -> Node:
    """The smallest node that it was joined to."""
    path = []
    while parents.get(node, node) != node:
        path.append(node)
        node = parents[node]
    for one in path:
        parents[one] = node
    return node
