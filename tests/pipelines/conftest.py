"""A finished run over a few recordings, for tests of what lies in an output folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipelines.recipe.recipe_file import load_recipe
from pipelines.run import Run
from tests.conftest import ROOT


@pytest.fixture(scope="session")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw logs; not to be changed."""
    folder = tmp_path_factory.mktemp("raw")
    for log in sorted((ROOT / "samples" / "terminal" / "asciicast").rglob("*.cast"))[:6]:
        shutil.copy(log, folder)
    return folder


@pytest.fixture(scope="session")
def made(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of the recipe `terminal` over `raw`; not to be changed."""
    out = tmp_path_factory.mktemp("made") / "out"
    Run(load_recipe("terminal"), [str(raw)], str(out)).run()
    return out


@pytest.fixture
def finished(made: Path, tmp_path: Path) -> Path:
    """A copy of `made`, for tests that change it."""
    return shutil.copytree(made, tmp_path / "out")
