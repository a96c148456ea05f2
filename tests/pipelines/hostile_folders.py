"""Folders of hostile files, made from a seed: names, containers and first lines that no writer of logs would leave."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import zstandard

from tests.connectors.mutations import STRANGERS, documents, places, replaced, written
from tests.pipelines.hostile import FIXTURES, GOOD, overlapping, special, tarred, zipped

LARGEST: Final = 60_000
"""Bytes of the fixtures that are taken as they are and mutated."""

NAMES: Final = (
    b"caf\xe9", b"\xff\xfe\x80", b"two\nlines", b"tab\tand\rreturn", b"[bold]markup[link=x]",
    b"\x1b]0;title\x07\x1b[2J", b"\xc2\x9b31m", b"a::b", b"link.jsonl::", b"simplecache::file:", b"s3:", b"dir!",
    b"-rf", b"--out", b"*?[x]", b"**", b"{a,b}", b"%2e%2e%2f", b"~", b"#?&=;", b"$HOME`id`", b"'\"\\", b" ", b"....",
    "\u202egnp".encode(), b"e\xcc\x81", "é".encode(), b"UPPER", b"upper", b":smile:", b"\x01\x7f", b"%s{0}%(x)s",
)  # fmt: skip
"""Beginnings of names of files and folders."""

METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 1, 6, 9, 93, 97, 99)
"""Compression methods of members of a zip, most of which no library of Python reads."""


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


PACKERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    ".gz": gzipped,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


@dataclass(frozen=True, slots=True)
class HostileFile:
    """A file: its path below the folder, its bytes, and the words that its transitions hold if it is to be read."""

    path: bytes
    data: bytes
    words: str = ""


def folder_of(seed: int, files: int) -> list[HostileFile]:
    """The files of one folder; each has a tag in its path that no other has, see `tag`."""
    chance = random.Random(seed)
    return [_file(chance, number) for number in range(files)]


def tag(number: int) -> str:
    """What the path of a file holds, and of no other."""
    return f"f{number:04}f"


def write(files: list[HostileFile], folder: Path) -> None:
    for file in files:
        path = Path(os.fsdecode(os.fsencode(folder) + b"/" + file.path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)


def good(number: int) -> tuple[bytes, str]:
    """A log that is to be read, and the words that it alone holds."""
    words = f"asks for task {tag(number)} of many"
    lines = [json.loads(line) for line in GOOD.splitlines()]
    first = next(line for line in lines if line["type"] == "user")
    first["message"]["content"] = f"Somebody {words}."
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines), words


def _file(chance: random.Random, number: int) -> HostileFile:
    kind = KINDS[number % len(KINDS)]
    if kind is None:
        data, words = good(number)
        return HostileFile(_path(chance, number, ".jsonl"), data, words)
    ending, data = kind(chance)
    return HostileFile(f"plain/{tag(number)}{ending}".encode(), data)


def _path(chance: random.Random, number: int, ending: str) -> bytes:
    parts = [chance.choice(NAMES) for _ in range(chance.choice((1, 1, 2)))]
    if chance.random() < 0.2:
        parts[-1] = bytes(chance.choice([byte for byte in range(1, 256) if byte != 47]) for _ in range(8))
    last = parts[-1] + f"{tag(number)}{ending}".encode()
    if chance.random() < 0.1:
        last = b"x" * (255 - len(last)) + last
    return b"names/" + b"/".join([*parts[:-1], last])


def _flipped(chance: random.Random, data: bytes) -> bytes:
    """The data as it is, cut, or with some bytes changed."""
    log = bytearray(data)
    damage = chance.choice(("whole", "cut", "flip", "flip", "zero", "grown"))
    if damage == "cut":
        del log[chance.randrange(len(log)) :]
    if damage == "flip":
        for _ in range(chance.choice((1, 3, 40))):
            log[chance.randrange(len(log))] = chance.randrange(256)
    if damage == "zero":
        offset = chance.randrange(len(log))
        log[offset : offset + 64] = bytes(len(log[offset : offset + 64]))
    if damage == "grown":
        log += chance.randbytes(chance.choice((1, 700)))
    return bytes(log)


def _compressed(chance: random.Random) -> tuple[str, bytes]:
    ending, pack = chance.choice(sorted(PACKERS.items()))
    return f".jsonl{ending}", _flipped(chance, pack(_flipped(chance, GOOD)))


def _zip(chance: random.Random) -> tuple[str, bytes]:
    """A zip of a few members, whose methods of compression need not be those that they were written with."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(chance.randrange(4)):
            archive.writestr(zipfile.ZipInfo(_member(chance, number)), GOOD, chance.choice(METHODS[:4]))
    data = bytearray(out.getvalue())
    if chance.random() < 0.5:
        method = chance.choice(METHODS).to_bytes(2, "little")
        for mark, shift in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
            offset = data.find(mark)
            if offset >= 0:
                data[offset + shift : offset + shift + 2] = method
    return chance.choice((".zip", ".jsonl", "")), _flipped(chance, bytes(data))


def _tar(chance: random.Random) -> tuple[str, bytes]:
    info = special(
        chance.choice((tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.GNUTYPE_SPARSE, b"x", b"L", b"?")), "a", "b"
    )
    info.size = 0
    data = bytearray(tarred({_member(chance, number): GOOD for number in range(chance.randrange(1, 4))}, info))
    if chance.random() < 0.6:
        sizes = (b"\xff" * 12, b"\x80" + b"\xff" * 11, b"-0000000001\0", b"77777777777\0", b"\0" * 12, b"zzzzzzzzzzz\0")
        _set_size(data, chance.choice(sizes))
    packed = PACKERS[chance.choice(sorted(PACKERS))](bytes(data)) if chance.random() < 0.3 else bytes(data)
    return ".tar", _flipped(chance, packed)


def _set_size(data: bytearray, size: bytes) -> None:
    """Gives the first member of a tar a size, in a header whose checksum is right."""
    data[124:136] = size
    data[148:156] = b" " * 8
    data[148:156] = f"{sum(data[:512]):06o}\0 ".encode()


def _member(chance: random.Random, number: int) -> str:
    name = chance.choice(("a", "é", "x/y", "\x1b]0;t\x07", "two\nlines", "-", "*", "a::b", "[x]", "\u202e", "n" * 250))
    return f"{name}{number}.jsonl"


def _nested(chance: random.Random) -> tuple[str, bytes]:
    data = GOOD
    for level in range(chance.randrange(2, 6)):
        pack = chance.choice((zipped, tarred))
        data = pack({f"{level}.{'zip' if pack is zipped else 'tar'}": data})
        data = chance.choice((bytes, gzipped, bz2.compress))(data)
    return ".zip", data


def _bomb(chance: random.Random) -> tuple[str, bytes]:
    return chance.choice(_bombs())


@cache
def _bombs() -> tuple[tuple[str, bytes], ...]:
    small = zipped({"a": bytes(1 << 20)})
    return (
        (".zip", overlapping(60, 32 << 20)),
        (".jsonl.gz", gzipped(gzipped(bytes(8 << 20)))),
        (".zip", zipped({f"{number}.zip": small for number in range(20)})),
    )


def _of_every_type(chance: random.Random) -> tuple[str, bytes]:
    """A first line of any JSON type, then lines of a log or nothing."""
    name = chance.choice(("type", "role", "event", "method", "jsonrpc", "version", "messages", "log", "history", "id"))
    stranger = chance.choice(STRANGERS)
    first = chance.choice((stranger, {name: stranger}, [{name: stranger}], {name: {name: stranger}}))
    data = written([first]) + chance.choice((b"", GOOD))
    return chance.choice((".jsonl", ".json", ".log", "")), chance.choice((b"", b"\xef\xbb\xbf")) + data


@cache
def _known() -> list[tuple[str, bytes]]:
    """(ending, bytes) of the JSON fixtures that are small."""
    files = sorted(path for path in FIXTURES.rglob("input/**/*") if path.is_file() and path.stat().st_size < LARGEST)
    pairs = [("".join(path.suffixes[-1:]), path.read_bytes()) for path in files]
    return [(ending, data) for ending, data in pairs if documents(data)]


def _mutated(chance: random.Random) -> tuple[str, bytes]:
    """A log of some format in whose first value one stands where another type is wanted."""
    ending, data = chance.choice(_known())
    first = data.split(b"\n", 1)[0]
    try:
        value, rest = json.loads(first), data[len(first) :]
    except ValueError:
        value, rest = (documents(data) or [None])[0], b"\n"
    for _ in range(chance.choice((1, 1, 2))):
        value = replaced(value, chance.choice(_shallow(value)), chance.choice(STRANGERS))
    return ending, written([value]).rstrip(b"\n") + rest


def _shallow(value: Any) -> list[tuple[str | int, ...]]:
    """The places in a value that connectors look at first: those of the least depth, a few hundred of them."""

    def found() -> Iterator[tuple[str | int, ...]]:
        for number, keys in enumerate(places(value)):
            if number > 5000:
                return
            yield keys

    return sorted(found(), key=len)[:300]


def _bytes(chance: random.Random) -> tuple[str, bytes]:
    data = chance.choice(
        (b"", b"\0", b"\n", b"\x80\x04\x95", b"PK\3\4", b"\x1f\x8b", b"BZh9", b"ARROW1\0\0", b"PAR1", b"%YAML")
    )
    return chance.choice((".json", ".jsonl", ".bin", ".tar", ".parquet", ".arrow", "")), data + chance.randbytes(
        chance.choice((0, 1, 40, 3000))
    )


KINDS: Final[tuple[Callable[[random.Random], tuple[str, bytes]] | None, ...]] = (
    None, _compressed, _zip, None, _tar, _of_every_type, _mutated, None, _nested, _bomb, _mutated, _bytes,
    _of_every_type,
)  # fmt: skip
"""What the files of a folder are, in turn; None is a good log under a hostile name."""
