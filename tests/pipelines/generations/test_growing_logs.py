"""Logs of live sessions grow every night: each transition bears the loss once, and none is lost."""

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import FUZZ
from tests.pipelines.generations.test_append_near_copies import Logs
from tests.pipelines.judge.test_near_duplicates import VOCABULARY
from tests.pipelines.normalize.test_file_slices import conversation, lines
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.generations.forgetting import Forgetting
from trajmill.pipelines.generations.generations import stage_folders
from trajmill.pipelines.generations.traces import Selection
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder


def recipe(grown: str) -> Recipe:
    return parse_recipe(json.dumps({"name": "n", "source": "tests", "normalize": {"grown": grown}}), "n")


RECIPE = parse_recipe('{"name": "n", "source": "tests"}', "n")
MASKLESS = '{"name": "n", "source": "tests", "judge": {"mask_duplicate_transitions": false}}'


@dataclass
class Session:
    """A session of Claude Code that is written line by line."""

    name: str
    dice: random.Random
    lines: list[str] = field(default_factory=list)

    def _line(self, kind: str, content: Any, **more: Any) -> None:
        number = len(self.lines)
        line = {
            "type": kind,
            "uuid": f"{self.name}-{number}",
            "parentUuid": f"{self.name}-{number - 1}" if number else None,
            "sessionId": self.name,
            "cwd": f"/srv/{self.name}",
            "version": "2.1.173",
            "message": {"role": kind, "content": content, **more},
        }
        self.lines.append(json.dumps(line))

    def begin(self) -> None:
        self._line("user", f"Please work on {self.name}.")

    def step(self) -> None:
        """One or two calls of a message, each with its answer."""
        number = len(self.lines)
        calls = [f"toolu_{self.name}_{number}_{call}" for call in range(self.dice.randint(1, 2))]
        for call in calls:
            words = " ".join(self.dice.choices(VOCABULARY, k=6))
            used = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": f"echo {words}"}}
            self._line("assistant", [used], id=f"msg_{self.name}_{number}")
        for call in calls:
            answer = " ".join(self.dice.choices(VOCABULARY, k=80))
            self._line("user", [{"type": "tool_result", "tool_use_id": call, "content": answer}])


def write(folder: Path, session: Session, end: int) -> None:
    """Write a session up to a line, and half of the next one, as a copy of a live log holds it."""
    folder.mkdir(exist_ok=True)
    whole = "".join(f"{line}\n" for line in session.lines[:end])
    rest = session.lines[end][: len(session.lines[end]) // 2] if end < len(session.lines) else ""
    (folder / f"{session.name}.jsonl").write_text(whole + rest)


def targets(out: str) -> Counter[tuple[str, str]]:
    """Action and answer of each transition that bears the loss, in all generations."""
    counts: Counter[tuple[str, str]] = Counter()
    for stages in stage_folders(Folder(out)):
        rows = pl.scan_parquet(f"{stages.path()}/transitions/*/*.parquet").select(
            "row_id", pl.col("action").struct.field("text"), pl.col("next_observation").struct.field("content")
        )
        uses = pl.scan_parquet(f"{stages.path()}/verdicts/*/*.parquet").filter(use="target").select("row_id")
        counts.update(rows.join(uses, on="row_id").select("text", "content").collect().rows())
    return counts


def pools(out: str) -> dict[str, set[str]]:
    """The pools that trajectories of each native id were drawn for."""
    by_name: dict[str, set[str]] = {}
    for stages in stage_folders(Folder(out)):
        rows = pl.scan_parquet(f"{stages.path()}/transitions/*/*.parquet").filter(step=0)
        drawn = pl.scan_parquet(f"{stages.path()}/draws/*-part-*.parquet").select("trajectory_id", "pool")
        for name, pool in rows.join(drawn, on="trajectory_id").select("native_id", "pool").collect().rows():
            by_name.setdefault(name, set()).add(pool)
    return by_name


@pytest.mark.parametrize("seed", range(FUZZ))
def test_appends_of_growing_sessions_give_each_transition_once(tmp_path, seed):
    dice = random.Random(seed)
    sessions = [Session(f"s{number}", dice) for number in range(6)]
    for session in sessions:
        session.begin()
        for _ in range(dice.randint(4, 20)):
            session.step()
    raw, out = tmp_path / "raw", str(tmp_path / "out")
    written = dict.fromkeys((session.name for session in sessions), 4)
    for night in range(3):
        for session in sessions:
            if night == 2:
                written[session.name] = len(session.lines)
            elif night == 0 or dice.random() < 0.7:
                written[session.name] = dice.randint(written[session.name], len(session.lines))
            write(raw, session, written[session.name])
            for _ in range(dice.randint(0, 3)):
                session.step()
        (Append(RECIPE, [str(raw)], out) if night else Run(RECIPE, [str(raw)], out)).run()
        assert verify(out).is_whole
    assert all(len(of_session) == 1 for of_session in pools(out).values())
    Run(RECIPE, [str(raw)], str(tmp_path / "whole")).run()
    assert targets(out) == targets(str(tmp_path / "whole"))


@pytest.fixture
def sessions(tmp_path) -> list[Session]:
    """Eight sessions of ten messages with calls, whose last one is not answered yet, and the run over them."""
    dice = random.Random(3)
    histories = [Session(f"s{number}", dice) for number in range(8)]
    for session in histories:
        session.begin()
        for _ in range(10):
            session.step()
        write(tmp_path / "raw", session, len(session.lines) - 1)
    return histories


def grow(folder: Path, sessions: list[Session], steps: int) -> None:
    for session in sessions:
        for _ in range(steps):
            session.step()
        write(folder, session, len(session.lines))


def test_an_answer_that_came_later_is_no_near_copy(tmp_path, sessions):
    raw, out = str(tmp_path / "raw"), str(tmp_path / "out")
    Run(RECIPE, [raw], out).run()
    grow(tmp_path / "raw", sessions, 0)
    Append(RECIPE, [raw], out).run()
    whole = targets(out)
    assert whole.total() == sum(line.count("tool_result") for session in sessions for line in session.lines)
    assert set(whole.values()) == {1}


def test_a_log_that_was_cut_within_an_answer_gives_what_came_after_it(tmp_path):
    logs = Logs(tmp_path)
    answers = {name: logs.said(12) for name in ("a", "b", "c")}
    for name, texts in answers.items():
        logs.put(name, f"task {name}", [*texts[:10], texts[10][:200]])
    logs.add()
    for name, texts in answers.items():
        logs.put(name, f"task {name}", texts)
        (tmp_path / "logs2" / f"{name}.json").replace(tmp_path / "logs1" / f"{name}.json")
    logs.put("d", "task d", logs.said(3))
    logs.add()
    assert {answer for _, answer in targets(logs.out)} > {answer for texts in answers.values() for answer in texts}


def test_growing_logs_may_be_left_and_read_again_by_turns(tmp_path, sessions):
    raw, out = str(tmp_path / "raw"), str(tmp_path / "out")
    Run(recipe("ignore"), [raw], out).run()
    first = targets(out)
    grow(tmp_path / "raw", sessions, 2)
    assert Append(recipe("ignore"), [raw], out).run().summary is None
    before = pools(out)
    assert len(Append(recipe("extend"), [raw], out).run().changed) == len(sessions)
    second = targets(out)
    assert second.total() > first.total()
    grow(tmp_path / "raw", sessions[:1], 1)
    left = Append(recipe("ignore"), [raw], out).run()
    assert (left.summary, left.changed) == (None, ("s0.jsonl",))
    assert targets(out) == second
    assert pools(out) == before
    assert verify(out).is_whole


def test_without_masks_logs_that_grew_are_left_so_that_nothing_bears_the_loss_twice(tmp_path, sessions):
    raw, out, maskless = str(tmp_path / "raw"), str(tmp_path / "out"), parse_recipe(MASKLESS, "n")
    Run(maskless, [raw], out).run()
    grow(tmp_path / "raw", sessions[:2], 2)
    left = Append(maskless, [raw], out).run()
    assert (left.summary, left.changed) == (None, ("s0.jsonl", "s1.jsonl"))


def test_a_log_that_was_forgotten_does_not_return_when_it_grows(tmp_path, sessions):
    raw, out = str(tmp_path / "raw"), str(tmp_path / "out")
    Run(RECIPE, [raw], out).run()
    Forgetting(RECIPE, out).forget(Selection(sources=("s3.jsonl",)))
    grow(tmp_path / "raw", sessions, 2)
    result = Append(RECIPE, [raw], out).run()
    assert result.summary is not None
    assert sorted(source.uri for source in result.summary.plan.inputs) == [f"s{n}.jsonl" for n in (0, 1, 2, 4, 5, 6, 7)]
    assert "s3" not in pools(out)


def test_new_rows_of_a_table_without_ids_are_groups_of_their_own(tmp_path):
    raw, out = tmp_path / "raw", str(tmp_path / "out")
    raw.mkdir()
    rows = [{key: value for key, value in conversation(number).items() if key != "id"} for number in range(40)]
    (raw / "rows.jsonl").write_bytes(lines(rows[:20]))
    Run(RECIPE, [str(raw)], out).run()
    (raw / "rows.jsonl").write_bytes(lines(rows))
    result = Append(RECIPE, [str(raw)], out).run()
    drawn = pl.read_parquet(f"{out}/{result.generation.folder}/draws/*-part-*.parquet")
    assert (len(drawn), drawn["group"].n_unique()) == (20, 20)
    assert drawn["pool"].n_unique() > 1
