import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from trajmill.pipelines.storage.scratch import clear_scratch, scratch_folder

KILLED = """
import os, signal
from trajmill.pipelines.storage.scratch import scratch_folder
with scratch_folder():
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_a_killed_process_left_goes_and_nothing_else(place):
    subprocess.run([sys.executable, "-c", KILLED], env={"TMPDIR": str(place)}, check=False)
    (left,) = place.iterdir()
    (left / "held").write_text("x")
    number = left.name.split("-")[1]
    others = [place / "trajmill-notes", place / f"other-{number}-abcdefgh", place / f"trajmill-{number}-abcdefghi"]
    for folder in others:
        folder.mkdir()
    (place / f"trajmill-{number}-abcdefgh").symlink_to(others[0])
    with scratch_folder() as mine:
        clear_scratch()
        assert Path(mine).exists()
    assert not left.exists()
    assert len(list(place.iterdir())) == len(others) + 1


def test_a_folder_whose_lock_is_held_stays_whoever_made_it(place):
    with scratch_folder() as folder:
        gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
        moved = place / f"trajmill-{int(gone.stdout)}-abcdefgh"
        Path(folder).rename(moved)
        clear_scratch()
        assert moved.exists()
        moved.rename(folder)


BEAM = """
import os, signal
from apache_beam.options.pipeline_options import PipelineOptions
from trajmill.pipelines.execution.runner import empty_pipeline
made = empty_pipeline(PipelineOptions())
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_beam_leaves_when_it_is_killed_goes_at_the_next_start(place):
    subprocess.run([sys.executable, "-c", BEAM], env=os.environ | {"TMPDIR": str(place)}, check=False)
    assert list(place.iterdir())
    clear_scratch()
    assert not list(place.iterdir())
