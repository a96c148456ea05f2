"""Pools: which group of trajectories goes to CPT, SFT, RL or evaluation, for ever.

Groups go, in the order of a hash of their names, where most is missing of what the recipe's shares ask for, counted in
trajectories by domain. Where a hash alone decides, a domain of 661 trajectories in a few large groups came out at 34,
178, 292 and 157 against shares of 40, 25, 20 and 15 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from quality.group import components
from schemas import ConfigError

LARGE: Final = 100
"""Trajectories of a group below which it is no reason to stop, however small its pool is."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The trajectories of each group by domain.

    Attributes:
        names: of the groups, 16 hex digits each, sorted.
        sizes: shape (groups, domains): how many trajectories.
        domains: in the order of the columns.
    """

    names: tuple[str, ...]
    sizes: npt.NDArray[np.int64]
    domains: tuple[str, ...]


def grouped(group: Sequence[str] | npt.NDArray[np.object_], domain: Sequence[str] | npt.NDArray[np.object_]) -> Groups:
    """The groups of trajectories.

    Args:
        group: of each trajectory.
        domain: of each trajectory.
    """
    names, of_group = _numbered(group)
    domains, of_domain = _numbered(domain)
    sizes = np.zeros((len(names), len(domains)), np.int64)
    np.add.at(sizes, (of_group, of_domain), 1)
    return Groups(names, sizes, domains)


def _numbered(texts: Sequence[str] | npt.NDArray[np.object_]) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """The distinct texts, sorted, and the number of each; there may be millions, so none is copied."""
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    order = sorted(range(len(distinct)), key=distinct.__getitem__)
    number = np.empty(len(distinct), np.int64)
    number[order] = np.arange(len(distinct))
    return tuple(distinct[one] for one in order), number[encoded.indices.to_numpy(zero_copy_only=False)]


def widened(group: npt.NDArray[np.uint64], wider: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """The group of each trajectory where those that share a value belong together too.

    Args:
        group: of each trajectory.
        wider: what is shared, such as hashes of repositories: one array a kind, 0 where it is not known.

    Returns:
        Of each trajectory the smallest group that is joined to its own.
    """
    edges = [np.stack([group, group], axis=1)]
    for number, values in enumerate(wider):
        known = values != 0
        marked = of_kind(values[known], number)
        firsts = _smallest(marked, group[known])
        edges.append(np.stack([group[known], firsts], axis=1))
    nodes, names = components(np.concatenate(edges))
    return names[np.searchsorted(nodes, group)]


def of_kind(values: npt.NDArray[np.uint64], number: int) -> npt.NDArray[np.uint64]:
    """The values as nodes: one of a kind is not that of another, nor a group's name."""
    return np.array([xxhash.xxh3_64_intdigest(int(v).to_bytes(8, "little"), number + 1) for v in values], "u8")


def _smallest(values: npt.NDArray[np.uint64], group: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """For each trajectory the smallest group among those of its value."""
    distinct, inverse = np.unique(values, return_inverse=True)
    found = np.full(len(distinct), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(found, inverse, group)
    return found[inverse]


Held: TypeAlias = Mapping[str, Mapping[str, int]]
"""Pool → domain → trajectories that it was given already."""


def pools_of(groups: Groups, shares: Mapping[str, float], seed: int, held: Held | None = None) -> dict[str, str]:
    """The pool of each group.

    Args:
        groups: all of them.
        shares: of the pools, in their order; those of 0 are given nothing.
        seed: of the order of groups.
        held: what pools were given before, which counts towards their shares.

    Raises:
        ConfigError: a group holds more of a domain than the largest pool is to have of it.
    """
    pools = [pool for pool, share in shares.items() if share]
    parts = np.array([shares[pool] for pool in pools]) / sum(shares[pool] for pool in pools)
    before = [[(held or {}).get(pool, {}).get(domain, 0) for domain in groups.domains] for pool in pools]
    given = np.array(before, np.float64).reshape(len(pools), len(groups.domains))
    wanted = np.outer(parts, groups.sizes.sum(axis=0) + given.sum(axis=0))
    _check(groups, pools, wanted)
    order = sorted(
        range(len(groups.names)), key=lambda n: xxhash.xxh3_64_intdigest(f"pool:{groups.names[n]}".encode(), seed)
    )
    found: dict[str, str] = {}
    for number in order:
        size = groups.sizes[number]
        # of the domains that the group has, how much of it the pool still lacks
        lacking = ((wanted - given) * size).sum(axis=1) / max(int((size * size).sum()), 1)
        pool = int(np.argmax(np.round(lacking, 9)))
        given[pool] += size
        found[groups.names[number]] = pools[pool]
    return found


def _check(groups: Groups, pools: Sequence[str], wanted: npt.NDArray[np.float64]) -> None:
    most = wanted.max(axis=0)
    over = np.argwhere((groups.sizes > most) & (groups.sizes >= LARGE))
    if len(over):
        group, domain = over[0].tolist()
        held, whole = groups.sizes[group, domain], groups.sizes[:, domain].sum()
        pool = pools[int(np.argmax(wanted[:, domain]))]
        raise ConfigError(
            f"Group {groups.names[group]} holds {held:,} of the {whole:,} trajectories of {groups.domains[domain]}, "
            f"and the largest pool ({pool}) is to have {most[domain]:,.0f}: a group is in one pool. Give one pool a "
            "larger share, bound its task or environment (judge.max_share), or widen groups by less (mix.group_by, or "
            "judge.group_folders: false where all were made in one working folder)."
        )
