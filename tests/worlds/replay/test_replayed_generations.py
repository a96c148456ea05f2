"""What is added to a run is replayed in its own folder, before it is mixed or after."""

from pathlib import Path

import pytest

from tests.worlds.recording import document
from tests.worlds.replay.boxes import needs_box
from tests.worlds.replay.test_replay import tables
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.generations.forgetting import Forgetting
from trajmill.pipelines.generations.traces import Selection
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError
from trajmill.worlds.replay.engines import Limits
from trajmill.worlds.replay.replay import Replay, ReplaySettings

SHELL = {"id": "a shell"}


class Growing:
    """A folder of logs that grows, and a run of them."""

    def __init__(self, tmp: Path, recipe: Recipe) -> None:
        self.raw, self.out, self.base, self.recipe = tmp / "raw", tmp / "out", tmp / "base", recipe
        self.raw.mkdir()
        self.base.mkdir()

    def log(self, name: str, *answers: tuple[str, str]) -> None:
        steps = [("bash", {"command": command}, answer) for command, answer in answers]
        (self.raw / f"{name}.json").write_bytes(document(name, "terminal", SHELL, steps))

    def run(self, last: str = "mix") -> None:
        Run(self.recipe, [str(self.raw)], str(self.out)).run(last)

    def append(self, last: str = "mix") -> None:
        Append(self.recipe, [str(self.raw)], str(self.out)).run(last)

    def replay(self) -> dict[str, int]:
        return Replay(str(self.out), ReplaySettings("terminal", (str(self.base),), Limits(seconds=5))).run()

    def later(self) -> Path:
        (folder,) = {path.parent for path in (self.out / "generations").glob("*/replays")}
        return folder


@pytest.fixture
def growing(tmp_path: Path) -> Growing:
    recipe = load_recipe("terminal")
    certified = recipe.mix.model_copy(update={"rl": "certified", "pools": {"rl": 1.0}})
    dataset = Growing(tmp_path, recipe.model_copy(update={"mix": certified}))
    dataset.log("first", ("echo one; seq 2", "one\n1\n2"), ("expr 6 + 7", "13"))
    return dataset


@needs_box
def test_what_is_added_is_replayed_before_it_is_mixed_and_rl_takes_its_certified_turns(growing: Growing) -> None:
    growing.run("judge")
    growing.replay()
    growing.run()
    growing.log("second", ("echo two; seq 3", "two\n1\n2\n3"), ("expr 8 + 9", "18"))
    with pytest.raises(ConfigError, match="--stop-after judge"):
        growing.append()
    growing.append("judge")
    assert growing.replay() == {"terminal.differs": 1, "terminal.same": 3}
    growing.append()
    ids = [row["extra_info"]["id"] for row in tables(growing.out / "shards" / "rl")]
    same = [row for row in tables(growing.later() / "replays") if row["replayed"] == "same"]
    assert len(ids) == 2
    assert f"{same[0]['trajectory_id']}:{same[0]['step']}" in ids
    assert verify(str(growing.out)).is_whole
    growing.log("third", ("echo three; seq 4", "three\n1\n2\n3\n4"))
    growing.append("judge")
    growing.replay()
    growing.append()
    assert len(tables(growing.out / "shards" / "rl")) == 3


@needs_box
def test_generations_that_are_there_are_replayed_each_in_its_folder_and_forget_their_rows(growing: Growing) -> None:
    growing.recipe = load_recipe("terminal")
    growing.run()
    growing.log("second", ("echo two; seq 3", "two\n1\n2\n3"), ("expr 8 + 9", "18"))
    growing.append()
    before = {path: path.read_bytes() for path in growing.out.rglob("shards/**/*.parquet")}
    assert growing.replay() == {"terminal.differs": 1, "terminal.same": 3}
    assert [row["replayed"] for row in tables(growing.out / "replays")] == ["same", "same"]
    assert [row["replayed"] for row in tables(growing.later() / "replays")] == ["same", "differs"]
    report = verify(str(growing.out))
    assert report.is_whole
    assert [stage.name.rpartition("/")[2] for stage in report.stages].count("replays") == 2
    assert before == {path: path.read_bytes() for path in before}
    (gone,) = {row["trajectory_id"] for row in tables(growing.later() / "replays")}
    Forgetting(growing.recipe, str(growing.out)).forget(Selection(trajectories=(gone,)))
    assert not tables(growing.later() / "replays")
    assert len(tables(growing.out / "replays")) == 2
    assert verify(str(growing.out)).is_whole
