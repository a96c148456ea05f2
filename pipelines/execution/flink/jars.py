"""The jars of Flink and of Beam's job server, gathered once by Maven by `pom.xml`, and kept in the user's cache."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Final

from trajmill.pipelines.execution.server_process import cache_folder, call
from trajmill.schemas import ConfigError

HERE: Final = Path(__file__).parent


def missing() -> tuple[str, ...]:
    """The programs that are wanted and not on PATH: `java`, and Maven's `mvn`."""
    wanted = ("java",) if _cache().is_dir() else ("java", "mvn")
    return tuple(name for name in wanted if shutil.which(name) is None)


def jars() -> Path:
    """The folder of the jars, filled at the first call: 160 jars, 157 MB.

    Raises:
        ConfigError: Java or Maven is missing.
        ShardError: Maven failed.
    """
    lacking = missing()
    if lacking:
        raise ConfigError(f"--runner flink needs Java (11 to 17) and Maven; not on PATH: {', '.join(lacking)}.")
    cache = _cache()
    if cache.is_dir():
        return cache
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent, prefix=".unfinished-") as made:
        lib = Path(made) / "lib"
        pom = shutil.copy(HERE / "pom.xml", made)
        goal = "dependency:copy-dependencies"
        call(["mvn", "-B", "-q", "-f", pom, goal, f"-DoutputDirectory={lib}", "-DincludeScope=runtime"], "Flink")
        if not cache.is_dir():
            lib.rename(cache)
    return cache


def _cache() -> Path:
    """Named by what it is made of, so that another pom is another folder."""
    return cache_folder() / f"flink-{hashlib.sha256((HERE / 'pom.xml').read_bytes()).hexdigest()[:16]}"
