import json

import pytest
from starlette.testclient import TestClient

from tests.worlds.serve.conftest import TERMINAL
from trajmill.worlds.serve.serve_app import served


@pytest.fixture
def asked(world, serve):
    with TestClient(served(serve(world.url))) as client:
        yield client


def test_a_session_goes_over_http(asked, tmp_path):
    begun = asked.post("/reset", json={"scenario": TERMINAL}).json()
    assert begun["observation"] == "$"
    assert begun["info"]["instruction"] == "List what is there."
    found = asked.post("/step", json={"session": begun["session"], "action": "ls"})
    assert found.status_code == 200
    assert found.json()["observation"].startswith("seen:")
    assert asked.get("/status").json()["sessions"] == 1
    assert asked.post("/close", json={"session": begun["session"]}).json()["steps"] == 1
    assert asked.get("/scenarios").json() == {"scenarios": [], "from": 0, "all": 0}
    assert (tmp_path / "log" / "trajectories" / f"{begun['session']}.json").is_file()


def test_what_is_asked_wrong_is_told_with_a_status_and_a_word(asked):
    assert asked.post("/step", json={"session": "none", "action": "ls"}).json()["status"] == "no_session"
    assert asked.post("/reset", json={"scenario": "none"}).status_code == 404
    assert asked.post("/reset", json={"scenario": TERMINAL, "seed": -1}).status_code == 400
    assert asked.post("/reset", json={"scenario": TERMINAL, "session": "../x"}).status_code == 400
    assert asked.post("/reset", json=[1]).status_code == 400
    assert asked.post("/reset", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert asked.post("/reset", content=b"[" * 100_000, headers={"content-type": "application/json"}).status_code == 400
    assert asked.post("/reset", content=json.dumps({"scenario": TERMINAL})).status_code == 415
    large = b'{"a": "' + b"x" * (9 << 20) + b'"}'
    assert asked.post("/reset", content=large, headers={"content-type": "application/json"}).status_code == 413
    assert asked.get("/reset").status_code == 405


def test_halves_of_pairs_do_no_harm(asked):
    text = '{"scenario": {"id": "a", "domain": "terminal", "observation": "\\ud800"}}'
    begun = asked.post("/reset", content=text, headers={"content-type": "application/json"})
    assert begun.json()["observation"] == "\ufffd"
    step = f'{{"session": "{begun.json()["session"]}", "action": "\\udfff"}}'
    found = asked.post("/step", content=step, headers={"content-type": "application/json"})
    assert found.status_code == 200


def test_only_who_bears_the_token_is_answered(world, serve):
    with TestClient(served(serve(world.url), "secret")) as client:
        assert client.get("/status").status_code == 401
        assert client.get("/status", headers={"Authorization": "Bearer other"}).status_code == 401
        assert client.get("/status", headers={"Authorization": "Bearer secret"}).status_code == 200


def test_it_is_served_only_under_its_names(world, serve):
    with TestClient(served(serve(world.url), "", ("127.0.0.1:80",))) as client:
        assert client.get("/status").status_code == 421
        assert client.get("/status", headers={"host": "127.0.0.1:80"}).status_code == 200


def test_what_is_open_is_written_when_the_server_ends(world, serve, tmp_path):
    with TestClient(served(serve(world.url))) as client:
        begun = client.post("/reset", json={"scenario": TERMINAL}).json()
        client.post("/step", json={"session": begun["session"], "action": "ls"})
    written = json.loads((tmp_path / "log" / "trajectories" / f"{begun['session']}.json").read_text())
    assert written["extra"]["served"]["ended"] == "server_ended"
