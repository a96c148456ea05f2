r"""Predictions for SWE-bench: submitted patches, each of which belongs to the folder in which it was evaluated.

>>> show(SwebenchPredictions(), '''
... {"instance_id": "acme__lamp-1", "model_name_or_path": "parrot-2", \
...  "model_patch": "--- a/lamp.py\\n+++ b/lamp.py\\n@@ -1 +1 @@\\n-off\\n+on\\n"}
... ''')
refused | no_observation

The file is JSON Lines, a JSON array, or an object keyed by instance; each prediction has `instance_id`, `model_patch`
and `model_name_or_path`. It does not hold the results of the tests: a plan pairs each prediction with the folder of its
instance and model, at any location, and `swebench_eval` makes a transition of both. A prediction that no folder answers
is refused as `no_observation`, one without a patch as `empty_patch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.fields import brief, object_of, text_in
from trajmill.connectors.swe.predictions import numbers_answered_elsewhere, records
from trajmill.schemas import ParseError, Reject, Trajectory

_CONVERSATIONS: Final = (
    *(b'"messages":', b'"trajectory":', b'"history":', b'"messages" :', b'"test_result":'),
    b'"responses_create_params":',
)


class SwebenchPredictions(Connector):
    """Predictions for SWE-bench."""

    name: ClassVar[str] = "swebench_predictions"
    version: ClassVar[str] = "6"
    domains: ClassVar[tuple[str, ...]] = ("swe",)
    title: ClassVar[str] = "SWE-bench predictions (JSONL or JSON; rejected: no answer without an evaluation)"

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
        elsewhere = numbers_answered_elsewhere(blob)
        empty = True
        for number, (offset, value, key) in enumerate(records(blob)):
            if number in elsewhere:
                continue
            empty = False
            if isinstance(value, ParseError):
                yield Reject.of(value, "record", self.name)
            else:
                yield self._refused(blob, offset, value, key)
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no prediction is left to be read here")

    def _refused(self, blob: Blob, offset: int, value: Any, key: str | None) -> Reject:
        """Return the reject of a prediction without an answer."""
        unit, count = "record", 0
        record = object_of(value)
        instance, patch = text_in(record, "instance_id") or key, record.get("model_patch")
        if "model_patch" not in record:
            reason, detail = "bad_prediction", "wanted an object with `model_patch`"
        elif patch is None or (isinstance(patch, str) and not patch.strip()):
            reason, detail = "empty_patch", f"instance {brief(instance)} has no patch"
        elif not isinstance(patch, str):
            reason, detail = "bad_prediction", "wanted text as `model_patch`"
        else:
            unit, count, reason = "trajectory", 1, "no_observation"
            model = brief(text_in(record, "model_name_or_path"))
            detail = f"nothing answers this patch: no evaluation of {brief(instance)} by {model} is among the raw files"
        return Reject(unit, reason, detail[:200], blob.uri, offset=offset, connector=self.name, transitions=count)
