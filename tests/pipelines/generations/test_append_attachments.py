"""Attachments over generations: each once, wherever it lies, and gone when no row of any of them tells of it."""

import shutil
from pathlib import Path

import pytest

from tests.pipelines.normalize.test_attachments import FIXTURES, blobs, told
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.generations.forgetting import Forgetting
from trajmill.pipelines.generations.generations import chain
from trajmill.pipelines.generations.traces import Selection
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder

RECIPE = parse_recipe(
    '{"name": "tea", "source": "tea", "normalize": {"attachments": "keep"}, "judge": {"rules": {}}}', "tea"
)
TEA = FIXTURES / "webvoyager" / "input" / "taskTides--0"


@pytest.fixture(scope="module")
def grown(tmp_path_factory) -> Path:
    """A log with pictures; then the same task again with the same pictures and one more, and a log of others."""
    folder = tmp_path_factory.mktemp("pictures")
    shutil.copytree(TEA, folder / "logs" / "first" / "taskTides--0")
    Run(RECIPE, [str(folder / "logs")], str(folder / "out")).run()
    again = shutil.copytree(TEA, folder / "logs" / "second" / "taskTides--1")
    messages = again / "interact_messages.json"
    messages.write_text(messages.read_text() + "\n")
    shutil.copy(FIXTURES / "claude_code" / "input" / "session.jsonl", folder / "logs")
    result = Append(RECIPE, [str(folder / "logs")], str(folder / "out")).run()
    assert result.summary is not None
    assert result.summary.line("attachments").kept == result.summary.line("attachments").entered
    return folder / "out"


def second(out: Path) -> Path:
    return out / chain(Folder(str(out)))[1].folder


def test_what_an_earlier_generation_holds_is_not_written_again(grown):
    first, later = blobs(grown), blobs(second(grown))
    assert later
    assert not first.keys() & later.keys()
    assert told(second(grown)) <= first.keys() | later.keys()
    assert told(second(grown)) & first.keys()
    assert verify(str(grown)).is_whole


def test_a_picture_goes_when_no_generation_is_left_that_tells_of_it(grown, tmp_path):
    out = shutil.copytree(grown, tmp_path / "out")
    Forgetting(RECIPE, str(out)).forget(Selection(sources=("first/taskTides--0",)))
    assert blobs(out).keys() == told(second(out)) & blobs(grown).keys()
    uris = [uri for uri in (out / "plan.json").read_text().split('"') if "taskTides--0" in uri]
    assert not uris
    Forgetting(RECIPE, str(out)).forget(Selection(sources=("second/taskTides--1",)))
    assert not blobs(out)
    assert verify(str(out)).is_whole
