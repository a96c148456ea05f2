"""Repository of a benchmark's instance, read from its id; for SWE-smith also the commit.

SWE-bench writes `owner__repository-number`, SWE-smith `owner__repository.commit.kind__digest` with 8 digits of the
commit. Other ids are valid, but name no repository.
"""

from __future__ import annotations

import re
from typing import Final

from trajmill.schemas import Environment

_BENCH: Final = re.compile(r"([A-Za-z0-9_.-]+?)__([A-Za-z0-9_.-]+)-i?[0-9]{1,9}")
_SMITH: Final = re.compile(r"([A-Za-z0-9-]+)__([A-Za-z0-9_.-]+?)\.([0-9a-f]{8})(?:\.[A-Za-z0-9_.-]+)?")
_COMMIT: Final = re.compile(r"[0-9a-f]{7,40}")
_LONGEST: Final = 200


def repository(instance: str | None) -> str | None:
    """Return the repository that an instance's id names, as `owner/repository`."""
    if instance is None or len(instance) > _LONGEST or "__" not in instance:
        return None
    match = _smith(instance) or _BENCH.fullmatch(instance)
    return f"{match[1]}/{match[2]}" if match is not None else None


def _smith(instance: str | None) -> re.Match[str] | None:
    if instance is None or len(instance) > _LONGEST or "__" not in instance or "." not in instance:
        return None
    return _SMITH.fullmatch(instance)


def checkout(instance: str | None, repo: str | None, commit: str | None) -> str | None:
    """Return `repository@commit` if the id and the log's repository and base commit determine both."""
    if commit is not None and _COMMIT.fullmatch(commit) is not None:
        name = repo or repository(instance)
        return f"{name}@{commit}" if name is not None else None
    match = _smith(instance)
    return f"{match[1]}/{match[2]}@{match[3]}" if match is not None else None


def environment(
    instance: str | None, image: str | None = None, repo: str | None = None, commit: str | None = None
) -> Environment:
    """Return the environment of an instance: its image or repository, and the checkout."""
    return Environment(id=image or repo or repository(instance), instance_id=checkout(instance, repo, commit))


def instance_of(path: str) -> str | None:
    """Return the instance in a file name without `.traj`, `.json` and `.jsonl`, if it has an id's form."""
    name = path.rpartition("/")[2]
    for ending in (".jsonl", ".json", ".traj"):
        name = name.removesuffix(ending)
    return name if repository(name) is not None else None
