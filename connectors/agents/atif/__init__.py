"""Trajectories in Harbor's ATIF (Agent Trajectory Interchange Format, RFC 0001), versions 1.0 to 1.7, read leniently.

>>> show(Atif(), '''
... {"schema_version": "ATIF-v1.4", "session_id": "p-1", "agent": {"name": "coder", "version": "1"}, "steps": [
...     {"step_id": 1, "source": "user", "message": "Which files are there?"},
...     {"step_id": 2, "source": "agent", "message": "", "tool_calls": [
...         {"tool_call_id": "w1", "function_name": "bash", "arguments": {"command": "ls"}}],
...      "observation": {"results": [{"source_call_id": "w1", "content": "notes.txt"}]}}]}
... ''')
action  | {"name": "bash", "arguments": {"command": "ls"}}
after   | notes.txt

A document is one trajectory. A sub-agent's document stands within it, or in a file beside it that it names by path. It
is a trajectory of relation `subagent`; its parent step is the one with a result that refers to it, if one does. A
continuation is a trajectory of relation `continuation`. The steps of Claude Code's sub-agents, which Harbor puts before
the agent's own and marks as a sidechain, are one such trajectory too. Order: a document, what it refers to, the rest.
In a folder, `trajectory.json` with `trajectory.*.json` and the images below it are one log. Paths are resolved within
the log alone.

Token ids and log-probabilities of completions are kept (`metrics.completion_token_ids`, `metrics.logprobs`). Rejected:
unreadable steps, results without a call, missing images and missing documents of sub-agents. Left out without a reject:
other metrics, and steps of copied context, which the trajectory holds that they were copied from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from posixpath import basename, dirname, join, normpath
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.atif import values
from trajmill.connectors.agents.atif.domains import OWN_TOOLS, domain
from trajmill.connectors.agents.atif.steps import Reader
from trajmill.connectors.connector import HEAD_BYTES, Blob, Connector, Log, Sniff
from trajmill.connectors.conversation.opaque import attachment_of_url
from trajmill.connectors.conversation.steps import course, mark_dangling, mark_turns
from trajmill.connectors.conversation.turns import Turn
from trajmill.connectors.reading.attached import attachment_of_member
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import text_in, whole_number_of
from trajmill.connectors.reading.values import BOM
from trajmill.schemas import DOMAINS, Agent, Attachment, Context, Environment, ParseError, Reject, Task, Trajectory
from trajmill.schemas.transition import RELATIONS

ANCHOR: Final = "trajectory.json"

DEPTH: Final = 16
"""Deepest nesting of sub-agents that is read."""

_VERSION: Final = re.compile(rb'"schema_version"\s*:\s*"(ATIF-v?)?1\.\d{1,2}"', re.I)
_STEP: Final = re.compile(rb'"steps"\s*:\s*\[\s*\{')
_NUMBER: Final = re.compile(rb'"step_id"\s*:\s*(\d{1,12})')
_LINKS: Final = frozenset({"subagent_trajectories", "continued_trajectory_ref"})
_STEP_KEYS: Final = (b'"step_id"', b'"source"', b'"message"')
_PART: Final = re.compile(r"trajectory\.[^/]+\.json")
_PICTURE: Final = re.compile(r".*\.(?:png|jpe?g|gif|webp)", re.I)


def is_part(name: str) -> bool:
    """Return True if a file below the log's folder is part of the log: a document or an image."""
    return name == ANCHOR or _PART.fullmatch(name) is not None or _PICTURE.fullmatch(name) is not None


class Atif(Connector):
    """ATIF documents of Harbor's agents and of others that write the format."""

    name: ClassVar[str] = "atif"
    version: ClassVar[str] = "11"
    domains: ClassVar[tuple[str, ...]] = DOMAINS
    title: ClassVar[str] = "Agent Trajectory Interchange Format (JSON)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if not head[:64].removeprefix(BOM).lstrip().startswith(b"{"):
            return None
        version = _VERSION.search(head)
        if version is not None and version[1] is not None:
            # a single line may be the first of many rows
            sure = b"\n" in head.strip() or len(head) < HEAD_BYTES
            return Sniff(0.95 if sure else 0.85, f"schema_version is {version[0].decode().split(':')[1].strip()}")
        stepped = _STEP.search(head) is not None and all(key in head for key in _STEP_KEYS)
        if stepped and b'"agent"' in head:
            return Sniff(0.8, "steps with step_id, source and message, and an agent")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        known = set(paths)
        members: dict[str, dict[str, str]] = {}
        for path in paths:
            folder, name = dirname(path), basename(path)
            if _PART.fullmatch(name):
                members.setdefault(folder, {})[name] = path
            elif _PICTURE.fullmatch(name):
                while folder and join(folder, ANCHOR) not in known:
                    folder = dirname(folder)
                members.setdefault(folder, {})[path[len(folder) :].lstrip("/")] = path
        for folder, files in sorted(members.items()):
            anchor = join(folder, ANCHOR)
            if anchor in known:
                yield Log(folder or ANCHOR, dict(sorted({ANCHOR: anchor, **files}.items())), ANCHOR)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        log = _Log(blob)
        documents = [name for name in blob.members if not _PICTURE.fullmatch(name)]
        documents.sort(key=lambda name: basename(name) != ANCHOR)
        empty = True
        for member in documents:
            for record in log.document(member, None) if member not in log.read else ():
                empty = empty and isinstance(record, Reject)
                yield record
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no agent step of the log acts")


@dataclass(frozen=True, slots=True)
class _Origin:
    """Origin of a document: the native id of its parent, the step there, and the relation."""

    parent: str
    step: int | None
    relation: str


class _Log:
    """One log: its members and the names that were given so far."""

    def __init__(self, blob: Blob) -> None:
        self.read: set[str] = set()
        self._blob = blob
        self._written: set[str] = set()
        self._names: set[str] = set()
        self._rejects: list[Reject] = []

    def _reject(self, member: str, offset: int, reason: str, detail: str) -> None:
        error = ParseError(self._blob.uri, offset, reason, detail, member)
        self._rejects.append(Reject.of(error, "record", Atif.name))

    def document(self, member: str, origin: _Origin | None, depth: int = 0) -> Iterator[Trajectory | Reject]:
        """Yield the trajectories of a member and of all documents that it refers to."""
        self.read.add(member)
        try:
            document, data = json_document(self._blob, member)
        except ParseError as error:
            if len(self._blob.members) == 1:
                raise
            yield Reject.of(error, "record", Atif.name)
            return
        if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
            self._reject(member, 0, "bad_document", "wanted an object with a list of steps")
            yield from self._drain()
            return
        offsets: dict[int, int] = {}
        _locate(document, data, 0, offsets, 0)
        yield from self._trajectory(document, member, offsets, origin, depth)

    def _drain(self) -> Iterator[Reject]:
        if self._rejects:
            yield from self._rejects
            self._rejects = []

    def _trajectory(
        self, document: dict[str, Any], member: str, offsets: dict[int, int], origin: _Origin | None, depth: int
    ) -> Iterator[Trajectory | Reject]:
        document = _apart(document)
        extension, agent = values.own(document), values.table(document, "agent")
        reader = Reader(
            not extension and "terminus" in (text_in(agent, "name") or "").lower(),
            bool(extension),
            member,
            lambda path, kind: self._image(member, path, kind),
            lambda offset, reason, detail: self._reject(member, offset, reason, detail),
        )
        for step in document["steps"]:
            reader.step(offsets.get(id(step), 0), step)
        mark_turns(reader.items)
        outline = course(reader.items, bool(extension))
        if outline.steps and not extension:
            mark_dangling(outline.steps, OWN_TOOLS)
        environment = values.environment(extension) if extension else Environment()
        name = self._name(document, origin)
        if outline.steps and environment is None:
            detail = "a simulated environment wants kind model, world_model as name@revision, and sampling as an object"
            self._reject(member, 0, "unstated_world_model", detail)
        elif outline.steps and environment is not None:
            self._written.add(name)
            known = origin is not None and origin.parent in self._written
            yield Trajectory(
                native_id=name,
                domain=_domain(extension, text_in(agent, "name"), [step.action.name for step in outline.steps]),
                steps=outline.steps,
                environment=environment,
                agent=Agent(
                    _known(agent, "name"), _known(agent, "version"), text_in(agent, "model_name") or reader.model
                ),
                task=Task(text_in(values.table(extension, "task"), "id"), reader.instruction)
                if extension
                else Task(None, outline.instruction),
                context=_context(agent, extension, reader.system),
                outcome=values.outcome(extension) if extension else None,
                parent=origin.parent if origin is not None and known else None,
                parent_step=origin.step if origin is not None and known else None,
                relation=origin.relation if origin is not None else _relation(extension) if extension else None,
            )
        yield from self._drain()
        if not reader.references and not _LINKS & document.keys():
            return
        ends = [(reference, _end(outline.ends, turn)) for reference, turn in reader.references]
        yield from self._others(document, member, offsets, name, ends, depth)

    def _others(
        self,
        document: dict[str, Any],
        member: str,
        offsets: dict[int, int],
        name: str,
        references: list[tuple[dict[str, Any], int | None]],
        depth: int,
    ) -> Iterator[Trajectory | Reject]:
        """Yield the trajectories of sub-agents, embedded ones first, then the continuation of a document."""
        embedded = [
            trajectory for trajectory in values.items(document, "subagent_trajectories") if isinstance(trajectory, dict)
        ]
        started: dict[int, int | None] = {}
        paths: list[tuple[str, int | None, str]] = []
        for reference, step in references:
            target = _find_embedded(embedded, reference)
            path = text_in(reference, "trajectory_path")
            if target is not None:
                started.setdefault(id(target), step)
            elif path is not None:
                paths.append((path, step, "subagent"))
            else:
                self._reject(member, 0, "subagent_missing", "a reference to a trajectory that the log does not hold")
        continued = document.get("continued_trajectory_ref")
        if isinstance(continued, str) and continued:
            paths.append((continued, None, "continuation"))
        if depth >= DEPTH and (embedded or paths):
            self._reject(member, 0, "nested_too_deeply", f"sub-agents of more than {DEPTH} levels")
            embedded, paths = [], []
        for trajectory in embedded:
            if isinstance(trajectory.get("steps"), list):
                below = _Origin(name, started.get(id(trajectory)), "subagent")
                yield from self._trajectory(trajectory, member, offsets, below, depth + 1)
            else:
                self._reject(member, 0, "bad_document", "wanted a list of steps in an embedded trajectory")
        for path, step, relation in paths:
            target_member = self._member(member, path)
            if target_member is None:
                self._reject(member, 0, f"{relation}_missing", f"the log does not hold {path[:200]}")
            elif target_member not in self.read:
                yield from self.document(target_member, _Origin(name, step, relation), depth + 1)
        yield from self._drain()

    def _member(self, member: str, path: str) -> str | None:
        """Find the member at a path relative to the folder of `member`, or else at its last name in that folder."""
        for name in (normpath(join(dirname(member), path)), join(dirname(member), basename(path))):
            if name in self._blob.members:
                return name
        return None

    def _image(self, member: str, path: str, kind: str | None) -> Attachment | None:
        if path.startswith("data:"):
            image = attachment_of_url(path, "image")
            return image if image is None or kind is None else replace(image, media_type=kind)
        target = self._member(member, path)
        return None if target is None else attachment_of_member(self._blob, target, "image", kind, path)

    def _name(self, document: dict[str, Any], origin: _Origin | None) -> str:
        """Return the native id, made unique within the log."""
        name = text_in(document, "trajectory_id") or text_in(document, "session_id") or "trajectory"
        if origin is not None and name in self._names:
            name = f"{origin.parent}/{name}"
        base, count = name, 1
        while name in self._names:
            count += 1
            name = f"{base}/{count}"
        self._names.add(name)
        return name


def _apart(document: dict[str, Any]) -> dict[str, Any]:
    """Move the steps of Claude Code's sub-agents into a trajectory of their own, if there are other steps too."""
    aside = [step for step in document["steps"] if values.table(step, "extra").get("is_sidechain") is True]
    if not aside or len(aside) == len(document["steps"]):
        return document
    away = {id(step) for step in aside}
    below = {key: document[key] for key in ("session_id", "agent") if key in document} | {"steps": aside}
    return {
        **document,
        "steps": [step for step in document["steps"] if id(step) not in away],
        "subagent_trajectories": [*values.items(document, "subagent_trajectories"), below],
    }


def _locate(document: dict[str, Any], data: bytes, position: int, offsets: dict[int, int], depth: int) -> int:
    """Record the offset of each step by `id(step)`, in the order of the document's keys; return the end position."""
    for key, value in document.items():
        if key == "steps" and isinstance(value, list):
            for step in value:
                begin, position = _begin(step, data, position)
                offsets[id(step)] = begin
        elif key == "subagent_trajectories" and isinstance(value, list) and depth <= DEPTH:
            for trajectory in value:
                if isinstance(trajectory, dict):
                    position = _locate(trajectory, data, position, offsets, depth + 1)
    return position


def _begin(step: Any, data: bytes, position: int) -> tuple[int, int]:
    """Return the offset of the step, found by its id, and where to continue; `position` twice without an id."""
    number = whole_number_of(step.get("step_id")) if isinstance(step, dict) else None
    if number is None:
        return position, position
    key = data.find(_STEP_KEYS[0], position)
    while key >= 0:
        digits = _NUMBER.match(data, key)
        if digits is not None and int(digits[1]) == number:
            return max(data.rfind(b"{", position, key), 0), digits.end()
        key = data.find(_STEP_KEYS[0], key + 1)
    return position, len(data)


def _end(ends: dict[int, int], turn: Turn | None) -> int | None:
    """Return the last step of a turn; None if there is none."""
    count = ends.get(turn.mark, 0) if turn is not None and turn.mark is not None else 0
    return count - 1 if count else None


def _find_embedded(embedded: list[dict[str, Any]], reference: dict[str, Any]) -> dict[str, Any] | None:
    """Find the embedded trajectory that a reference names. A session id, the key before 1.7, must be unique."""
    for key in ("trajectory_id", "session_id"):
        wanted = text_in(reference, key)
        matches = [trajectory for trajectory in embedded if wanted is not None and trajectory.get(key) == wanted]
        if matches and (key == "trajectory_id" or len(matches) == 1):
            return matches[0]
    return None


def _known(agent: dict[str, Any], key: str) -> str | None:
    value = text_in(agent, key)
    return None if value == "unknown" else value


def _relation(extension: dict[str, Any]) -> str | None:
    relation = text_in(extension, "relation")
    return relation if relation in RELATIONS else None


def _context(agent: dict[str, Any], extension: dict[str, Any], system: list[str]) -> Context:
    if not extension:
        return Context(values.json_of(agent.get("tool_definitions")), agent_system="\n\n".join(system) or None)
    context = values.table(extension, "context")
    return Context(
        action_space=values.json_of(context.get("action_space")) or values.json_of(agent.get("tool_definitions")),
        initial_state=text_in(context, "initial_state"),
        demonstrations=text_in(context, "demonstrations"),
        simulation_instruction=text_in(context, "simulation_instruction"),
        agent_system="\n\n".join(system) or None,
        origin=values.context_origin(extension),
    )


def _domain(extension: dict[str, Any], agent: str | None, names: list[str]) -> str:
    stated = text_in(extension, "domain") if extension else None
    return stated if stated in DOMAINS else domain(agent, names)
