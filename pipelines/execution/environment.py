"""Versions of everything that a run's output depends on: Python, processor, installed packages, trajmill's own modules.

The same recipe gives the same bytes only under the same versions, so workers on other machines compare theirs with
those of the launching process before they begin.
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
_MAX_DIFFERENCES: Final = 5
_PACKAGES: Final = ("schemas", "connectors", "quality", "pipelines", "worlds", "synthesis", "app")


@cache
def environment() -> tuple[str, ...]:
    """List a name and a version for Python, the processor, trajmill and every package it requires, sorted."""
    python = ".".join(platform.python_version_tuple()[:2])
    versions = {"python": python, "processor": platform.machine(), _FILES: program_digest()[:16]}
    versions |= dict(_list_requirements())
    return tuple(sorted(f"{name} {version}" for name, version in versions.items()))


def differences(here: tuple[str, ...], there: tuple[str, ...]) -> str:
    """Describe the differences of two environments in words; empty if there are none."""
    ours, theirs = ({line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in lines} for lines in (here, there))
    names = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    described = [
        f"{name} {ours.get(name, 'missing')} here, {theirs.get(name, 'missing')} there"
        for name in names[:_MAX_DIFFERENCES]
    ]
    more = [f"{len(names) - _MAX_DIFFERENCES} more"] if len(names) > _MAX_DIFFERENCES else []
    return "; ".join(described + more)


@cache
def program_digest() -> str:
    """Compute the sha256 of trajmill's modules and of the packages that hold plug-in connectors."""
    from trajmill.connectors.registry import connectors

    packages = {type(connector).__module__.partition(".")[0] for connector in connectors().values()} - {_NAME}
    digest = hashlib.sha256()
    for name in (*(f"{_NAME}.{package}" for package in _PACKAGES), *sorted(packages)):
        spec = find_spec(name)
        for root in () if spec is None else spec.submodule_search_locations or filter(None, [spec.origin]):
            folder = Path(root)
            for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
                data = path.read_bytes()
                digest.update(f"{name}/{path.relative_to(folder).as_posix()} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def _list_requirements() -> Iterator[tuple[str, str]]:
    """Yield name and version of trajmill and of each installed package that it requires, directly or indirectly."""
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
