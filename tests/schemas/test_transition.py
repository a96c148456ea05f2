"""The contract: transitions, trajectories, invariants, and connectors of others."""

import json
import pickle
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import cast

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, call, steps_of, trajectory
from trajmill.connectors.connector import Connector
from trajmill.schemas import (
    DOMAINS,
    TRANSITION_SCHEMA,
    Action,
    ConfigError,
    ContractError,
    Environment,
    Observation,
    ParseError,
    Step,
    Trajectory,
    json_schema,
)
from trajmill.schemas.invariants import check
from trajmill.schemas.plugins import plugins
from trajmill.schemas.trajectory import trajectory_id
from trajmill.schemas.transition import PLAIN_TEXT, SHARED_TEXT, dictionary_columns, encode_schema, leaves


def fields_of(schema: pa.Schema):
    def walk(field: pa.Field, path: str):
        yield path, field
        if pa.types.is_struct(field.type):
            for child in field.type.fields:
                yield from walk(child, f"{path}.{child.name}")

    for field in schema:
        yield from walk(field, field.name)


def test_every_column_says_what_it_holds_and_what_null_means():
    for path, field in fields_of(TRANSITION_SCHEMA):
        assert field.metadata[b"doc"], path
        assert field.nullable == (b"null" in field.metadata), path


def test_the_json_schema_is_valid_and_accepts_a_row():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    row = batch_of(trajectory()).to_pylist()[0]
    jsonschema.validate(json.loads(json.dumps(row, default=str)), schema)


def test_the_seven_domains_are_in_the_json_schema():
    assert json_schema()["properties"]["domain"]["enum"] == list(DOMAINS)


def test_repeating_text_is_dictionary_encoded_and_unique_text_is_not():
    kinds = dict(leaves(encode_schema()))
    assert all(pa.types.is_dictionary(kinds[path]) for path in SHARED_TEXT)
    assert not any(pa.types.is_dictionary(kinds[path]) for path in PLAIN_TEXT)
    assert set(dictionary_columns()) == {path for path, kind in kinds.items() if pa.types.is_dictionary(kind)}


def test_the_id_depends_on_content_and_not_on_where_the_log_lies():
    ids = {batch_of(trajectory("a", "b"), uri=uri)["trajectory_id"][0].as_py() for uri in ("here", "there")}
    assert len(ids) == 1
    assert batch_of(trajectory("a", "c"))["trajectory_id"][0].as_py() not in ids


def test_the_id_depends_on_connector_and_native_id():
    log = trajectory("a")
    assert trajectory_id("x", log) != trajectory_id("y", log)
    assert trajectory_id("x", log) != trajectory_id("x", replace(log, native_id="u"))


@given(st.lists(st.text(max_size=4), min_size=2, max_size=4), st.data())
def test_moving_text_between_observations_changes_the_id(texts, data):
    cut = data.draw(st.integers(1, len(texts) - 1))
    joined = [*texts[: cut - 1], texts[cut - 1] + texts[cut], *texts[cut + 1 :]]
    assert trajectory_id("c", trajectory(*texts)) != trajectory_id("c", trajectory(*joined))


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
        (broken(action=Action("run", "run", sampled='{"token_ids": ["key"], "logprobs": null}')), "action.sampled"),
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


def install(monkeypatch, **values):
    points = [EntryPoint(name, value, "trajmill.connectors") for name, value in values.items()]
    monkeypatch.setattr("trajmill.schemas.plugins.entry_points", lambda group: points)


def test_a_plugin_that_cannot_be_loaded_costs_only_itself(monkeypatch):
    install(monkeypatch, old="connectors_of_old.log:Log", har="trajmill.connectors.web.har:Har")
    with pytest.warns(UserWarning, match="'old'"):
        kinds = [(point.name, kind.name) for point, kind in plugins("trajmill.connectors", Connector)]  # type: ignore[type-abstract]
    assert kinds == [("har", "har")]


def test_an_entry_point_that_names_something_else_is_refused(monkeypatch):
    install(monkeypatch, path="pathlib:Path")
    with pytest.raises(ConfigError):
        list(plugins("trajmill.connectors", Connector))  # type: ignore[type-abstract]
