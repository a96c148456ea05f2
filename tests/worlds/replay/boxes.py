"""Where tests of boxes are told apart from what this machine lacks."""

import os
import shutil

import pytest

from trajmill.schemas import ConfigError
from trajmill.worlds.replay.engines import engine

SYSTEM = os.environ.get("TRAJMILL_TEST_SYSTEM", "")
"""A folder with the root of a system, the user's own, over which podman makes boxes; without one it is not tested."""

PROGRAMS = {"bubblewrap": "bwrap", "podman": "podman"}


def lacking(system: str = "") -> str:
    """Why this machine has no box; empty if it has one."""
    try:
        engine(system)
    except ConfigError as error:
        return error.message
    return ""


def made_by(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The system over which boxes are made from now on, by what is named alone; skips where that makes none."""
    original = shutil.which
    others = set(PROGRAMS.values()) - {PROGRAMS[name]}
    monkeypatch.setattr("shutil.which", lambda program: None if program in others else original(program))
    engine.cache_clear()
    system = SYSTEM if name == "podman" else ""
    if why := lacking(system):
        engine.cache_clear()
        pytest.skip(why)
    return system


needs_box = pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is one")
