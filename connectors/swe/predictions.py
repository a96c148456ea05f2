"""Records of a file of predictions for SWE-bench, and their links to the folders that evaluate them.

Such a folder has a shared member `prediction/<number>/<offset>`, which is the whole file. The file has a shared member
`evaluated/<number>` for each record that a folder answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from trajmill.connectors.connector import Asked, Blob, Log, MemoryBlob
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import object_of, text_in
from trajmill.connectors.reading.lines import first_line, json_lines, lines
from trajmill.connectors.reading.places import places_by_lines
from trajmill.connectors.reading.values import json_value, value_or_none
from trajmill.connectors.swe.evaluation_folders import Prediction
from trajmill.schemas import ParseError, json_text

_MEMBER: Final = re.compile(r"prediction/([0-9]{1,12})/([0-9]{1,18})")
_EVALUATED: Final = "evaluated/"

Record = tuple[int, Any, str | None]
"""Offset of a prediction, its value (a `ParseError` if its line is not JSON), and its key in an object."""


def records(blob: Blob) -> Iterator[Record]:
    """Yield each record of a file: one per line, an array, an object by instance, or a single record.

    Raises:
        ParseError: the file is no JSON.
    """
    if _by_line(blob):
        for offset, value in json_lines(blob):
            yield offset, value, None
        return
    document, data = json_document(blob)
    yield from _of_document(document, data)


def _of_document(document: Any, data: bytes) -> Iterator[Record]:
    if isinstance(document, list):
        for offset, value in zip(places_by_lines(data, None, document), document, strict=True):
            yield offset, value, None
    elif isinstance(document, dict) and "model_patch" not in document:
        position = 0
        for key, value in document.items():
            hit = data.find(json_text(key).encode("utf-8", "surrogatepass") + b":", position)
            position = hit if hit >= 0 else position
            yield max(hit, 0), value, key
    else:
        yield 0, document, None


def _by_line(blob: Blob) -> bool:
    """Check if the first line that is not blank is a prediction, or a damaged one in a file that is no document."""
    first = first_line(blob)
    if first is None or first.data is None:
        return False
    try:
        value = json_value(first.data)
    except ValueError:
        begins = first.ended and first.data.lstrip()[:1] == b"{" and b'"instance_id"' in first.data
        return begins and not _is_document(blob)
    return isinstance(value, dict) and "model_patch" in value


def _is_document(blob: Blob) -> bool:
    try:
        json_document(blob)
    except ParseError:
        return False
    return True


def patch_of(value: Any) -> str | None:
    """Return the patch of a prediction; None if it has none."""
    patch = text_in(object_of(value), "model_patch")
    return patch if patch is not None and patch.strip() else None


def read_predictions(path: str, blob: Blob) -> tuple[list[Prediction], int]:
    """Return the predictions of a file with an instance and a patch, and the number of its records.

    In a file that breaks off, the records before the break count, and one more.
    """
    predictions: list[Prediction] = []
    number = -1
    try:
        for number, (offset, value, key) in enumerate(records(blob)):
            record = object_of(value)
            instance = text_in(record, "instance_id") or key
            if instance is not None and patch_of(record) is not None:
                predictions.append(Prediction(path, number, offset, instance, text_in(record, "model_name_or_path")))
    except ParseError:
        number += 1
    return predictions, number + 1


def with_answers(path: str, answers: Mapping[int, str], count: int) -> Asked:
    """Return the file with a member for each answered record.

    Args:
        answers: for the number of each answered record, a file of the folder that answers it.
        count: number of records.
    """
    shared = {f"{_EVALUATED}{number}": answer for number, answer in answers.items()}
    return Asked(Log(path, {"": path, **shared}, "", frozenset(shared)), count)


def numbers_answered_elsewhere(blob: Blob) -> set[int]:
    """Return the numbers of the records that folders answer."""
    return {int(member.removeprefix(_EVALUATED)) for member in blob.members if member.startswith(_EVALUATED)}


def member_of(prediction: Prediction) -> str:
    """Return the name of the member for a prediction in the folder that evaluates it."""
    return f"prediction/{prediction.number}/{prediction.offset}"


def prediction_beside(blob: Blob) -> tuple[Mapping[str, Any] | None, str, int]:
    """Return the prediction beside an evaluation folder (or None), its member, and its offset there."""
    for member in blob.members:
        if (match := _MEMBER.fullmatch(member)) is not None:
            return _record(blob, member, int(match[1]), int(match[2])), member, int(match[2])
    return None, "", -1


def _record(blob: Blob, member: str, number: int, offset: int) -> Mapping[str, Any]:
    with blob.seekable(member) as stream:
        stream.seek(offset)
        line = next(lines(stream), None)
    value = value_or_none(line.data) if line is not None and line.data is not None else None
    if isinstance(value, dict) and "model_patch" in value:
        return value
    try:
        listed = _list_records(blob.read(member))
    except ParseError:
        return {}
    return object_of(listed[number]) if number < len(listed) else {}


@lru_cache(maxsize=2)
def _list_records(data: bytes) -> list[Any]:
    """Return the records of a document, cached because each folder that evaluates one of them needs them."""
    return [value for _, value, _ in _of_document(json_document(MemoryBlob("", data))[0], data)]
