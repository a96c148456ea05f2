"""What is deterministic replays the same, what is falsified is found, and what is volatile is called that."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.worlds.recording import SHELL, document, in_bash, of_database, repository
from tests.worlds.replay.boxes import needs_box
from trajmill.pipelines.generations.forgetting import Forgetting
from trajmill.pipelines.generations.traces import Selection
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError
from trajmill.worlds.replay.engines import Limits, engine
from trajmill.worlds.replay.replay import Replay, ReplaySettings

TERMINAL = [
    "printf 'pear 3\\napple 12\\nfig 7\\n' > fruit.txt; wc -l fruit.txt",
    "sort fruit.txt",
    "awk '{ sum += $2 } END { print sum }' fruit.txt",
    "mkdir -p crates/small && cd crates && seq 3 | tee counts.txt",
    "ls -R .",
    'WHO=keeper; greet() { echo "hello $1"; }',
    'greet "$WHO"',
    "cat ../missing.txt",
    "grep -n an /dev/null; echo $?",
    "python3 -c \"print(sorted({'b': 1, 'a': 2}.items()))\"",
    "sed -i 's/2/two/' counts.txt; cat counts.txt",
    "cd ..; find . -type f | sort",
    "for n in 1 2 3; do printf '%03d ' $n; done; echo",
    "false || echo recovered",
    "nosuchcommand --help",
    "printf '%s' 'no line feed at the end'",
    "sha256sum fruit.txt",
    "diff <(sort fruit.txt) <(sort -k2n fruit.txt)",
    "test -d crates/small && echo there",
    "echo $((6 * 7))",
]
VOLATILE = [
    "python3 -c 'print(hash(\"pear\"))'",
    "echo $$",
    "echo $RANDOM",
    "date",
    'echo "process $$"',
    "date +%H:%M:%S",
    "mktemp -u /tmp/tmp.XXXXXXXX",
]
FALSIFIED = {
    "head -2 list.txt": ("two", "too"),
    "wc -c list.txt": ("14", "15"),
    "cat list.txt": ("three", "three\nfour"),
    "ls": ("list.txt", "list.md"),
    "echo -n": ("", "something"),
    "sort -r list.txt": ("two\nthree\none", "three\ntwo\none"),
}
SWE = [
    "ls",
    "cat lamp/light.py",
    "git status --short",
    "sed -i 's/off/on/' lamp/light.py && git diff",
    "python3 -m unittest -q 2>&1 | tail -3",
    "git log --oneline | wc -l",
    "git add -A && git commit -q -m 'Light it' && git show --stat --format=%s HEAD",
    "grep -rn state . --include=*.py",
]
FILES = {
    "lamp/__init__.py": "",
    "lamp/light.py": "state = 'off'\n\n\ndef shown():\n    return state\n",
    "test_light.py": "import unittest\nfrom lamp.light import shown\n\n\nclass Light(unittest.TestCase):\n"
    "    def test_shown(self):\n        self.assertEqual(shown(), 'on')\n",
}
SQL: list[tuple[str, dict[str, str]]] = [
    ("list_tables", {}),
    ("describe_table", {"table_name": "boats"}),
    ("read_query", {"query": "SELECT * FROM boats ORDER BY id"}),
    ("write_query", {"query": "INSERT INTO boats (name, berth) VALUES ('Möwe', 4)"}),
    ("write_query", {"query": "UPDATE boats SET berth = 9 WHERE name = 'Ina'"}),
    ("read_query", {"query": "SELECT name, berth FROM boats ORDER BY id"}),
    ("create_table", {"query": "CREATE TABLE trips (id INTEGER PRIMARY KEY, boat TEXT)"}),
    ("read_query", {"query": "SELECT * FROM nothing"}),
    ("list_tables", {}),
]


def recorded(tmp: Path) -> tuple[Path, dict[str, dict[int, str]]]:
    """A folder of logs, and which steps of which are falsified."""
    raw = tmp / "raw"
    raw.mkdir()
    false: dict[str, dict[int, str]] = {}

    def write(name: str, domain: str, environment: dict[str, str], steps: list[Any]) -> None:
        (raw / f"{name}.json").write_bytes(document(name, domain, environment, steps))

    def terminal(name: str, commands: list[str], begin: str) -> list[tuple[str, dict[str, str], str]]:
        folder = tmp / "bases" / name
        folder.mkdir(parents=True)
        in_bash(folder, [begin])
        work = shutil.copytree(folder, tmp / "at" / name)
        answers = in_bash(work, commands)
        return [("bash", {"command": command}, answer) for command, answer in zip(commands, answers, strict=True)]

    write("fruit", "terminal", {"id": "a shell"}, terminal("fruit", TERMINAL, "true"))
    write("clock", "terminal", {"id": "a shell"}, terminal("clock", VOLATILE, "true"))
    steps = terminal("liar", list(FALSIFIED), "printf 'one\\ntwo\\nthree\\n' > list.txt")
    lies = []
    for number, (tool, arguments, answer) in enumerate(steps):
        old, new = FALSIFIED[arguments["command"]]
        assert old in answer
        lies.append((tool, arguments, answer.replace(old, new, 1) if old else new))
        false.setdefault("liar", {})[number] = new
    write("liar", "terminal", {"id": "a shell"}, lies)
    commit = repository(tmp / "bases" / "lamp", FILES)
    answers = in_bash(shutil.copytree(tmp / "bases" / "lamp", tmp / "at" / "lamp"), SWE)
    calls = [("bash", {"command": command}, answer) for command, answer in zip(SWE, answers, strict=True)]
    calls[1] = (*calls[1][:2], calls[1][2].replace("off", "dim"))
    false["lamp"] = {1: "dim"}
    write("lamp", "swe", {"id": "acme/lamp", "instance_id": f"acme/lamp@{commit}"}, calls)
    database = tmp / "bases" / "harbour.db"
    with sqlite3.connect(database) as connection:
        connection.executescript(
            "CREATE TABLE boats (id INTEGER PRIMARY KEY, name TEXT, berth INTEGER);"
            "INSERT INTO boats (name, berth) VALUES ('Ina', 2), ('Okke', 3);"
        )
    connection.close()
    answers = of_database(Path(shutil.copy(database, tmp / "at" / "harbour.db")), SQL)
    calls = [(tool, arguments, answer) for (tool, arguments), answer in zip(SQL, answers, strict=True)]
    calls[5] = (*calls[5][:2], calls[5][2].replace("'berth': 9", "'berth': 8"))
    false["harbour"] = {5: "8"}
    write("harbour", "mcp", {"id": "harbour"}, calls)
    return raw, false


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[int, str]]]:
    """A judged run whose three worlds were replayed, and which of its steps are falsified; not to be changed."""
    if _lacks_box():
        pytest.skip("this machine has no box")
    tmp = tmp_path_factory.mktemp("replayed")
    raw, false = recorded(tmp)
    out = tmp / "out"
    Run(load_recipe("all"), [str(raw)], str(out)).run("judge")
    bases = tmp / "bases"
    limits = Limits(seconds=5)
    named_bases = tuple(f"{name}={bases / name}" for name in ("fruit", "clock", "liar"))
    for settings in (
        ReplaySettings("terminal", named_bases, limits, SHELL),
        ReplaySettings("swe", (f"acme/lamp={bases / 'lamp'}",), limits, SHELL),
        ReplaySettings("mcp-sqlite", (str(bases / "harbour.db"),), limits),
    ):
        Replay(str(out), settings).run()
    return out, false


def _lacks_box() -> bool:
    try:
        engine()
    except ConfigError:
        return True
    return False


def tables(folder: Path) -> list[dict[str, Any]]:
    """The rows of all tables in a folder."""
    return [row for file in sorted(folder.rglob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def rows(out: Path) -> list[dict[str, Any]]:
    """Transitions with what was replayed of them."""
    merged = []
    for file in sorted((out / "replays").rglob("*.parquet")):
        logged = pq.read_table(out / "transitions" / file.relative_to(out / "replays")).to_pylist()
        merged += [{**row, **replay} for row, replay in zip(logged, pq.read_table(file).to_pylist(), strict=True)]
    return merged


@needs_box
def test_what_is_deterministic_replays_the_same_and_what_is_falsified_differs(
    replayed: tuple[Path, dict[str, dict[int, str]]],
) -> None:
    out, false = replayed
    by_key = {(row["native_id"], row["step"]): row for row in rows(out)}
    lies = {(name, step) for name, steps in false.items() for step in steps}
    missed = [key for key in lies if by_key[key]["replayed"] != "differs"]
    assert not missed
    honest = [row for key, row in by_key.items() if key not in lies and key[0] != "clock"]
    same = [row for row in honest if row["replayed"] == "same"]
    shown = [(row["native_id"], row["step"], row["replayed"], row["reason"], row["difference"]) for row in honest]
    assert len(honest) >= 35
    assert len(same) >= 0.95 * len(honest), [row for row in shown if row[2] != "same"]


@needs_box
def test_times_and_process_ids_are_volatile(replayed: tuple[Path, dict[str, dict[int, str]]]) -> None:
    statuses = [row["replayed"] for row in rows(replayed[0]) if row["native_id"] == "clock"]
    assert len(statuses) == len(VOLATILE)
    assert set(statuses) <= {"same", "volatile"}
    assert "volatile" in statuses


@needs_box
def test_a_difference_says_what_the_log_has_and_what_came(replayed: tuple[Path, dict[str, dict[int, str]]]) -> None:
    (difference,) = [row["difference"] for row in rows(replayed[0]) if (row["native_id"], row["step"]) == ("liar", 0)]
    assert "-too" in difference.split("\n")
    assert "+two" in difference.split("\n")


@needs_box
def test_each_world_keeps_what_the_others_answered_and_the_folder_is_whole(
    replayed: tuple[Path, dict[str, dict[int, str]]],
) -> None:
    out = replayed[0]
    assert {row["world"] for row in rows(out)} == {"terminal", "swe", "mcp-sqlite"}
    checked = verify(str(out))
    assert checked.is_whole
    assert "replays" in {stage.name for stage in checked.stages}
    assert not checked.foreign


@needs_box
def test_a_table_that_is_changed_is_told_by_verify(
    replayed: tuple[Path, dict[str, dict[int, str]]], tmp_path: Path
) -> None:
    out = shutil.copytree(replayed[0], tmp_path / "out")
    file = next((out / "replays").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-1])
    assert not verify(str(out)).is_whole


@needs_box
def test_rl_takes_certified_turns_alone(replayed: tuple[Path, dict[str, dict[int, str]]], tmp_path: Path) -> None:
    out = shutil.copytree(replayed[0], tmp_path / "out")
    raw = replayed[0].parent / "raw"
    recipe = load_recipe("all")
    recipe = recipe.model_copy(update={"mix": recipe.mix.model_copy(update={"rl": "certified", "pools": {"rl": 1.0}})})
    Run(recipe, [str(raw)], str(out)).run()
    proven = {row["row_id"] for row in rows(out) if row["replayed"] in ("same", "volatile")}
    infos = [row["extra_info"] for row in tables(out / "shards" / "rl")]
    steps = {f"{row['trajectory_id']}:{row['step']}" for row in rows(out) if row["row_id"] in proven}
    assert infos
    assert {row["id"] for row in infos} <= steps
    assert [row["reason"] for row in tables(out / "rejects" / "mix")] == ["not_certified"]
    sealed = json.loads((out / "shards" / "manifest.json").read_bytes())
    assert sealed["mixture"]["replays"] == json.loads((out / "replays" / "manifest.json").read_bytes())["digest"]
    assert verify(str(out)).is_whole


@needs_box
def test_what_is_forgotten_is_in_no_replay(replayed: tuple[Path, dict[str, dict[int, str]]], tmp_path: Path) -> None:
    out, recipe = shutil.copytree(replayed[0], tmp_path / "out"), load_recipe("all")
    Run(recipe, [str(replayed[0].parent / "raw")], str(out)).run()
    (gone,) = {row["trajectory_id"] for row in rows(out) if row["native_id"] == "liar"}
    Forgetting(recipe, str(out)).forget(Selection(trajectories=(gone,)))
    left = tables(out / "replays")
    assert left
    assert gone not in {row["trajectory_id"] for row in left}
    assert verify(str(out)).is_whole


def test_rl_that_asks_for_certified_turns_is_refused_where_nothing_was_replayed(raw: Path, tmp_path: Path) -> None:
    recipe = load_recipe("terminal")
    recipe = recipe.model_copy(update={"mix": recipe.mix.model_copy(update={"rl": "certified"})})
    with pytest.raises(ConfigError, match="--stop-after judge"):
        Run(recipe, [str(raw)], str(tmp_path / "out")).run()


def test_without_a_box_nothing_is_written(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.cache_clear()
    monkeypatch.setattr("shutil.which", lambda _: None)
    before = Folder(str(finished)).names()
    try:
        with pytest.raises(ConfigError):
            Replay(str(finished), ReplaySettings("terminal", (str(finished),))).run()
    finally:
        engine.cache_clear()
    assert Folder(str(finished)).names() == before


def test_a_base_that_is_not_there_is_refused(finished: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        Replay(str(finished), ReplaySettings("terminal", ("nowhere",)))
