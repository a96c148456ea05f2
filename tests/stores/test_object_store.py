"""Folders in object stores: faults are backed off from, nothing is replaced that was not seen."""

import json
import pickle

import pytest

from trajmill.pipelines.storage import object_store
from trajmill.pipelines.storage.folders import MARKER, Folder
from trajmill.schemas import ShardError

FAULTS = {"too many": [429, 429], "server": [500, 503], "reset": ["reset", "reset"]}


@pytest.fixture
def held(store):
    """A folder that a run holds."""
    out = Folder(f"{store.url}/out")
    out.write(MARKER, json.dumps({"token": "ours"}).encode())
    store.door.forget()
    return out.held("ours")


def written(folder: Folder, name: str) -> bytes | None:
    """What the store holds, whatever this process remembers."""
    object_store.forget()
    return folder.found(name)


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("what", ["put", "get", "list"])
def test_a_store_that_is_busy_or_breaks_off_is_asked_again(store, held, faults, what):
    if what != "put":
        held.write("a/b", b"1")
        object_store.forget()
    store.door.fail(faults)
    result = {"put": lambda: held.write("a/b", b"1"), "get": lambda: held.read("a/b"), "list": held.sizes}[what]()
    assert not store.door.left
    assert result == {"put": None, "get": b"1", "list": {MARKER: 17, "a/b": 1}}[what]
    assert written(held, "a/b") == b"1"


def test_a_write_whose_answer_is_lost_is_no_second_write(store, held):
    store.door.fail(["lost"], lambda line: "a" in line and not line.startswith("GET"))
    held.write("a", b"1")
    assert not store.door.left
    assert written(held, "a") == b"1"


def test_a_store_that_stays_away_ends_with_what_to_do_about_it(store, held, monkeypatch):
    monkeypatch.setattr("asyncio.sleep", _at_once())
    store.door.fail([503] * 400)
    with pytest.raises(ShardError, match="out/a"):
        held.write("a", b"1")


def _at_once():
    import asyncio

    sleep = asyncio.sleep
    return lambda *_: sleep(0)


def test_a_new_file_is_one_request(store, held):
    held.write("a/b", b"1")
    assert store.door.asked.total() == 1


def test_the_same_file_again_is_left_as_it_is(store, held):
    held.write("a", b"1")
    before = held.version("a")
    held.write("a", b"1")
    assert held.version("a") == before


def test_what_an_earlier_run_left_is_replaced(store, held):
    Folder(held.url).write("a", b"old")
    held.write("a", b"new")
    assert written(held, "a") == b"new"


def test_a_writer_of_another_run_that_comes_late_replaces_nothing(store, held):
    held.write("a", b"sealed")
    late = pickle.loads(pickle.dumps(Folder(held.url).held("theirs")))
    with pytest.raises(ShardError):
        late.write("a", b"late")
    assert written(held, "a") == b"sealed"


def test_of_two_that_saw_the_same_version_one_replaces_it(store):
    out = Folder(f"{store.url}/out")
    first = out.write_over("a", b"1", "")
    assert out.write_over("a", b"2", first) != first
    with pytest.raises(ShardError):
        out.write_over("a", b"3", first)
    with pytest.raises(ShardError):
        out.write_over("a", b"3", "")
    assert written(out, "a") == b"2"


def test_a_file_that_was_read_is_not_asked_for_again_unless_it_has_changed(store, held):
    held.write("a", b"x" * (1 << 20))
    object_store.forget()
    held.sizes()
    store.door.forget()
    assert held.sha256("a") == held.sha256("a")
    assert store.door.asked.total() == 1
    Folder(held.url).write_over("a", b"y" * (1 << 20), held.version("a"))
    held.sizes()
    assert held.read("a")[:1] == b"y"
