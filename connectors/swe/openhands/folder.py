"""Conversation folders of OpenHands with one file per event: their files and events.

Three layouts are known. OpenHands 0.x: `sessions/<id>/events/<number>.json` (or `users/…/conversations/<id>/…`), beside
pages of 25 events (`event_cache/<from>-<to>.json`), `metadata.json` and pickles. The agent SDK, 1.x:
`<id>/events/event-<number>-<event id>.json` beside `base_state.json`. The app's download: a zip file with
`event_<number>_<event id>.json` and `meta.json`.

Events are sorted by number. Pages repeat the events of the files, and are used only for a number that has no file.
Pickles belong to the log by name, and are never opened. This module does not interpret events. A number without any
event is reported, and is a gap in the order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trajmill.connectors.connector import Blob, Log
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import text_in
from trajmill.schemas import ParseError

_EVENT: Final = re.compile(
    r"((?:.*/)?)(?:events/(?P<plain>0|[1-9]\d{0,8})"
    r"|events/event-(?P<sdk>\d{5,9})-[0-9a-fA-F-]{8,64}"
    r"|event_(?P<export>\d{6,9})_[0-9a-fA-F-]{8,64})\.json"
)
_PAGE: Final = re.compile(r"((?:.*/)?)event_cache/(\d{1,9})-(\d{1,9})\.json")
_BESIDE: Final = re.compile(
    r"((?:.*/)?)(?:(?:metadata|init|base_state|meta|exp_config|agent_state|conversation_stats|llm_registry)\.(?:json|pkl)"
    r"|events/\.eventlog[^/]*)"
)
_DESCRIBING: Final = ("metadata.json", "base_state.json", "meta.json")
_SESSION: Final = re.compile(r"(?:[\w.]{1,80}-)?[0-9a-f][0-9a-f-]{10,38}[0-9a-f]")

MISSING: Final = object()
"""Value in place of a missing event."""


@dataclass(frozen=True, slots=True)
class Told:
    """Contents of a folder.

    Attributes:
        events: values in the order of their numbers, with `MISSING` for missing ones.
        members: the member of each event; for `MISSING` the member after it.
        faults: errors for missing numbers, files that are no JSON, and repeated numbers, in that order.
        native_id: the conversation's id.
        model: the model configured for the conversation.
    """

    events: Sequence[Any]
    members: Sequence[str]
    faults: Sequence[ParseError]
    native_id: str | None
    model: str | None


def is_event(uri: str) -> bool:
    """Check if a file is named like one event of a conversation."""
    return _EVENT.fullmatch(uri) is not None


def folders(paths: Sequence[str]) -> Iterator[Log]:
    """Yield each folder with files or pages of events, and the files that OpenHands writes beside them."""
    by_folder: dict[str, list[tuple[int, int, str]]] = {}
    beside: dict[str, list[str]] = {}
    for path in paths:
        if event := _EVENT.fullmatch(path):
            by_folder.setdefault(event[1], []).append((0, _number(event), path))
        elif page := _PAGE.fullmatch(path):
            by_folder.setdefault(page[1], []).append((1, int(page[2]), path))
        elif beside_match := _BESIDE.fullmatch(path):
            beside.setdefault(beside_match[1], []).append(path)
    for prefix, files in by_folder.items():
        anchor = min(files)[2][len(prefix) :]
        names = sorted([*(path for _, _, path in files), *beside.get(prefix, [])])
        yield Log(prefix.rstrip("/") or anchor, {path[len(prefix) :]: path for path in names}, anchor)


def conversation(blob: Blob) -> Told:
    """Read the conversation in a folder."""
    faults: list[ParseError] = []
    by_number: dict[int, tuple[Any, str]] = {}
    damaged: set[int] = set()
    events = sorted((_number(match), member) for member in blob.members if (match := _EVENT.fullmatch(member)))
    for number, member in events:
        if number in by_number or number in damaged:
            detail = f"another file is event {number} too"
            faults.append(ParseError(blob.uri, 0, "event_repeated", detail, member))
            continue
        value = _value(blob, member, faults)
        if value is None:
            damaged.add(number)
        else:
            by_number[number] = value, member
    _from_pages(blob, by_number, faults)
    order: list[tuple[Any, str]] = []
    wanted = 0
    for number in sorted(by_number):
        if number > wanted:
            order.append((MISSING, by_number[number][1]))
            detail = f"event {wanted} is not there" if number == wanted + 1 else f"events {wanted} to {number - 1} are"
            detail = detail if number == wanted + 1 else f"{detail} not there"
            faults.append(ParseError(blob.uri, -1, "missing_event", detail, by_number[number][1]))
        order.append(by_number[number])
        wanted = number + 1
    native_id, model = _describe(blob)
    return Told([value for value, _ in order], [member for _, member in order], faults, native_id, model)


def _number(match: re.Match[str]) -> int:
    return int(match["plain"] or match["sdk"] or match["export"])


def _value(blob: Blob, member: str, faults: list[ParseError]) -> Any:
    """Return the JSON value of a member; add a fault and return None if it has none."""
    try:
        return json_document(blob, member)[0]
    except ParseError as error:
        faults.append(ParseError(error.uri, error.offset, error.reason, error.detail, member, error.excerpt))
        return None


def _from_pages(blob: Blob, by_number: dict[int, tuple[Any, str]], faults: list[ParseError]) -> None:
    """Add events that have no readable file from the pages that repeat them; a page is read only if needed."""
    pages = (
        (int(match[2]), int(match[3]), page_member)
        for page_member in blob.members
        if (match := _PAGE.fullmatch(page_member))
    )
    for begin, end, member in sorted(pages):
        if end - begin > 1_000_000 or all(number in by_number for number in range(begin, end)):
            continue
        page = _value(blob, member, faults)
        for number, value in enumerate(page if isinstance(page, list) else (), begin):
            if number not in by_number and number < end and isinstance(value, dict):
                by_number[number] = value, member


def _describe(blob: Blob) -> tuple[str | None, str | None]:
    """Return (id, model) of the conversation from the files beside its events; the folder's name may be its id."""
    native_id: str | None = None
    model: str | None = None
    for member in _DESCRIBING:
        if member in blob.members:
            value = _value(blob, member, [])
            native_id = native_id or text_in(value, "conversation_id") or text_in(value, "id")
            model = model or text_in(value, "agent", "llm", "model") or text_in(value, "llm_model")
    return native_id or session_of(blob.uri), model


def session_of(uri: str) -> str | None:
    """Return the conversation's id in the name of a folder or file of events."""
    name = uri.rpartition("/")[2].removesuffix(".jsonl")
    return name if _SESSION.fullmatch(name) else None
