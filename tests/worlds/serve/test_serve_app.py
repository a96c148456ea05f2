"""The served application, and the command that serves it."""

import json
import os
import signal
import subprocess
import sys

import pytest
from starlette.testclient import TestClient

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from tests.synthesis.chat_server import chat_server
from tests.worlds.serve.conftest import TERMINAL
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.worlds.serve.serve_app import build_app
from trajmill.worlds.serve.serve_client import RemoteWorld, Rollout


@pytest.fixture
def asked(world, serve):
    with TestClient(build_app(serve(world.url))) as client:
        yield client


def test_a_session_goes_over_http(asked, tmp_path):
    opening = asked.post("/reset", json={"scenario": TERMINAL}).json()
    assert opening["observation"] == "$"
    assert opening["info"]["instruction"] == "List what is there."
    response = asked.post("/step", json={"session": opening["session"], "action": "ls"})
    assert response.status_code == 200
    assert response.json()["observation"].startswith("seen:")
    assert asked.get("/status").json()["sessions"] == 1
    assert asked.post("/close", json={"session": opening["session"]}).json()["steps"] == 1
    assert asked.get("/scenarios").json() == {"scenarios": [], "from": 0, "all": 0}
    assert (tmp_path / "log" / "trajectories" / f"{opening['session']}.json").is_file()


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
    opening = asked.post("/reset", content=text, headers={"content-type": "application/json"})
    assert opening.json()["observation"] == "\ufffd"
    step = f'{{"session": "{opening.json()["session"]}", "action": "\\udfff"}}'
    response = asked.post("/step", content=step, headers={"content-type": "application/json"})
    assert response.status_code == 200


def test_only_who_bears_the_token_is_answered(world, serve):
    with TestClient(build_app(serve(world.url), "secret")) as client:
        assert client.get("/status").status_code == 401
        assert client.get("/status", headers={"Authorization": "Bearer other"}).status_code == 401
        assert client.get("/status", headers={"Authorization": "Bearer secret"}).status_code == 200


def test_it_is_served_only_under_its_names(world, serve):
    with TestClient(build_app(serve(world.url), "", ("127.0.0.1:80",))) as client:
        assert client.get("/status").status_code == 421
        assert client.get("/status", headers={"host": "127.0.0.1:80"}).status_code == 200


def test_what_is_open_is_written_when_the_server_ends(world, serve, tmp_path):
    with TestClient(build_app(serve(world.url))) as client:
        opening = client.post("/reset", json={"scenario": TERMINAL}).json()
        client.post("/step", json={"session": opening["session"], "action": "ls"})
    written = json.loads((tmp_path / "log" / "trajectories" / f"{opening['session']}.json").read_text())
    assert written["extra"]["served"]["ended"] == "server_ended"


def test_a_world_is_served_until_it_is_ended(tmp_path):
    scenarios, log = tmp_path / "scenarios.jsonl", tmp_path / "log"
    scenarios.write_text(json.dumps(TERMINAL) + "\n")
    with chat_server(lambda _: MARKER + "seen") as chat:
        words = [
            "world", "serve", "--endpoint", chat.url, "--recipe", "terminal", "--model", "lwm@r1", "--price", "2,10",
        ]  # fmt: skip
        words += ["--scenarios", str(scenarios), "--log", str(log)]
        process = [sys.executable, "-m", "trajmill", *words]
        served = subprocess.Popen(process, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert served.stdout is not None
            name, _, url = served.stdout.readline().strip().partition(": ")
            world = RemoteWorld(url)
            (scenario,) = world.scenarios()
            rollout = Rollout(world, scenario)
            seen = rollout.begun["observation"], rollout.answer("ls")
            used = world.status()["used"]
        finally:
            served.send_signal(signal.SIGINT)
            output = " ".join(served.communicate()[0].split())
    assert (name, seen, used["calls"]) == ("lwm@r1", ("$", "seen"), 1)
    assert "sessions: 1, steps: 1; calls: 1 sent, 0 known before; tokens: 100 asked, 200 answered" in output
    assert "cost: 0.0022" in output
    (written,) = (log / "trajectories").iterdir()
    assert json.loads(written.read_text())["extra"]["served"]["ended"] == "server_ended"


def told_of(*more):
    code, _, complained = ran("world", "serve", "--endpoint", "http://127.0.0.1:9/v1", "--recipe", "terminal", *more)
    assert code == 1
    return " ".join(complained.split())


def test_slips_of_the_pen_are_told_before_anything_is_served(tmp_path):
    log = ("--log", str(tmp_path / "log"))
    assert "pins no world model" in told_of("--model", "lwm", *log)
    assert "is more than this machine" in told_of("--model", "a@b", *log, "--host", "0.0.0.0")
    assert "needs what tokens cost" in told_of("--model", "a@b", *log, "--max-cost", "1")
    assert "both say what sessions begin with" in told_of("--model", "a@b", *log, "--scenarios", "x", "--from", "y")
    assert "holds no finished run" in told_of("--model", "a@b", *log, "--from", str(tmp_path))
    assert "TRAJMILL_SERVE_TOKEN" not in os.environ
