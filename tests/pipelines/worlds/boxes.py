"""Where tests of boxes are told apart from what this machine lacks."""

from __future__ import annotations

import pytest

from pipelines.worlds.replaying.engines import engine
from schemas import ConfigError


def lacking() -> str:
    """Why this machine has no box; empty if it has one."""
    try:
        engine()
    except ConfigError as error:
        return error.message
    return ""


needs_box = pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is one")
