"""How a run is told while it works: from manifests alone, in words, as JSON, on a terminal."""

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from trajmill.app.cli.progress import JsonLines, Lines, StageProgress, Terminal, Units, duration
from trajmill.app.console import Printer
from trajmill.pipelines.run_record.stage_progress import StageWatch
from trajmill.pipelines.run_record.summary import OVER, StageStart
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.units import finish_unit, units_of
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.manifest import Manifest


def finish(stage: Folder, unit: str, digest: str = "d", **counts: int) -> None:
    named = {key.replace("__", "."): number for key, number in counts.items()}
    finish_unit(stage, Manifest("judge", unit, digest, SCHEMA_VERSION, (), named))


def start(*stages: Folder, stage: str = "judge", done: int = 0) -> StageStart:
    of = {"a": "d", "b": "d"}
    return StageStart(stage, 2, done, 4_000_000, tuple((units_of(one), of) for one in stages))


@pytest.fixture
def out(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path))


def test_a_unit_is_as_far_as_the_steps_that_it_went_through(out: Folder):
    measures, verdicts = out / "measures", out / "verdicts"
    watch = StageWatch(start(measures, verdicts))
    assert watch.look().done == 0
    finish(measures, "a")
    finish(measures, "b")
    assert watch.look().done == 1
    finish(verdicts, "a", trajectories=5, trajectories__kept=3, trajectories__dropped__few_turns=2)
    found = watch.look()
    assert (found.done, found.kept(), found.dropped()) == (1.5, ("trajectories", 3, 5), {"few_turns": 2})
    assert list(found.finished) == ["a"]


@pytest.mark.parametrize(("seconds", "told"), [(3.4, "3 s"), (185, "3 min 5 s"), (9600, "2 h 40 min")])
def test_a_time_has_two_units_at_most(seconds: float, told: str):
    assert duration(seconds) == told


class _Often(Lines):
    period = 0.01


def test_a_stage_tells_of_itself_while_it_works_and_when_it_is_over(out: Folder):
    said = io.StringIO()
    finish(out / "verdicts", "a", trajectories=2, trajectories__kept=2)
    with StageProgress([_Often(Printer(said)), Units(Printer(said))]) as progress:
        progress.tell(StageStart("plan"))
        progress.tell(start(out / "verdicts", done=1))
        finish(out / "verdicts", "b", trajectories=2, trajectories__kept=1, trajectories__dropped__few_turns=1)
        while "2 of 2 parts" not in said.getvalue():
            time.sleep(0.01)
        progress.tell(OVER)
    told = said.getvalue().splitlines()
    assert told[0] == "plan: begins"
    assert "judge: begins, 2 parts of 4.0 MB; 1 done before" in told
    assert "judge: b is done" in told
    assert "judge: a is done" not in told
    assert told[-1].endswith("3 of 4 trajectories kept, 1 dropped (few_turns 1)") or told[-1] == "judge: b is done"


def test_a_program_reads_one_object_a_line(out: Folder):
    said = io.StringIO()
    with StageProgress([JsonLines(Printer(said))]) as progress:
        progress.tell(start(out / "verdicts"))
        finish(out / "verdicts", "a", trajectories=2, trajectories__dropped__few_turns=2)
        finish(out / "verdicts", "b")
        progress.tell(OVER)
    told: list[dict[str, Any]] = [json.loads(one) for one in said.getvalue().splitlines()]
    assert [one["event"] for one in told] == ["stage_begins", "stage_ends"]
    assert (told[1]["parts_done"], told[1]["dropped"]) == (2, {"few_turns": 2})


def test_a_terminal_shows_each_stage_with_its_parts(out: Folder):
    said = io.StringIO()
    console = Printer(said)
    console._force_terminal = True
    with StageProgress([Terminal(console)]) as progress:
        progress.tell(StageStart("plan"))
        progress.tell(start(out / "verdicts"))
        finish(out / "verdicts", "a")
        finish(out / "verdicts", "b")
    assert "2 of 2 parts" in said.getvalue()
    assert "plan" in said.getvalue()
