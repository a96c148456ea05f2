"""Rows of drawn trajectories: which of them come, and what they say of the state before an action."""

import numpy as np
import pyarrow as pa
import pytest

from trajmill.pipelines.mix.drawn_rows import drawn_rows
from trajmill.pipelines.render.costs import COST_COLUMNS, COST_HASHES, Costing
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import state_of
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import ParquetSink, read_transitions
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Action, Assembler, Environment, Observation, Origin, Step, Trajectory
from trajmill.schemas.transition import encoded_schema

NAME = "web/part-00000.parquet"
SAYS = Observation("You have 3 steps left.", origin="harness")


def walk(name, *pairs):
    steps = [
        Step(Action("go", f"go {number}"), before, after, number, 0) for number, (before, after) in enumerate(pairs)
    ]
    return Trajectory(name, "web", steps, Environment("e", name))


def page(text):
    return Observation(text, form="screen")


TRAJECTORIES = [
    walk("leads", (page("A"), page("B")), (page("B"), page("C"))),
    walk("moves", (None, page("B")), (page("other"), page("C")), (page("C"), page("D"))),
    walk("is told", (page("D"), page("E")), (SAYS, page("F"))),
]
STATES = [["A", "B"], [None, "other", "C"], ["D", None]]


@pytest.fixture
def written(tmp_path):
    """The transitions of the trajectories, a row group each but the last two, and what lies beside their rows."""
    folder = Folder(str(tmp_path))
    sink = ParquetSink(folder, NAME, encoded_schema())
    for some in (TRAJECTORIES[:1], TRAJECTORIES[1:]):
        assembler = Assembler()
        for number, one in enumerate(some):
            assembler.add(one, Origin(f"{one.native_id}.{number}", "made", "made", "1", lambda _: "0" * 64), {})
        sink.write(assembler.take())
    sink.close()
    costing = Costing(View(), TokenCounter())
    costs = [cost for batch in read_transitions(folder, NAME) for cost in costing.add(batch)]
    table = pa.Table.from_batches(costs).combine_chunks()
    beside = {name: table[name] for name in ("segment", *COST_COLUMNS, *COST_HASHES)}
    ordinal = np.cumsum(table["step"].to_numpy() == 0) - 1
    return folder, pa.table({**beside, "ordinal": ordinal, "use": ["target"] * len(ordinal)}), ordinal


@pytest.mark.parametrize("drawn", [(0, 1, 2), (0,), (1, 2), (0, 2), (2,), ()])
def test_only_drawn_trajectories_come_each_whole_and_with_its_states(written, drawn):
    folder, beside, ordinal = written
    found = list(drawn_rows(folder, NAME, beside, np.isin(ordinal, drawn)))
    assert [rows[0]["ordinal"] for rows in found] == list(drawn)
    assert [[state_of(row, View()) for row in rows] for rows in found] == [STATES[number] for number in drawn]
    for rows, number in zip(found, drawn, strict=True):
        after = [step.next_observation.content for step in TRAJECTORIES[number].steps]
        assert [row["next_observation"]["content"] for row in rows] == after
        assert [row["step"] for row in rows] == list(range(len(after)))
        assert all(row["use"] == "target" and row["answer_tokens"] > 0 for row in rows)


def test_a_state_that_the_row_before_led_to_is_the_same_text(written):
    folder, beside, ordinal = written
    first, second = next(drawn_rows(folder, NAME, beside, ordinal == 0))
    assert second["observation"]["content"] is first["next_observation"]["content"]


def test_a_page_that_is_shown_again_and_again_is_in_memory_once(tmp_path):
    shown = [(None, page("the same page " * 50))] * 40
    folder, assembler = Folder(str(tmp_path)), Assembler()
    assembler.add(walk("polls", *shown), Origin("polls", "made", "made", "1", lambda _: "0" * 64), {})
    sink = ParquetSink(folder, NAME, encoded_schema())
    sink.write(assembler.take())
    sink.close()
    (costs,) = [one for batch in read_transitions(folder, NAME) for one in Costing(View(), TokenCounter()).add(batch)]
    beside = {name: costs[name] for name in ("segment", *COST_COLUMNS, *COST_HASHES)}
    table = pa.table({**beside, "ordinal": [0] * 40, "use": ["target"] * 40})
    (rows,) = drawn_rows(folder, NAME, table, np.ones(40, np.bool_))
    assert len({id(row["next_observation"]["content"]) for row in rows}) == 1
