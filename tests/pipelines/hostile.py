"""Hostile raw inputs, each beside a good log, and what is to be said of each."""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zstandard

from tests.conftest import ROOT

GOOD: Final = sorted((ROOT / "samples/terminal/claude_code").rglob("*.jsonl"))[0].read_bytes()
FIXTURES: Final = ROOT / "tests" / "fixtures"
LAST: Final = GOOD.rstrip(b"\n").rfind(b"\n") + 1
"""Where the last line of the good log begins."""

BEYOND: Final = (64 << 20) + (8 << 20)
"""More than what is granted to a compressed file whatever its ratio."""


@dataclass(frozen=True)
class Hostile:
    """A hostile input.

    Attributes:
        files: relative name → its bytes, or a function that makes it at a path.
        rejects: (uri, reason, member, offset) of each reject, in any order; offset None: any.
        milled: names of files that are milled like the good log, the hostile ones among them.
    """

    files: Mapping[str, bytes | Callable[[Path], None]]
    rejects: tuple[tuple[str, str, str, int | None], ...] = ()
    milled: tuple[str, ...] = ()


class Payload:
    """Runs code if it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (os.environ.get("TRAJMILL_PICKLED", "pickled"),)


def zipped(files: Mapping[str, bytes], **attributes: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            for key, value in attributes.items():
                setattr(info, key, value)
            archive.writestr(info, data)
    return out.getvalue()


def tarred(files: Mapping[str, bytes], *more: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in more:
            archive.addfile(info)
    return out.getvalue()


def special(kind: bytes, name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def overlapping(copies: int, size: int) -> bytes:
    """A zip whose directory names one compressed file many times over (as the bombs of Fifield, 2019)."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = b"\0" * size
    packed = packer.compress(data) + packer.flush()
    common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, zlib.crc32(data), len(packed), size, 1, 0)
    body = b"PK\3\4" + common + b"a" + packed
    entry = b"PK\1\2" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0)
    directory = b"".join(entry + bytes([65 + number]) for number in range(copies))
    end = struct.pack("<HHHHIIH", 0, 0, copies, copies, len(directory), len(body), 0)
    return body + directory + b"PK\5\6" + end


def lying(size: int) -> bytes:
    """A zip whose member is longer than its directory says."""
    data = bytearray(zipped({"log.jsonl": GOOD}))
    for mark, shift in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        offset = data.index(mark) + shift
        data[offset : offset + 4] = struct.pack("<I", size)
    return bytes(data)


def made(data: Callable[[], bytes]) -> Callable[[Path], None]:
    """What writes bytes that take long to make, where they are wanted and not where this module is imported."""

    def write(path: Path) -> None:
        path.write_bytes(data())

    return write


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def fixture(name: str) -> dict[str, bytes]:
    folder = FIXTURES / name
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def within(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, data in files.items()}


def line(**values: object) -> bytes:
    return json.dumps({"type": "user", "sessionId": "s", **values}).encode() + b"\n"


DEEP: Final = b'{"type": "user", "message": {"role": "user", "content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}\n"
BOMB_XML: Final = (
    b'<!DOCTYPE lolz [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY x SYSTEM "file:///etc/passwd">]>'
)
DUMPS: Final = fixture("uiautomator/input/radio_adb")
DUMP: Final = next(name for name in DUMPS if name.endswith(".xml"))
UNDER: Final = DUMPS[DUMP].index(b"?>") + 2 if DUMPS[DUMP].startswith(b"<?xml") else 0
CASSETTE: Final = (FIXTURES / "vcr_cassette/input/anthropic.yaml").read_bytes()
ALIASES: Final = b"x0: &x0 [xxxxxxxxxxxxxxxx]\n" + b"".join(
    b"x%d: &x%d [%s]\n" % (level, level, b",".join([b"*x%d" % (level - 1)] * 20)) for level in range(1, 12)
)
CLIMBING: Final = ("../a.jsonl", "/b.jsonl", "x/../../c.jsonl", "c:/d.jsonl")
PICKLED: Final = pickle.dumps({"x": Payload()})
ATIF: Final = json.dumps(
    {
        "schema_version": "ATIF-v1.4",
        "session_id": "s",
        "agent": {"name": "a", "version": "1"},
        "continued_trajectory_ref": "../../outside.json",
        "steps": [
            {"step_id": 1, "source": "user", "message": "go"},
            {
                "step_id": 2,
                "source": "agent",
                "model_name": "m",
                "message": "",
                "tool_calls": [{"tool_call_id": "c", "function_name": "sh", "arguments": {}}],
                "observation": {
                    "results": [
                        {
                            "source_call_id": "c",
                            "content": "done",
                            "subagent_trajectory_ref": [
                                {"session_id": "x", "trajectory_path": "/etc/passwd"},
                                {"session_id": "y", "trajectory_path": "../../../outside.json"},
                            ],
                        }
                    ]
                },
            },
        ],
    }
).encode()

CASES: Final[Mapping[str, Hostile]] = {
    "deep_json": Hostile(
        {"log.jsonl": GOOD + DEEP}, (("log.jsonl", "nested_too_deeply", "", len(GOOD)),), ("log.jsonl",)
    ),
    "deep_json_open": Hostile(
        {"log.jsonl": GOOD + b"[" * 100_000}, (("log.jsonl", "truncated", "", len(GOOD)),), ("log.jsonl",)
    ),
    "long_line": Hostile(
        {"log.jsonl": made(lambda: GOOD + b"x" * (100 << 20) + b"\n")},
        (("log.jsonl", "line_too_long", "", len(GOOD)),),
        ("log.jsonl",),
    ),
    "nul_bytes": Hostile(
        {"log.jsonl": GOOD + b"\0" * 512 + b"\n"}, (("log.jsonl", "bad_json", "", len(GOOD)),), ("log.jsonl",)
    ),
    "nul_escapes_and_surrogates": Hostile(
        {"log.jsonl": GOOD + line(message={"content": "\0 \ud800 \udfff\ud83d"})}, (), ("log.jsonl",)
    ),
    "not_utf8": Hostile(
        {"log.jsonl": GOOD + b'{"type": "user", "message": {"content": "\xff\xfe\x80"}}\n'}, (), ("log.jsonl",)
    ),
    "cut": Hostile({"log.jsonl": GOOD[:-20]}, (("log.jsonl", "truncated", "", LAST),)),
    "cut_gzip": Hostile({"log.jsonl.gz": gzip.compress(GOOD)[:-30]}, (("log.jsonl.gz", "truncated", "", None),)),
    "crlf": Hostile({"log.jsonl": GOOD.replace(b"\n", b"\r\n")}, (), ("log.jsonl",)),
    "bom": Hostile({"log.jsonl": b"\xef\xbb\xbf" + GOOD}, (), ("log.jsonl",)),
    "utf16": Hostile({"log.jsonl": GOOD.decode().encode("utf-16")}, (("log.jsonl", "not_utf8", "", 0),)),
    "utf16_without_mark": Hostile(
        {"log.jsonl": GOOD.decode().encode("utf-16-be")}, (("log.jsonl", "not_utf8", "", 0),)
    ),
    "pickles": Hostile(
        {
            "a.pkl": PICKLED,
            "step_0.pkl.gz": gzip.compress(PICKLED),
            "named.jsonl": PICKLED,
            "old.pkl": pickle.dumps([Payload()], protocol=0),
        },
        tuple((name, "pickle", "", 0) for name in ("a.pkl", "step_0.pkl.gz", "named.jsonl", "old.pkl")),
    ),
    "entity_bomb": Hostile(
        within("dumps", DUMPS | {DUMP: DUMPS[DUMP][:UNDER] + BOMB_XML + DUMPS[DUMP][UNDER:]}),
        (("dumps", "doctype", DUMP, UNDER), ("dumps", "bad_record", "adb.log", None)),
    ),
    "yaml_bomb": Hostile({"cassette.yaml": CASSETTE + ALIASES}, (("cassette.yaml", "alias_bomb", "", None),)),
    "zip_ratio": Hostile(
        {"bomb.zip": made(lambda: zipped({"a.jsonl": b"\0" * BEYOND}))}, (("bomb.zip/a.jsonl", "bomb", "", -1),)
    ),
    "zip_overlapping": Hostile({"bomb.zip": made(lambda: overlapping(60, 32 << 20))}, (("bomb.zip", "bomb", "", 0),)),
    "zip_lying": Hostile({"lies.zip": lying(len(GOOD) - 20)}, (("lies.zip/log.jsonl", "bad_compression", "", None),)),
    "zip_nested": Hostile(
        {"deep.zip": zipped({"good.jsonl": GOOD, "a.zip": zipped({"b.zip": zipped({"c.zip": zipped({"d": GOOD})})})})},
        (("deep.zip/a.zip/b.zip", "unrecognized", "", 0),),
        ("deep.zip/good.jsonl",),
    ),
    "zip_encrypted": Hostile(
        {"locked.zip": zipped({"a.jsonl": GOOD}).replace(b"PK\1\2\x14\3\x14\0\0\0", b"PK\1\2\x14\3\x14\0\1\0")},
        (("locked.zip/a.jsonl", "encrypted", "", -1),),
    ),
    "zip_link": Hostile(
        {"link.zip": zipped({"a.jsonl": b"/etc/passwd"}, create_system=3, external_attr=0o120777 << 16)},
        (("link.zip/a.jsonl", "unrecognized", "", 0),),
    ),
    "zip_climbing": Hostile(
        {"logs.zip": zipped(dict.fromkeys((*CLIMBING, "good.jsonl"), GOOD))},
        tuple((f"logs.zip/{name}", "unsafe_name", "", -1) for name in CLIMBING),
        ("logs.zip/good.jsonl",),
    ),
    "tar_climbing": Hostile(
        {"logs.tar": tarred({"../a.jsonl": GOOD, "/b.jsonl": GOOD, "good.jsonl": GOOD})},
        tuple((f"logs.tar/{name}", "unsafe_name", "", -1) for name in ("../a.jsonl", "/b.jsonl")),
        ("logs.tar/good.jsonl",),
    ),
    "tar_links": Hostile(
        {
            "logs.tar": tarred(
                {"good.jsonl": GOOD},
                special(tarfile.SYMTYPE, "soft.jsonl", "/etc/passwd"),
                special(tarfile.SYMTYPE, "near.jsonl", "good.jsonl"),
                special(tarfile.LNKTYPE, "hard.jsonl", "../outside.jsonl"),
                special(tarfile.CHRTYPE, "device.jsonl", ""),
                special(tarfile.FIFOTYPE, "pipe.jsonl", ""),
            )
        },
        tuple((f"logs.tar/{name}.jsonl", "not_a_file", "", -1) for name in ("soft", "near", "hard", "device", "pipe")),
        ("logs.tar/good.jsonl",),
    ),
    "tar_cut": Hostile(
        {"logs.tar": tarred({"good.jsonl": GOOD, "a.jsonl": GOOD})[: 2 * len(GOOD)]},
        (("logs.tar", "truncated", "", None), ("logs.tar/a.jsonl", "truncated", "", -1)),
        ("logs.tar/good.jsonl",),
    ),
    "gzip_bomb": Hostile(
        {"log.jsonl.gz": made(lambda: gzip.compress(GOOD + b"x" * BEYOND))}, (("log.jsonl.gz", "bomb", "", None),)
    ),
    "zstd_bomb": Hostile(
        {"log.jsonl.zst": made(lambda: zstandard.compress(GOOD + b"x" * BEYOND))},
        (("log.jsonl.zst", "bomb", "", None),),
    ),
    "bzip2_bomb": Hostile(
        {"log.jsonl.bz2": made(lambda: bz2.compress(GOOD) + bz2.compress(b"x" * (1 << 20)) * (BEYOND >> 20))},
        (("log.jsonl.bz2", "bomb", "", None),),
    ),
    "xz_bomb": Hostile(
        {"log.jsonl.xz": made(lambda: lzma.compress(GOOD + b"x" * BEYOND, preset=0))},
        (("log.jsonl.xz", "bomb", "", None),),
    ),
    "links": Hostile(
        {
            "near/real.jsonl": GOOD,
            "near/inside.jsonl": link_to("real.jsonl"),
            "near/outside.jsonl": link_to("../../../outside/log.jsonl"),
            "near/absolute.jsonl": link_to("/etc/passwd"),
            "near/folder": link_to("../../../outside"),
            "near/loop": link_to("loop"),
            "near/circle": link_to("."),
            "near/pipe.jsonl": os.mkfifo,
        },
        (
            ("near/outside.jsonl", "outside_root", "", -1),
            ("near/absolute.jsonl", "outside_root", "", -1),
            ("near/folder", "outside_root", "", -1),
            ("near/loop", "not_a_file", "", -1),
            ("near/circle", "not_a_file", "", -1),
            ("near/pipe.jsonl", "not_a_file", "", -1),
        ),
        ("near/real.jsonl", "near/inside.jsonl"),
    ),
    "references": Hostile(
        {"trajectory.json": ATIF},
        (
            ("trajectory.json", "subagent_missing", "", 0),
            ("trajectory.json", "subagent_missing", "", 0),
            ("trajectory.json", "continuation_missing", "", 0),
        ),
    ),
    "empty": Hostile(
        {"log.jsonl": b"", "blank.jsonl": b"\n \n"},
        (("log.jsonl", "empty", "", 0), ("blank.jsonl", "unrecognized", "", 0)),
    ),
}
"""By name, which is also the folder that the input lies in."""
