"""Parts of a log that no text can show, such as screenshots, as attachments: by the digest of their bytes.

The bytes do not travel with the attachment, which would hold every picture of a log in memory. Whoever wants them is
given them where a connector makes the digest, and decides later which of them belong to what was read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

from trajmill.connectors.connector import Blob
from trajmill.schemas import Attachment


class Keeper(Protocol):
    """Whoever wants the bytes that attachments stand for; the same ones may be offered more than once."""

    def take(self, sha256: str, data: bytes) -> None:
        """Is given bytes that stand in a log."""

    def refer(self, sha256: str, blob: Blob, member: str) -> None:
        """Is told of a member that a log refers to, which can be read as long as the log is."""


_KEEPER: Final[ContextVar[Keeper | None]] = ContextVar("keeper", default=None)
"""Of the work that a thread does: connectors make attachments many calls below `parse`."""


@contextmanager
def hand_to(keeper: Keeper | None) -> Iterator[None]:
    """While it lasts, the keeper is given what this thread's connectors attach; None for nobody."""
    before = _KEEPER.set(keeper)
    try:
        yield
    finally:
        _KEEPER.reset(before)


def digest_of(data: bytes) -> str:
    """sha256 of bytes that an attachment is going to stand for, 64 hex digits."""
    sha256 = hashlib.sha256(data).hexdigest()
    keeper = _KEEPER.get()
    if keeper is not None:
        keeper.take(sha256, data)
    return sha256


def attachment_of_bytes(data: bytes, role: str, media_type: str | None, name: str | None = None) -> Attachment:
    """The attachment of bytes that stand in a log.

    Args:
        data: the bytes.
        role: what they show: screenshot, image, audio, document, or the log's own word.
        media_type: if it is known.
        name: how the log calls them.
    """
    return Attachment(digest_of(data), role, media_type, name)


def attachment_of_member(
    blob: Blob, member: str, role: str, media_type: str | None, name: str | None = None
) -> Attachment:
    """The attachment of a file that belongs to a log; arguments as of `attachment_of_bytes`, its name by default."""
    sha256 = blob.digest(member)
    keeper = _KEEPER.get()
    if keeper is not None:
        keeper.refer(sha256, blob, member)
    return Attachment(sha256, role, media_type, member if name is None else name)
