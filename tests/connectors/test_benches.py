"""Results of benchmarks: AWM, tau-bench, tau2-bench, ToolBench and AgentWorldBench."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.rows import RECIPE, blob_at, recognized
from tests.rows import parsed as rows_of
from trajmill.connectors.benches.awm import Awm
from trajmill.connectors.benches.tau2 import Tau2
from trajmill.connectors.benches.tau_bench import TauBench
from trajmill.connectors.benches.toolbench import BRANCHES, ToolBench
from trajmill.connectors.connector import HEAD_BYTES, MemoryBlob
from trajmill.connectors.published.agentworldbench import items
from trajmill.connectors.registry import sniff
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import ParseError, Reject, Trajectory

FOLDER = Path(__file__).parents[1] / "fixtures" / "awm" / "input" / "20260316_101500_boat_rental_3_task_4"


def run(**verdicts: Any) -> Trajectory:
    members = {"trajectory.json": (FOLDER / "trajectory.json").read_bytes()}
    members |= {f"verify.{mode}.json": json.dumps(value).encode() for mode, value in verdicts.items()}
    (trajectory,) = [record for record in Awm().parse(MemoryBlob("run", members)) if isinstance(record, Trajectory)]
    return trajectory


def test_a_run_that_does_not_state_its_limit_is_recognized_by_its_iterations():
    value = json.loads((FOLDER / "trajectory.json").read_bytes())
    del value["max_iterations"]
    guess = Awm().sniff(json.dumps(value).encode()[:65536], "trajectory.json")
    assert guess is not None
    assert guess.score >= 0.9
    del value["trajectory"]
    assert Awm().sniff(json.dumps(value).encode(), "trajectory.json") is None


def parsed(value: Any) -> list[Trajectory | Reject]:
    return list(TauBench().parse(MemoryBlob("results.json", json.dumps(value, indent=2).encode())))


def episode(*traj: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "task_id": 0,
        "reward": 0.0,
        "info": {"task": {"instruction": "Ask."}},
        "traj": list(traj),
        "trial": 0,
        **more,
    }


def test_a_text_without_a_call_among_written_calls_is_refused():
    records = parsed(
        [
            episode(
                {"role": "assistant", "content": "I do not know."},
                {"role": "user", "content": "API output: x"},
            ),
            episode(
                {"role": "assistant", "content": 'Action:\n{"name": "f"}'},
                {"role": "user", "content": "API output: x"},
            ),
        ]
    )
    assert [record.reason for record in records if isinstance(record, Reject)] == ["calls_in_text"]


FIXTURES = Path(__file__).parents[1] / "fixtures" / "tau2" / "input"


def run_folder(folder: Path, count: int) -> Path:
    """A folder of so many equal simulations beside the document of their run."""
    blob = blob_at(FIXTURES / "run")
    (folder / "simulations").mkdir(parents=True)
    (folder / "results.json").write_bytes(blob.read("results.json"))
    for number in range(count):
        simulation = {**json.loads(blob.read("simulations/sim-1.json")), "id": f"sim-{number}"}
        (folder / "simulations" / f"sim-{number}.json").write_text(json.dumps(simulation))
    return folder


def test_a_folder_of_simulations_is_as_many_inputs_and_the_results_are_none(tmp_path):
    folder = run_folder(tmp_path / "run", 3)
    (folder / "simulations" / "sim-9.json").write_text('{"id": "sim-9", ')
    files = [path for path in folder.rglob("*") if path.is_file()]
    inputs, rejects = recognized(files, folder)
    assert [(log.uri, sorted(log.members)) for log in inputs] == [
        (f"simulations/sim-{n}.json", ["results.json", f"simulations/sim-{n}.json"]) for n in range(3)
    ]
    assert [log.bytes for log in inputs] == [
        (folder / "simulations" / f"sim-{n}.json").stat().st_size for n in range(3)
    ], "the document is shared, and weighed with none"
    assert [reject.uri for reject in rejects] == ["simulations/sim-9.json"]
    records = [result for log in inputs for result, _ in read_input(log, RECIPE)]
    assert [record.native_id for record in records if isinstance(record, Trajectory)] == ["sim-0", "sim-1", "sim-2"]
    assert {record.task.id for record in records if isinstance(record, Trajectory)} == {"telecom/7"}


def test_simulations_in_the_results_beside_others_are_told():
    blob = blob_at(FIXTURES / "run")
    members = {name: blob.read(name) for name in blob.members}
    document = json.loads(members["results.json"])
    simulation = json.loads(members["simulations/sim-1.json"])
    members["results.json"] = json.dumps({**document, "simulations": [simulation, simulation]}).encode()
    rows, rejects = rows_of(Tau2(), MemoryBlob("run", members))
    assert rows
    assert [(reject.reason, reject.transitions) for reject in rejects] == [("simulations_twice", 2)]


Node = dict[str, Any]


def node(kind: str, text: str, *children: Node, **more: Any) -> Node:
    return {"node_type": kind, "description": text, **more, "children": list(children)}


def call(name: str, *children: Node, code: int = 0, seen: str = "ok") -> Node:
    return node("Action", name, node("Action Input", "{}", *children, observation=seen, observation_code=code))


def read_tree(*children: Node, **more: Any) -> tuple[list[Trajectory], list[str]]:
    value = {"win": True, "tree": {"tree": node("Action Input", "", *children)}, **more}
    records = list(ToolBench().parse(MemoryBlob("folder/7_x.json", json.dumps(value).encode())))
    return [record for record in records if isinstance(record, Trajectory)], [
        record.reason for record in records if isinstance(record, Reject)
    ]


def test_more_branches_than_are_carried_on_are_refused_once():
    trajectories, rejects = read_tree(*(call(f"f{number}") for number in range(BRANCHES + 10)))
    assert len(trajectories) == BRANCHES + 1
    assert rejects == ["too_many_branches"]


@pytest.mark.parametrize(
    "children", [7, [7], [{"node_type": "Action Input", "description": "{}"}], [{"node_type": None}]]
)
def test_a_tree_that_is_none_is_refused(children):
    value = {"win": True, "tree": {"tree": {"node_type": "Action Input", "description": "", "children": children}}}
    with pytest.raises(ParseError, match="bad_node"):
        list(ToolBench().parse(MemoryBlob("x.json", json.dumps(value).encode())))


FILE = ROOT / "tests" / "fixtures" / "agentworldbench" / "input" / "terminal_test.jsonl"
SAMPLE = {
    "task": "mcp", "id": 1, "prompt": ["a", "b", "c"], "response": ["A", "B", "C"], "current_prompt": "b",
    "system_str": "S", "turn_idx": 2, "total_turns": 3,
}  # fmt: skip


def test_in_a_run_the_file_is_named_and_nothing_of_it_is_taken_in():
    recipe = Recipe(name="t", source="t")
    plan = make_plan(recipe, [str(FILE)])
    assert [log.connector for log in plan.inputs] == ["agentworldbench"]
    assert {record.reason for record, _ in read_input(plan.inputs[0], recipe) if isinstance(record, Reject)} == {
        "benchmark"
    }


@pytest.mark.parametrize("first", ["prompt", "response", "system_str"])
def test_a_sample_longer_than_what_is_sniffed_is_known_by_how_it_begins(first):
    long = {"prompt": ["### Turn 1", "x" * 100_000], "response": ["y" * 100_000], "system_str": "z" * 100_000}
    sample = {"task": "mcp", "id": 1, "prompt": ["### Turn 1"], first: long[first], **SAMPLE}
    sample.update({"prompt": ["### Turn 1"], first: long[first]})
    head = json.dumps(sample).encode()[:HEAD_BYTES]
    assert [connector.name for connector, _ in sniff(head, "mcp_test.jsonl")] == ["agentworldbench"]


def test_a_prompt_that_stands_apart_and_bare_texts_are_taken_in_too():
    sample = {**SAMPLE, "task": "lwm/os", "prompt": "a", "response": "A", "current_prompt": "now", "turn_idx": 1}
    entry = next(items(MemoryBlob("x", json.dumps(sample).encode())))
    assert (entry.domain, entry.prompts, entry.responses) == ("os", ("a", "now"), ("A",))


def test_items_of_parquet_are_those_of_json_lines():
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([SAMPLE, {**SAMPLE, "id": 2}]), stream)
    entries = list(items(MemoryBlob("test.parquet", stream.getvalue())))
    assert [(entry.id, entry.texts, entry.place) for entry in entries] == [
        ("1", ("a", "b", "c", "A", "B", "C"), 0),
        ("2", ("a", "b", "c", "A", "B", "C"), 1),
    ]


@pytest.mark.parametrize("data", [b'{"task": "mcp"}\n', json.dumps(SAMPLE).encode() + b"\n{cut", b"[1]"])
def test_a_file_that_is_not_wholly_the_benchmark_is_no_list_of_what_to_hold_out(data):
    with pytest.raises(ParseError):
        list(items(MemoryBlob("x", data)))
