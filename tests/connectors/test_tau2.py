"""Results of tau2-bench: one file and a folder come to the same, and whose tool it was is told apart."""

import json
from pathlib import Path

from tests.rows import RECIPE, blob_at, parsed, recognized
from trajmill.connectors.benches.tau2 import Tau2
from trajmill.connectors.connector import MemoryBlob
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.schemas import Trajectory

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
    assert [(one.uri, sorted(one.members)) for one in inputs] == [
        (f"simulations/sim-{n}.json", ["results.json", f"simulations/sim-{n}.json"]) for n in range(3)
    ]
    assert [one.bytes for one in inputs] == [
        (folder / "simulations" / f"sim-{n}.json").stat().st_size for n in range(3)
    ], "the document is shared, and weighed with none"
    assert [one.uri for one in rejects] == ["simulations/sim-9.json"]
    made = [found for one in inputs for found, _ in read_input(one, RECIPE)]
    assert [one.native_id for one in made if isinstance(one, Trajectory)] == ["sim-0", "sim-1", "sim-2"]
    assert {one.task.id for one in made if isinstance(one, Trajectory)} == {"telecom/7"}


def test_simulations_in_the_results_beside_others_are_told():
    blob = blob_at(FIXTURES / "run")
    members = {name: blob.read(name) for name in blob.members}
    document = json.loads(members["results.json"])
    simulation = json.loads(members["simulations/sim-1.json"])
    members["results.json"] = json.dumps({**document, "simulations": [simulation, simulation]}).encode()
    rows, rejects = parsed(Tau2(), MemoryBlob("run", members))
    assert rows
    assert [(one.reason, one.transitions) for one in rejects] == [("simulations_twice", 2)]
