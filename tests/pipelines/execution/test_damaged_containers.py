"""Compressed files and archives under every damage: what comes out is rows, rejects, or both, never an exception."""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable

import pytest
import zstandard

from tests.conftest import FUZZ
from tests.pipelines.hostile import GOOD
from trajmill.connectors.registry import connectors
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import UNRECOGNIZED_REASONS, make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import Reject

RECIPE = Recipe(name="t", source="t")
CAST = b"""{"version": 2, "width": 80, "height": 24}
[0.1, "o", "$ "]
[0.2, "i", "ls\\r"]
[0.3, "o", "ls\\r\\na\\r\\n$ "]
"""
LONG = GOOD * 12
"""Longer than what a decompressor gives out at once."""


def zipped(method: int, files: dict[str, bytes], **attributes: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            for key, value in attributes.items():
                setattr(info, key, value)
            archive.writestr(info, data)
    return out.getvalue()


def tarred(files: dict[str, bytes], form: int = tarfile.PAX_FORMAT, headers: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.pax_headers = len(data), dict(headers or {})
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


FILES = {"a.jsonl": GOOD, "folder/b.jsonl": LONG}
LONG_NAMES = {"x" * 180 + "/" + "y" * 120 + ".jsonl": GOOD, "ä.jsonl": GOOD}
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
}
KINDS = {
    **{name: pack(LONG) for name, pack in PACK.items()},
    "two.bz2": bz2.compress(GOOD) + bz2.compress(GOOD),
    "tar": tarred(FILES),
    "pax.tar": tarred(LONG_NAMES, headers={"comment": "c" * 300}),
    "gnu.tar": tarred(LONG_NAMES, tarfile.GNU_FORMAT),
    **{f"tar.{name}": pack(tarred(FILES)) for name, pack in PACK.items()},
    "stored.zip": zipped(zipfile.ZIP_STORED, {"a.cast": CAST, "b.cast": CAST}),
    "deflated.zip": zipped(zipfile.ZIP_DEFLATED, FILES),
    "bzip2.zip": zipped(zipfile.ZIP_BZIP2, FILES),
    "lzma.zip": zipped(zipfile.ZIP_LZMA, FILES),
    "nested.zip": zipped(
        zipfile.ZIP_DEFLATED, {"in.tar.bz2": bz2.compress(tarred(FILES)), "c.jsonl.xz": lzma.compress(GOOD)}
    ),
}


def flipped(data: bytes, offset: int) -> bytes:
    return data[:offset] + bytes([data[offset] ^ 0xFF]) + data[offset + 1 :]


def without(data: bytes, offset: int) -> bytes:
    return data[:offset] + data[offset + 7 :]


def filled(data: bytes, offset: int) -> bytes:
    return data[:offset] + b"\xff" * 8 + data[offset + 8 :]


def emptied(data: bytes, offset: int) -> bytes:
    return data[:offset] + b"\0" * 40 + data[offset + 40 :]


DAMAGES = [flipped, without, filled, emptied, lambda data, place: data[:place]]


def milled(folder) -> tuple[list[str], list[Reject]]:
    """Ids and places of the transitions that a plan's inputs come to, and every reject."""
    plan = make_plan(RECIPE, [str(folder)], strict=True)
    rows, rejects = [], list(plan.unrecognized)
    for log in plan.inputs:
        records = [result for result, _ in read_input(log, RECIPE)]
        rejects += [record for record in records if isinstance(record, Reject)]
        rows += [
            step.action.text
            for trajectory in records
            if not isinstance(trajectory, Reject)
            for step in trajectory.steps
        ]
    return rows, rejects


def places(size: int, count: int) -> list[int]:
    """Places all over a file, more of them at its beginning and its end, where headers and directories stand."""
    near = [0, 1, 2, 3, 4, 5, 8, 10, 12, 14, 18, 22, 26, 28, 30, 124, 135, 148, 156, 257, 512, 640]
    ends = [size - back for back in (1, 2, 4, 6, 8, 10, 12, 16, 20, 22, 40, 60, 90, 120, 150)]
    return sorted({offset % size for offset in [*near, *ends, *(size * n // count for n in range(count))]})


@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_ends_a_plan_or_a_reading_and_none_is_silent(tmp_path, kind):
    whole = KINDS[kind]
    (tmp_path / kind).write_bytes(whole)
    good, rejects = milled(tmp_path)
    assert good
    assert rejects == []
    for number, offset in enumerate(places(len(whole), 12)):
        for damage in DAMAGES if FUZZ > 1 else [DAMAGES[number % len(DAMAGES)]]:
            data = damage(whole, offset)
            if data == whole or not data:
                continue
            (tmp_path / kind).write_bytes(data)
            rows, rejects = milled(tmp_path)
            assert rows == good or rejects, f"{damage} at {offset} was silent"
            assert all(reject.offset >= -1 and reject.detail for reject in rejects)


def patched(data: bytes, *patches: tuple[int, bytes]) -> bytes:
    for offset, new in patches:
        data = data[:offset] + new + data[offset + len(new) :]
    return data


def header(data: bytes, offset: int, **fields: bytes) -> bytes:
    """A tar whose header at a place says something else, under a right checksum."""
    offsets = {"size": 124, "kind": 156}
    data = patched(data, *((offset + offsets[name], value) for name, value in fields.items()))
    block = patched(data[offset : offset + 512], (148, b" " * 8))
    return patched(data, (offset + 148, b"%06o\0 " % sum(block)))


def entry(data: bytes, number: int = 0) -> int:
    """Where an entry of a zip's directory begins."""
    offset = -1
    for _ in range(number + 1):
        offset = data.index(b"PK\1\2", offset + 1)
    return offset


def extended(records: bytes) -> bytes:
    """A tar whose first header extends the next, by these records."""
    info = tarfile.TarInfo("pax")
    info.size, info.type = len(records), tarfile.XHDTYPE
    block = info.tobuf(tarfile.USTAR_FORMAT) + records + b"\0" * (-len(records) % 512)
    return block + tarred({"a.jsonl": GOOD})


def zip64(data: bytes) -> bytes:
    """A zip of which an entry refers to sizes in an extra field that is too short for them."""
    offset = entry(data)
    name = int.from_bytes(data[offset + 28 : offset + 30], "little")
    end = offset + 46 + name
    extra = struct.pack("<HHI", 1, 4, 7)
    data = patched(data, (offset + 20, b"\xff" * 8), (offset + 30, struct.pack("<H", len(extra))))
    size = int.from_bytes(data[-10:-6], "little") + len(extra)
    return patched(data[:end] + extra + data[end:], (len(data) + len(extra) - 10, struct.pack("<I", size)))


def wide(data: bytes) -> bytes:
    """An xz file whose block asks for the widest window."""
    size = (data[12] + 1) * 4
    block = data[12 : 12 + size - 4].replace(b"\x21\x01" + data[16:17], b"\x21\x01\x28")
    return data[:12] + block + struct.pack("<I", zlib.crc32(block)) + data[12 + size :]


TAR = tarred(FILES)
SECOND = 512 + -(-len(GOOD) // 512) * 512
ZIP = zipped(zipfile.ZIP_DEFLATED, FILES)
MINUS = b"\xff" * 12
ATTACKS: dict[str, tuple[bytes, str, int]] = {
    # name → (bytes, a reason that is told, logs that are read all the same)
    "a negative size first.tar": (header(TAR, 0, size=MINUS), "bad_archive", 0),
    "a negative size.tar": (header(TAR, SECOND, size=MINUS), "truncated", 1),
    "a size that leads back.tar": (header(TAR, SECOND, size=b"\xff" * 10 + b"\xf8\0"), "truncated", 1),
    "a huge size.tar": (header(TAR, SECOND, size=b"\x80" + b"\x7f" * 11), "truncated", 1),
    "a negative long name.tar": (header(TAR, SECOND, size=MINUS, kind=b"L"), "truncated", 1),
    "a huge long name.tar": (header(TAR, SECOND, size=b"77777777777\0", kind=b"L"), "truncated", 1),
    "a sparse member.tar": (header(TAR, SECOND, kind=b"S"), "sparse", 1),
    "a negative size in an extension.tar": (extended(b"12 size=-99\n"), "bad_archive", 0),
    "many digits in an extension.tar": (extended(b"1" * 500_000), "bad_archive", 0),
    "many character sets in an extension.tar": (extended(b"1 hdrcharset=" * 40_000), "bad_archive", 0),
    "a chain of extensions.tar": (extended(b"9 a=bcde\n")[:1024] * 3000 + TAR, "bad_archive", 0),
    "a sparse map without end.tar": (extended(b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"), "bad_archive", 0),
    "garbage behind.gz": (gzip.compress(LONG) + b"garbage", "bad_compression", 1),
    "garbage behind.bz2": (bz2.compress(LONG) + b"garbage", "bad_compression", 1),
    "garbage behind.xz": (lzma.compress(LONG) + b"some garbage", "bad_compression", 1),
    "garbage behind.zst": (PACK["zst"](LONG) + b"garbage", "bad_compression", 1),
    "a bad index.xz": (flipped(lzma.compress(LONG), len(lzma.compress(LONG)) - 20), "bad_compression", 1),
    "a frame without its end.zst": (PACK["zst"](LONG)[:-4], "truncated", 1),
    "a dictionary that is not there.zst": (
        zstandard.ZstdCompressor(
            dict_data=zstandard.ZstdCompressionDict(b"\x37\xa4\x30\xec\7\0\0\0" + GOOD[:4000], 1)
        ).compress(GOOD),
        "bad_compression",
        0,
    ),
    "a window of four GiB.xz": (wide(lzma.compress(GOOD)), "bad_compression", 0),
    "a method unknown.zip": (patched(ZIP, (entry(ZIP) + 10, b"\x09\0")), "unknown_compression", 1),
    "a size of four GiB.zip": (patched(ZIP, (entry(ZIP) + 24, b"\xff" * 4)), "bomb", 1),
    "a size in zip64 that is not there.zip": (zip64(ZIP), "bad_archive", 0),
    "a header elsewhere.zip": (patched(ZIP, (entry(ZIP) + 42, b"\xf0\xff\xff\x7f")), "bad_archive", 1),
    "a directory elsewhere.zip": (patched(ZIP, (len(ZIP) - 6, b"\xff\xff\xff\x7f")), "bad_archive", 0),
    "names that overlap.zip": (
        patched(ZIP, (entry(ZIP, 1) + 42, ZIP[entry(ZIP) + 42 : entry(ZIP) + 46])),
        "bad_archive",
        1,
    ),
    "a wrong sum.zip": (patched(ZIP, (entry(ZIP) + 16, b"\0\0\0\0")), "bad_compression", 1),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_a_container_is_told_and_what_is_good_of_it_is_read(tmp_path, name):
    data, reason, read = ATTACKS[name]
    (tmp_path / name).write_bytes(data)
    connectors()  # imports, which are not timed
    rows, rejects = milled(tmp_path)
    assert reason in {reject.reason for reject in rejects}
    assert not {reject.reason for reject in rejects} & UNRECOGNIZED_REASONS
    assert len({log.uri for log in make_plan(RECIPE, [str(tmp_path)]).inputs if rows}) == read


def test_a_frame_that_is_skipped_and_zeros_between_frames_are_no_fault(tmp_path):
    skipped = b"\x52\x2a\x4d\x18" + struct.pack("<I", 5) + b"hello"
    (tmp_path / "a.zst").write_bytes(skipped + PACK["zst"](GOOD) + skipped + PACK["zst"](GOOD))
    (tmp_path / "b.xz").write_bytes(lzma.compress(GOOD) + b"\0" * 8 + lzma.compress(GOOD) + b"\0" * 4)
    (tmp_path / "c.jsonl").write_bytes(GOOD + GOOD)
    rows, rejects = milled(tmp_path)
    assert rejects == []
    assert len(rows) % 3 == 0
    assert rows[: len(rows) // 3] == rows[-len(rows) // 3 :]


@pytest.mark.parametrize("beginning", [b"\x04\x22\x4d\x18", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07\x01\0"])
def test_containers_that_are_not_read_are_not_recognized(tmp_path, beginning):
    (tmp_path / "log").write_bytes(beginning + bytes(range(256)))
    assert [reject.reason for reject in milled(tmp_path)[1]] == ["unrecognized"]


def test_the_place_of_damage_in_a_member_is_told_in_its_own_bytes(tmp_path):
    data = zipped(zipfile.ZIP_DEFLATED, {"logs/a.jsonl.gz": gzip.compress(LONG, 0)[:-5000]})
    (tmp_path / "logs.zip").write_bytes(data)
    rows, rejects = milled(tmp_path)
    (fault,) = [reject for reject in rejects if reject.reason == "truncated" and "compressed" in reject.detail]
    assert rows
    assert (fault.uri, fault.member) == ("logs.zip/logs/a.jsonl.gz", "")
    assert len(LONG) - 70_000 < fault.offset < len(LONG)


def test_more_entries_than_are_read_are_counted_before_a_zip_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr("trajmill.pipelines.storage.archives.MAX_MEMBERS", 30)
    (tmp_path / "many.zip").write_bytes(zipped(zipfile.ZIP_STORED, {f"{n}.txt": b"x" for n in range(40)}))
    monkeypatch.setattr("trajmill.pipelines.storage.archives.zipfile.ZipFile", None)
    assert [reject.reason for reject in milled(tmp_path)[1]] == ["too_many_members"]
