import fsspec
import pytest

pytest.importorskip("google.cloud.dataflow")

from pipelines.engine.dataflow.cost_ceiling import Ceiling
from pipelines.engine.engines import running
from pipelines.engine.execution import Execution
from pipelines.recipe.recipe_file import load_recipe
from pipelines.run import Run
from tests.pipelines.engine.dataflow.service import FLAGS, folder_in_memory, put_in_place


@pytest.fixture
def bucket(raw):
    with folder_in_memory() as url:
        memory = fsspec.filesystem("memory")
        for path in raw.iterdir():
            memory.pipe_file(f"/bucket/raw/{path.name}", path.read_bytes())
        yield url


@pytest.fixture
def service(monkeypatch):
    return put_in_place(monkeypatch)


def shards(url):
    memory = fsspec.filesystem("memory")
    root = url.removeprefix("memory:/")
    return {
        path.removeprefix(f"{root}/"): memory.cat_file(path)
        for path in memory.find(root)
        if path.startswith(f"{root}/shards/")
    }


def test_a_run_is_three_jobs_that_give_the_local_bytes(bucket, service, made):
    with running("dataflow", 8, FLAGS, Ceiling(hours=2)) as flags:
        execution = Execution(workers=8, beam=(*flags, *FLAGS), part_bytes=20_000)
        Run(load_recipe("terminal"), [f"{bucket}/raw"], f"{bucket}/out", execution).run()
    assert len(service.jobs) == 3
    print(service.jobs[0].job)
    print([list(one.staged) for one in service.jobs])
