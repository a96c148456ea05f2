import gzip
import io
import tarfile
import zlib

import pytest

from tests.conftest import ROOT
from tests.pipelines.hostile import tarred, zipped
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.archives import Archive
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.schemas import ParseError, Reject, scan_transitions

RECIPE = Recipe(name="t", source="t")
LOG = sorted((ROOT / "samples/terminal/claude_code").rglob("*.jsonl"))[0].read_bytes()


def test_an_archive_within_an_archive_is_looked_into_once(tmp_path):
    once = zipped({"deep.zip": zipped({"a.jsonl": LOG}), "b.jsonl": LOG})
    (tmp_path / "one.zip").write_bytes(once)
    (tmp_path / "two.zip").write_bytes(zipped({"one.zip": once}))
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert [log.uri for log in plan.inputs] == [
        "one.zip/b.jsonl",
        "one.zip/deep.zip/a.jsonl",
        "two.zip/one.zip/b.jsonl",
    ]
    assert [reject.uri for reject in plan.unrecognized] == ["two.zip/one.zip/deep.zip"]


def test_packed_logs_come_to_the_same_trajectories(tmp_path):
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "logs.tar.gz").write_bytes(gzip.compress(tarred({"a.jsonl": LOG})))
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.jsonl").write_bytes(LOG)
    tables = []
    for name in ("packed", "plain"):
        Run(RECIPE, [str(tmp_path / name)], str(tmp_path / f"{name}-out")).run("normalize")
        tables.append(scan_transitions(tmp_path / f"{name}-out").select("trajectory_id", "step").collect())
    assert tables[0].equals(tables[1])


def cut(data: bytes, size: int) -> bytes:
    """A gzip file of incompressible data that ends after `size` bytes of it."""
    packed = zlib.compressobj(0, wbits=31)
    return packed.compress(data[:size]) + packed.flush(zlib.Z_FULL_FLUSH)


@pytest.mark.parametrize("pack", [lambda data, size: data[:size], cut])
@pytest.mark.parametrize("where", ["in b", "in the header of c", "before c"])
def test_of_a_cut_tar_what_stands_before_the_cut_is_read(tmp_path, pack, where):
    data = tarred({"a.jsonl": LOG, "b.jsonl": LOG, "c.jsonl": LOG})
    entry = 512 * (1 + -(-len(LOG) // 512))
    size = {"in b": entry + 600, "in the header of c": 2 * entry + 100, "before c": 2 * entry}[where]
    (tmp_path / "logs").write_bytes(pack(data, size))
    plan = make_plan(RECIPE, [str(tmp_path)])
    names = ["a"] if where == "in b" else ["a", "b"]
    assert [log.uri for log in plan.inputs] == [f"logs/{name}.jsonl" for name in names]
    assert all(StoredBlob(log.uri, log.members, 1 << 30).read() == LOG for log in plan.inputs)
    lost = [("logs", "truncated"), *([("logs/b.jsonl", "truncated")] if where == "in b" else [])]
    assert [(reject.uri, reject.reason) for reject in plan.unrecognized] == lost


def test_what_a_tar_holds_behind_damage_or_its_end_or_twice_is_told():
    def told(data: bytes) -> list[tuple[str, str]]:
        members = Archive("a.tar", "tar", io.BytesIO(data), 1 << 20).members()
        return [(record.reason, record.member) for record in members if isinstance(record, Reject)]

    good = tarred({"a": b"x", "b": b"y"})
    assert told(good) == []
    assert told(good + good) == [("bad_archive", "")]
    assert told(good[:1024] + b"\1" * 512 + good[1536:]) == [("bad_archive", "")]
    twice = io.BytesIO(good)
    with tarfile.open(fileobj=twice, mode="a") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    assert told(twice.getvalue()) == [("replaced", "a")]


def test_a_cut_zip_is_rejected_as_cut_and_a_damaged_one_by_its_members(tmp_path):
    data = zipped({"a.jsonl": LOG, "b.jsonl": LOG})
    (tmp_path / "cut.zip").write_bytes(data[: len(data) // 2])
    (tmp_path / "bad.zip").write_bytes(data[: len(data) // 2] + data[len(data) // 2 + 9 :])
    plan = make_plan(RECIPE, [str(tmp_path)])
    expected = {"bad.zip/a.jsonl": "bad_archive", "bad.zip/b.jsonl": "bad_archive", "cut.zip": "truncated"}
    assert {reject.uri: reject.reason for reject in plan.unrecognized} == expected


def test_a_compressed_tar_over_the_cap_is_refused():
    with pytest.raises(ParseError) as caught:
        Archive("a.tar", "tar", io.BytesIO(tarred({"a": b"\0" * 5000})), 4096)
    assert caught.value.reason == "too_large"
