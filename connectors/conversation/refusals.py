"""Rejects of conversation logs, in one form for all connectors that read them."""

from __future__ import annotations

from trajmill.connectors.connector import Blob
from trajmill.connectors.conversation.pairing import Unmatched
from trajmill.schemas import Reject

_DETAILS = {
    "result_without_call": "no open call of the conversation is answered by this result",
    "result_repeated": "the call was answered otherwise before",
}


def reject_conversation(
    blob: Blob, connector: str, offset: int, reason: str, detail: str, *, member: str = "", rows: int = 0
) -> Reject:
    """Build the reject of a whole conversation that begins at `offset`; `rows` is the number of lost transitions."""
    return Reject(
        "trajectory", reason, detail, blob.uri, member=member, offset=offset, connector=connector, transitions=rows
    )


def reject_unmatched(uri: str, connector: str, orphan: Unmatched, member: str = "") -> Reject:
    """Build the reject of a result without a call, with the beginning of its text."""
    result = orphan.result
    detail = f"{_DETAILS[orphan.reason]} (id {result.call_id!r:.80}, name {result.name!r:.80})"
    return Reject(
        "record",
        orphan.reason,
        detail,
        uri,
        member=member,
        offset=result.offset,
        connector=connector,
        excerpt=(result.content or "")[:1024],
    )
