"""Whether the pools of a dataset are disjoint, as its shards alone tell it.

What keeps pools apart is the groups that judge finds; here nothing of that is believed. No two pools may have a group,
a trajectory, a task, an instance, or an equal turn: all that was shown before an answer, and the answer. And no sample
may be nearly one of another pool. Nothing is written.

Near pairs among samples, found by comparing each with each: no bands that a pair may slip through.

Sets of shingles are compared by one bit of each of 256 minima (b-bit MinHash, Li and König, WWW 2010), which is an
exclusive or of four words a pair; of pairs that agree on enough bits, the 1,024 smallest shingles tell how alike they
are (bottom-k sketches, Cohen and Kaplan, 2007).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.publish.shown_samples import OWNED, Exchange, Shown, shown_samples
from trajmill.pipelines.recipe.recipe import POOLS
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.quality.fingerprint import mixed
from trajmill.quality.near import signatures
from trajmill.quality.sets import distinct
from trajmill.quality.shingle import shingles
from trajmill.schemas.manifest import Manifest

_BITS: Final = 256
_HIGH: Final = np.uint64(40)
"""The bit of a minimum that is taken; by the lowest ones it was put into its bin."""
_HELD: Final = 1_024
"""Smallest shingles that are held of a sample."""
_ROWS: Final = 256
"""Samples that are compared with all others at once."""
_DEVIATIONS: Final = 5
"""Standard deviations by which the bits of a near pair may agree less than is expected of it."""


class NearPair(NamedTuple):
    """Two samples of different pools, by number, and the share of all shingles of both that both have."""

    one: int
    other: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Sketch:
    """What is held of a sample's text: the bits, its smallest shingles, ascending, and how many it has."""

    bits: npt.NDArray[np.uint64]
    smallest: npt.NDArray[np.uint32]
    shingles: int


def sketches(texts: Sequence[str]) -> list[Sketch]:
    """The sketch of each text."""
    hashes, offsets = shingles(pa.array(texts, pa.string()))
    sets = [distinct(hashes[begin:end]) for begin, end in pairwise(offsets)]
    place = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
    minima = signatures(place, np.concatenate([*sets, np.zeros(0, np.uint32)]), len(sets), _BITS)
    ones = (mixed(minima.astype(np.uint64)) >> _HIGH & np.uint64(1)).astype(np.bool_)
    bits = np.packbits(ones, axis=1).view(np.uint64)
    return [Sketch(own, one[:_HELD], len(one)) for own, one in zip(bits, sets, strict=True)]


def similarity(one: Sketch, other: Sketch) -> float:
    """The share of all shingles of two texts that both have; of more than 1,024 as the smallest of them tell it."""
    ends = [int(of.smallest[-1]) for of in (one, other) if of.shingles > len(of.smallest)]
    some, more = one.smallest, other.smallest
    if ends:
        some, more = (of[: np.searchsorted(of, min(ends), "right")] for of in (some, more))
    if not len(some) or not len(more):
        return 0.0
    places = np.minimum(np.searchsorted(more, some), len(more) - 1)
    shared = int(np.count_nonzero(more[places] == some))
    return shared / (len(some) + len(more) - shared)


def near_pairs(some: Sequence[Sketch], pools: Sequence[int], least: float, few: int) -> Iterator[NearPair]:
    """Every pair of samples of two pools that are alike, by number, that of the smaller pool first.

    Args:
        some: sketches of the samples.
        pools: the number of each sample's pool.
        least: similarity from which a pair is near.
        few: shingles below which a sample is too short to tell; a pair of two such is left out.
    """
    if not some:
        return
    order = np.argsort(np.asarray(pools), kind="stable")
    bits = np.stack([some[number].bits for number in order])
    sizes, pool = np.array([some[number].shingles for number in order]), np.asarray(pools)[order]
    most = _unlike(least)
    for begin in range(0, len(some), _ROWS):
        rows = slice(begin, begin + _ROWS)
        beyond = int(np.searchsorted(pool, pool[begin], "right"))  # pools of smaller numbers have been compared
        unlike = np.zeros((len(bits[rows]), len(some) - beyond), np.uint16)
        for word in range(bits.shape[1]):
            unlike += np.bitwise_count(bits[rows, word][:, None] ^ bits[None, beyond:, word])
        ones, others = np.nonzero(unlike <= most)
        ones, others = ones + begin, others + beyond
        larger, smaller = np.maximum(sizes[ones], sizes[others]), np.minimum(sizes[ones], sizes[others])
        chosen = (pool[ones] < pool[others]) & (larger >= few) & (smaller >= least * larger)
        for one, other in zip(order[ones[chosen]].tolist(), order[others[chosen]].tolist(), strict=True):
            if (alike := similarity(some[one], some[other])) >= least:
                yield NearPair(one, other, alike)


def _unlike(least: float) -> int:
    """Bits on which a near pair differs at most: half of those of minima that are not shared agree by chance."""
    agreeing = (1 + least) / 2
    return int(_BITS * (1 - agreeing) + _DEVIATIONS * math.sqrt(_BITS * agreeing * (1 - agreeing)))


SAMPLE: Final = 20_000
"""Samples that are compared each with each, at most."""

NEAR: Final = 0.9
"""Share of the shingles of two samples (runs of five words of their actions and answers) from which they are a near
pair."""

SHORT: Final = 512
"""Shingles of a sample below which it is too short to tell: one screen or two, which others show as well."""

SHORT_TURN: Final = 1_024
"""Characters of a turn and all before it below which an equal one is too short to tell: whoever asks a fresh shell for
the date asks the same."""

_EXAMPLES: Final = 3
_MOST: Final = 10_000
"""Near pairs that are looked for before their number is told as a lower bound."""
_AT_ONCE: Final = 64
_TEXT: Final = 1 << 17
"""Characters of a sample that are compared with those of others."""

_TURN: Final = np.dtype([("key", "<u8"), ("size", "<i8"), ("taught", "?")])
"""The hash of a turn and all before it, how many characters these are, and whether it is learnt or asked for."""

_WORDS: Final[Mapping[str, str]] = {
    "group": "group",
    "trajectory_id": "trajectory",
    "task_hash": "task",
    "instance_hash": "instance",
}


@dataclass(frozen=True, slots=True)
class Disjointness:
    """What was found.

    Attributes:
        checked: what was compared, a line each.
        leaks: what stands in two pools, a line each; empty if nothing does.
    """

    checked: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()


@dataclass(slots=True)
class _Pool:
    """What is held of a pool: its files, names by kind, its turns, and ids and sketches of the samples chosen."""

    folder: Folder
    name: str
    files: tuple[str, ...]
    samples: int = 0
    owned: dict[str, list[pa.Array]] = field(default_factory=lambda: {kind: [] for kind in OWNED})
    turns: list[npt.NDArray[np.void]] = field(default_factory=lambda: [np.zeros(0, _TURN)])
    ids: list[str] = field(default_factory=list)
    sketches: list[Sketch] = field(default_factory=list)

    def shown(self) -> Iterator[Iterator[Shown]]:
        """The samples of each of its files."""
        return (shown_samples(self.folder, self.name, file) for file in self.files)

    def names(self, kind: str) -> pa.Array:
        """The distinct names of a kind."""
        return pc.unique(pa.chunked_array(self.owned[kind], pa.string()))

    def keys(self, *, short: bool = False, taught: bool = True) -> npt.NDArray[np.uint64]:
        """The hashes of turns that are learnt or asked for, or only shown: those too short to tell, or the others."""
        turns = np.concatenate(self.turns)
        chosen = ((turns["size"] < SHORT_TURN) == short) & (turns["taught"] == taught)
        found: npt.NDArray[np.uint64] = turns["key"][chosen]
        return found


def disjointness(out: str, sample: int = SAMPLE) -> Disjointness:
    """What the pools of a run's dataset share; nothing is told of a folder whose shards are not finished.

    Args:
        out: the run's folder.
        sample: how many samples, chosen by hash, are compared each with each.

    Raises:
        ShardError: a shard cannot be read.
    """
    folder = Folder(out) / "shards"
    manifest = read_manifest(folder, MANIFEST)
    if manifest is None:
        return Disjointness()
    total = sum(count for key, count in manifest.counts.items() if key.startswith("samples."))
    share = min(1.0, sample / total) if total else 1.0
    files = {pool: tuple(_files(manifest, pool)) for pool in POOLS}
    pools = [_Pool(folder, name, of) for name, of in files.items()]
    for pool in pools:
        _read(pool, share)
    return Disjointness(tuple(_checked(pools)), tuple(_leaks(pools)))


def _files(manifest: Manifest, pool: str) -> Iterator[str]:
    """The files of a pool's samples; of eval, those of lines, since the others hold the same."""
    ending = ".jsonl" if pool == "eval" else ".parquet"
    return (file.name for file in manifest.files if file.name.startswith(f"{pool}/") and file.name.endswith(ending))


def _read(pool: _Pool, share: float) -> None:
    """Takes in the samples of a pool; each is sketched with a chance of `share`, by the hash of its id."""
    waiting: list[Shown] = []
    for samples in pool.shown():
        owned: dict[str, set[str]] = {kind: set() for kind in OWNED}
        turns: list[tuple[int, int, bool]] = []
        for one in samples:
            pool.samples += 1
            for kind, value in one.owned.items():
                if value is not None:
                    owned[kind].add(value)
            turns += _turns(one.exchanges)
            if keyed_hash(f"near:{one.id}", 0) < share * (1 << 64):
                waiting.append(one)
            if len(waiting) == _AT_ONCE:
                _sketch(pool, waiting)
        pool.turns.append(np.array(turns, _TURN))
        for kind, values in owned.items():
            pool.owned[kind].append(pa.array(sorted(values), pa.string()))
    _sketch(pool, waiting)


def _sketch(pool: _Pool, waiting: list[Shown]) -> None:
    pool.ids += [one.id for one in waiting]
    pool.sketches += sketches([one.text()[:_TEXT] for one in waiting])
    waiting.clear()


def _turns(exchanges: Sequence[Exchange]) -> Iterator[tuple[int, int, bool]]:
    """Each turn, as `_TURN` has it."""
    so_far, size = xxhash.xxh3_64(), 0
    for one in exchanges:
        so_far.update(f"{len(one.before)}:{len(one.answer)}:")
        so_far.update(one.before)
        so_far.update(one.answer)
        size += len(one.before) + len(one.answer)
        yield so_far.intdigest(), size, one.taught


def _checked(pools: Sequence[_Pool]) -> Iterator[str]:
    samples = ", ".join(f"{pool.name} {pool.samples:,}" for pool in pools if pool.samples)
    turns = sum(int(some["taught"].sum()) for pool in pools for some in pool.turns)
    compared = sum(len(pool.ids) for pool in pools)
    yield f"pools: {samples or 'no sample'}; {turns:,} turns and {compared:,} samples compared between pools"
    short = sum(len(keys) for _, _, keys in _equal(pools, short=True))
    if short:
        yield (
            f"pools: {_counted(short, 'equal turn')} of less than {SHORT_TURN:,} characters with all before: "
            "too short to tell"
        )
    asked = np.unique(np.concatenate([pool.keys() for pool in pools if pool.name in ("rl", "eval")]))
    shown = np.concatenate([pool.keys(taught=False) for pool in pools if pool.name in ("cpt", "sft")])
    if number := int(np.isin(asked, shown).sum()):
        yield f"pools: {_counted(number, 'turn')} of rl and eval also in cpt or sft, there as history without loss"


def _pairs(pools: Sequence[_Pool]) -> Iterator[tuple[_Pool, _Pool]]:
    yield from ((one, other) for number, one in enumerate(pools) for other in pools[number + 1 :])


def _equal(pools: Sequence[_Pool], *, short: bool) -> Iterator[tuple[_Pool, _Pool, npt.NDArray[np.uint64]]]:
    """Each two pools, and the hashes of turns that both have."""
    held = {pool.name: pool.keys(short=short) for pool in pools}
    for one, other in _pairs(pools):
        yield one, other, np.intersect1d(held[one.name], held[other.name])


def _leaks(pools: Sequence[_Pool]) -> Iterator[str]:
    for kind, word in _WORDS.items():
        names = {pool.name: pool.names(kind) for pool in pools}
        for one, other in _pairs(pools):
            shared = names[one.name].filter(pc.is_in(names[one.name], value_set=names[other.name]))
            if len(shared):
                told = _some(sorted(shared.to_pylist()), len(shared))
                yield f"{one.name} and {other.name} share {_counted(len(shared), word)}: {told}"
    yield from _equal_turns(pools)
    yield from _near(pools)


def _equal_turns(pools: Sequence[_Pool]) -> Iterator[str]:
    equal = [(one, other, keys) for one, other, keys in _equal(pools, short=False) if len(keys)]
    told = {(one.name, other.name): keys[:_EXAMPLES].tolist() for one, other, keys in equal}
    held = {
        pool.name: _holders(pool, {key for names, some in told.items() if pool.name in names for key in some})
        for pool in pools
    }
    for one, other, keys in equal:
        both = [f"{held[one.name][key]} and {held[other.name][key]}" for key in told[one.name, other.name]]
        number = _counted(len(keys), "equal turn")
        yield f"{one.name} and {other.name} share {number}, with all before: {_some(both, len(keys))}"


def _holders(pool: _Pool, keys: Set[int]) -> dict[int, str]:
    """The first sample of a pool that has each turn, and which of its turns that is."""
    found: dict[int, str] = {}
    for samples in pool.shown() if keys else ():
        for one in samples:
            for number, (key, _, taught) in enumerate(_turns(one.exchanges), 1):
                if taught and key in keys:
                    found.setdefault(key, f"turn {number} of {one.id}")
            if len(found) == len(keys):
                return found
    return found


def _near(pools: Sequence[_Pool]) -> Iterator[str]:
    held = [(pool.name, key, one) for pool in pools for key, one in zip(pool.ids, pool.sketches, strict=True)]
    numbers = [number for number, pool in enumerate(pools) for _ in pool.ids]
    found: dict[tuple[str, str], list[str]] = {}
    pairs = near_pairs([one for _, _, one in held], numbers, NEAR, SHORT)
    for pair in islice(pairs, _MOST):
        (name, key, _), (another, its, _) = held[pair.one], held[pair.other]
        found.setdefault((name, another), []).append(f"{key} and {its} ({pair.similarity:.0%})")
    least = "at least " if sum(map(len, found.values())) == _MOST else ""
    for (name, another), some in found.items():
        told = f"{least}{_counted(len(some), 'near pair')}, samples of which {NEAR:.0%} or more is the same"
        yield f"{name} and {another} share {told}: {_some(sorted(some)[:_EXAMPLES], len(some))}"


def _counted(number: int, word: str) -> str:
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"


def _some(names: Sequence[str], number: int = 0) -> str:
    """The first of names, and how many of `number` are left out."""
    more = f" and {number - _EXAMPLES:,} more" if number > _EXAMPLES else ""
    return ", ".join(names[:_EXAMPLES]) + more
