"""Prism, Beam's runner in Go: built once from its module, of the SDK's version, and kept in the user's cache.

As published it listens on every interface; one line of it is another in the build, so that it listens on loopback.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from trajmill.pipelines.execution.server_process import cache_folder, call
from trajmill.schemas import ConfigError, ShardError

_VERSION: Final = version("apache-beam")
_MODULE: Final = f"github.com/apache/beam/sdks/v2@v{_VERSION}"
_SERVER: Final = "go/pkg/beam/runners/prism/internal/jobservices/server.go"
_ANYWHERE: Final = 'net.Listen("tcp", fmt.Sprintf(":%d", port))'
_LOOPBACK: Final = 'net.Listen("tcp", fmt.Sprintf("localhost:%d", port))'


def is_built() -> bool:
    """Whether it lies in the cache."""
    return _place().exists()


def missing() -> tuple[str, ...]:
    """The programs that are wanted and not on PATH."""
    return () if is_built() or shutil.which("go") else ("go",)


def prism() -> Path:
    """The program, built at the first call, which takes minutes.

    Raises:
        ConfigError: Go is missing.
        ShardError: it could not be built.
    """
    if missing():
        raise ConfigError("--runner prism wants Go, to build Prism once; not on PATH: go.")
    place = _place()
    if is_built():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".unfinished-") as made:
        module = Path(json.loads(call(["go", "mod", "download", "-json", _MODULE], "Prism"))["Dir"])
        copied = Path(made) / "sdks"
        shutil.copytree(module, copied)
        call(["chmod", "-R", "u+w", str(copied)], "Prism")
        text = (copied / _SERVER).read_text("utf-8")
        if text.count(_ANYWHERE) != 1:
            raise ShardError("Prism does not say where it listens as it did when this was written.")
        (copied / _SERVER).write_text(text.replace(_ANYWHERE, _LOOPBACK), "utf-8")
        call(["go", "build", "-C", str(copied), "-o", made, "./go/cmd/prism"], "Prism")
        (Path(made) / "prism").rename(place)
    return place


def _place() -> Path:
    return cache_folder() / f"prism-{_VERSION}"
