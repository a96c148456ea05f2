"""Check that the pools of a dataset are disjoint, from its shards alone.

Pools are kept apart by the groups that the judge stage finds; this check does not rely on them. No two pools may share
a group, a trajectory, a task, an instance, or an equal turn, which is an answer with everything shown before it. No
sample may be a near duplicate of one in another pool. Nothing is written.

Near pairs are found by comparing each sample with each other, so that none is missed between the bands of an index.
Sets of shingles are compared by one bit of each of 256 minima (b-bit MinHash, Li and König, WWW 2010), which takes an
exclusive or of four words per pair. For pairs that agree on enough bits, the 1,024 smallest shingles give the
similarity (bottom-k sketches, Cohen and Kaplan, 2007).
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
from trajmill.pipelines.publish.dataset import samples_in
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
"""Position of the bit of a minimum that is used. The lowest bits chose its bin."""
_HELD: Final = 1_024
"""Number of smallest shingles that are kept of a sample."""
_ROWS: Final = 256
"""Number of samples that are compared with all others at once."""
_DEVIATIONS: Final = 5
"""Number of standard deviations by which the bits of a near pair may agree less than expected."""


class NearPair(NamedTuple):
    """Two samples of different pools, by number, and the share of their shingles that both have."""

    one: int
    other: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Sketch:
    """Sketch of a sample's text: the bits, its smallest shingles in ascending order, and the number of shingles."""

    bits: npt.NDArray[np.uint64]
    smallest: npt.NDArray[np.uint32]
    shingles: int


def sketches(texts: Sequence[str]) -> list[Sketch]:
    """Return the sketch of each text."""
    hashes, offsets = shingles(pa.array(texts, pa.string()))
    sets = [distinct(hashes[begin:end]) for begin, end in pairwise(offsets)]
    text_number = np.repeat(np.arange(len(sets)), [len(hash_set) for hash_set in sets])
    minima = signatures(text_number, np.concatenate([*sets, np.zeros(0, np.uint32)]), len(sets), _BITS)
    ones = (mixed(minima.astype(np.uint64)) >> _HIGH & np.uint64(1)).astype(np.bool_)
    bits = np.packbits(ones, axis=1).view(np.uint64)
    return [Sketch(own, hash_set[:_HELD], len(hash_set)) for own, hash_set in zip(bits, sets, strict=True)]


def similarity(sketch: Sketch, other_sketch: Sketch) -> float:
    """Return the share of shingles that two texts share.

    Above 1,024 shingles it is estimated from the smallest ones.
    """
    ends = [int(either.smallest[-1]) for either in (sketch, other_sketch) if either.shingles > len(either.smallest)]
    some, more = sketch.smallest, other_sketch.smallest
    if ends:
        some, more = (either[: np.searchsorted(either, min(ends), "right")] for either in (some, more))
    if not len(some) or not len(more):
        return 0.0
    positions = np.minimum(np.searchsorted(more, some), len(more) - 1)
    shared = int(np.count_nonzero(more[positions] == some))
    return shared / (len(some) + len(more) - shared)


def near_pairs(some: Sequence[Sketch], pools: Sequence[int], least: float, few: int) -> Iterator[NearPair]:
    """Yield every pair of similar samples of two pools, by number, that of the smaller pool number first.

    Args:
        few: number of shingles below which a sample is too short; a pair of two short samples is left out.
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
        firsts, seconds = np.nonzero(unlike <= most)
        firsts, seconds = firsts + begin, seconds + beyond
        larger, smaller = np.maximum(sizes[firsts], sizes[seconds]), np.minimum(sizes[firsts], sizes[seconds])
        chosen = (pool[firsts] < pool[seconds]) & (larger >= few) & (smaller >= least * larger)
        for first, second in zip(order[firsts[chosen]].tolist(), order[seconds[chosen]].tolist(), strict=True):
            if (alike := similarity(some[first], some[second])) >= least:
                yield NearPair(first, second, alike)


def _unlike(least: float) -> int:
    """Return the largest number of bits on which a near pair differs.

    Half of the bits of unshared minima agree by chance.
    """
    agreeing = (1 + least) / 2
    return int(_BITS * (1 - agreeing) + _DEVIATIONS * math.sqrt(_BITS * agreeing * (1 - agreeing)))


SAMPLE: Final = 20_000
"""Largest number of samples that are compared with each other."""

NEAR: Final = 0.9
"""Share of the shingles of two samples from which they are a near pair.

Shingles are runs of five words of the samples' actions and answers.
"""

SHORT: Final = 512
"""Number of shingles below which a sample is too short to compare: one or two screens, which other samples show too."""

SHORT_TURN: Final = 1_024
"""Characters of a turn and its history below which an equal turn is too short to count.

Anybody who asks a fresh shell for the date asks the same.
"""

_EXAMPLES: Final = 3
_MOST: Final = 10_000
"""Number of near pairs after which the search stops and their number is reported as a lower bound."""
_AT_ONCE: Final = 64
_TEXT: Final = 1 << 17
"""Number of characters of a sample that are compared."""

_TURN: Final = np.dtype([("key", "<u8"), ("size", "<i8"), ("taught", "?")])
"""Hash of a turn and its history, their number of characters, and whether the turn is learned or asked for."""

_WORDS: Final[Mapping[str, str]] = {
    "group": "group",
    "trajectory_id": "trajectory",
    "task_hash": "task",
    "instance_hash": "instance",
}


@dataclass(frozen=True, slots=True)
class Disjointness:
    """Result of the check.

    Attributes:
        checked: comparisons that were made, a line each.
        leaks: data that two pools share, a line each; empty if there is none.
    """

    checked: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()


@dataclass(slots=True)
class _Pool:
    """Content of a pool: its files, names by kind, its turns, and ids and sketches of the chosen samples."""

    folder: Folder
    name: str
    files: tuple[str, ...]
    samples: int = 0
    owned: dict[str, list[pa.Array]] = field(default_factory=lambda: {kind: [] for kind in OWNED})
    turns: list[npt.NDArray[np.void]] = field(default_factory=lambda: [np.zeros(0, _TURN)])
    ids: list[str] = field(default_factory=list)
    sketches: list[Sketch] = field(default_factory=list)

    def shown(self) -> Iterator[Iterator[Shown]]:
        """Yield the samples of each of its files."""
        return (shown_samples(self.folder, self.name, file) for file in self.files)

    def names(self, kind: str) -> pa.Array:
        return pc.unique(pa.chunked_array(self.owned[kind], pa.string()))

    def keys(self, *, short: bool = False, taught: bool = True) -> npt.NDArray[np.uint64]:
        """Return the hashes of turns of one of four kinds.

        `short` selects the turns that are too short to count, `taught` those that are learned or asked for.
        """
        turns = np.concatenate(self.turns)
        chosen = ((turns["size"] < SHORT_TURN) == short) & (turns["taught"] == taught)
        keys: npt.NDArray[np.uint64] = turns["key"][chosen]
        return keys


def disjointness(out: str, sample: int = SAMPLE) -> Disjointness:
    """Find data that the pools of a run's dataset share. An unfinished dataset gives an empty result.

    Args:
        sample: number of samples, chosen by hash, that are compared with each other.
    """
    folder = Folder(out) / "shards"
    manifest = read_manifest(folder, MANIFEST)
    if manifest is None:
        return Disjointness()
    total = samples_in(manifest.counts)
    share = min(1.0, sample / total) if total else 1.0
    files = {pool: tuple(_files(manifest, pool)) for pool in POOLS}
    pools = [_Pool(folder, name, pool_files) for name, pool_files in files.items()]
    for pool in pools:
        _read(pool, share)
    return Disjointness(tuple(_summarize_checks(pools)), tuple(_leaks(pools)))


def _files(manifest: Manifest, pool: str) -> Iterator[str]:
    """Return the files of a pool's samples. For eval these are the JSON Lines files, since the others hold the same."""
    ending = ".jsonl" if pool == "eval" else ".parquet"
    return (file.name for file in manifest.files if file.name.startswith(f"{pool}/") and file.name.endswith(ending))


def _read(pool: _Pool, share: float) -> None:
    """Read the samples of a pool. Each is sketched with a chance of `share`, by the hash of its id."""
    waiting: list[Shown] = []
    for samples in pool.shown():
        owned: dict[str, set[str]] = {kind: set() for kind in OWNED}
        turns: list[tuple[int, int, bool]] = []
        for sample in samples:
            pool.samples += 1
            for kind, value in sample.owned.items():
                if value is not None:
                    owned[kind].add(value)
            turns += _turns(sample.exchanges)
            if keyed_hash(f"near:{sample.id}", 0) < share * (1 << 64):
                waiting.append(sample)
            if len(waiting) == _AT_ONCE:
                _sketch(pool, waiting)
        pool.turns.append(np.array(turns, _TURN))
        for kind, values in owned.items():
            pool.owned[kind].append(pa.array(sorted(values), pa.string()))
    _sketch(pool, waiting)


def _sketch(pool: _Pool, waiting: list[Shown]) -> None:
    pool.ids += [sample.id for sample in waiting]
    pool.sketches += sketches([sample.text()[:_TEXT] for sample in waiting])
    waiting.clear()


def _turns(exchanges: Sequence[Exchange]) -> Iterator[tuple[int, int, bool]]:
    so_far, size = xxhash.xxh3_64(), 0
    for exchange in exchanges:
        so_far.update(f"{len(exchange.before)}:{len(exchange.answer)}:")
        so_far.update(exchange.before)
        so_far.update(exchange.answer)
        size += len(exchange.before) + len(exchange.answer)
        yield so_far.intdigest(), size, exchange.taught


def _summarize_checks(pools: Sequence[_Pool]) -> Iterator[str]:
    samples = ", ".join(f"{pool.name} {pool.samples:,}" for pool in pools if pool.samples)
    turns = sum(int(some["taught"].sum()) for pool in pools for some in pool.turns)
    compared = sum(len(pool.ids) for pool in pools)
    yield f"pools: {samples or 'no sample'}; {turns:,} turns and {compared:,} samples compared between pools"
    short = sum(len(keys) for _, _, keys in _equal(pools, short=True))
    if short:
        yield (
            f"pools: {_count_words(short, 'equal turn')} of less than {SHORT_TURN:,} characters with all before: "
            "too short to tell"
        )
    asked = np.unique(np.concatenate([pool.keys() for pool in pools if pool.name in ("rl", "eval")]))
    shown = np.concatenate([pool.keys(taught=False) for pool in pools if pool.name in ("cpt", "sft")])
    if number := int(np.isin(asked, shown).sum()):
        yield f"pools: {_count_words(number, 'turn')} of rl and eval also in cpt or sft, there as history without loss"


def _pairs(pools: Sequence[_Pool]) -> Iterator[tuple[_Pool, _Pool]]:
    yield from ((pool, other_pool) for number, pool in enumerate(pools) for other_pool in pools[number + 1 :])


def _equal(pools: Sequence[_Pool], *, short: bool) -> Iterator[tuple[_Pool, _Pool, npt.NDArray[np.uint64]]]:
    """Yield each pair of pools with the hashes of turns that both have."""
    keys_of = {pool.name: pool.keys(short=short) for pool in pools}
    for pool_a, pool_b in _pairs(pools):
        yield pool_a, pool_b, np.intersect1d(keys_of[pool_a.name], keys_of[pool_b.name])


def _leaks(pools: Sequence[_Pool]) -> Iterator[str]:
    for kind, word in _WORDS.items():
        names = {pool.name: pool.names(kind) for pool in pools}
        for pool_a, pool_b in _pairs(pools):
            shared = names[pool_a.name].filter(pc.is_in(names[pool_a.name], value_set=names[pool_b.name]))
            if len(shared):
                examples = _some(sorted(shared.to_pylist()), len(shared))
                yield f"{pool_a.name} and {pool_b.name} share {_count_words(len(shared), word)}: {examples}"
    yield from _equal_turns(pools)
    yield from _near(pools)


def _equal_turns(pools: Sequence[_Pool]) -> Iterator[str]:
    equal = [(pool_a, pool_b, keys) for pool_a, pool_b, keys in _equal(pools, short=False) if len(keys)]
    example_keys = {(pool_a.name, pool_b.name): keys[:_EXAMPLES].tolist() for pool_a, pool_b, keys in equal}
    holders = {
        pool.name: _holders(pool, {key for names, some in example_keys.items() if pool.name in names for key in some})
        for pool in pools
    }
    for pool_a, pool_b, keys in equal:
        both = [
            f"{holders[pool_a.name][key]} and {holders[pool_b.name][key]}"
            for key in example_keys[pool_a.name, pool_b.name]
        ]
        number = _count_words(len(keys), "equal turn")
        yield f"{pool_a.name} and {pool_b.name} share {number}, with all before: {_some(both, len(keys))}"


def _holders(pool: _Pool, keys: Set[int]) -> dict[int, str]:
    """Find for each turn the first sample of a pool that has it, and the turn's number there."""
    holders: dict[int, str] = {}
    for samples in pool.shown() if keys else ():
        for sample in samples:
            for number, (key, _, taught) in enumerate(_turns(sample.exchanges), 1):
                if taught and key in keys:
                    holders.setdefault(key, f"turn {number} of {sample.id}")
            if len(holders) == len(keys):
                return holders
    return holders


def _near(pools: Sequence[_Pool]) -> Iterator[str]:
    samples = [(pool.name, key, sketch) for pool in pools for key, sketch in zip(pool.ids, pool.sketches, strict=True)]
    numbers = [number for number, pool in enumerate(pools) for _ in pool.ids]
    examples: dict[tuple[str, str], list[str]] = {}
    pairs = near_pairs([sketch for _, _, sketch in samples], numbers, NEAR, SHORT)
    for pair in islice(pairs, _MOST):
        (name, key, _), (another, other_key, _) = samples[pair.one], samples[pair.other]
        examples.setdefault((name, another), []).append(f"{key} and {other_key} ({pair.similarity:.0%})")
    least = "at least " if sum(map(len, examples.values())) == _MOST else ""
    for (name, another), some in examples.items():
        shared = f"{least}{_count_words(len(some), 'near pair')}, samples of which {NEAR:.0%} or more is the same"
        yield f"{name} and {another} share {shared}: {_some(sorted(some)[:_EXAMPLES], len(some))}"


def _count_words(number: int, word: str) -> str:
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"


def _some(names: Sequence[str], number: int = 0) -> str:
    """Join the first names, with the number of the omitted ones."""
    more = f" and {number - _EXAMPLES:,} more" if number > _EXAMPLES else ""
    return ", ".join(names[:_EXAMPLES]) + more
