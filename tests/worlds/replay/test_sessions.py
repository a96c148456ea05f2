"""Sessions at a terminal, and branches off trajectories that replay."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from typer.testing import CliRunner

from tests.worlds.recording import document, in_bash
from tests.worlds.replay.boxes import needs_box
from trajmill.app.cli.cli import app
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.worlds.replay.actions import plan_request
from trajmill.worlds.replay.box import Base
from trajmill.worlds.replay.engines import Limits
from trajmill.worlds.replay.sessions import place_of, replay_trajectory


def typed(keys: list[str], screens: list[str]) -> list[dict[str, Any]]:
    """Rows of a terminal: what was typed, and the screens before and after each."""
    seen = [
        {
            "content": text,
            "form": "screen",
            "origin": "environment",
            "truncation": "none",
            "is_error": None,
            "uri": None,
        }
        for text in screens
    ]
    return [
        {
            "action": {"name": "keystrokes", "arguments": json.dumps({"keystrokes": [{"keystrokes": key}]})},
            "observation": seen[step],
            "next_observation": seen[step + 1],
            "context": {"initial_state": "terminal of 60x10, TERM=xterm-256color"},
            "environment": {"instance_id": None},
            "provenance": {"connector": "asciicast"},
            "exit_code": None,
        }
        for step, key in enumerate(keys)
    ]


@needs_box
def test_what_is_typed_into_a_terminal_shows_the_logged_screens(tmp_path: Path) -> None:
    prompt = "ada@mill:~/work$"
    keys = ["echo one\r", "cat > list.txt\r", "pear\r\x04", "cat list.txt; stty size\r", "whoami; pwd\r"]
    shown = ["", f" echo one\none\n{prompt}", " cat > list.txt", "\npear\n" + prompt]
    shown += [f" cat list.txt; stty size\npear\n10 60\n{prompt}", f" whoami; pwd\nada\n/home/ada/elsewhere\n{prompt}"]
    whole = [prompt + "".join(shown[: number + 1]) for number in range(len(shown))]
    screens = ["\n".join(text.split("\n")[-10:]) for text in whole]
    rows = typed(keys, screens)
    location = place_of(rows, "/home/dev", {}, "")
    assert (location.user, location.host, location.folder) == ("ada", "mill", "/home/ada/work")
    questions = [plan_request("terminal", row) for row in rows]
    answers = replay_trajectory(rows, questions, Base(), location, Limits(seconds=3))
    assert [answer.status for answer in answers] == ["same", "same", "same", "same", "differs"]
    assert "+/home/ada/work" in (answers[-1].difference or "")


def called(commands: list[tuple[str, str]], folder: str) -> list[dict[str, Any]]:
    """Rows of a shell whose log tells its folder."""
    plain = {"form": "response", "origin": "environment", "truncation": "none", "is_error": None, "uri": folder}
    return [
        {
            "action": {"name": "bash", "arguments": json.dumps({"command": command})},
            "observation": None,
            "next_observation": {**plain, "content": answer},
            "context": {"initial_state": None},
            "environment": {"instance_id": None},
            "provenance": {"connector": "atif"},
            "exit_code": None,
        }
        for command, answer in commands
    ]


@needs_box
def test_a_session_finds_the_variables_of_a_login_and_those_that_were_given() -> None:
    names = "BERRY HOME LOGNAME PATH PWD SHELL USER"
    rows = called(
        [
            ("env | cut -d= -f1 | grep -v '^_$\\|SHLVL' | sort | paste -sd' '", names),
            ("echo $USER $HOME; touch ~/x", "ada /home/ada"),
        ],
        "/home/ada/work",
    )
    location = place_of(rows, "/work", {"BERRY": "rasp"}, "")
    answers = replay_trajectory(rows, [plan_request("terminal", row) for row in rows], Base(), location, Limits())
    assert [answer.status for answer in answers] == ["same", "same"], [answer.answer for answer in answers]


@needs_box
def test_a_given_user_has_its_account_of_the_system_and_the_name_that_scrubbing_gave_it(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\nmaria:x:1203:1204::/data/maria:/bin/bash\n")
    rows = called([("whoami", "maria")], "/home/u0651/work")
    location = place_of(rows, "/work", {}, str(tmp_path), "maria")
    assert (location.user, tuple(location.account)) == ("u0651", (1203, 1204, "/data/u0651"))
    location = place_of(called([("whoami", "maria")], "/srv/work"), "/srv/work", {}, str(tmp_path), "maria")
    assert (location.user, tuple(location.account)) == ("maria", (1203, 1204, "/data/maria"))
    location = place_of(typed(["ls\r"], ["u0651@mill:~/work$", ""]), "/work", {}, str(tmp_path), "maria")
    assert (location.user, location.home, location.folder) == ("u0651", "/data/u0651", "/data/u0651/work")
    rows = called([("whoami", "maria")], "/home/u0651/work")
    answers = replay_trajectory(
        rows,
        [plan_request("terminal", row) for row in rows],
        Base(),
        place_of(rows, "/work", {}, "", "maria"),
        Limits(),
    )
    assert [answer.status for answer in answers] == ["same"]


@needs_box
def test_a_time_of_day_is_read_by_the_clock_of_the_box() -> None:
    now, earlier = (f"{datetime.now(UTC) - timedelta(hours=hours):%H:%M}" for hours in (0, 9))
    rows = called([("date +%H:%M", earlier), (f"echo {now}", earlier)], "/home/ada/work")
    location = place_of(rows, "/work", {"TZ": "MILL-5:30"}, "")
    answers = replay_trajectory(rows, [plan_request("terminal", row) for row in rows], Base(), location, Limits())
    assert [answer.status for answer in answers] == ["volatile", "differs"]


@needs_box
def test_a_tool_that_nobody_knows_leaves_what_differs_after_it_open(tmp_path: Path) -> None:
    rows = [
        {
            "action": {"name": name, "arguments": json.dumps(arguments)},
            "observation": None,
            "next_observation": {
                "content": answer, "form": "response", "origin": "environment", "truncation": "none", "is_error": None,
            },
            "context": {"initial_state": None},
            "environment": {"instance_id": None},
            "provenance": {"connector": "atif"},
            "exit_code": None,
        }
        for name, arguments, answer in [
            ("bash", {"command": "echo a > f; cat f"}, "a"),
            ("rewrite_everything", {}, "done"),
            ("bash", {"command": "echo still"}, "still"),
            ("bash", {"command": "cat f"}, "b"),
            ("Edit", {"file_path": "f", "old_string": "a", "new_string": "c"}, "     1\tc"),
            ("Read", {"file_path": "f"}, "     1\tc"),
            ("Edit", {"file_path": "f", "old_string": "zzz", "new_string": "c"}, "String to replace not found."),
        ]
    ]  # fmt: skip
    answers = replay_trajectory(
        rows, [plan_request("terminal", row) for row in rows], Base(), place_of(rows, "/work", {}, ""), Limits()
    )
    assert [(answer.status, answer.reason) for answer in answers] == [
        ("same", None),
        ("not_run", "unknown_tool"),
        ("same", None),
        ("not_run", "state_unknown"),
        ("same", None),
        ("same", None),
        ("same", None),
    ]


@needs_box
def test_a_command_in_a_shell_of_its_own_that_takes_too_long_ends_alone() -> None:
    rows = [
        {
            "action": {"name": "bash", "arguments": json.dumps({"command": command})},
            "observation": None,
            "next_observation": {
                "content": answer, "form": "response", "origin": "environment", "truncation": "none", "is_error": None,
            },
            "context": {"initial_state": None},
            "environment": {"instance_id": None},
            "provenance": {"connector": "mini_swe_agent"},
            "exit_code": None,
        }
        for command, answer in [("echo a; sleep 9", "a"), ("echo b", "b"), ("ls", "gone")]
    ]  # fmt: skip
    limits = Limits(seconds=0.3)
    answers = replay_trajectory(
        rows, [plan_request("terminal", row) for row in rows], Base(), place_of(rows, "/work", {}, ""), limits
    )
    assert [(answer.status, answer.reason) for answer in answers] == [
        ("not_run", "time"),
        ("same", None),
        ("not_run", "state_unknown"),
    ]


@needs_box
def test_branches_run_what_else_the_logs_do_and_are_of_their_sources_group(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    in_bash(base, ["printf 'one\\ntwo\\n' > list.txt"])
    raw = tmp_path / "raw"
    raw.mkdir()
    ways = (["cat list.txt", "wc -l list.txt"], ["sed -i 's/two/2/' list.txt; tail -1 list.txt", "sort -r list.txt"])
    for number, commands in enumerate(ways):
        work = shutil.copytree(base, tmp_path / f"work{number}")
        answers = in_bash(work, commands)
        steps = [("bash", {"command": command}, answer) for command, answer in zip(commands, answers, strict=True)]
        log = json.loads(document(f"way{number}", "terminal", {"id": "a shell"}, steps))
        log["extra"]["trajmill"]["task"]["id"] = "count lines"
        (raw / f"way{number}.json").write_text(json.dumps(log))
    out, branches = tmp_path / "out", tmp_path / "branches"
    Run(load_recipe("terminal"), [str(raw)], str(out)).run("judge")
    options = ["--world", "terminal", "--base", str(base), "--branch", "2", "--branches", str(branches), "--json"]
    done = CliRunner().invoke(app, ["world", "replay", str(out), *options], catch_exceptions=False)
    counts = json.loads(done.stdout)["terminal"]
    assert (counts["same"], counts["differs"], counts["not_run"]) == (4, 0, 0)
    assert len(list(branches.iterdir())) == 4
    both = tmp_path / "both"
    Run(load_recipe("terminal"), [str(raw), str(branches)], str(both)).run("judge")
    rows = [
        {**row, **verdict}
        for file in sorted((both / "transitions").rglob("*.parquet"))
        for row, verdict in zip(
            pq.read_table(file).to_pylist(),
            pq.read_table(both / "verdicts" / file.relative_to(both / "transitions")).to_pylist(),
            strict=True,
        )
    ]
    kinds = {row["environment"]["kind"] for row in rows if row["relation"] == "branch"}
    assert kinds == {"code"}
    assert len({row["group"] for row in rows}) == 1
    log = {
        (row["step"], json.loads(row["action"]["arguments"])["command"]): row["next_observation"]["content"]
        for row in rows
        if row["relation"] == "branch" and row["step"] == row["num_steps"] - 1
    }
    known = {
        (0, "cat list.txt"): "one\ntwo",
        (0, "wc -l list.txt"): "2 list.txt",
        (0, "sort -r list.txt"): "two\none",
        (0, ways[1][0]): "2",
        (1, "cat list.txt"): "one\n2",
        (1, "wc -l list.txt"): "2 list.txt",
        (1, "sort -r list.txt"): "two\none",
        (1, ways[1][0]): "2",
    }
    assert len(log) == 4
    assert log.items() <= known.items()


def test_branches_need_a_folder_beside_the_run(finished: Path, tmp_path: Path) -> None:
    for options in (["--branch", "1"], ["--branch", "1", "--branches", str(finished / "branches")]):
        done = CliRunner().invoke(app, ["world", "replay", str(finished), "--world", "terminal", *options])
        assert done.exit_code != 0
        assert "--branch" in str(done.exception)
