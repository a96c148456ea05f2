"""Newcomers: which group and pool each trajectory of a later generation has, where nodes keep those they were given.

A trajectory bears nodes: of its task, its instance, its own id and its parent's, and of environments by which the
recipe widens groups. A node that an earlier generation knows has a group and a pool for ever. Newcomers are tried in
their order; one that would join nodes of two pools is told as a bridge, and joins nothing. Besides its own, a
newcomer bears the nodes of the tasks of those that it is like.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]

_AT_ONCE = 1 << 14
"""Newcomers whose nodes are objects at the same time."""


@dataclass(frozen=True, slots=True)
class Bearing:
    """Which nodes newcomers bear, of which there are millions: nothing here is an object.

    Attributes:
        newcomer: number of the newcomer, ascending.
        node: that it bears, ascending for each, and each once.
    """

    newcomer: npt.NDArray[np.int64]
    node: Numbers

    @classmethod
    def of(cls, newcomer: npt.NDArray[np.int64], node: Numbers) -> Bearing:
        """The same of pairs in any order, which may be told twice."""
        order = np.lexsort((node, newcomer))
        newcomer, node = newcomer[order], node[order]
        first = np.r_[True, (newcomer[1:] != newcomer[:-1]) | (node[1:] != node[:-1])][: len(node)]
        return cls(newcomer[first], node[first])

    def among(self, newcomers: npt.NDArray[np.bool_]) -> Bearing:
        """That of some of the newcomers."""
        mine = newcomers[self.newcomer]
        return Bearing(self.newcomer[mine], self.node[mine])


@dataclass(frozen=True, slots=True)
class Places:
    """Groups and pools, for ever; arrays of one length.

    Attributes:
        node: that has the place.
        group: its name.
        pool: the number of its pool.
    """

    node: Numbers
    group: Numbers
    pool: npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of newcomers; arrays of one length, in their order.

    Attributes:
        group: name of each one's group.
        pool: the number of the pool that it joins; -1 where none of its nodes is known, so that shares decide.
        bridges: whether it would join two pools; then group and pool mean nothing.
    """

    group: Numbers
    pool: npt.NDArray[np.int8]
    bridges: npt.NDArray[np.bool_]


def settled(bearing: Bearing, order: npt.NDArray[np.int64], known: Places) -> Settled:
    """The groups of newcomers.

    Args:
        bearing: the nodes of each newcomer, at least one.
        order: in which they are tried: numbers of newcomers, each once.
        known: nodes of earlier generations, of those that newcomers bear; of one that is told twice the last counts.
    """
    nodes, dense = np.unique(bearing.node, return_inverse=True)
    group, pool = array("Q", bytes(8 * len(nodes))), array("b", b"\xff" * len(nodes))  # of roots; pool -1: not known
    at = np.searchsorted(nodes, known.node).tolist()
    for place, of, to in zip(at, known.group.tolist(), known.pool.tolist(), strict=True):
        group[place], pool[place] = of, to
    parents = array("q", np.arange(len(nodes), dtype=np.int64).tobytes())
    bridges = np.zeros(len(order), np.bool_)
    starts = np.searchsorted(bearing.newcomer, np.arange(len(order) + 1))
    for number, mine in _nodes_of(order, starts, dense):
        roots = sorted({_root(parents, node) for node in mine})
        held = [root for root in roots if pool[root] >= 0]
        if len({pool[root] for root in held}) > 1:
            bridges[number] = True
            continue
        for root in roots:
            parents[root] = roots[0]
        if held:
            group[roots[0]], pool[roots[0]] = min(group[root] for root in held), pool[held[0]]
    roots_of = _roots(np.frombuffer(parents, np.int64) if len(nodes) else np.zeros(0, np.int64))
    names = roots_of[dense[starts[:-1]]]
    pools = np.frombuffer(pool, np.int8)[names] if len(nodes) else np.zeros(0, np.int8)
    groups = np.frombuffer(group, np.uint64)[names] if len(nodes) else np.zeros(0, np.uint64)
    return Settled(np.where(pools >= 0, groups, nodes[names]), pools, bridges)


def _nodes_of(
    order: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], dense: npt.NDArray[np.int64]
) -> Iterator[tuple[int, list[int]]]:
    """The newcomers in their order, each with its nodes by number."""
    for begin in range(0, len(order), _AT_ONCE):
        some = order[begin : begin + _AT_ONCE]
        for number, first, end in zip(some.tolist(), starts[some].tolist(), starts[some + 1].tolist(), strict=True):
            yield number, dense[first:end].tolist()


def _root(parents: array[int], node: int) -> int:
    """The smallest node that it was joined to."""
    root = node
    while parents[root] != root:
        root = parents[root]
    while parents[node] != root:
        parents[node], node = root, parents[node]
    return root


def _roots(parents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The root of each node."""
    while True:
        further = parents[parents]
        if np.array_equal(further, parents):
            return further
        parents = further
