"""Rejects of logs of conversations, in one form for all connectors of this folder that read them."""

from __future__ import annotations

from trajmill.connectors.connector import Blob
from trajmill.connectors.conversation.pairing import Unmatched
from trajmill.schemas import Reject

_DETAILS = {
    "result_without_call": "no open call of the conversation is answered by this result",
    "result_repeated": "the call was answered otherwise before",
}


def refused(
    blob: Blob, connector: str, offset: int, reason: str, detail: str, *, member: str = "", rows: int = 0
) -> Reject:
    """The reject of a whole conversation that begins at `offset`; `rows` is how many transitions go with it."""
    return Reject(
        "trajectory", reason, detail, blob.uri, member=member, offset=offset, connector=connector, transitions=rows
    )


def unmatched(uri: str, connector: str, one: Unmatched, member: str = "") -> Reject:
    """The reject of a result that belongs to no call, with the beginning of what it says."""
    result = one.result
    detail = f"{_DETAILS[one.reason]} (id {result.call_id!r:.80}, name {result.name!r:.80})"
    return Reject(
        "record",
        one.reason,
        detail,
        uri,
        member=member,
        offset=result.offset,
        connector=connector,
        excerpt=(result.content or "")[:1024],
    )
