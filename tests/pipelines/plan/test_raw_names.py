"""Raw files under any name, and files that cannot be read: each is read as it is called, or told."""

import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.hostile import GOOD, tarred, zipped
from trajmill.pipelines.plan.plan import Plan, make_plan
from trajmill.pipelines.plan.raw_files import gather, root_name
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.paths import Place, name_of, text_of, url_of
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.schemas import ConfigError, ShardError, scan_transitions

RECIPE = Recipe.model_validate({"name": "t", "source": "t", "normalize": {"max_reject_ratio": 1}})
NAMES = (
    b"a::b.jsonl", b"simplecache::file:.jsonl", b"dir!.jsonl", b"two\nlines.jsonl", b"[red]x[\\].jsonl",
    b"\x1b]52;c;AA==\x07.jsonl", b"--out.jsonl", b"-rf", b"~", b"*?[x].jsonl", b"**", b"\xff\xfe.jsonl",
    b"caf\xe9.jsonl", "café.jsonl".encode(), b"\\xe9.jsonl", b"a\\b.jsonl", b"n" * 255, b"%2e%2e.jsonl", b"s3:", b" ",
)  # fmt: skip


def put(folder: Path, name: bytes, data: bytes = GOOD) -> None:
    path = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_a_file_is_read_whatever_it_is_called_and_its_uri_is_text_that_no_other_has(tmp_path):
    for name in NAMES:
        put(tmp_path, name)
    put(tmp_path, b"dir!/x.jsonl")
    put(tmp_path, b"folder\xff/a::b/x.jsonl")
    plan = make_plan(RECIPE, [str(tmp_path)])
    uris = [log.uri for log in plan.inputs]
    assert plan.unrecognized == ()
    assert len(set(uris)) == len(NAMES) + 2
    assert {uri.encode() for uri in uris} >= {name for name in NAMES if b"\xff" not in name and b"\xe9" not in name} - {
        b"\\xe9.jsonl"
    }
    assert {r"\xff\xfe.jsonl", r"caf\xe9.jsonl", r"\x5cxe9.jsonl", r"folder\xff/a::b/x.jsonl"} < set(uris)
    for log in plan.inputs:
        with StoredBlob(log.uri, log.members, 1 << 20) as blob:
            assert blob.read() == GOOD
            assert blob.seekable().read() == GOOD
    assert Plan.from_json(plan.to_json()) == plan
    json.loads(plan.to_json().decode())


def test_a_run_over_hostile_names_gives_each_its_rows_and_tables_that_can_be_read(tmp_path):
    for name in NAMES:
        put(tmp_path / "raw", name)
    put(tmp_path / "raw", b"unknown\xff", b"nothing knows this")
    Run(RECIPE, [str(tmp_path / "raw")], str(tmp_path / "out")).run("normalize")
    uris = scan_transitions(tmp_path / "out").select(pl.col("provenance").struct.field("uri")).collect()["uri"].unique()
    rejects = pl.concat([pl.read_parquet(path) for path in (tmp_path / "out" / "rejects").rglob("*.parquet")])
    assert len(uris) == len(NAMES)
    assert rejects.filter(pl.col("reason") == "unrecognized")["uri"].to_list() == [r"unknown\xff"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_named_is_read_as_it_is_named(tmp_path, name, monkeypatch):
    put(tmp_path, name)
    put(tmp_path, b"other.jsonl")
    monkeypatch.chdir(tmp_path)
    for raw in (os.fsdecode(os.fsencode(tmp_path) + b"/" + name), os.fsdecode(name)):
        assert [file.name for file in gather([raw])] == [text_of(os.fsdecode(name))]


def test_a_name_that_looks_like_a_chain_leads_to_no_other_file(tmp_path):
    (tmp_path / "secret.jsonl").write_bytes(GOOD)
    root = tmp_path / "raw"
    root.mkdir()
    (root / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (root / "link.jsonl::x").write_bytes(b"not a log")
    (root / "link.jsonl!").mkdir()
    (root / "link.jsonl!" / "x").write_bytes(b"not a log")
    plan = make_plan(RECIPE, [str(root)])
    assert plan.inputs == []
    assert [(reject.uri, reject.reason) for reject in plan.unrecognized] == [
        ("link.jsonl", "outside_root"),
        ("link.jsonl!/x", "unrecognized"),
        ("link.jsonl::x", "unrecognized"),
    ]


def test_links_are_followed_within_the_folder_that_is_named_and_anywhere_where_they_are_named_themselves(tmp_path):
    put(tmp_path, b"outside.jsonl")
    put(tmp_path, b"raw/log.jsonl")
    (tmp_path / "raw" / "inside.jsonl").symlink_to("log.jsonl")
    (tmp_path / "raw" / "link.jsonl").symlink_to("../outside.jsonl")
    (tmp_path / "raw" / "nothing.jsonl").symlink_to("nowhere.jsonl")
    faults = {file.name: (file.fault, file.bytes) for file in gather([str(tmp_path / "raw")])}
    assert faults == {
        "inside.jsonl": ("", len(GOOD)),
        "link.jsonl": ("outside_root", len(GOOD)),
        "log.jsonl": ("", len(GOOD)),
        "nothing.jsonl": ("not_a_file", 0),
    }
    assert [file.fault for file in gather([str(tmp_path / "raw" / "link.jsonl")])] == [""]


def test_a_store_that_refuses_ends_with_the_name_of_what_was_to_be_listed(monkeypatch):
    import fsspec

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("Forbidden")

    monkeypatch.setattr(fsspec.filesystem("memory"), "isdir", refuse)
    with pytest.raises(ShardError, match="memory://refused cannot be listed: Forbidden"):
        gather(["memory://refused"])


def test_an_object_without_bytes_has_none():
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/hollow/a.jsonl", b"")
    try:
        assert [file.bytes for file in gather(["memory://hollow"])] == [0]
    finally:
        memory.rm("/hollow", recursive=True)


@pytest.mark.parametrize(
    ("root", "name"),
    [("/data/logs", "logs"), ("/", ""), ("/home/ann", ""), ("/Users/ann", ""), ("~", ""), ("/home/ann/logs", "logs")],
)
def test_a_root_is_called_by_its_own_name_unless_that_is_a_persons(root, name):
    assert root_name(os.path.expanduser(root)) == name


def test_a_chained_url_is_a_local_path_that_is_not_there(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(GOOD)
    with pytest.raises(ConfigError):
        gather([f"simplecache::file://{tmp_path}/a.jsonl"])


def test_an_object_whose_name_looks_like_a_chain_is_read_as_it_is_called():
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/chained/a::b.jsonl", GOOD)
    try:
        plan = make_plan(RECIPE, ["memory://chained"])
        assert [log.uri for log in plan.inputs] == ["a::b.jsonl"]
        assert StoredBlob("x", plan.inputs[0].members, 1 << 20).read() == GOOD
    finally:
        memory.rm("/chained", recursive=True)


def test_only_known_schemes_make_a_url():
    assert all(url_of(raw) == raw for raw in ("s3://a", "hf://a/b", "memory://a"))
    assert not any(url_of(raw) for raw in ("s3:/a", "xyz://a", "file:///a", "/s3://a", "a::s3://a"))


def test_what_reads_a_scheme_and_is_not_installed_is_named(monkeypatch):
    def missing(_scheme: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.get_filesystem_class", missing)
    with pytest.raises(ConfigError, match=r"trajmill\[s3\]"):
        gather(["s3://bucket/logs"])


def test_a_member_is_addressed_by_its_own_name_within_the_archive(tmp_path):
    names = {"a!/b.jsonl": GOOD, "a!": b"other", "xy::z.jsonl": GOOD, "in\nside.jsonl": GOOD}
    put(tmp_path, b"odd!.zip", zipped(names))
    put(tmp_path, b"odd!.tar", tarred(names))
    plan = make_plan(RECIPE, [str(tmp_path)])
    for kind in ("zip", "tar"):
        members = {log.uri: log.members[""] for log in plan.inputs if log.uri.startswith(f"odd!.{kind}/")}
        assert {uri.removeprefix(f"odd!.{kind}/") for uri in members} == set(names) - {"a!"}
        assert all(member.within == (uri.removeprefix(f"odd!.{kind}/"),) for uri, member in members.items())
    assert all(StoredBlob("x", log.members, 1 << 20).read() == GOOD for log in plan.inputs)
    assert Plan.from_json(plan.to_json()) == plan


def test_a_member_whose_name_is_no_text_has_a_uri_that_is(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        (tmp_path / "log").write_bytes(GOOD)
        archive.add(tmp_path / "log", "caf\udce9.jsonl")
    (tmp_path / "log").unlink()
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert [log.uri for log in plan.inputs] == [r"a.tar/caf\xe9.jsonl"]
    assert StoredBlob("x", Plan.from_json(plan.to_json()).inputs[0].members, 1 << 20).read() == GOOD


@given(st.lists(st.binary(max_size=12).filter(lambda name: b"/" not in name), min_size=2, max_size=2, unique=True))
def test_no_two_names_become_one_text_and_each_comes_back(names):
    texts = [text_of(os.fsdecode(name)) for name in names]
    assert texts[0] != texts[1]
    assert [os.fsencode(name_of(text)) for text in texts] == names
    assert "".join(texts).encode()


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder with a file and a folder that whoever runs this may not read."""
    raw = Path(tempfile.mkdtemp())
    for name in ("closed/in.jsonl", "log.jsonl", "no.jsonl"):
        put(raw, name.encode())
    is_root = os.geteuid() == 0
    for name, mode in (("", 0o755), ("no.jsonl", 0), ("closed", 0)):
        (raw / name).chmod(mode)
    if is_root:
        os.seteuid(65534)
    yield raw
    if is_root:
        os.seteuid(0)
    (raw / "closed").chmod(0o700)
    shutil.rmtree(raw)


def test_a_file_and_a_folder_that_may_not_be_read_are_rejects(closed):
    plan = make_plan(RECIPE, [str(closed)])
    assert [log.uri for log in plan.inputs] == ["log.jsonl"]
    expected = [("closed", "unreadable"), ("no.jsonl", "unreadable")]
    assert [(reject.uri, reject.reason) for reject in plan.unrecognized] == expected


def test_a_file_that_is_gone_when_it_is_looked_at_is_a_reject(tmp_path, monkeypatch):
    from trajmill.pipelines.plan import plan as planning

    put(tmp_path, b"gone.jsonl")
    put(tmp_path, b"here.jsonl")

    def listed(raws, dataset):
        files = gather(raws, dataset)
        (tmp_path / "gone.jsonl").unlink()
        return files

    monkeypatch.setattr(planning, "gather", listed)
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert [log.uri for log in plan.inputs] == ["here.jsonl"]
    assert [(reject.uri, reject.reason) for reject in plan.unrecognized] == [("gone.jsonl", "unreadable")]


def test_an_error_of_the_storage_is_no_reject(tmp_path, monkeypatch):
    put(tmp_path, b"a.jsonl")

    def broken(_path: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("trajmill.pipelines.storage.stored_blob.opened", broken)
    with pytest.raises(ShardError):
        make_plan(RECIPE, [str(tmp_path)])


def test_a_folder_too_deep_for_a_path_is_told(tmp_path):
    current = os.open(tmp_path, os.O_RDONLY)
    start = current
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=current)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=current)
        if current != start:
            os.close(current)
        current = inner
    os.close(current)
    os.close(start)
    put(tmp_path, b"log.jsonl")
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert [log.uri for log in plan.inputs] == ["log.jsonl"]
    assert [reject.reason for reject in plan.unrecognized] == ["unreadable"]


def test_folders_within_each_other_beyond_the_depth_of_calls_are_read(tmp_path):
    folders = [f"{tmp_path}/{'d/' * depth}" for depth in range(1, 1500)]
    for folder in folders:
        os.mkdir(folder)
    log = f"{folders[-1]}log.jsonl"
    try:
        with open(log, "wb") as stream:
            stream.write(GOOD)
        assert len(make_plan(RECIPE, [str(tmp_path)]).inputs) == 1
    finally:
        os.unlink(log)
        for folder in reversed(folders):
            os.rmdir(folder)


def test_places_are_written_and_read_back():
    for location in (Place("/a"), Place("/a!/b", ("c!/d", "e\udcff")), Place("s3://b/a::c", ("x",))):
        assert Place.from_json(json.loads(json.dumps(location.to_json()))) == location
