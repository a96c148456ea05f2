"""Which program this is: told apart by its code, since a version stays the same while that is worked on."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("schemas", "connectors", "quality", "pipelines", "worlds", "synthesis", "app")


@cache
def program_digest() -> str:
    """sha256 of the modules of this program, wherever they are installed, as 64 hex digits."""
    whole = hashlib.sha256()
    for package in _PACKAGES:
        found = find_spec(f"trajmill.{package}")
        assert found is not None
        assert found.submodule_search_locations is not None
        root = Path(found.submodule_search_locations[0])
        for path in sorted(root.rglob("*.py")):
            data = path.read_bytes()
            whole.update(f"{package}/{path.relative_to(root).as_posix()} {len(data)}\n".encode() + data)
    return whole.hexdigest()
