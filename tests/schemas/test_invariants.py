import pickle
from dataclasses import replace
from typing import cast

import pyarrow as pa
import pytest

from tests.make import batch_of, call, steps_of, trajectory
from trajmill.schemas import Action, ContractError, Environment, Observation, ParseError, Step, Trajectory
from trajmill.schemas.invariants import check


def broken(**changes):
    """A trajectory of two steps whose second step is changed."""
    steps = steps_of("a", "b")
    return Trajectory("t", "terminal", [steps[0], replace(steps[1], **changes)])


@pytest.mark.parametrize(
    ("one", "column"),
    [
        (broken(turn=3), "turn"),
        (broken(turn=0), "call_index"),
        (broken(call_index=1), "call_index"),
        (broken(duration_s=-1.0), "duration_s"),
        (broken(next_observation=Observation("x", form="smell")), "next_observation.form"),
        (broken(next_observation=Observation("x", origin="god")), "next_observation.origin"),
        (broken(next_observation=Observation("x", truncation="some")), "next_observation.truncation"),
        (broken(action=Action("run", "run", "not json")), "action.arguments"),
        (broken(interleaved="{"), "interleaved"),
        (trajectory("a", domain="moon"), "domain"),
        (trajectory("a", relation="cousin"), "relation"),
        (trajectory("a", environment=Environment(kind="model")), "environment.world_model"),
        (trajectory("a", environment=Environment(kind="dream")), "environment.kind"),
        *(
            (trajectory("a", environment=Environment(kind=kind, world_model=model, sampling=sampling)), column)
            for kind, model, sampling, column in (
                ("model", "m", "{}", "environment.world_model"),
                ("model", "@1", "{}", "environment.world_model"),
                ("model", "m@", "{}", "environment.world_model"),
                ("model", "a model@1", "{}", "environment.world_model"),
                ("model", "m@1", None, "environment.sampling"),
                ("model", "m@1", "[]", "environment.sampling"),
                ("real", "m@1", None, "environment.world_model"),
                ("code", None, "{}", "environment.sampling"),
            )
        ),
    ],
)
def test_a_breach_is_named_by_its_column(one, column):
    with pytest.raises(ContractError, match=column.replace(".", r"\.")):
        batch_of(one)


def test_a_missing_text_that_must_be_there_is_a_breach():
    step = Step(replace(call(), text=cast("str", None)), None, None, 0, 0)
    with pytest.raises((ContractError, TypeError, AttributeError)):
        batch_of(Trajectory("t", "terminal", [step]))


def test_steps_with_a_gap_are_a_breach():
    batch = batch_of(trajectory("a", "b", "c"))
    with pytest.raises(ContractError, match="step"):
        check(batch.take(pa.array([0, 2])))


def test_rows_of_another_schema_are_a_breach():
    with pytest.raises(ContractError, match="columns"):
        check(pa.RecordBatch.from_pydict({"a": [1]}))


def test_errors_survive_pickling_with_what_they_say():
    error = ParseError("u", 3, "bad_json", "oh", "m", b"x")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.offset, again.excerpt) == (str(error), 3, b"x")
