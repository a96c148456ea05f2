"""The command itself, in a process of its own."""

import json
import os
import signal
import subprocess
import sys

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from tests.synthesis.chat_server import chat_server
from tests.worlds.serve.conftest import TERMINAL, recipe
from trajmill.app.cli.serving_commands import begun_with
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.worlds.serve.serve_client import RemoteWorld, Rollout


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
            said = " ".join(served.communicate()[0].split())
    assert (name, seen, used["calls"]) == ("lwm@r1", ("$", "seen"), 1)
    assert "sessions: 1, steps: 1; calls: 1 sent, 0 known before; tokens: 100 asked, 200 answered" in said
    assert "cost: 0.0022" in said
    (written,) = (log / "trajectories").iterdir()
    assert json.loads(written.read_text())["extra"]["served"]["ended"] == "server_ended"


def test_scenarios_of_a_run_are_written_beside_the_log(drawn, tmp_path):
    found = begun_with(None, str(drawn), recipe(), tmp_path / "log")
    ids = list(found.ids())
    assert len(ids) > 20
    assert [one.id for key in ids if (one := found.get(key)) is not None] == ids
    assert (tmp_path / "log" / "scenarios.jsonl").is_file()


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
