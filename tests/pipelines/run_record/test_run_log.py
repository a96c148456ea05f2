"""The log of a run: what was said before there was a folder, what an earlier run said, and no secret."""

from pathlib import Path

from tests.pipelines.hostile import GOOD
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.run_log import RunLog


def lines(data: bytes) -> list[str]:
    return [line.split(" ", 1)[1] for line in data.decode().splitlines()]


def test_a_folder_that_cannot_be_written_does_not_end_the_run_and_secrets_are_not_written():
    log, written = RunLog(), list[bytes]()

    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    log.open(None, full)
    log.add("here")
    log.open(None, written.append)
    log.add("ended with 4: https://me:hunter2hunter2@host/ is away")
    assert b"hunter2" not in written[-1]


def test_a_run_writes_its_log_beside_its_record_and_goes_on_with_it(tmp_path: Path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "good.jsonl").write_bytes(GOOD)
    for _ in range(2):
        Run(Recipe(name="t", source="t"), [str(tmp_path / "raw")], str(tmp_path / "out"), log=RunLog()).run("normalize")
    assert lines((tmp_path / "out" / "run.log").read_bytes()) == ["ended with 0, after normalize"] * 2
