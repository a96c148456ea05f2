"""A recipe or the command line names the connector that reads a file, and recognition is not asked."""

import gzip
from pathlib import Path
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT
from tests.pipelines.hostile import GOOD
from trajmill.app.cli.cli import app
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Normalize, Recipe
from trajmill.schemas import ConfigError, ParseError, Reject

CHAT = b'{"messages": [{"role": "user", "content": "Light the lamp."}]}\n'
FOREIGN = [
    b"lamp\n",
    b'{"lamp": {"on": [1]}}',
    b'{"lamp": 1}\n{"lamp": [2]}\n',
    b"[3, {}]",
    b"null\n",
    bytes(range(256)),
]


def recipe(formats: dict[str, str]) -> Recipe:
    return Recipe(name="t", source="t", normalize=Normalize(formats=formats))


def read_by(raw: Path, chosen: Recipe) -> dict[str, str]:
    """Uri → connector of each input."""
    return {log.uri: log.connector for log in make_plan(chosen, [str(raw)]).inputs}


def test_files_of_a_glob_are_read_by_the_named_connector_and_others_are_recognized(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("lamp.log", "deep/lamp.log"):
        (tmp_path / name).write_bytes(CHAT)
    (tmp_path / "lamp.jsonl").write_bytes(GOOD)
    (tmp_path / "deep" / "packed.log.gz").write_bytes(gzip.compress(CHAT))
    expected = {
        "deep/lamp.log": "aider",
        "deep/packed.log.gz": "aider",
        "lamp.log": "script",
        "lamp.jsonl": "claude_code",
    }
    assert read_by(tmp_path, recipe({"deep/*": "aider", "**/*.log": "script"})) == expected


def test_an_archive_that_is_no_log_of_the_named_format_is_looked_into(tmp_path):
    with ZipFile(tmp_path / "logs.zip", "w") as archive:
        archive.writestr("lamp.txt", CHAT)
    assert read_by(tmp_path, recipe({"**": "script"})) == {"logs.zip/lamp.txt": "script"}


def test_files_of_one_log_are_joined_by_the_named_connector_alone(tmp_path):
    (tmp_path / "day.typescript").write_text("no line of script(1)\n")
    (tmp_path / "day.timing").write_text("0.1 4\n")
    (joined,) = make_plan(recipe({"**": "script"}), [str(tmp_path)]).inputs
    assert sorted(joined.members) == ["day.timing", "day.typescript"]
    assert read_by(tmp_path, recipe({"*.timing": "aider"})) == {"day.timing": "aider"}


def test_an_unknown_format_is_answered_with_the_nearest_name(tmp_path):
    (tmp_path / "lamp.log").write_bytes(CHAT)
    done = CliRunner().invoke(app, ["inspect", str(tmp_path), "--format", "scrip"])
    assert isinstance(done.exception, ConfigError)
    assert done.exception.nearest == "script"
    with pytest.raises(ValueError, match="did you mean 'script'"):
        recipe({"**": "scrip"})


def test_the_choice_is_part_of_the_digests(tmp_path):
    (tmp_path / "lamp.log").write_bytes(CHAT)
    recipes = [recipe({"**": "script"}), recipe({"**": "script", "*": "aider"}), recipe({"*": "aider", "**": "script"})]
    plans = [make_plan(choice, [str(tmp_path)]) for choice in recipes]
    assert len({plan.digest for plan in plans}) == len({plan.asked for plan in plans}) == 3


@pytest.mark.parametrize("name", connectors())
def test_a_format_that_cannot_read_a_file_rejects_it(name):
    for data in FOREIGN:
        try:
            records = list(connectors()[name].parse(MemoryBlob("raw/lamp", data)))
        except ParseError:
            continue
        assert records
        assert all(isinstance(record, Reject) for record in records)


def test_the_command_line_chooses_for_a_run_and_its_plan(tmp_path):
    raw = ROOT / "samples" / "terminal" / "asciicast" / "colour_listing.cast"
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "listing").write_bytes(b"\n" + raw.read_bytes())
    words = ["--raw", str(tmp_path / "raw"), "--format", "aider"]
    assert "aider" in CliRunner().invoke(app, ["plan", "all", *words]).stdout
    done = CliRunner().invoke(app, ["run", "all", *words, "--out", str(tmp_path / "out"), "--stop-after", "normalize"])
    assert "no_start 1" in str(done.exception)
