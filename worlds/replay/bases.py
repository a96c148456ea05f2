"""Which base a trajectory begins from: folders, repositories and databases that the user gives by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trajmill.schemas import ConfigError
from trajmill.worlds.patches.repository import Repository
from trajmill.worlds.replay.box import Base

_AT: Final = re.compile(r".*@([0-9a-f]{40}(?:[0-9a-f]{24})?)")
_NAMED: Final = re.compile(r"(?P<name>[^=]*)=(?P<path>.+)", re.DOTALL)


@dataclass(slots=True)
class Bases:
    """Bases by name; that without a name is for every trajectory that has none of its own.

    Attributes:
        paths: by name.
        world: what they are of; repositories are given in `swe` alone.
        most: bytes that one may have.
    """

    paths: dict[str, str]
    world: str
    most: int
    _held: dict[tuple[str, str], Base] = field(default_factory=dict)

    @classmethod
    def given(cls, told: Sequence[str], world: str, most: int) -> Bases:
        """Those of arguments `path` or `name=path`.

        Raises:
            ConfigError: a path is not there, or a name is given twice.
        """
        paths: dict[str, str] = {}
        for one in told:
            named = None if Path(one).exists() else _NAMED.fullmatch(one)
            name, path = (named["name"], named["path"]) if named else ("", one)
            if name in paths:
                raise ConfigError(f"--base gives '{name}' twice.")
            if not Path(path).exists():
                raise ConfigError(f"The base {path} is not there. Wanted is a path, or NAME=PATH.")
            paths[name] = path
        return cls(paths, world, most)

    def of(self, rows: Sequence[Mapping[str, Any]]) -> Base | None:
        """The base of a trajectory; None if none was given for it, or its repository lacks the commit."""
        path = next((self.paths[name] for name in (*_names(rows), "") if name in self.paths), None)
        if path is None:
            return None
        commit = ""
        if self.world == "swe":
            repository = Repository.at(path)
            commit = repository.commit(base_commit(rows)) or ""
            if not commit:
                return None
        key = path, commit
        if key not in self._held:
            self._held.clear()  # trajectories of one base mostly follow each other
            self._held[key] = (
                Base(Repository.at(path).archive(commit, self.most, history=True))
                if commit
                else Base.at(path, self.most)
            )
        return self._held[key]


def base_commit(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """The commit that a log says its repository stood at; None if it does not."""
    for name in (rows[0]["environment"]["instance_id"], rows[0]["environment"]["version"]):
        if name and (found := _AT.fullmatch(f"@{name}" if "@" not in name else name)):
            return found[1]
    return None


def _names(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """By what a base may be named for a trajectory, the closest first."""
    first = rows[0]
    told = [first["task"]["id"], first["native_id"], first["environment"]["instance_id"], first["environment"]["id"]]
    for one in filter(None, told):
        yield one
        yield one.partition("@")[0]
        yield one.rstrip("/").rpartition("/")[2]
    member = first["provenance"]["uri"].rstrip("/").rpartition("/")[2]
    yield member
    yield member.partition(".")[0]
