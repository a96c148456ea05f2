"""Scrubbing: secrets and personal data in transitions become placeholders of the same length and form.

Within a trajectory a secret becomes the same placeholder wherever and however it is written, so that its world stays
coherent; across trajectories placeholders cannot be linked. The functions are pure: nothing is read, written or logged.
Names of persons in prose and the content of pictures are not found. See docs/decisions/scrubbing.md.

In names of things (paths, ids, members of archives) a secret becomes a keyed hash, one to one. Placeholders of the same
length could collide and merge two paths, so names do not keep their length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.scrubbing.columns import NAMES, Columns, Ints, Rewriter, Texts, with_columns
from trajmill.quality.scrubbing.detection import Detection, Region, Sight
from trajmill.quality.scrubbing.kinds import KINDS, Finds, Kind, Span, check_kinds
from trajmill.quality.scrubbing.session import Patch, Session, apply_patches, patches_until_stable
from trajmill.schemas.reject import Reject

_TOKEN: Final = re.compile(rb"name\d{18}")
"""Replacement of a name: 18 digits of a 64-bit hash. Among a million names, two collide once in two million runs."""

_AGAIN: Final = re.compile(rb"[A-Za-z0-9_.-]{3,64}")
"""Pattern of a name that is hidden everywhere in a path once one place identifies it."""

_BARE_HOME: Final = re.compile(rb"(?:home|Users)/")
_PASSES: Final = 4


def scrub_name(text: str, *, salt: str = "", kinds: Iterable[str] = KINDS) -> str:
    """Return the path or id with a keyed hash for each secret and user name. Scrubbing a result again changes nothing.

    Args:
        text: Path, relative or absolute, or id.
        salt: Secret of the recipe: hashes are equal within a run and differ between runs with other salts.
        kinds: Kinds of data to find.

    Raises:
        ConfigError: A kind is unknown.
    """
    data = text.encode("utf-8", "surrogatepass")
    return _scrub_name(data, salt, check_kinds(kinds)).decode("utf-8", "surrogatepass")


def scrub_names(column: pa.Array, *, salt: str, kinds: tuple[Kind, ...]) -> pa.Array:
    """Apply `scrub_name` to a column of names, strings or a dictionary of them; return the column itself if nothing
    changes.

    One scan over all distinct names selects the names to examine.
    """
    encoded = pa.types.is_dictionary(column.type)
    names = column.dictionary if encoded else column
    if not len(names) or names.buffers()[2] is None:
        return column
    texts = Texts(names, corpus_wide=True)
    detection = Detection.of(kinds)
    sights = detection.sights(texts.whole, texts.offsets).items()
    marked = {number for number, seen in sights if any(regions for _, regions in seen)}
    marked.update(detection.regions(texts.whole, texts.offsets))
    marked |= {number for number, at in enumerate(texts.offsets[:-1]) if _BARE_HOME.match(texts.whole, at)}
    fresh = {number: _scrub_name(texts.text(number), salt, kinds).decode() for number in sorted(marked)}
    changed = {number: name for number, name in fresh.items() if name.encode() != texts.text(number)}
    if not changed:
        return column
    values = names.to_pylist()
    for number, name in changed.items():
        values[number] = name
    array = pa.array(values, names.type)
    return pa.DictionaryArray.from_arrays(column.indices, array) if encoded else array


@lru_cache(maxsize=1 << 14)
def _scrub_name(data: bytes, salt: str, kinds: tuple[Kind, ...]) -> bytes:
    find = Detection.of(kinds).finds
    key = blake2b(b"names", digest_size=32, key=blake2b(salt.encode()).digest()).digest()
    path = b"/" + data  # `home/x/log` is a path from the root of an archive
    for _ in range(_PASSES):
        session = Session(key)
        finds = find(path)
        session.learn(path, finds)
        spans = [(max(start, 1), end) for start, end, _ in session.patches(path, finds, session.occurrences_in(path))]
        fresh = _hide(path, [(start, end) for start, end in spans if not _TOKEN.fullmatch(path, start, end)], key)
        if fresh == path:
            break
        path = fresh
    return path[1:]


def _hide(path: bytes, spans: list[tuple[int, int]], key: bytes) -> bytes:
    """Replace these spans of the path by a hash, and every word of the path that equals a name among them."""
    parts, at = [], 0
    names = {path[start:end] for start, end in spans if _AGAIN.fullmatch(path, start, end)}
    for start, end in spans:
        parts += [_without(path[at:start], names, key), _token(path[start:end], key)]
        at = end
    return b"".join([*parts, _without(path[at:], names, key)])


def _without(part: bytes, names: set[bytes], key: bytes) -> bytes:
    if not names:
        return part
    words = b"|".join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))
    return re.sub(rb"(?<![A-Za-z0-9])(?:%s)(?![A-Za-z0-9])" % words, lambda match: _token(match[0], key), part)


def _token(name: bytes, key: bytes) -> bytes:
    number = int.from_bytes(blake2b(name, digest_size=8, key=key, person=b"trajmill name").digest())
    return b"name%018d" % (number % 10**18)


__all__ = ["KINDS", "VERSION", "Kind", "scrub", "scrub_name", "scrub_reject", "scrub_text"]

VERSION: Final = 4
"""Version of the finds and their placeholders. Under another version, logs added to a dataset would be scrubbed
differently.
"""


def scrub(
    batch: pa.RecordBatch,
    kinds: Iterable[str] = KINDS,
    *,
    salt: str = "",
    per_trajectory: bool = True,
    sensitive: Mapping[str, Iterable[str]] | None = None,
) -> tuple[pa.RecordBatch, pa.Int32Array]:
    """Scrub every text column of the batch, and count the replacements that each row's own texts hold (int32).

    Same schema, rows, trajectory ids and text lengths in bytes; JSON stays JSON; ids and paths of logs stay one to one,
    of other lengths. The batch itself where nothing changes, so where it was scrubbed before. Token ids of a turn whose
    actions change are dropped. Counted are the replacements in a row's observations, its action and what was said
    between, not those in what stands for the whole trajectory (task, context) or says where the agent was; a text that
    several rows share counts for each.

    Args:
        batch: of `schemas.transition.encoded_schema()`; rows of a trajectory are contiguous.
        kinds: what to look for.
        salt: the recipe's secret; without it, who knows a trajectory's id can test guesses against its placeholders.
        per_trajectory: whether equal secrets of different trajectories get different placeholders; otherwise equal
            ones, by which exact duplicates stay equal. `environment` ids, which group trajectories, always do.
        sensitive: trajectory id → values that are hidden throughout it, as `sensitive_values` gives them; they are of
            the kind `assignment`.

    Raises:
        ConfigError: a kind is not known.
    """
    wanted = check_kinds(kinds)
    detection = Detection.of(wanted)
    before = batch
    columns = Columns(batch)
    marked = [_Marked(texts, detection) for texts in columns.texts]
    counts = np.zeros(batch.num_rows, np.int64)
    trajectory_of = _trajectories(batch)
    ids = batch["trajectory_id"]
    values = _values(ids, trajectory_of, sensitive) if sensitive and "assignment" in wanted else {}
    for trajectory in sorted(
        {number for marked_column in marked for number in marked_column.by_trajectory(trajectory_of)}.union(values)
    ):
        first, last = np.searchsorted(trajectory_of, (trajectory, trajectory + 1)).tolist()
        session = Session(_key(ids[first].as_py() if per_trajectory else "", salt))
        for value in values.get(trajectory, ()):
            session.learn_value(value)
        for marked_column, patches in zip(marked, _patches(marked, trajectory, trajectory_of, session), strict=True):
            if patches:
                marked_column.rewriter.add(trajectory, patches)
                marked_column.texts.count(first, last, patches, counts)
    for marked_column in marked:
        marked_column.scrub_alone(_key("", salt), trajectory_of, counts)
    if any(marked_column.rewriter for marked_column in marked):
        batch = columns.rebuilt([marked_column.rewriter for marked_column in marked], trajectory_of)

    def renamed(column: pa.Array, path: str) -> pa.Array:
        return scrub_names(column, salt=salt, kinds=wanted) if path in NAMES else column

    return _without_false_samples(with_columns(batch, renamed), before), pa.array(counts, pa.int32())


def _without_false_samples(batch: pa.RecordBatch, before: pa.RecordBatch) -> pa.RecordBatch:
    """Drop the token ids of turns whose actions scrubbing changed: they would give back what it hid."""
    old, new = before["action"], batch["action"]
    sampled = pc.struct_field(new, "sampled")
    if sampled.null_count == len(sampled):
        return batch
    is_changed = np.zeros(len(batch), np.bool_)
    for name in ("name", "text", "arguments", "message", "reasoning"):
        pair = (pc.struct_field(column, name).cast(pa.string()) for column in (old, new))
        is_changed |= pc.fill_null(pc.not_equal(*pair), False).to_numpy(zero_copy_only=False)
    turns = np.cumsum(batch["call_index"].to_numpy() == 0)
    is_false = pa.array(np.isin(turns, turns[is_changed]))
    kept = pc.if_else(is_false, pa.scalar(None, sampled.type), sampled)
    return with_columns(batch, lambda column, path: kept if path == "action.sampled" else column)


def scrub_reject(reject: Reject, salt: str = "", kinds: Iterable[str] = KINDS, sensitive: Iterable[str] = ()) -> Reject:
    """Return the reject with its path scrubbed as in transitions, and its excerpt scrubbed by itself, corpus-wide.

    Args:
        reject: Reject to scrub.
        salt: As of `scrub`.
        kinds: Kinds of data to find.
        sensitive: Values of its input that are hidden everywhere.
    """
    wanted = check_kinds(kinds)
    sensitive = tuple(sensitive)
    name = partial(scrub_name, salt=salt, kinds=wanted)
    detail = name(reject.detail)
    return replace(
        reject,
        uri=name(reject.uri),
        member=name(reject.member),
        detail=scrub_text(detail, kinds=(), salt=salt, sensitive=sensitive) if sensitive else detail,
        excerpt=scrub_text(reject.excerpt, kinds=wanted, salt=salt, sensitive=sensitive),
    )


def scrub_text(
    text: str, key: str = "", kinds: Iterable[str] = KINDS, *, salt: str = "", sensitive: Iterable[str] = ()
) -> str:
    """Scrub the text by itself, as the only text of a trajectory with the id `key`; `salt` as of `scrub`.

    The values in `sensitive` are hidden everywhere.

    Raises:
        ConfigError: A kind is unknown.
    """
    data = text.encode("utf-8", "surrogatepass")
    find = Detection.of(check_kinds(kinds)).finds
    patches = patches_until_stable({"": data}, _key(key, salt), find, sensitive).get("", ())
    return apply_patches(data, patches).decode("utf-8", "surrogatepass")


def _key(trajectory: str, salt: str) -> bytes:
    """Return the 32-byte key of the placeholders of a trajectory, or of the whole corpus ("")."""
    keyed_by = blake2b(salt.encode()).digest() if salt else b""
    return blake2b(trajectory.encode(), digest_size=32, key=keyed_by, person=b"trajmill scrub").digest()


def _trajectories(batch: pa.RecordBatch) -> Ints:
    """Return the number of each row's trajectory, counted from 0 in the order of the batch."""
    if not batch.num_rows:
        return np.zeros(0, np.int64)
    ids = batch["trajectory_id"].indices.to_numpy()
    return np.concatenate([[0], np.cumsum(ids[1:] != ids[:-1])]).astype(np.int64)


class _Marked:
    """Texts of one array that the scan marked, and their finds.

    Args:
        texts: Texts of the array.
        detection: Detection of the wanted kinds.
    """

    def __init__(self, texts: Texts, detection: Detection) -> None:
        self.texts = texts
        self.rewriter = Rewriter(texts)
        self.find = detection.finds
        self._names: dict[int, list[Span]] = {}
        names = self._names if detection.seeks("home") else None
        self._regions: dict[int, list[Region]] = detection.regions(texts.whole, texts.offsets, names)
        self._sights: dict[int, list[Sight]] = detection.sights(texts.whole, texts.offsets)
        sighted_texts = {number for number, sights in self._sights.items() if any(regions for _, regions in sights)}
        self._numbers = sorted(sighted_texts.union(self._regions, self._names))
        self._finds: dict[int, Finds] = {}
        self._used: dict[int, list[int]] = {}

    def by_trajectory(self, trajectory_of: Ints) -> dict[int, list[int]]:
        """Return, by trajectory, the marked texts that it uses; empty for a column that is keyed corpus-wide."""
        if self._numbers and not self.texts.corpus_wide:
            for trajectory, number in self.texts.pairs(self._numbers, trajectory_of).tolist():
                self._used.setdefault(trajectory, []).append(number)
        return self._used

    def holds(self, trajectory: int) -> bool:
        """Return True if the scan marked a text that the trajectory uses."""
        return trajectory in self._used

    def finds(self, number: int) -> Finds:
        """Return the finds of a text; none if it is not marked."""
        finds = self._finds.get(number)
        if finds is None:
            regions, sights = self._regions.get(number, ()), self._sights.get(number, ())
            names = self._names.get(number, ())
            marked = regions or sights or names
            finds = self.find(self.texts.text(number), regions, sights, names) if marked else Finds()
            self._finds[number] = finds
        return finds

    def learn(self, session: Session, trajectory: int) -> None:
        """Teach the session the finds of the trajectory's marked texts."""
        for number in self._used[trajectory]:
            session.learn(self.texts.text(number), self.finds(number))

    def patches(self, session: Session, trajectory: int, trajectory_of: Ints) -> dict[int, list[Patch]]:
        """Return the patches by text for a trajectory, all of whose texts the session has learned."""
        if self.texts.corpus_wide:
            return {}
        occurrences = self._occurrences(session, trajectory, trajectory_of) if session.knows else {}
        numbers = sorted(
            {*occurrences, *self._used.get(trajectory, ()), *self._cut(session, trajectory, trajectory_of)}
        )
        patches_of_texts = {
            number: session.patches(self.texts.text(number), self.finds(number), occurrences.get(number, ()))
            for number in numbers
        }
        return {number: changes for number, changes in patches_of_texts.items() if changes}

    def _cut(self, session: Session, trajectory: int, trajectory_of: Ints) -> Sequence[int]:
        """Return the texts of a trajectory that may hold a learned secret in pieces or encoded."""
        if not (self._sights and session.knows_secrets):
            return ()
        used = self.texts.used(trajectory, trajectory_of)
        return np.intersect1d(used, np.array([*self._sights], np.int64)).tolist()

    def _occurrences(self, session: Session, trajectory: int, trajectory_of: Ints) -> dict[int, list[Span]]:
        """Return the spans of learned values by text, for the texts that the trajectory uses."""
        spans_of_texts: dict[int, list[Span]] = {}
        used, offsets = self.texts.used(trajectory, trajectory_of), self.texts.offsets
        if not len(used):
            return spans_of_texts
        inner = () if used[-1] - used[0] == len(used) - 1 else (np.flatnonzero(np.diff(used) != 1) + 1).tolist()
        for low, high in pairwise((0, *inner, len(used))):
            begin, end = int(used[low]), int(used[high - 1]) + 1
            for number, span in session.occurrences(self.texts.whole, offsets[begin : end + 1]):
                spans_of_texts.setdefault(begin + number, []).append(span)
        return spans_of_texts

    def scrub_alone(self, key: bytes, trajectory_of: Ints, counts: Ints) -> None:
        """Scrub each text by itself: all texts of a column that is keyed corpus-wide, otherwise the texts that no row
        uses.
        """
        numbers = self._numbers if self.texts.corpus_wide else self.texts.unused(self._numbers)
        patches: dict[int, list[Patch]] = {}
        for number in numbers:
            patches.update(patches_until_stable({number: self.texts.text(number)}, key, self.find))
        users: Sequence[tuple[int, int]] = self.texts.pairs(list(patches), trajectory_of).tolist()
        for trajectory, number in users:
            self.rewriter.add(trajectory, {number: patches[number]})
        for number in set(patches).difference(number for _, number in users):
            self.rewriter.add(-1, {number: patches[number]})
        if patches:
            self.texts.count(0, len(counts), patches, counts)


def _values(ids: pa.Array, trajectory_of: Ints, sensitive: Mapping[str, Iterable[str]]) -> dict[int, Iterable[str]]:
    """Return the sensitive values by number of a trajectory."""
    firsts = np.flatnonzero(np.diff(trajectory_of, prepend=-1)).tolist()
    keys = (ids[first].as_py() for first in firsts)
    return {number: sensitive[key] for number, key in enumerate(keys) if sensitive.get(key)}


def _patches(
    marked: Sequence[_Marked], trajectory: int, trajectory_of: Ints, session: Session
) -> list[dict[int, list[Patch]]]:
    """Return, for each of `marked`, the patches of a trajectory by text.

    Args:
        marked: Marked texts of each array.
        trajectory: Number of the trajectory.
        trajectory_of: Number of each row's trajectory.
        session: Session, which may already know secrets of the trajectory.
    """
    for marked_column in marked:
        if marked_column.holds(trajectory):
            marked_column.learn(session, trajectory)
    patches_of_columns = [
        marked_column.patches(session, trajectory, trajectory_of)
        if session.knows or marked_column.holds(trajectory)
        else {}
        for marked_column in marked
    ]
    if session.crowded:
        texts = {
            (column_number, number): apply_patches(marked[column_number].texts.text(number), changes)
            for column_number, patches in enumerate(patches_of_columns)
            for number, changes in patches.items()
        }
        for (column_number, number), more in patches_until_stable(texts, session.key, marked[0].find).items():
            patches_of_columns[column_number][number] += more
    return patches_of_columns
