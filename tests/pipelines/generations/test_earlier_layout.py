"""An output folder that version 0.1.0 wrote, when modules were imported as `pipelines` and `schemas`."""

import json
import shutil
import tarfile

import pytest

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from trajmill.pipelines.generations.verification import verify
from trajmill.schemas import scan_transitions


@pytest.fixture
def out(tmp_path):
    with tarfile.open(ROOT / "tests" / "golden" / "run-0.1.0.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "made"


def test_a_folder_of_an_earlier_version_is_whole_and_can_be_read(out):
    report = verify(str(out))
    assert report.is_whole
    assert not report.foreign
    assert scan_transitions(out).collect().height == 1
    for words in (("inspect", str(out)), ("report", str(out))):
        code, _, complained = ran(*words)
        assert code == 0, complained


def test_appending_to_a_folder_of_an_earlier_version_works_or_is_refused_in_one_line(out, tmp_path):
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(json.dumps({"extends": "terminal", "name": "tiny", "source": "tests"}))
    logs = tmp_path / "logs"
    logs.mkdir()
    samples = ROOT / "samples" / "terminal" / "asciicast"
    log = next(path for path in sorted(samples.rglob("*.cast")) if path.name != "one_command.cast")
    shutil.copy(log, logs)
    code, _, complained = ran("run", str(recipe), "--raw", str(logs), "--out", str(out), "--append")
    assert code in (0, 1), complained
    assert code == 0 or len(complained.strip().splitlines()) == 1
    assert verify(str(out)).is_whole
    assert scan_transitions(out).collect().height == 1 or code == 0
