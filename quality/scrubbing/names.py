"""Names of things: paths, ids, members of archives. What is secret in them becomes a keyed hash, one to one.

A placeholder of the same length could be that of two names, and two paths would meet; so names do not keep their
length. A pure function of the text: the same path comes out the same wherever it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import pyarrow as pa

from trajmill.quality.scrubbing.columns import Texts
from trajmill.quality.scrubbing.detection import Detection
from trajmill.quality.scrubbing.kinds import KINDS, Kind, checked_kinds
from trajmill.quality.scrubbing.session import Session

_TOKEN: Final = re.compile(rb"name\d{18}")
"""18 digits of a hash of 64 bits: of a million names two are the same once in two million runs."""

_AGAIN: Final = re.compile(rb"[A-Za-z0-9_.-]{3,64}")
"""What is hidden in all of a path once one place shows that it is a name."""

_BARE_HOME: Final = re.compile(rb"(?:home|Users)/")
_PASSES: Final = 4


def scrub_name(text: str, *, salt: str = "", kinds: Iterable[str] = KINDS) -> str:
    """The path or id with a keyed hash for each secret and user name; doing so again changes nothing.

    Args:
        text: a path, relative or not, or an id.
        salt: the recipe's secret, by which hashes of one run are equal and those of another differ.
        kinds: what to look for.

    Raises:
        ConfigError: a kind is not known.
    """
    data = text.encode("utf-8", "surrogatepass")
    return _scrubbed(data, salt, checked_kinds(kinds)).decode("utf-8", "surrogatepass")


def scrub_names(column: pa.Array, *, salt: str, kinds: tuple[Kind, ...]) -> pa.Array:
    """The column of names, strings or a dictionary of them, as `scrub_name` makes each; itself where nothing changes.

    A scan over all distinct names at once tells which of them are worth a look.
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
    fresh = {number: _scrubbed(texts.text(number), salt, kinds).decode() for number in sorted(marked)}
    changed = {number: name for number, name in fresh.items() if name.encode() != texts.text(number)}
    if not changed:
        return column
    values = names.to_pylist()
    for number, name in changed.items():
        values[number] = name
    array = pa.array(values, names.type)
    return pa.DictionaryArray.from_arrays(column.indices, array) if encoded else array


@lru_cache(maxsize=1 << 14)
def _scrubbed(data: bytes, salt: str, kinds: tuple[Kind, ...]) -> bytes:
    find = Detection.of(kinds).finds
    key = blake2b(b"names", digest_size=32, key=blake2b(salt.encode()).digest()).digest()
    path = b"/" + data  # `home/x/log` is a path from the root of an archive
    for _ in range(_PASSES):
        session = Session(key)
        finds = find(path)
        session.learn(path, finds)
        places = [(max(start, 1), end) for start, end, _ in session.patches(path, finds, session.occurrences_in(path))]
        fresh = _hidden(path, [(start, end) for start, end in places if not _TOKEN.fullmatch(path, start, end)], key)
        if fresh == path:
            break
        path = fresh
    return path[1:]


def _hidden(path: bytes, places: list[tuple[int, int]], key: bytes) -> bytes:
    """The path with a hash for what stands at these places, and for the names among that wherever they are words."""
    parts, at = [], 0
    names = {path[start:end] for start, end in places if _AGAIN.fullmatch(path, start, end)}
    for start, end in places:
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
