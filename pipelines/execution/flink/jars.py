"""The jars of Flink and of Beam's job server, gathered once by Maven as `pom.xml` says, and kept in the user's cache.

Beside them lies an agent of ours, compiled from `Loopback.java`: with it servers listen on loopback only.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from trajmill.pipelines.execution.server_process import cache_folder, call
from trajmill.schemas import ConfigError

HERE: Final = Path(__file__).parent
AGENT: Final = "loopback.jar"


def missing() -> tuple[str, ...]:
    """The programs that are wanted and not on PATH: of a JDK `java` and `javac`, and Maven's `mvn`."""
    wanted = ("java",) if _cache().is_dir() else ("java", "javac", "mvn")
    return tuple(name for name in wanted if shutil.which(name) is None)


def jars() -> Path:
    """The folder of the jars, filled at the first call: 160 jars, 157 MB.

    Raises:
        ConfigError: a JDK or Maven is missing.
        ShardError: Maven or the compiler failed.
    """
    lacking = missing()
    if lacking:
        raise ConfigError(f"--runner flink wants a JDK (11 to 17) and Maven; not on PATH: {', '.join(lacking)}.")
    cache = _cache()
    if cache.is_dir():
        return cache
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent, prefix=".unfinished-") as made:
        lib = Path(made) / "lib"
        pom = shutil.copy(HERE / "pom.xml", made)
        goal = "dependency:copy-dependencies"
        call(["mvn", "-B", "-q", "-f", pom, goal, f"-DoutputDirectory={lib}", "-DincludeScope=runtime"], "Flink")
        _make_agent(lib, Path(made) / "classes")
        if not cache.is_dir():
            lib.rename(cache)
    return cache


def _cache() -> Path:
    """Named by what it is made of, so that another pom is another folder."""
    content = b"".join((HERE / name).read_bytes() for name in ("pom.xml", "Loopback.java"))
    return cache_folder() / f"flink-{hashlib.sha256(content).hexdigest()[:16]}"


def _make_agent(lib: Path, classes: Path) -> None:
    source = str(HERE / "Loopback.java")
    call(["javac", "--release", "11", "-cp", f"{lib}/*", "-d", str(classes), source], "Flink")
    with zipfile.ZipFile(lib / AGENT, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nPremain-Class: Loopback\n")
        for path in sorted(classes.iterdir()):
            archive.write(path, path.name)
