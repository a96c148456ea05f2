"""Environment of a process: the interpreter, the installed packages and trajmill's own modules.

Under one lock file the same recipe gives the same bytes; workers elsewhere are held to that before they do anything.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_NAME: Final = "trajmill"
_FILES: Final = f"{_NAME}'s modules"
_TOLD: Final = 5
_PACKAGES: Final = ("schemas", "connectors", "quality", "pipelines", "worlds", "synthesis", "app")


@cache
def environment() -> tuple[str, ...]:
    """Lines of a name and a version, sorted: Python, the kind of processor, trajmill, and all that it requires."""
    python = ".".join(platform.python_version_tuple()[:2])
    versions = {"python": python, "processor": platform.machine(), _FILES: program_digest()[:16]}
    versions |= dict(_list_requirements())
    return tuple(sorted(f"{name} {version}" for name, version in versions.items()))


def differences(here: tuple[str, ...], there: tuple[str, ...]) -> str:
    """Describe in words what differs between two environments; empty if nothing does."""
    ours, theirs = ({line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in lines} for lines in (here, there))
    names = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    described = [
        f"{name} {ours.get(name, 'missing')} here, {theirs.get(name, 'missing')} there" for name in names[:_TOLD]
    ]
    more = [f"{len(names) - _TOLD} more"] if len(names) > _TOLD else []
    return "; ".join(described + more)


@cache
def program_digest() -> str:
    """Digest trajmill's modules and the packages of users' connectors, wherever they are installed, by sha256."""
    from trajmill.connectors.registry import connectors

    kinds = {type(connector).__module__.partition(".")[0] for connector in connectors().values()} - {_NAME}
    whole = hashlib.sha256()
    for name in (*(f"{_NAME}.{package}" for package in _PACKAGES), *sorted(kinds)):
        spec = find_spec(name)
        for root in () if spec is None else spec.submodule_search_locations or filter(None, [spec.origin]):
            folder = Path(root)
            for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
                data = path.read_bytes()
                whole.update(f"{name}/{path.relative_to(folder).as_posix()} {len(data)}\n".encode() + data)
    return whole.hexdigest()


def _list_requirements() -> Iterator[tuple[str, str]]:
    """Yield (name, version) of trajmill and of what it requires, directly or not, as far as it is installed."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    waiting, seen = [_NAME], {_NAME}
    while waiting:
        name = waiting.pop()
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        yield name, package.version
        for line in package.requires or ():
            requirement = Requirement(line)
            wanted = canonicalize_name(requirement.name)
            if wanted not in seen and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                seen.add(wanted)
                waiting.append(wanted)
