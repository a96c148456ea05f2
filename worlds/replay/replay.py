"""Replay of a run: actions of kept trajectories run again in sandboxes, and their results are compared with the log.

OUT/replays/<domain>/part-….parquet     one row for each row of the transitions file of that name
OUT/replays/manifest.json               written last

Generations have a folder `replays` of their own. A replay in one world (terminal, swe, …) keeps the rows that an
earlier replay in another world wrote.
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

_COMMIT: Final = re.compile(r".*@([0-9a-f]{40}(?:[0-9a-f]{24})?)")
_USER: Final = re.compile(r"[A-Za-z_][\w.-]{0,31}")
_NAME_AND_PATH: Final = re.compile(r"(?P<name>[^=]*)=(?P<path>.+)", re.DOTALL)


@dataclass(slots=True)
class Bases:
    """Bases, the folders or repositories that sandboxes start from, by name.

    Attributes:
        paths: name → path; the base with the empty name serves trajectories without a base of their own.
        world: name of the world; bases are repositories in `swe` alone.
        most: maximum bytes of a base.
    """

    paths: dict[str, str]
    world: str
    most: int
    _held: dict[tuple[str, str], Base] = field(default_factory=dict)

    @classmethod
    def given(cls, arguments: Sequence[str], world: str, most: int) -> Bases:
        """Parse arguments of the form `path` or `name=path`.

        Raises:
            ConfigError: a path does not exist, or a name is given twice.
        """
        paths: dict[str, str] = {}
        for argument in arguments:
            named = None if Path(argument).exists() else _NAME_AND_PATH.fullmatch(argument)
            name, path = (named["name"], named["path"]) if named else ("", argument)
            if name in paths:
                raise ConfigError(f"--base gives '{name}' twice.")
            if not Path(path).exists():
                raise ConfigError(f"The base {path} does not exist. Give a path, or NAME=PATH.")
            paths[name] = path
        return cls(paths, world, most)

    def of(self, rows: Sequence[Mapping[str, Any]]) -> Base | None:
        """Find the base of a trajectory; None if none was given for it, or its repository lacks the commit."""
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
        if name and (match := _COMMIT.fullmatch(f"@{name}" if "@" not in name else name)):
            return match[1]
    return None


def _names(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the names that a base of a trajectory may have, the most specific first."""
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
"""Shell commands that rebuild the index of a repository after it was copied into the sandbox."""

DIFFERENCE: Final = 1 << 16
"""Characters that are kept of a difference of databases."""

VALUES: Final = 2_000
_KEEPING_REASONS: Final = ("other_world", "no_base", "not_asked", "not_kept")
"""Reasons for not running an action that keep the result of an earlier replay."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """Settings of a replay.

    Attributes:
        world: one of `WORLDS`.
        bases: arguments of `--base`.
        limits: limits of a sandbox.
        variables: environment variables of every session.
        system: root folder of another system; see `Place`.
        user: user of every session; empty for the user that the log names.
        limit: maximum number of trajectories; None for all.
        branches: number of other actions of the same task that are run at one step of each trajectory.
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
    """Replay of the kept trajectories of an output folder.

    Args:
        out: the output folder of a judged run.
        settings: settings of the replay.
        tell: called with the results of each trajectory.
        branched: called with the rows of each branch.
        changed: called with the log of each run whose databases differ, and the difference.
    """

    def __init__(
        self,
        out: str,
        settings: ReplaySettings,
        tell: Callable[[Sequence[Replayed]], None] = lambda _: None,
        branched: Callable[[Sequence[Row]], None] = lambda _: None,
        changed: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        if settings.world not in WORLDS:
            raise ConfigError(f"'{settings.world}' is no world. Worlds are {', '.join(WORLDS)}.")
        self._out, self._settings, self._tell = Folder.named(out), settings, tell
        self._branched, self._changed, self._actions = branched, changed, Actions()
        if settings.user and not _USER.fullmatch(settings.user):
            raise ConfigError(f"'{settings.user}' is no user name.")
        self._domain = WORLDS[settings.world]
        self._bases = Bases.given(settings.bases, settings.world, settings.limits.disk)
        self._left = settings.limit if settings.limit is not None else -1
        self._scrub: Callable[[str], str] = lambda text: text
        self._engine, self._runs = "", RunFolders(self._out)

    def run(self) -> dict[str, int]:
        """Replay, write the results, and return the number of transitions by domain, status and reason.

        Raises:
            ConfigError: this machine has no sandbox, or the folder holds no judged run.
        """
        self._engine = "" if self._settings.world == "awm" else engine(self._settings.system)
        if identity_of(self._out) is None:
            raise ConfigError(f"{self._out.path()} is no output folder of a run.")
        places = find_judged_folders(self._out)
        counts = Counter[str]()
        with self._own_folder(self._out) as owner:
            self._collect_actions(places)
            counts.update(self._replay_folder(owner, self._out))
            for folder in places[1:]:
                with self._own_folder(folder) as inner:
                    counts.update(self._replay_folder(inner, folder))
        return dict(sorted(counts.items()))

    @contextmanager
    def _own_folder(self, folder: Folder) -> Iterator[Ownership]:
        """Lock a folder of stages while it is written to."""
        identity = identity_of(folder)
        assert identity is not None
        owner = Ownership(folder, identity, adding=True, alone=True)
        owner.check(())
        with owner.held():
            owner.keep()
            yield owner

    def _replay_folder(self, owner: Ownership, folder: Folder) -> dict[str, int]:
        """Replay the transitions of a folder and return the counts of its manifest."""
        files = _files(folder)
        labels = [_label(file.name) for file in files]
        owner.intend({*(f"{STAGE}/{file.name}" for file in files), *manifest_names(STAGE, labels)})
        target = folder.held(owner.token, replaces=True)
        (target / STAGE).remove(MANIFEST)
        self._runs, self._scrub = RunFolders(folder), _build_scrubber(folder)
        units = [self._replay_file(target, file) for file in files]
        digest = hashlib.sha256(
            json.dumps([[entry.name, entry.sha256] for unit in units for entry in unit.files]).encode()
        )
        sealed = finish_stage(target / STAGE, "replay", digest.hexdigest(), labels)
        wanted = {f"{STAGE}/{entry.name}" for entry in sealed.files} | manifest_names(STAGE, labels)
        owner.prune([STAGE, f"_units/{STAGE}"], wanted)
        return sealed.counts

    def _replay_file(self, out: Folder, file: FileEntry) -> Manifest:
        """Replay the trajectories of a file and write its file of results."""
        before = _load_results(out, file)
        settings = {**asdict(self._settings), "engine": self._engine}
        inputs = json.dumps([file.sha256, settings, before is not None], sort_keys=True, default=str)
        digest = hashlib.sha256(inputs.encode()).hexdigest()
        replays = list[dict[str, Any]]()
        verdicts = read_table(out / "verdicts", file.name, ["kept", "group"])
        is_kept, group = (verdicts[name].to_pylist() for name in ("kept", "group"))
        domain = file.name.partition("/")[0]
        for rows in trajectories(out, file.name):
            first = len(replays)
            rows[0]["group"] = group[first]
            replays += self._result_rows(rows, is_kept[first], domain, None if before is None else before[first:])
        table = pa.Table.from_pylist(replays, schema=REPLAY_SCHEMA)
        entry = write_parquet(out / STAGE, file.name, REPLAY_SCHEMA, table.to_batches())
        counts = Counter(
            f"{domain}.{replay_row['replayed']}" + (f".{replay_row['reason']}" if replay_row["reason"] else "")
            for replay_row in replays
        )
        manifest = Manifest("replay", _label(file.name), digest, SCHEMA_VERSION, (entry,), dict(sorted(counts.items())))
        return finish_unit(out / STAGE, manifest)

    def _result_rows(self, rows: list[Row], is_kept: bool, domain: str, before: list[Row] | None) -> list[Row]:
        """Build the result rows of a trajectory; `before` holds its rows of an earlier replay."""
        is_mine = domain == self._domain
        answers = self._replay_rows(rows, is_kept) if is_mine else [Replayed(NOT_RUN, "other_world")] * len(rows)
        wrote = self._read_databases(rows, answers) if is_mine and self._settings.world == "awm" else None
        replays = []
        for number, (row, answer) in enumerate(zip(rows, answers, strict=True)):
            if before is not None and answer.reason in _KEEPING_REASONS:
                replays.append(before[number])
                continue
            measures: Row = {"replayed": answer.status, "reason": answer.reason, "difference": answer.difference}
            measures["agreement"] = answer.agreement
            world = self._settings.world if is_mine else None
            measures["written"] = wrote
            key = {name: row[name] for name in ("row_id", "trajectory_id", "step")}
            replays.append({**key, **measures, "world": world, "tool": row["action"]["name"]})
        return replays

    def _replay_rows(self, rows: list[Row], is_kept: bool) -> list[Replayed]:
        if not is_kept:
            return [Replayed(NOT_RUN, "not_kept")] * len(rows)
        questions = [plan_request(self._settings.world, row) for row in rows]
        if self._settings.world == "awm":
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
        settings = self._settings
        place = place_of(rows, DEFAULT_FOLDERS[settings.world], settings.variables, settings.system, settings.user)
        begin = _NEW_INDEX if settings.world == "swe" else ""
        session = base, place, settings.limits, self._scrub, begin
        answers = replay_trajectory(rows, questions, *session)
        self._tell(answers)
        for step, action in self._actions.chosen(rows, answers, settings.branches):
            some = question_rows(rows, step, action)
            branched = branch(some, replay_trajectory(some, [*questions[:step], action["asked"]], *session), action)
            if branched is not None:
                self._branched(branched)
        return answers

    def _collect_actions(self, places: Sequence[Folder]) -> None:
        """Collect the actions of each task, from which branches are chosen; does nothing without branches."""
        for out, file in (
            [(folder, file) for folder in places for file in _files(folder)] if self._settings.branches else ()
        ):
            if file.name.partition("/")[0] == self._domain:
                is_kept = read_table(out / "verdicts", file.name, ["kept"])["kept"].to_pylist()
                first = 0
                for rows in trajectories(out, file.name):
                    if is_kept[first]:
                        self._actions.add(rows, [plan_request(self._settings.world, row) for row in rows])
                    first += len(rows)

    def _read_databases(self, rows: list[Row], answers: list[Replayed]) -> list[str] | None:
        """Return the values that a run wrote into its database, and put the difference into the last row's result.

        None if the databases are not there.
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
    """List the folders with verdicts: the run, its generations, and a generation that is judged but not finished.

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
        raise ConfigError(f"{out.path()} is not judged, and only kept trajectories are replayed.")
    return [*committed, *(out / name for name in begun)]


def _files(folder: Folder) -> tuple[FileEntry, ...]:
    sealed = read_manifest(folder / "transitions", MANIFEST)
    return () if sealed is None else sealed.files


def _build_scrubber(folder: Folder) -> Callable[[str], str]:
    """Build the function that scrubs texts with the settings of the folder's run."""
    recipe = json.loads(folder.found(RUN) or b"{}").get("recipe", {}).get("normalize", {})
    kinds = tuple(recipe.get("scrub") or ())
    salt = os.environ.get(SALT, "") if recipe.get("scrub_salt") == SALTED else ""
    return partial(scrub_text, kinds=kinds, salt=salt) if kinds else lambda text: text


def _label(name: str) -> str:
    return name.removesuffix(".parquet").replace("/", "-")


def _load_results(out: Folder, file: FileEntry) -> list[dict[str, Any]] | None:
    """Load the rows of an earlier replay of a file; None if there are none, or they belong to other transitions."""
    if not (out / STAGE).exists(file.name):
        return None
    replays = [row for batch in read_batches(out / STAGE, file.name) for row in batch.to_pylist()]
    ids = read_table(out / "transitions", file.name, ["row_id"])["row_id"].to_pylist()
    return replays if [row["row_id"] for row in replays] == ids else None


def trajectories(out: Folder, name: str) -> Iterator[list[Row]]:
    """Yield the rows of each trajectory of a file; one trajectory is in memory at a time."""
    rows: list[Row] = []
    for batch in read_transitions(out / "transitions", name):
        for row in batch.to_pylist():
            if rows and (row["trajectory_id"] != rows[0]["trajectory_id"] or row["step"] <= rows[-1]["step"]):
                yield rows
                rows = []
            rows.append(row)
    if rows:
        yield rows
