"""Logs of Inspect (`inspect_ai`): one evaluation as JSON or as a `.eval` archive, each sample a trajectory.

>>> show(Inspect(), '''
... {"version": 2, "status": "success", "eval": {"task": "lakes", "model": "openai/gpt-made"}, "samples": [
...     {"id": "mirr", "epoch": 1, "input": "How deep is Lake Mirr?", "target": "310 m", "messages": [
...         {"role": "user", "content": "How deep is Lake Mirr?", "source": "input"},
...         {"role": "assistant", "content": "I look.", "source": "generate", "tool_calls": [
...             {"id": "c1", "function": "web_search", "arguments": {"query": "Lake Mirr"}, "type": "function"}]},
...         {"role": "tool", "tool_call_id": "c1", "function": "web_search", "content": "Lake Mirr is 310 m deep."}]}]}
... ''')
action  | {"name": "web_search", "arguments": {"query": "Lake Mirr"}}
after   | Lake Mirr is 310 m deep.

A `.json` log is one object `{version, status, eval, plan, results, samples}`. A `.eval` log is a zip archive of
`header.json` (all of that except the samples), `samples/<id>_epoch_<n>.json` and a `_journal`. An interrupted one has
no header, and the facts about the evaluation are then taken from `_journal/start.json`. An archive that was cut off is
read as far as its members are complete, with a reject for the rest.

The domain of a trajectory follows from the tools that its sample called (see `sample.domain`). Tools are renamed to the
common vocabulary only in the search domain. A sample that calls no tool is no interaction and is rejected. In `.eval`
logs a step's offset is the beginning of its sample in the archive, in `.json` logs the position of its call's id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from trajmill.connectors.benches.inspect_log.course import Course
from trajmill.connectors.benches.inspect_log.sample import (
    Attachments,
    Times,
    context,
    domain,
    each_object,
    list_called_tools,
    messages,
    outcome,
)
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.archive import Archive
from trajmill.connectors.reading.documents import document_in, large_document
from trajmill.connectors.reading.fields import text_of
from trajmill.connectors.reading.large import outline
from trajmill.connectors.reading.large.outline import MANY, Shape, read_if_small
from trajmill.connectors.reading.places import TextPlaces
from trajmill.schemas import Agent, ParseError, Reject, Task, Trajectory

_OF_SAMPLE: Final[dict[str, Shape]] = {
    "messages": [],
    "events": [],
    "attachments": MANY,
    "message_pool": [],
    "events_data": {"messages": []},
    "transcript": {"content": MANY},
}
_SHAPES: Final[list[Shape]] = [{"samples": [_OF_SAMPLE]}]
_SAMPLE: Final = re.compile(r"samples/.+\.json")
_HEADER: Final = "header.json"
_START: Final = "_journal/start.json"
_ARCHIVE_HEAD: Final = re.compile(
    rb"PK\x03\x04.{26}(?:_journal/|header\.json|samples/[^/]{1,200}_epoch_[0-9]+\.json)", re.S
)


class Inspect(Connector):
    """Evaluation logs of Inspect, versions 1 and 2 of their format."""

    name: ClassVar[str] = "inspect"
    version: ClassVar[str] = "7"
    domains: ClassVar[tuple[str, ...]] = ("search", "web", "terminal", "swe", "os", "mcp")
    title: ClassVar[str] = "Inspect evaluation logs (.json and .eval)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if _ARCHIVE_HEAD.match(head):
            return Sniff(0.95, "an archive that begins with the journal, header or samples of Inspect")
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:4096]
        if start.startswith(b"{") and b'"eval"' in start and b'"task_id"' in start and b'"run_id"' in start:
            return Sniff(0.95, "an object with an eval of task_id and run_id")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        with blob.open() as stream:
            packed = stream.read(2) == b"PK"
        records = self._archive(blob) if packed else self._document(blob)
        empty = True
        for record in records:
            empty = empty and isinstance(record, Reject)
            yield record
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no sample of the log calls a tool")

    def _document(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        uri = blob.uri
        data = read_if_small(blob)
        value = large_document(blob.seekable(), uri, _SHAPES) if data is None else document_in(data, uri)
        if not isinstance(value, dict) or not isinstance(value.get("eval"), dict):
            raise ParseError(uri, 0, "bad_record", "wanted an object with an eval")
        places = TextPlaces(blob.seekable() if data is None else data)
        for sample in each_object(value.get("samples")):
            yield from self._sample(sample, value["eval"], uri, lambda key: places.of(key) if key else places.place)

    def _archive(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        uri = blob.uri
        archive = Archive(blob.seekable(), uri)
        yield from archive.rejects(self.name)
        evaluation: Mapping[str, Any] = {}
        for name in (_HEADER, _START):
            if name in archive.members and not evaluation:
                try:
                    header = _object(archive, name, uri)
                except ParseError as error:
                    yield Reject.of(error, connector=self.name)
                    continue
                stated = header.get("eval")
                evaluation = stated if isinstance(stated, dict) else {}
        for name, member in archive.members.items():
            if _SAMPLE.fullmatch(name):
                try:
                    sample = _object(archive, name, uri)
                except ParseError as error:
                    yield Reject.of(error, connector=self.name)
                    continue
                yield from self._sample(sample, evaluation, uri, _always(member.offset))

    def _sample(
        self, sample: Mapping[str, Any], evaluation: Mapping[str, Any], uri: str, offset_of: Callable[[str], int]
    ) -> Iterator[Trajectory | Reject]:
        conversation = messages(sample)
        names = list_called_tools(conversation)
        native_id = "/".join(
            _word(id_part) for id_part in (evaluation.get("task_id"), sample.get("id"), sample.get("epoch"))
        )
        if not names:
            detail = f"sample {native_id:.200} calls no tool"
            yield Reject("trajectory", "no_calls", detail, uri, offset=offset_of(""), connector=self.name)
            return
        kind, attachments = domain(names), Attachments(sample)
        course = Course(attachments, Times.of(sample), kind == "search", offset_of)
        steps = course.take(conversation)
        for key in course.unmatched:
            detail = f"no call before it has the id {key}"
            yield Reject("record", "result_without_call", detail, uri, offset=offset_of(""), connector=self.name)
        if sample.get("limit"):
            steps[-1] = replace(steps[-1], truncated=True)
        task = text_of(evaluation.get("task"))
        packages = evaluation.get("packages")
        yield Trajectory(
            native_id=native_id,
            domain=kind,
            steps=steps,
            agent=Agent(
                "inspect_ai",
                text_of(packages.get("inspect_ai")) if isinstance(packages, dict) else None,
                text_of(evaluation.get("model")),
            ),
            task=Task(f"{task}/{_word(sample.get('id'))}" if task else None, course.instruction),
            context=context(sample, "\n\n".join(course.system), attachments, kind == "search"),
            outcome=outcome(sample),
        )


def _object(archive: Archive, name: str, uri: str) -> dict[str, Any]:
    offset = archive.members[name].offset
    stream = archive.open(name, outline.LARGE_BYTES)
    data = stream.read(outline.LARGE_BYTES + 1)
    if len(data) > outline.LARGE_BYTES:
        value = large_document(stream, uri, [_OF_SAMPLE], start=offset)
    else:
        value = document_in(data, uri, start=offset)
    if not isinstance(value, dict):
        raise ParseError(uri, offset, "bad_record", f"wanted an object in {name:.100}")
    return value


def _word(value: Any) -> str:
    return str(value)[:200] if isinstance(value, str | int) else ""


def _always(offset: int) -> Callable[[str], int]:
    return lambda _: offset
