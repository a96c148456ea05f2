"""An environment of pinned packages, made for one measurement and removed after it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from trajmill.schemas import ConfigError

PYTHON: Final = "3.11"
_TOLD_LINES: Final = 12


@contextmanager
def environment(packages: Sequence[str], loose: Sequence[str] = ()) -> Iterator[str]:
    """The Python of a fresh environment with packages of stated versions.

    Args:
        packages: as pip is told, with their versions.
        loose: packages that are installed without what they ask for, since only parts of them are used.

    Raises:
        ConfigError: there is no `uv`, or they cannot be installed.
    """
    uv = shutil.which("uv") or str(Path(sys.prefix) / "uv" / "bin" / "uv")
    if not Path(uv).exists():
        raise ConfigError("Environments of pinned packages are made with `uv`, which is not there: pip install uv.")
    with tempfile.TemporaryDirectory(prefix="trajmill-environment-") as folder:
        python = f"{folder}/bin/python"
        run_checked([uv, "venv", "--quiet", "--clear", "--python", PYTHON, folder])
        if packages:
            run_checked([uv, "pip", "install", "--quiet", "--python", python, *packages])
        if loose:
            run_checked([uv, "pip", "install", "--quiet", "--no-deps", "--python", python, *loose])
        yield python


def run_checked(command: Sequence[str], **more: str) -> None:
    """Runs a command to its end.

    Raises:
        ConfigError: it fails; with its last lines.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=more or None)
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines()[-_TOLD_LINES:]
        raise ConfigError(f"{Path(command[0]).name} {command[1]} failed:\n" + "\n".join(output))
