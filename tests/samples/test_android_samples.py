"""The Android samples are what their README says: written by their maker, and read as they were meant."""

import filecmp
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import ROOT
from trajmill.connectors.android.appagent import AppAgent
from trajmill.connectors.android.droidbot import DroidBot
from trajmill.connectors.android.uiautomator import UiAutomator
from trajmill.connectors.connector import Connector, MemoryBlob
from trajmill.schemas import Reject, Trajectory

ANDROID: Final = ROOT / "samples" / "android"
FILES: Final = sorted(path.relative_to(ANDROID).as_posix() for path in ANDROID.rglob("*") if path.is_file())
CONNECTORS: Final[tuple[Connector, ...]] = (DroidBot(), AppAgent(), UiAutomator())


@pytest.fixture(scope="module")
def found() -> list[Trajectory | Reject]:
    """What the connectors make of all samples; each log is recognized first."""
    results: list[Trajectory | Reject] = []
    for connector in CONNECTORS:
        for log in connector.join(FILES):
            blob = MemoryBlob(log.uri, {name: (ANDROID / path).read_bytes() for name, path in log.members.items()})
            assert connector.sniff(blob.read(log.anchor)[:65536], log.members[log.anchor]) is not None
            results += connector.parse(blob)
    return results


def test_the_program_writes_the_same_bytes_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "samples.makers.make_android", tmp_path], cwd=ROOT, check=True)
    written = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert written == FILES
    assert filecmp.cmpfiles(ANDROID, tmp_path, written, shallow=False) == (written, [], [])


def test_what_was_planted_is_there(found: list[Trajectory | Reject]) -> None:
    trajectories = [record for record in found if isinstance(record, Trajectory)]
    assert sum(len(trajectory.steps) == 1 for trajectory in trajectories) == 2
    assert [(record.reason, record.member) for record in found if isinstance(record, Reject)] == [
        ("truncated", "screen_2.xml")
    ]
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    screens = [step.next_observation.content or "" for step in steps if step.next_observation]
    assert any(re.search(r'"Unfortunately, \w+ has stopped\."', screen) for screen in screens)
    assert sum(step.observation is not None and step.observation == step.next_observation for step in steps) > 10


def test_every_tag_of_an_appagent_log_names_a_node(found: list[Trajectory | Reject]) -> None:
    logs = [record for record in found if isinstance(record, Trajectory) and record.agent.name == "appagent"]
    tagged = [step for trajectory in logs for step in trajectory.steps if '"label"' in (step.action.arguments or "")]
    assert len(tagged) > 60
    for step in tagged:
        element = json.loads(step.action.text)["arguments"]["element"]
        assert step.observation is not None
        assert re.search(rf"^ *{element} ", step.observation.content or "", re.MULTILINE)
