"""Rows of drawn trajectories: which of them come, and what they say of the state before an action."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from trajmill.pipelines.mix.drawn_rows import Stretch, python_values, stretches
from trajmill.pipelines.render.costs import COST_HASHES, Costing
from trajmill.pipelines.render.pieces import Numbers, View
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import ParquetSink, read_transitions
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Action, Assembler, Environment, Observation, Origin, Step, Trajectory
from trajmill.schemas.transition import encode_schema

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


class Written(NamedTuple):
    """Transitions in a file, the number of each row's trajectory, and the hashes of its texts."""

    folder: Folder
    ordinal: Numbers
    hashes: Any

    def stretches(self, wanted: npt.NDArray[np.bool_], *more: str) -> list[Stretch]:
        return list(stretches(self.folder, NAME, self.ordinal, wanted, self.hashes, [*LEAVES, *more]))


LEAVES = ("step", "next_observation.content", "observation.content")


def written(path: Path, *groups: list[Trajectory]) -> Written:
    """Trajectories in row groups; one that stands in two has its first half in the first."""
    folder, assembler = Folder(str(path)), Assembler()
    for number, trajectory in enumerate(
        {id(trajectory): trajectory for group in groups for trajectory in group}.values()
    ):
        assembler.add(
            trajectory, Origin(f"{trajectory.native_id}.{number}", "made", "made", "1", lambda _: "0" * 64), {}
        )
    batch, sink, begin = assembler.take(), ParquetSink(folder, NAME, encode_schema()), 0
    times = Counter(id(trajectory) for group in groups for trajectory in group)
    for group in groups:
        size = sum(len(trajectory.steps) // times[id(trajectory)] for trajectory in group)
        sink.write(batch.slice(begin, size))
        begin += size
    assert begin == batch.num_rows
    sink.close()
    costing = Costing(View(), TokenCounter())
    table = pa.Table.from_batches([batch for part in read_transitions(folder, NAME) for batch in costing.add(part)])
    ordinal = np.cumsum(table["step"].to_numpy() == 0) - 1
    return Written(folder, ordinal, tuple(table[name].to_numpy() for name in COST_HASHES))


@pytest.mark.parametrize("drawn", [(0, 1, 2), (0,), (1, 2), (0, 2), (2,), ()])
def test_drawn_trajectories_come_each_whole_and_with_its_states(tmp_path, drawn):
    logs = written(tmp_path, TRAJECTORIES[:1], TRAJECTORIES[1:])
    met = []
    for stretch in logs.stretches(np.isin(logs.ordinal, drawn)):
        for number in sorted(set(logs.ordinal[stretch.first : stretch.past].tolist()) & set(drawn)):
            rows = np.flatnonzero(logs.ordinal == number)
            states = stretch.states(rows, logs.hashes[0][rows] != 0, View()).to_pylist()
            after = stretch.taken(["next_observation.content"], rows)["next_observation"].to_pylist()
            assert states == STATES[number]
            assert [text["content"] for text in after] == [
                step.next_observation.content for step in TRAJECTORIES[number].steps
            ]
            met.append(number)
    assert met == list(drawn)


def test_a_trajectory_that_lies_in_several_row_groups_comes_in_one_piece(tmp_path):
    pages = [page(f"page {number}") for number in range(7)]
    long = walk("long", *pairwise(pages))
    logs = written(tmp_path, [TRAJECTORIES[0], long], [long], [long, TRAJECTORIES[1]])
    pieces = logs.stretches(np.ones(len(logs.ordinal), np.bool_))
    assert [(piece.first, piece.past) for piece in pieces] == [(0, 2), (2, 11)]
    assert "observation" not in pieces[1].batch.schema.names
    before = pieces[1].before
    assert before is not None
    assert before.num_rows == 2  # the first page of `long` and the other page of `moves`
    rows = np.arange(2, 8)
    assert pieces[1].states(rows, np.ones(6, np.bool_), View()).to_pylist() == [shown.content for shown in pages[:6]]


def test_states_are_not_read_where_the_rows_before_led_to_them(tmp_path):
    logs = written(tmp_path, [walk("moves", (None, page("A")), (page("A"), page("B")))])
    (stretch,) = logs.stretches(np.ones(2, np.bool_))
    assert "observation" not in stretch.batch.schema.names
    assert stretch.states(np.arange(2), np.array([False, True]), View()).to_pylist() == [None, "A"]


def test_a_page_that_is_shown_again_and_again_is_in_memory_once(tmp_path):
    logs = written(tmp_path, [walk("polls", *[(None, page("the same page " * 50))] * 40)])
    (stretch,) = logs.stretches(np.ones(40, np.bool_))
    texts = python_values(pc.struct_field(stretch.batch["next_observation"], "content"))
    assert len({id(text) for text in texts}) == 1


@pytest.mark.parametrize(
    "values", [[], ["a", None, "b", "a"], ["a", "b"], [1, None, 3], [1, 2], [None, None], [[1], None, []], [True, None]]
)
def test_a_column_comes_as_its_values_however_it_is_held(values):
    column = pa.array(values)
    assert python_values(column) == values
    if values and isinstance(values[0], str):
        assert python_values(column.dictionary_encode()) == values
        assert python_values(column.dictionary_encode().slice(1)) == values[1:]
