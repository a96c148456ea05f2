"""Permanent assignment of groups of trajectories to the pools CPT, SFT, RL and evaluation.

In the order of a hash of their names, groups go to the pool that is furthest below the recipe's shares, counted in
trajectories by domain. When a hash alone decided, a domain of 661 trajectories in a few large groups came out at 34,
178, 292 and 157 against shares of 40, 25, 20 and 15 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import xxhash

from trajmill.pipelines.mix.coded_names import Coded, Codes, fitting
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.quality.group import components
from trajmill.quality.sets import distinct, ranges
from trajmill.schemas import ConfigError

LARGE: Final = 100
"""Size of a group, in trajectories, below which it never stops a run, however small its pool is."""

_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Groups:
    """Trajectories of each group by domain.

    Attributes:
        names: names of the groups, ascending.
        begins: position of each group's first size, and the end of the last group's sizes.
        domain: for each size, the number of its domain, ascending within a group.
        domains: names of the domains, sorted.
    """

    names: npt.NDArray[np.uint64]
    number: npt.NDArray[np.uint32]
    begins: npt.NDArray[np.int64]
    domain: Codes
    sizes: npt.NDArray[np.uint32]
    domains: tuple[str, ...]

    def of_domains(self) -> npt.NDArray[np.int64]:
        """Return the number of trajectories of each domain."""
        counts = np.zeros(len(self.domains), np.int64)
        np.add.at(counts, self.domain, self.sizes)
        return counts


def group_by_domain(group: npt.NDArray[np.uint64], domain: Coded) -> Groups:
    """Count trajectories by group and domain."""
    names = distinct(group)
    number = positions_in(names, group)
    domains = tuple(sorted(map(str, domain.held())))
    new_codes = np.array([domains.index(name) if name in domains else 0 for name in domain.names], np.uint64)
    pairs = number * np.uint64(len(domains)) + new_codes[domain.codes]
    pairs.sort()
    new = np.flatnonzero(np.append(True, pairs[1:] != pairs[:-1])) if len(pairs) else np.zeros(0, np.int64)
    sizes = np.diff(new, append=len(pairs)).astype(np.uint32)
    group_numbers, domain_numbers = np.divmod(pairs[new], np.uint64(len(domains)))
    begins = np.searchsorted(group_numbers, np.arange(len(names) + 1, dtype=np.uint64))
    return Groups(names, number, begins, fitting(domain_numbers, len(domains)), sizes, domains)


def merge_groups(group: npt.NDArray[np.uint64], wider: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """Merge groups whose trajectories share a value.

    Args:
        wider: shared values, such as hashes of repositories: one array per kind, 0 if unknown.

    Returns:
        For each trajectory, the smallest group that is joined to its own.
    """
    names = distinct(group)
    number = positions_in(names, group)
    ties = [np.zeros(0, np.uint64)]
    for values in wider:
        known = values != 0
        firsts = _smallest(values[known], number[known])
        ties.append(distinct((number[known].astype(np.uint64) << np.uint64(32)) | firsts))
    edges = np.concatenate(ties)
    nodes, joined = components(np.stack([edges >> np.uint64(32), edges & np.uint64(0xFFFFFFFF)], axis=1))
    names[nodes] = names[joined]
    return names[number]


def positions_in(names: npt.NDArray[np.uint64], values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """Return the position of each value in the ascending `names`, which must contain it.

    Values are processed in blocks.
    """
    positions = np.empty(len(values), np.uint32)
    for begin in range(0, len(values), _AT_ONCE):
        some = slice(begin, begin + _AT_ONCE)
        positions[some] = np.searchsorted(names, values[some])
    return positions


def of_kind(values: npt.NDArray[np.uint64], number: int) -> npt.NDArray[np.uint64]:
    """Turn values into nodes that differ from nodes of other kinds and from names of groups."""
    return np.array([xxhash.xxh3_64_intdigest(int(v).to_bytes(8, "little"), number + 1) for v in values], "u8")


def _smallest(values: npt.NDArray[np.uint64], group: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return for each trajectory the smallest group among those with its value."""
    distinct_values = distinct(values)
    positions = positions_in(distinct_values, values)
    smallest = np.full(len(distinct_values), np.iinfo(np.uint32).max, np.uint32)
    np.minimum.at(smallest, positions, group)
    return smallest[positions]


GivenCounts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Pool → domain → number of trajectories that the pool already has."""


def pools_of(
    groups: Groups, shares: Mapping[str, float], seed: int, earlier_counts: GivenCounts | None = None
) -> npt.NDArray[np.uint8]:
    """Choose the pool of each group, as its number in the order of the shares.

    Args:
        shares: shares of the pools, in order; a pool with share 0 gets nothing.
        earlier_counts: trajectories that pools already have, which count towards their shares.

    Raises:
        ConfigError: a group holds more of a domain than the largest pool may have.
    """
    pools = [pool for pool, share in shares.items() if share]
    parts = np.array([shares[pool] for pool in pools]) / sum(shares[pool] for pool in pools)
    before = [[(earlier_counts or {}).get(pool, {}).get(domain, 0) for domain in groups.domains] for pool in pools]
    given_counts = np.array(before, np.float64).reshape(len(pools), len(groups.domains))
    wanted = np.outer(parts, groups.of_domains() + given_counts.sum(axis=0))
    _check(groups, pools, wanted)
    dealing = _Dealing(wanted.tolist(), given_counts.tolist())
    numbers = np.array([[*shares].index(pool) for pool in pools], np.uint8)
    pools_by_group = np.zeros(len(groups.names), np.uint8)
    order = np.argsort(_order_keys(groups.names, seed), kind="stable")
    for begin in range(0, len(order), _AT_ONCE):
        some = order[begin : begin + _AT_ONCE]
        first_rows, count = groups.begins[some], groups.begins[some + 1] - groups.begins[some]
        rows = ranges(first_rows, count)
        sizes = zip(groups.domain[rows].tolist(), groups.sizes[rows].tolist(), strict=True)
        chosen = [
            dealing.one(*next(sizes)) if several == 1 else dealing.several(dict(islice(sizes, several)))
            for several in count.tolist()
        ]
        pools_by_group[some] = numbers[chosen]
    return pools_by_group


def _order_keys(names: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """Hash the name of each group."""
    keys = np.empty(len(names), np.uint64)
    for begin in range(0, len(names), _AT_ONCE):
        some = names[begin : begin + _AT_ONCE].tolist()
        keys[begin : begin + len(some)] = [keyed_hash(f"pool:{name:016x}", seed) for name in some]
    return keys


class _Dealing:
    """Trajectories that pools still lack, as groups are assigned one after the other.

    Args:
        assigned: trajectories that they already have.
    """

    def __init__(self, wanted: list[list[float]], assigned: list[list[float]]) -> None:
        self._wanted, self._given = wanted, assigned

    def one(self, domain: int, size: int) -> int:
        """Choose the pool of a group of one domain, like `several` but without arrays. Most groups have one domain."""
        best, most, square = 0, -math.inf, size * size
        for number, (pool_wanted, pool_given) in enumerate(zip(self._wanted, self._given, strict=True)):
            lacking = round((pool_wanted[domain] - pool_given[domain]) * size / square * 1e9) / 1e9
            if lacking > most:
                best, most = number, lacking
        self._given[best][domain] += size
        return best

    def several(self, sizes: Mapping[int, int]) -> int:
        """Choose the pool that lacks most of a group's domains, weighted by the group's size in each."""
        size = np.zeros(len(self._given[0]), np.int64)
        for domain, count in sizes.items():
            size[domain] = count
        missing = np.array(self._wanted) - np.array(self._given)
        lacking = (missing * size).sum(axis=1) / max(int((size * size).sum()), 1)
        best = int(np.argmax(np.round(lacking, 9)))
        for domain, count in sizes.items():
            self._given[best][domain] += count
        return best


def _check(groups: Groups, pools: Sequence[str], wanted: npt.NDArray[np.float64]) -> None:
    most = wanted.max(axis=0)
    over = np.flatnonzero((groups.sizes >= LARGE) & (groups.sizes > most[groups.domain]))
    if len(over):
        size, domain = int(groups.sizes[over[0]]), int(groups.domain[over[0]])
        group = int(groups.names[np.searchsorted(groups.begins, over[0], "right") - 1])
        pool = pools[int(np.argmax(wanted[:, domain]))]
        raise ConfigError(
            f"Group {group:016x} holds {size:,} of the {int(groups.of_domains()[domain]):,} trajectories of "
            f"{groups.domains[domain]}, and the largest pool ({pool}) is to have {most[domain]:,.0f}: a group is in "
            "one pool. Give one pool a larger share, bound its task or environment (judge.max_share), or widen groups "
            "by less (mix.group_by, or judge.group_folders: false where all were made in one working folder)."
        )
