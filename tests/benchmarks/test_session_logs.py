"""Generated logs are of the format they are said to be, and hold the steps and the sizes that they are made of."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.logs.session_logs import MADE
from benchmarks.logs.sessions import SIZES, drawn, session
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector
from trajmill.schemas import Trajectory


@pytest.mark.parametrize("name", sorted(MADE))
def test_every_act_of_a_generated_log_becomes_a_step_with_what_it_showed(name):
    file, domain, write, _ = MADE[name]
    for number in (0, 1):
        made = session(domain, number)
        found = list(connector(name).parse(MemoryBlob(file, write(made))))
        assert len(found) == 1
        assert isinstance(found[0], Trajectory)
        acts = made.acts[:10] if name == "otel_genai" else made.acts
        shown = [step.next_observation.content for step in found[0].steps if step.next_observation is not None]
        assert [(one or "").split() for one in shown] == [act.shown.split() for act in acts]


@pytest.mark.parametrize("name", sorted(MADE))
def test_a_generated_log_is_recognized_as_its_format(name):
    file, domain, write, _ = MADE[name]
    made = write(session(domain, 0))
    members = made if isinstance(made, dict) else {file: made}
    assert any(connector(name).sniff(data[:65536], member) is not None for member, data in members.items())


@pytest.mark.parametrize("domain", sorted(SIZES))
def test_sizes_are_drawn_from_the_quantiles_of_real_logs(domain):
    acts = [act for number in range(60) for act in session(domain, number).acts]
    middle = SIZES[domain]["shown"][2]
    assert 0.5 * middle < statistics.median(len(act.shown) for act in acts) < 2 * middle
    assert drawn(SIZES[domain]["shown"], 0.5) == middle
    assert drawn(SIZES[domain]["shown"], 1.0) == SIZES[domain]["shown"][-1]


def test_a_session_is_the_same_each_time_and_like_no_other():
    assert session("mcp", 3) == session("mcp", 3)
    assert not {act.shown for act in session("mcp", 3).acts} & {act.shown for act in session("mcp", 4).acts}
