"""Opening whatever a path names: a run's folder, or a raw log."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa

from pipelines.engine.paths import local_path
from pipelines.face.looking.contents import Contents, RunContents
from pipelines.face.looking.raw_log import RawLog
from schemas import ConfigError, ParseError, ShardError

_DAMAGED: Final = (pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What reading a damaged file raises."""


def opened(path: str) -> Contents:
    """What lies at a path.

    Raises:
        ConfigError: nothing is there, or nothing that could be shown.
    """
    place = Path(local_path(path))
    if not place.exists():
        raise ConfigError(f"There is nothing at '{path}'.")
    try:
        return RunContents(path) if (place / "transitions").is_dir() else RawLog(path)
    except (ParseError, ShardError, *_DAMAGED) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"'{path}' cannot be read: {line}") from error
