r"""Predictions for SWE-bench: patches that were handed in; each is a trajectory of one action.

>>> show(SwebenchPredictions(), '''
... {"instance_id": "acme__lamp-1", "model_name_or_path": "parrot-2", \
...  "model_patch": "--- a/lamp.py\\n+++ b/lamp.py\\n@@ -1 +1 @@\\n-off\\n+on\\n"}
... ''')
action  | {"name": "submit_patch", "arguments": {"patch": "--- a/lamp.py\n+++ b/lamp.py\n@@ -1 +1 @@\n-off\n+on\n"}}
after   | (not in the log)

JSON Lines, a JSON array, or an object keyed by instance; each prediction has `instance_id`, `model_patch` and
`model_name_or_path`. A predictions file does not hold what the tests then said: the next observation is null, so
nothing can be learned from the row but what was done, and the outcome is not known (the evaluation's folder has both,
see `swebench_eval`). A prediction without a patch is rejected as `empty_patch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from connectors.connector import Blob, Connector, Sniff
from connectors.conversation.told import Told, answered
from connectors.reading.documents import json_document
from connectors.reading.fields import brief, text_in
from connectors.reading.lines import first_line, json_lines
from connectors.reading.places import places_by_lines
from connectors.reading.values import json_value
from connectors.swe.actions import submitted
from connectors.swe.instance import environment
from schemas import Agent, ParseError, Reject, Task, Trajectory, json_text

_CONVERSATIONS: Final = (b'"messages":', b'"trajectory":', b'"history":', b'"messages" :', b'"test_result":')


class SwebenchPredictions(Connector):
    """Predictions for SWE-bench."""

    name: ClassVar[str] = "swebench_predictions"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("swe",)
    title: ClassVar[str] = "SWE-bench predictions (JSONL or JSON)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if head.lstrip()[:1] not in (b"{", b"["):
            return None
        if b'"model_patch":' not in head:
            named = b'"instance_id":' in head and b'"model_name_or_path":' in head and b'"text":' in head
            return Sniff(0.7, "an instance and a model before a text longer than the head") if named else None
        if any(key in head for key in _CONVERSATIONS):
            return None
        if b'"instance_id":' in head or b'"model_name_or_path":' in head:
            return Sniff(0.85, "objects with model_patch and instance_id or model_name_or_path")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        empty = True
        for offset, value, key in _predictions(blob):
            found = Reject.of(value, "record", self.name) if isinstance(value, ParseError) else None
            found = found or self._refused(blob, offset, value)
            if found is not None:
                yield found
                continue
            empty = False
            yield _trajectory(offset, value, key)
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no prediction holds a patch")

    def _refused(self, blob: Blob, offset: int, value: Any) -> Reject | None:
        if not isinstance(value, dict) or "model_patch" not in value:
            reason, detail = "bad_prediction", "wanted an object with `model_patch`"
        elif value["model_patch"] is None or (
            isinstance(value["model_patch"], str) and not value["model_patch"].strip()
        ):
            reason, detail = "empty_patch", f"instance {brief(value.get('instance_id'))} has no patch"
        elif not isinstance(value["model_patch"], str):
            reason, detail = "bad_prediction", "wanted text as `model_patch`"
        else:
            return None
        return Reject("record", reason, detail[:200], blob.uri, offset=offset, connector=self.name)


def _trajectory(offset: int, value: Mapping[str, Any], key: str | None) -> Trajectory:
    instance = text_in(value, "instance_id") or key
    told = Told(held=True)
    told.turn([answered(submitted(value["model_patch"]), None, offset)])
    return Trajectory(
        instance or "",
        "swe",
        told.steps(),
        environment(instance),
        Agent(model=text_in(value, "model_name_or_path")),
        Task(instance),
    )


def _predictions(blob: Blob) -> Iterator[tuple[int, Any, str | None]]:
    """(offset, value, key) of each prediction; the value is a `ParseError` where a line is not JSON."""
    if _by_line(blob):
        for offset, value in json_lines(blob):
            yield offset, value, None
        return
    whole, data = json_document(blob)
    if isinstance(whole, list):
        for offset, value in zip(places_by_lines(data, None, whole), whole, strict=True):
            yield offset, value, None
    elif isinstance(whole, dict) and "model_patch" not in whole:
        place = 0
        for key, value in whole.items():
            found = data.find(json_text(key).encode("utf-8", "surrogatepass") + b":", place)
            place = found if found >= 0 else place
            yield max(found, 0), value, key
    else:
        yield 0, whole, None


def _by_line(blob: Blob) -> bool:
    """Whether the first line that is not blank is a prediction, or a damaged one where the file is no document."""
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
