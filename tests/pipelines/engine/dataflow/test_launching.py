import pytest

pytest.importorskip("google.cloud.dataflow")

from pipelines.face.flex_templates.launching import NEXT, NOTHING, launch
from tests.pipelines.engine.dataflow.service import FLAGS
from tests.pipelines.engine.dataflow.test_jobs import bucket, service, shards  # noqa: F401


def test_launchers_one_after_the_other_give_the_local_bytes(bucket, service, made):  # noqa: F811
    stages, stage = [], "normalize"
    while stage != NOTHING:
        stages.append(stage)
        words = [f"--stage={stage}", "--config=terminal", f"--raw={bucket}/raw", f"--out={bucket}/out"]
        done = launch([*words, "--max_hours=2", "--workers=8", "--part_size=20kB", *FLAGS])
        assert service.jobs[-1].job["labels"] == {NEXT: done.next}
        stage = done.next
    assert stages == ["normalize", "judge", "mix", "finish"]
    assert shards(f"{bucket}/out") == {
        str(p.relative_to(made)): p.read_bytes() for p in (made / "shards").rglob("*") if p.is_file()
    }
