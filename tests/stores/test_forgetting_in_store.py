"""Forgetting in an object store: the same bytes as beside us, after a kill too, and what the bucket keeps is told."""

import shutil
from itertools import count

import pytest

from tests.app.cli.test_cli import ran
from tests.pipelines.generations.test_append_near_copies import Logs
from tests.pipelines.generations.test_forgetting import RECIPE, copied, grown, kept
from tests.stores.test_append_in_store import BUCKET, upload
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.generations.forgetting import Forgetting
from trajmill.pipelines.generations.generations import chain
from trajmill.pipelines.generations.traces import Selection
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.normalize.forgotten_keys import NAME
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.object_store import ObjectStore
from trajmill.pipelines.storage.ownership import RUN
from trajmill.schemas import ConfigError, ShardError

__all__ = ("grown",)
WHAT = Selection(sources=("first0.json", "second5.json"))
MOST = 850
"""Requests of forgetting in a folder of two generations of one part each, which holds some 90 files."""


@pytest.fixture(scope="module")
def forgotten(grown, tmp_path_factory) -> dict[str, bytes]:
    """What is left beside us."""
    out = copied(grown, tmp_path_factory.mktemp("forgotten"))
    Forgetting(RECIPE, str(out)).forget(WHAT)
    return {name: data for name, data in kept(out).items() if not name.endswith(".lock")}


def kept_in(store, name: str = "out") -> dict[str, bytes]:
    root = f"{BUCKET}/{name}/"
    store.filesystem.invalidate_cache()
    names = [path[len(root) :] for path in store.filesystem.find(root)]
    return {name: store.filesystem.cat_file(root + name) for name in names if "/" in name and name != NAME}


def test_forgetting_in_a_store_leaves_the_same_bytes_as_beside_us(store, grown, forgotten):
    out = upload(store, grown / "out", "out")
    result = Forgetting(RECIPE, out).forget(WHAT)
    assert store.door.asked.total() <= MOST
    assert (result.trajectories, len(result.logs)) == (2, 2)
    assert bool(result.older) == store.url.startswith(
        "gs"
    )  # which holds for some days what is removed: the journal too
    assert kept_in(store) == forgotten
    report = verify(out)
    assert report.is_whole, report.faults
    store.door.forget()
    with pytest.raises(ConfigError):
        Forgetting(RECIPE, out).forget(WHAT)
    assert kept_in(store) == forgotten


def test_killed_at_whatever_write_it_forgets_to_the_same_bytes(store, grown, forgotten, monkeypatch):
    when: list[str | int] = ["never", -1]
    done = count()

    def killed(of):
        def ends(*words):
            number = next(done)
            if number == when[1] and when[0] == "before":
                raise KeyboardInterrupt
            result = of(*words)
            if number == when[1] and when[0] == "after":
                raise KeyboardInterrupt
            return result

        return ends

    for name in ("put", "put_over", "remove"):
        monkeypatch.setattr(ObjectStore, name, killed(getattr(ObjectStore, name)))
    for number, side in ((5, "after"), (45, "before"), (81, "after")):
        name = f"out{number}"
        out = upload(store, grown / "out", name)
        done, when[:] = count(), [side, number]
        with pytest.raises(KeyboardInterrupt):
            Forgetting(RECIPE, out).forget(WHAT)
        when[0] = "never"
        with pytest.raises(ConfigError):
            Append(RECIPE, [str(grown / "logs1")], out).run()
        Forgetting(RECIPE, out).forget(WHAT)
        assert kept_in(store, name) == forgotten


def test_an_append_that_began_before_is_not_committed_to_what_was_forgotten(store, grown, tmp_path, monkeypatch):
    out = upload(store, grown / "out", "out")
    logs = Logs(tmp_path / "more", RECIPE)
    logs.folder.mkdir()
    logs.put("third", "task 1", ["another answer " * 40] * 3)
    shutil.copy(grown / "logs1" / "first0.json", logs.folder / "logs1" / "again.json")
    began: list[str] = []

    def forgets(start) -> None:
        if start.stage == "judge" and not began:
            began.append(start.stage)
            Forgetting(RECIPE, out).forget(WHAT)

    with pytest.raises(ShardError):  # it has the folder to itself
        Append(RECIPE, [str(logs.folder / "logs1")], out, tell=forgets).run()
    assert len(chain(Folder(out))) == 2
    Append(RECIPE, [str(logs.folder / "logs1")], out).run()
    assert len(chain(Folder(out))) == 3
    assert verify(out).is_whole


def test_a_commit_to_a_parent_that_was_written_again_is_made_anew(store, grown, tmp_path, monkeypatch):
    out = upload(store, grown / "out", "out")
    logs = Logs(tmp_path / "more", RECIPE)
    logs.folder.mkdir()
    logs.put("third", "task 1", ["another answer " * 40] * 3)
    renew, began = Run.renew, list[str]()

    def forgets(self: Run) -> None:
        renew(self)
        if not began:
            began.append(out)
            with monkeypatch.context() as patch:  # as if what was made were not found in time
                patch.setattr("trajmill.pipelines.generations.forgetting.clear_abandoned", lambda *_: ())
                Forgetting(RECIPE, out).forget(WHAT)

    monkeypatch.setattr(Run, "renew", forgets)
    result = Append(RECIPE, [str(logs.folder / "logs1")], out).run()
    before, after = chain(Folder(out))[1:]
    assert result.generation.parent == after.parent == before.digest


def test_a_second_one_that_takes_the_folder_ends_the_first_and_finishes(store, grown, forgotten, monkeypatch):
    out = upload(store, grown / "out", "out")
    take, began = Forgetting._forget_in, list[str]()

    def taken(*words):
        if not began:
            began.append(out)
            Forgetting(RECIPE, out).forget(WHAT)
        take(*words)

    monkeypatch.setattr(Forgetting, "_forget_in", taken)
    with pytest.raises(ShardError):
        Forgetting(RECIPE, out).forget(WHAT)
    monkeypatch.setattr(Forgetting, "_forget_in", take)
    if "generations/forgetting.json" in Folder(out).names():
        Forgetting(RECIPE, out).forget(WHAT)
    assert kept_in(store) == forgotten


def test_versions_that_a_bucket_keeps_are_told(served, grown):
    if served.url.startswith("gs"):
        pytest.skip("the emulator keeps only what is removed, as another test tells")
    served.filesystem.mkdir("keeps-versions")
    on = {"Status": "Enabled"}
    served.filesystem.call_s3("put_bucket_versioning", Bucket="keeps-versions", VersioningConfiguration=on)
    for path in sorted((grown / "out").rglob("*")):
        if path.is_file() and path.name != ".lock":
            served.filesystem.pipe_file(f"keeps-versions/out/{path.relative_to(grown / 'out')}", path.read_bytes())
    out = "s3://keeps-versions/out"
    code, output, _ = ran("forget", out, "--source", "first0.json")
    assert code == 0
    assert "forgotten: 1 trajectories" in output
    assert "older versions of " in output
    assert (Folder(out).older() or 0) > 20
    assert Folder(out).found(RUN)
