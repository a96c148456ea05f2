r"""Traces of Playwright (`trace.zip`, versions 3 to 10): each call of its API on a page, and the page at that time.

>>> show(PlaywrightTrace(), '''
... {"version": 8, "type": "context-options", "browserName": "chromium", "options": {}}
... {"type": "before", "callId": "call@3", "startTime": 20, "class": "Frame", "method": "click", \
...  "params": {"selector": "button"}, "pageId": "page@1", "beforeSnapshot": "before@call@3"}
... {"type": "frame-snapshot", "snapshot": {"snapshotName": "before@call@3", "pageId": "page@1", "frameId": "frame@1", \
...  "frameUrl": "https://tea.example/", "isMainFrame": true, \
...  "html": ["HTML", {}, ["BUTTON", {"__playwright_target__": "call@3"}, "Brew"]]}}
... {"type": "after", "callId": "call@3", "endTime": 30, "afterSnapshot": "after@call@3"}
... {"type": "frame-snapshot", "snapshot": {"snapshotName": "after@call@3", "pageId": "page@1", "frameId": "frame@1", \
...  "frameUrl": "https://tea.example/", "isMainFrame": true, "html": ["HTML", {}, ["P", {}, "Brewing"]]}}
... ''')
before  | #1 document value="https://tea.example/"
        |   #2 button "Brew"
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 document value="https://tea.example/"
        |   #3 text "Brewing"

Each `.trace` of an archive is the log of one browser context, and becomes a trajectory. (`test.trace` belongs to the
test runner. It only repeats the calls as steps, and yields no trajectory.) For each call the trace holds snapshots of
the page's frames before it, at its input and after it. The name of a snapshot (`beforeSnapshot`, up to version 8) or
its phase (from 9 on) states which of them it is. Rules:

- The observation is the page in the snapshot before the call, each iframe with its document if that has a snapshot.
  Calls on the keyboard and mouse have no such snapshot; their observation is the snapshot at their input.
- The result of a call that reads (`innerText`, `isVisible`) or of a script (`evaluate`) is its next observation. For an
  assertion during which the page did not change, it is whether the assertion passed, and the value it found.
- For other calls the next observation is the snapshot before the next call on the same page, since the page has had
  time to settle by then. It is the snapshot after the call itself if the next call is on another page, began before
  this one ended (`Promise.all`), or does not exist. A call that never ended, in a trace that breaks off, has none.
- Assertions (`expect`, `waitFor…`) are actions that wait for a state: they take time, and can fail. Calls that only
  read are `extract`; calls that do not act on a page are left out (`calls` lists both).
- A failed call has `is_error` set on its next observation. Its message is Playwright's own and not the page's, so it is
  a harness text before the next action.
- The target of a call is the node that a snapshot marks with the call's id (`__playwright_target__`; marks of earlier
  calls may still be there), located in the snapshot before. If no node is marked, the selector is used.
- The last frame of the page's screencast up to a snapshot is attached to its observation. A browser reports a frame
  some time after it was painted, so it may show the state of a moment before.

Content that the style sheets of a page hide is left out. Console messages and the rest of the network logs are not read
(see `har` for HTTP). Traces in a blob report (`report.jsonl` beside `resources/*.zip`) are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.reading.archive import Archive
from trajmill.connectors.reading.attached import attachment_of_bytes, attachment_of_member
from trajmill.connectors.reading.values import BOM
from trajmill.connectors.web.playwright_trace.session import FORMAT, Part, Session
from trajmill.schemas import Attachment, ParseError, Reject, Trajectory

_ZIP: Final = b"PK\x03\x04"
_BEGINS: Final = re.compile(rb'\{(?:\s*"version"\s*:\s*\d+\s*,)?\s*"type"\s*:\s*"context-options"')
_CALL: Final = re.compile(rb'\{\s*"type"\s*:\s*"before"\s*,\s*"callId"')
_TRACE: Final = re.compile(r"(?:.*[-/])?(?:trace|\d+-trace|test)\.trace|.*\.trace")
_RESOURCES: Final = "resources"
_FILE: Final = re.compile(r"(?:(.*)/)?resources/[^/]*\.(?:jpeg|png|css)")
_OWN: Final = re.compile(r"(?:.*/)?[\w-]*(?:trace|test)\.(?:trace|network|stacks)")


class PlaywrightTrace(Connector):
    """Playwright traces."""

    name: ClassVar[str] = FORMAT
    version: ClassVar[str] = "10"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "Playwright traces (trace.zip), also in blob reports"
    companions = re.compile(r"resources/.*|[^/]*\.(?:webm|png|jpe?g)|error-context\.md|[^/]*\.stacks")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if head.startswith(_ZIP):
            names = list(_names(head))
            if any(_OWN.fullmatch(name) for name in names):
                return Sniff(0.95, "a zip archive with a .trace, .network or .stacks file")
            if names[:1] == ["report.jsonl"] or (names and re.fullmatch(r"report(?:-\w+)?\.jsonl", names[0])):
                return Sniff(0.9, "a zip archive that begins with report.jsonl, as a blob report does")
            return None
        if _BEGINS.match(head.removeprefix(BOM).lstrip()):
            return Sniff(0.95, "its first line is the context-options of a trace")
        if uri.endswith(".trace") and _CALL.match(head):
            return Sniff(0.9, "its first line is a call of a trace")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder that holds `.trace` files beside their `.network` files, which is an unpacked archive."""
        folders: dict[str, list[str]] = {}
        files: dict[str, list[str]] = {}
        for path in paths:
            if _OWN.fullmatch(path):
                folders.setdefault(path.rpartition("/")[0], []).append(path)
            elif shown := _FILE.fullmatch(path):
                files.setdefault(shown[1] or "", []).append(path)
        for folder, trace_paths in folders.items():
            traces = [path for path in trace_paths if path.endswith(".trace")]
            if traces and len(trace_paths) > 1:
                cut = len(folder) + 1 if folder else 0
                members = [*trace_paths, *files.get(folder, ())]
                yield Log(folder, {path[cut:]: path for path in members}, traces[0][cut:])

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        is_any = False
        failures: list[ParseError] = []
        for part in _parts(blob):
            if isinstance(part, Reject):
                yield part
                continue
            reader = Session(part, blob.choices.screen == "raw")
            try:
                for reject in reader.read():
                    is_any = True
                    yield reject
            except ParseError as error:
                failures.append(error)
                continue
            for result in reader.trajectories():
                is_any = True
                yield result
        if failures:
            for failure in failures[1:]:
                yield Reject.of(failure, connector=self.name)
            raise failures[0]
        if not is_any:
            raise ParseError(blob.uri, -1, "no_transitions", "no call in it acts on a page")


def _names(head: bytes) -> Iterator[str]:
    """Yield the names of the members of a zip archive whose headers are in its beginning."""
    begin = 0
    while (begin := head.find(_ZIP, begin)) >= 0 and begin + 30 <= len(head):
        size = int.from_bytes(head[begin + 26 : begin + 28], "little")
        yield head[begin + 30 : begin + 30 + size].decode("utf-8", "replace")
        begin += 30


def _parts(blob: Blob) -> Iterator[Part | Reject]:
    """Yield the traces of an input in order of their names, and rejects for the damaged members of an archive.

    Raises:
        ParseError: the archive cannot be read, or holds no trace.
    """
    if blob.members != ("",):
        for name in blob.members:
            if name.endswith(".trace"):
                read = partial(_file_beside, blob)
                yield Part(blob.uri, name, name, partial(blob.open, name), picture=partial(_beside, blob), read=read)
        return
    with blob.open() as stream:
        packed = stream.read(len(_ZIP)) == _ZIP
    if not packed:
        yield Part(blob.uri, "", "", blob.open)
        return
    archive = Archive(blob.read(), blob.uri)
    parts = list(_archive_parts(blob.uri, archive, "", None))
    for name in archive.members:
        if not parts and name.startswith("resources/") and name.endswith(".zip"):
            base = archive.members[name].offset
            inner = Archive(archive.read(name), blob.uri)
            yield from inner.rejects(FORMAT)
            yield from _archive_parts(blob.uri, inner, f"{name}!", base)
    if not parts and not archive.whole:
        raise ParseError(blob.uri, 0, "truncated", "the archive was cut off, and no trace is left in it")
    yield from archive.rejects(FORMAT)
    yield from parts


def _archive_parts(uri: str, archive: Archive, prefix: str, base: int | None) -> Iterator[Part]:
    for name in sorted(archive.members):
        if _TRACE.fullmatch(name):
            offset = archive.members[name].offset if base is None else base
            picture, read = partial(_within, archive), partial(_file_within, archive)
            yield Part(uri, "", f"{prefix}{name}", partial(archive.open, name), offset, picture, read)


def _file_within(archive: Archive, name: str) -> bytes | None:
    return archive.read(name) if name in archive.members else None


def _file_beside(blob: Blob, name: str) -> bytes | None:
    return blob.read(name) if name in blob.members else None


def _within(archive: Archive, frame: str) -> Attachment | None:
    """Return a frame of the screencast from an archive.

    Raises:
        ParseError: the frame cannot be unpacked.
    """
    name = f"{_RESOURCES}/{frame}"
    if name not in archive.members:
        return None
    return attachment_of_bytes(archive.read(name), "screencast", _media_type(frame), frame)


def _beside(blob: Blob, frame: str) -> Attachment | None:
    name = f"{_RESOURCES}/{frame}"
    return attachment_of_member(blob, name, "screencast", _media_type(frame), frame) if name in blob.members else None


def _media_type(frame: str) -> str:
    return "image/png" if frame.endswith(".png") else "image/jpeg"
