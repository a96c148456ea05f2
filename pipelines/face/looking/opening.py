"""Opening whatever a path names: a run's folder, or a raw log."""

from __future__ import annotations

from pathlib import Path

from pipelines.engine.paths import local_path
from pipelines.face.looking.contents import Contents, RunContents
from pipelines.face.looking.raw_log import RawLog
from schemas import ConfigError


def opened(path: str) -> Contents:
    """What lies at a path.

    Raises:
        ConfigError: nothing is there, or nothing that could be shown.
    """
    place = Path(local_path(path))
    if not place.exists():
        raise ConfigError(f"There is nothing at '{path}'.")
    return RunContents(path) if (place / "transitions").is_dir() else RawLog(path)
