"""Opening of a run's folder or a raw log."""

from __future__ import annotations

from pathlib import Path

from trajmill.app.pages.contents import Contents, RunContents
from trajmill.app.pages.index import DAMAGED
from trajmill.pipelines.storage.paths import local_path
from trajmill.schemas import ConfigError, ParseError, ShardError
from trajmill.schemas.errors import first_line


def open_contents(path: str) -> Contents:
    """Open the contents of a path: a run's folder or a raw log.

    Raises:
        ConfigError: There is nothing at the path, or nothing to show.
    """
    folder = Path(local_path(path))
    if not folder.exists():
        raise ConfigError(f"There is nothing at '{path}'.")
    if (folder / "transitions").is_dir():
        return RunContents(path)

    from trajmill.app.pages.raw_log import RawLog  # here, since connectors are nothing to who looks at a run

    try:
        return RawLog(path)
    except (ParseError, ShardError, *DAMAGED) as error:
        raise ConfigError(f"'{path}' cannot be read: {first_line(error)}") from error
