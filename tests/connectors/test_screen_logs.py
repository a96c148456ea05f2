"""Generated logs of screens are what their connectors take real ones for: read whole, with a screen at each step."""

import pytest

from benchmarks.logs.screen_logs import LOGS, log
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector
from trajmill.schemas import Trajectory

WITHOUT_SCREENS = {"android_control_jsonl", "agentnet"}


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_generated_log_is_read_without_a_reject(name: str) -> None:
    found = list(connector(name).parse(MemoryBlob("generated", log(name, 60_000))))
    steps = [step for one in found if isinstance(one, Trajectory) for step in one.steps]
    assert found
    assert all(isinstance(one, Trajectory) for one in found)
    assert steps
    screens = [step.observation for step in steps if step.observation is not None and step.observation.content]
    assert len(screens) == (0 if name in WITHOUT_SCREENS else len(steps))


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_log_is_generated_equal_every_time(name: str) -> None:
    assert log(name, 20_000) == log(name, 20_000)
