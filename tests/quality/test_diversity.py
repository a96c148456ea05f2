import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, call
from trajmill.pipelines.publish.dataset import kinds_in
from trajmill.quality.diversity import diversity
from trajmill.schemas import Action, Environment, Observation, Step, Task, Trajectory


def test_equally_common_kinds_count_in_full_and_rare_ones_hardly():
    even = diversity({"a": 5, "b": 5, "c": 5, "d": 0})
    assert (even.kinds, even.largest) == (3, 1 / 3)
    assert even.effective == pytest.approx(3)
    assert even.dominant == pytest.approx(3)
    skewed = diversity({"a": 90, "b": 10})
    assert skewed.effective == pytest.approx(1.3842, abs=1e-4)
    assert skewed.dominant == pytest.approx(1 / 0.82)
    assert diversity({}).kinds == 0


@given(st.dictionaries(st.text(max_size=2), st.integers(1, 50), min_size=1))
def test_numbers_fall_with_the_order(counts):
    found = diversity(counts)
    assert found.kinds + 1e-9 >= found.effective >= found.dominant - 1e-9
    assert 1 / found.largest**2 + 1e-9 >= found.dominant >= 1 / found.largest - 1e-9


def test_things_are_counted_a_trajectory_or_a_transition():
    actions = [
        call("bash", cmd="cd /x && A=1 git status"),
        Action("shell", "bash -lc 'ls -l'"),
        call("edit", path="a.txt"),
    ]
    uris = ["https://example.org/a?b", "com.app/.Main", None]
    steps = [
        Step(action, None, Observation("x", uri=uri), turn, 0)
        for turn, (action, uri) in enumerate(zip(actions, uris, strict=True))
    ]
    made = [
        Trajectory(f"t{n}", "swe", steps, environment=Environment(id="e"), task=Task(None if n else "7", "do it"))
        for n in range(2)
    ]
    found = kinds_in(batch_of(*made))
    assert found["task"] == {"7": 1, "do it": 1}
    assert found["environment"] == {"e": 2}
    assert found["place"] == {"example.org": 2, "com.app": 2}
    assert found["action"] == {"bash": 2, "shell": 2, "edit": 2}
    assert found["command_head"] == {"git": 2, "ls": 2}
