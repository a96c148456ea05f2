"""Replay of a run: actions of kept trajectories are run again in boxes, and each transition's result is recorded.

OUT/replays/<domain>/part-….parquet     aligned to the transitions of that name, row by row
OUT/replays/manifest.json               written last

So in the folder of each generation, beside its transitions, and of one that was judged and is not committed yet.
What another world of the same folder has answered stays; what is asked again is answered anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from trajmill.pipelines.generations.generations import GENERATIONS, stage_folders
from trajmill.pipelines.recipe.recipe_file import SALT, SALTED
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import RUN, Ownership, identity_of
from trajmill.pipelines.storage.parquet import read_batches, read_table, read_transitions, write_parquet
from trajmill.pipelines.storage.units import MANIFEST, finish_stage, finish_unit, manifest_names, read_manifest
from trajmill.quality.scrub import scrub_text
from trajmill.schemas import SCHEMA_VERSION, ConfigError
from trajmill.schemas.manifest import FileEntry, Manifest
from trajmill.schemas.replay import NOT_RUN, REPLAY_SCHEMA
from trajmill.worlds.patches.repository import Repository
from trajmill.worlds.replay.actions import WORLDS, plan_request
from trajmill.worlds.replay.box import Base
from trajmill.worlds.replay.branches import Actions, branch, question_rows
from trajmill.worlds.replay.databases import RunFolders
from trajmill.worlds.replay.engines import Limits, engine
from trajmill.worlds.replay.sessions import Replayed, place_of, replay_trajectory

_AT: Final = re.compile(r".*@([0-9a-f]{40}(?:[0-9a-f]{24})?)")
_USER: Final = re.compile(r"[A-Za-z_][\w.-]{0,31}")
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
    def given(cls, arguments: Sequence[str], world: str, most: int) -> Bases:
        """Those of arguments `path` or `name=path`.

        Raises:
            ConfigError: a path is not there, or a name is given twice.
        """
        paths: dict[str, str] = {}
        for argument in arguments:
            named = None if Path(argument).exists() else _NAMED.fullmatch(argument)
            name, path = (named["name"], named["path"]) if named else ("", argument)
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
    """Return the commit of the repository that a log names; None if it names none."""
    for name in (rows[0]["environment"]["instance_id"], rows[0]["environment"]["version"]):
        if name and (match := _AT.fullmatch(f"@{name}" if "@" not in name else name)):
            return match[1]
    return None


def _names(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """By what a base may be named for a trajectory, the closest first."""
    first = rows[0]
    names = [first["task"]["id"], first["native_id"], first["environment"]["instance_id"], first["environment"]["id"]]
    for name in filter(None, names):
        yield name
        yield name.partition("@")[0]
        yield name.rstrip("/").rpartition("/")[2]
    member = first["provenance"]["uri"].rstrip("/").rpartition("/")[2]
    yield member
    yield member.partition(".")[0]


STAGE: Final = "replays"
DEFAULT_FOLDERS: Final = {"terminal": "/home/dev", "swe": "/testbed", "mcp-sqlite": "/work"}
_NEW_INDEX: Final = (
    "git unpack-objects -q < .git/objects/packed && rm .git/objects/packed && git read-tree HEAD && "
    "git update-index -q --refresh"
)
"""A repository comes as its files and the objects of its history; what it knows of its files is made inside."""

DIFFERENCE: Final = 1 << 16
"""Characters of a difference of databases that are kept."""

VALUES: Final = 2_000
_NOT_ASKED: Final = ("other_world", "no_base", "not_asked", "not_kept")
"""Reasons that leave what was answered before: it is no less true for it."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asking:
    """Settings of a replay.

    Attributes:
        world: one of `WORLDS`.
        bases: as they were given.
        limits: of a box.
        variables: of every session's environment, by name.
        system: as of `Place`.
        user: of every session; empty for the one that its log tells.
        limit: trajectories at most; None for all.
        branches: of each trajectory, other actions of its task that are run at one of its steps.
    """

    world: str
    bases: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    variables: Mapping[str, str] = field(default_factory=dict)
    system: str = ""
    user: str = ""
    limit: int | None = None
    branches: int = 0


class Replay:
    """Runs kept trajectories of an output folder again.

    Args:
        out: the output folder of a judged run.
        asking: what is replayed.
        tell: called with each trajectory's results.
        branched: called with the rows of each branch.
        changed: called with the log of each run whose databases differ, and with their difference.
    """

    def __init__(
        self,
        out: str,
        asking: Asking,
        tell: Callable[[Sequence[Replayed]], None] = lambda _: None,
        branched: Callable[[Sequence[Row]], None] = lambda _: None,
        changed: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        if asking.world not in WORLDS:
            raise ConfigError(f"'{asking.world}' is no world; known are {', '.join(WORLDS)}.")
        self._out, self._asking, self._tell = Folder.named(out), asking, tell
        self._branched, self._changed, self._actions = branched, changed, Actions()
        if asking.user and not _USER.fullmatch(asking.user):
            raise ConfigError(f"'{asking.user}' is no name of a user.")
        self._domain = WORLDS[asking.world]
        self._bases = Bases.given(asking.bases, asking.world, asking.limits.disk)
        self._left = asking.limit if asking.limit is not None else -1
        self._scrub: Callable[[str], str] = lambda text: text
        self._engine, self._runs = "", RunFolders(self._out)

    def run(self) -> dict[str, int]:
        """Replays, writes what came, and returns how many transitions that is, by domain, status and reason.

        Raises:
            ConfigError: this machine has no box, or the folder holds no judged run.
        """
        self._engine = "" if self._asking.world == "awm" else engine(self._asking.system)
        if identity_of(self._out) is None:
            raise ConfigError(f"{self._out.path()} is no output folder of a run.")
        places = find_judged_folders(self._out)
        counts = Counter[str]()
        with self._own_folder(self._out) as owner:
            self._learn(places)
            counts.update(self._stage(owner, self._out))
            for folder in places[1:]:
                with self._own_folder(folder) as inner:
                    counts.update(self._stage(inner, folder))
        return dict(sorted(counts.items()))

    @contextmanager
    def _own_folder(self, folder: Folder) -> Iterator[Ownership]:
        """A folder with stages, while it is written into."""
        identity = identity_of(folder)
        assert identity is not None
        owner = Ownership(folder, identity, adding=True, alone=True)
        owner.check(())
        with owner.held():
            owner.keep()
            yield owner

    def _stage(self, owner: Ownership, folder: Folder) -> dict[str, int]:
        """Replays what lies in a folder, and returns the counts of its manifest."""
        files = _files(folder)
        labels = [_label(file.name) for file in files]
        owner.intend({*(f"{STAGE}/{file.name}" for file in files), *manifest_names(STAGE, labels)})
        target = folder.held(owner.token, replaces=True)
        (target / STAGE).remove(MANIFEST)
        self._runs, self._scrub = RunFolders(folder), _scrubbing(folder)
        units = [self._unit(target, file) for file in files]
        digest = hashlib.sha256(
            json.dumps([[entry.name, entry.sha256] for unit in units for entry in unit.files]).encode()
        )
        sealed = finish_stage(target / STAGE, "replay", digest.hexdigest(), labels)
        wanted = {f"{STAGE}/{entry.name}" for entry in sealed.files} | manifest_names(STAGE, labels)
        owner.prune([STAGE, f"_units/{STAGE}"], wanted)
        return sealed.counts

    def _unit(self, out: Folder, file: FileEntry) -> Manifest:
        """Replays what a file holds of the world's domain, and writes the replays of the file."""
        before = _before(out, file)
        asking = {**asdict(self._asking), "engine": self._engine}
        inputs = json.dumps([file.sha256, asking, before is not None], sort_keys=True, default=str)
        digest = hashlib.sha256(inputs.encode()).hexdigest()
        replays = list[dict[str, Any]]()
        verdicts = read_table(out / "verdicts", file.name, ["kept", "group"])
        is_kept, group = (verdicts[name].to_pylist() for name in ("kept", "group"))
        domain = file.name.partition("/")[0]
        for rows in trajectories(out, file.name):
            first = len(replays)
            rows[0]["group"] = group[first]
            replays += self._told(rows, is_kept[first], domain, None if before is None else before[first:])
        table = pa.Table.from_pylist(replays, schema=REPLAY_SCHEMA)
        entry = write_parquet(out / STAGE, file.name, REPLAY_SCHEMA, table.to_batches())
        counts = Counter(
            f"{domain}.{replay_row['replayed']}" + (f".{replay_row['reason']}" if replay_row["reason"] else "")
            for replay_row in replays
        )
        manifest = Manifest("replay", _label(file.name), digest, SCHEMA_VERSION, (entry,), dict(sorted(counts.items())))
        return finish_unit(out / STAGE, manifest)

    def _told(self, rows: list[Row], is_kept: bool, domain: str, before: list[dict[str, Any]] | None) -> list[Row]:
        """The rows of the replays of a trajectory."""
        answers = (
            self._replayed(rows, is_kept) if domain == self._domain else [Replayed(NOT_RUN, "other_world")] * len(rows)
        )
        wrote = self._read(rows, answers) if self._asking.world == "awm" and domain == self._domain else None
        replays = []
        for number, (row, answer) in enumerate(zip(rows, answers, strict=True)):
            if before is not None and answer.reason in _NOT_ASKED:
                replays.append(before[number])
                continue
            measures: Row = {"replayed": answer.status, "reason": answer.reason, "difference": answer.difference}
            measures["agreement"] = answer.agreement
            world = self._asking.world if domain == self._domain else None
            measures["written"] = wrote
            key = {name: row[name] for name in ("row_id", "trajectory_id", "step")}
            replays.append({**key, **measures, "world": world, "tool": row["action"]["name"]})
        return replays

    def _replayed(self, rows: list[Row], is_kept: bool) -> list[Replayed]:
        if not is_kept:
            return [Replayed(NOT_RUN, "not_kept")] * len(rows)
        questions = [plan_request(self._asking.world, row) for row in rows]
        if self._asking.world == "awm":
            return [Replayed(NOT_RUN, "read" if rows[0]["provenance"]["connector"] == "awm" else "other_world")] * len(
                rows
            )
        if not any(question.request for question in questions):
            return [Replayed(NOT_RUN, question.reason) for question in questions]
        if self._left == 0:
            return [Replayed(NOT_RUN, "not_asked")] * len(rows)
        base = self._bases.of(rows)
        if base is None:
            return [Replayed(NOT_RUN, "no_base")] * len(rows)
        self._left -= 1
        asking = self._asking
        setting = place_of(rows, DEFAULT_FOLDERS[asking.world], asking.variables, asking.system, asking.user)
        begin = _NEW_INDEX if self._asking.world == "swe" else ""
        settings = base, setting, asking.limits, self._scrub, begin
        answers = replay_trajectory(rows, questions, *settings)
        self._tell(answers)
        for step, action in self._actions.chosen(rows, answers, asking.branches):
            some = question_rows(rows, step, action)
            branched = branch(some, replay_trajectory(some, [*questions[:step], action["asked"]], *settings), action)
            if branched is not None:
                self._branched(branched)
        return answers

    def _learn(self, places: Sequence[Folder]) -> None:
        """Looks for what else could be done in each task, where branches are wanted."""
        for out, file in (
            [(folder, file) for folder in places for file in _files(folder)] if self._asking.branches else ()
        ):
            if file.name.partition("/")[0] == self._domain:
                is_kept = read_table(out / "verdicts", file.name, ["kept"])["kept"].to_pylist()
                first = 0
                for rows in trajectories(out, file.name):
                    if is_kept[first]:
                        self._actions.add(rows, [plan_request(self._asking.world, row) for row in rows])
                    first += len(rows)

    def _read(self, rows: list[Row], answers: list[Replayed]) -> list[str] | None:
        """Read what a run wrote into its database, and put the difference into the last row's answer. None where it is
        not known.
        """
        if answers[0].reason != "read":
            return None
        difference = self._runs.difference(rows[0]["provenance"]["uri"])
        if difference is None:
            answers[:] = [Replayed(NOT_RUN, "no_databases")] * len(rows)
            return None
        text = self._scrub(difference.to_text()[:DIFFERENCE])
        answers[-1] = Replayed(NOT_RUN, "read", text)
        if text:
            self._changed(rows[0]["provenance"]["uri"], text)
        return [self._scrub(value) for value in difference.written()[:VALUES]]


def find_judged_folders(out: Folder) -> list[Folder]:
    """The folders of an output folder that hold verdicts: of the run, of its generations, and of one that was begun.

    Raises:
        ConfigError: the run is not judged.
    """
    committed = stage_folders(out)
    sealed = f"/verdicts/{MANIFEST}"
    there = [name.removesuffix(sealed) for name in (out / GENERATIONS).names(".json") if name.endswith(sealed)]
    begun = sorted(
        {f"{GENERATIONS}/{name}" for name in there} - {folder.url.removeprefix(f"{out.url}/") for folder in committed}
    )
    if any(read_manifest(out / stage, MANIFEST) is None for stage in ("transitions", "verdicts")):
        raise ConfigError(f"{out.path()} is not judged: what is replayed is what judging keeps.")
    return [*committed, *(out / name for name in begun)]


def _files(folder: Folder) -> tuple[FileEntry, ...]:
    sealed = read_manifest(folder / "transitions", MANIFEST)
    return () if sealed is None else sealed.files


def _scrubbing(folder: Folder) -> Callable[[str], str]:
    """Return the function that scrubs texts as the run of a folder did."""
    recipe = json.loads(folder.found(RUN) or b"{}").get("recipe", {}).get("normalize", {})
    kinds = tuple(recipe.get("scrub") or ())
    salt = os.environ.get(SALT, "") if recipe.get("scrub_salt") == SALTED else ""
    return partial(scrub_text, kinds=kinds, salt=salt) if kinds else lambda text: text


def _label(name: str) -> str:
    return name.removesuffix(".parquet").replace("/", "-")


def _before(out: Folder, file: FileEntry) -> list[dict[str, Any]] | None:
    """Load the rows of earlier replays of a file; None where there are none, or they are of other rows."""
    if not (out / STAGE).exists(file.name):
        return None
    replays = [row for batch in read_batches(out / STAGE, file.name) for row in batch.to_pylist()]
    ids = read_table(out / "transitions", file.name, ["row_id"])["row_id"].to_pylist()
    return replays if [row["row_id"] for row in replays] == ids else None


def trajectories(out: Folder, name: str) -> Iterator[list[Row]]:
    """The rows of each trajectory of a file, one trajectory in memory at a time."""
    rows: list[Row] = []
    for batch in read_transitions(out / "transitions", name):
        for row in batch.to_pylist():
            if rows and (row["trajectory_id"] != rows[0]["trajectory_id"] or row["step"] <= rows[-1]["step"]):
                yield rows
                rows = []
            rows.append(row)
    if rows:
        yield rows
