"""Adding to a run whose folder and logs lie in an object store: the same bytes as beside us, whoever else adds."""

import hashlib
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from tests.pipelines.generations.test_append import LOGS, RECIPE, put
from trajmill.pipelines.generations.append import Append, run_with_pools_of
from trajmill.pipelines.generations.generations import Generation, chain, commit
from trajmill.pipelines.generations.published import publish
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.normalize.forgotten_keys import LOG, NAME, Tombstones
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage import object_store
from trajmill.pipelines.storage.folders import MARKER, Folder
from trajmill.schemas import ShardError

BUCKET = "made-for-tests"
MOST = 280
"""Requests of an append that writes down the first generation and adds one of one part, without those for raw logs."""
NOTHING_NEW = 28
"""Requests of an append that finds nothing new."""


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> Path:
    """A folder with logs, and the run over them."""
    folder = tmp_path_factory.mktemp("first")
    put(folder / "logs", LOGS[:11])
    Run(RECIPE, [str(folder / "logs")], str(folder / "out")).run()
    return folder


@pytest.fixture(scope="module")
def grown(first, tmp_path_factory) -> Path:
    """The same after one append, and after another."""
    folder = tmp_path_factory.mktemp("grown")
    for number, batch in enumerate((LOGS[11:14], LOGS[14:]), start=2):
        before = first / "out" if number == 2 else folder / "2"
        shutil.copytree(before, folder / str(number))
        Append(RECIPE, [str(put(folder / f"logs{number}", batch))], str(folder / str(number))).run()
    return folder


def shards_beside(out: Path) -> dict[str, str]:
    shards = out / "shards"
    files = (path for path in shards.rglob("*") if path.is_file())
    return {str(path.relative_to(shards)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def shards_in(store) -> dict[str, str]:
    root = f"{BUCKET}/out/shards/"
    store.filesystem.invalidate_cache()
    paths = store.filesystem.find(root)
    return {path[len(root) :]: hashlib.sha256(store.filesystem.cat_file(path)).hexdigest() for path in paths}


def upload(store, folder: Path, name: str) -> str:
    """Brings a folder into the store, and returns its URL there."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != ".lock":
            store.filesystem.pipe_file(f"{BUCKET}/{name}/{path.relative_to(folder)}", path.read_bytes())
    store.filesystem.invalidate_cache()
    store.door.forget()
    return f"{store.url}/{name}"


def test_an_append_in_a_store_gives_the_same_bytes_with_few_requests(store, first, grown):
    raw, out = upload(store, first / "logs", "raw"), f"{store.url}/out"
    Run(RECIPE, [raw], out).run()
    upload(store, grown / "logs2", "raw")
    result = Append(RECIPE, [raw], out).run()  # in the process that has listed the logs before
    assert (result.generation.number, result.known) == (2, 11)
    ours = [line for line in store.door.lines if "raw" not in line]
    assert shards_in(store) == shards_beside(grown / "2")
    assert len(ours) <= MOST
    store.door.forget()
    assert Append(RECIPE, [raw], out).run().summary is None
    assert store.door.asked.total() <= NOTHING_NEW
    report = verify(out)
    assert report.is_whole, report.faults
    assert not report.foreign


def test_a_commit_whose_answer_is_lost_is_a_commit(store, first, grown):
    out = upload(store, first / "out", "out")
    store.door.fail(["lost"], lambda line: line[:1] == "P" and "generations/0002/manifest.json" in line)
    assert Append(RECIPE, [str(grown / "logs2")], out).run().generation.number == 2
    assert not store.door.left
    assert shards_in(store) == shards_beside(grown / "2")


def test_of_two_appends_at_once_the_loser_computes_again_and_the_dataset_is_of_both(store, first, grown):
    out = upload(store, first / "out", "out")
    began: list[str] = []

    def beaten(_: object) -> None:
        if not began:
            began.append(out)
            Append(RECIPE, [str(grown / "logs2")], out).run()

    result = Append(RECIPE, [str(grown / "logs3")], out, tell=beaten).run()
    assert result.generation.number == 3
    assert result.generation.parent == chain(Folder(out))[1].digest
    assert shards_in(store) == shards_beside(grown / "3")
    report = verify(out)
    assert report.is_whole, report.faults


def test_a_dataset_that_a_slower_append_published_over_a_later_one_is_made_again(store, first, grown, monkeypatch):
    out = upload(store, first / "out", "out")
    Append(RECIPE, [str(grown / "logs2")], out).run()
    store.filesystem.rm_file(f"{BUCKET}/out/shards/manifest.json")
    object_store.forget()

    def overtaken(recipe, folder, generations, owner):
        monkeypatch.setattr("trajmill.pipelines.generations.append.publish", publish)
        if len(generations) == 2:
            Append(RECIPE, [str(grown / "logs3")], out).run()
        publish(recipe, folder, generations, owner)

    monkeypatch.setattr("trajmill.pipelines.generations.append.publish", overtaken)
    assert Append(RECIPE, [str(grown / "logs2")], out).run().summary is None
    assert shards_in(store) == shards_beside(grown / "3")


def killed(store, first: Path, grown: Path, monkeypatch) -> tuple[str, str]:
    """A folder in which an append was killed before its commit, and the folder that it left there."""
    out = upload(store, first / "out", "out")

    def ended(folder: Folder, generation: Generation) -> bool:
        if generation.number == 2:
            raise KeyboardInterrupt
        return commit(folder, generation)

    with monkeypatch.context() as patch:
        patch.setattr("trajmill.pipelines.generations.append.commit", ended)
        with pytest.raises(KeyboardInterrupt):
            Append(RECIPE, [str(grown / "logs2")], out).run()
    folders = {name.split("/")[0] for name in (Folder(out) / "generations").names()}
    (left,) = (name for name in folders if len(name) != len("0001"))  # one that is not committed has a digest's name
    return out, left


@pytest.mark.parametrize("lease", [timedelta(days=1), timedelta(0)], ids=["of today", "of yesterday"])
def test_what_a_killed_append_left_is_told_and_goes_when_its_lease_has_ended(store, first, grown, monkeypatch, lease):
    out, left = killed(store, first, grown, monkeypatch)
    monkeypatch.setattr("trajmill.pipelines.generations.generations.LEASE", lease)
    result = Append(RECIPE, [str(grown / "logs3")], out).run()
    names = [name for name in (Folder(out) / "generations").names() if name.startswith(left)]
    assert bool(names) == bool(lease)
    assert result.begun == ((f"generations/{left}",) if lease else ())
    report = verify(out)
    assert report.is_whole, report.faults


def test_what_another_append_takes_up_meanwhile_is_not_cleared(store, first, grown, monkeypatch):
    out, left = killed(store, first, grown, monkeypatch)
    monkeypatch.setattr("trajmill.pipelines.generations.generations.LEASE", timedelta(0))
    latest, folder = Folder.latest, Folder(f"{out}/generations/{left}")

    def seen(self: Folder, name: str) -> tuple[bytes | None, str]:
        current = latest(self, name)
        if self.url == folder.url:
            folder.write_over(MARKER, (current[0] or b"") + b"\n", current[1])
        return current

    monkeypatch.setattr(Folder, "latest", seen)
    result = Append(RECIPE, [str(grown / "logs3")], out).run()
    assert result.begun == (f"generations/{left}",)
    assert len(folder.names()) > 20


def test_an_append_whose_folder_was_cleared_before_its_commit_commits_nothing(store, first, grown, monkeypatch):
    out = upload(store, first / "out", "out")
    renew = Run.renew

    def taken(self: Run) -> None:
        Folder(self.out.url).write(MARKER, b"{}")
        renew(self)

    monkeypatch.setattr(Run, "renew", taken)
    with pytest.raises(ShardError):
        Append(RECIPE, [str(grown / "logs2")], out).run()
    assert len(chain(Folder(out))) == 1


def test_a_rebuild_takes_pools_from_a_store_and_leaves_its_tombstones_in_one(store, first, grown, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(grown / "2", old)
    log = next((grown / "logs2").iterdir())
    Tombstones().adding(LOG, [hashlib.sha256(log.read_bytes()).hexdigest()]).write(Folder(str(old)))
    upload(store, old, "old")
    raws = [str(first / "logs"), str(grown / "logs2")]
    run_with_pools_of(str(old), RECIPE, raws, str(tmp_path / "out"))
    run_with_pools_of(f"{store.url}/old", RECIPE, raws, f"{store.url}/out")
    assert shards_in(store) == shards_beside(tmp_path / "out")
    assert Tombstones.read(Folder(f"{store.url}/out")).keys
    assert store.filesystem.exists(f"{BUCKET}/out/{NAME}")
