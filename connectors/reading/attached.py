"""Non-text parts of a log, such as screenshots, as attachments: by the digest of their bytes.

An attachment does not carry its bytes, since that would keep every image of a log in memory. A keeper receives the
bytes when a connector computes the digest, and decides later which of them belong to the results.
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
    """Receiver of the bytes of attachments; the same bytes may be offered more than once."""

    def take(self, sha256: str, data: bytes) -> None:
        """Receive bytes that a log contains."""

    def refer(self, sha256: str, blob: Blob, member: str) -> None:
        """Receive a member that a log refers to, which can be read as long as the log."""


_KEEPER: Final[ContextVar[Keeper | None]] = ContextVar("keeper", default=None)
"""Keeper of the current thread's work: connectors make attachments many calls below `parse`."""


@contextmanager
def hand_to(keeper: Keeper | None) -> Iterator[None]:
    """Give the keeper the attachments of this thread's connectors within the context; None for no keeper."""
    before = _KEEPER.set(keeper)
    try:
        yield
    finally:
        _KEEPER.reset(before)


def digest_of(data: bytes) -> str:
    """Return the sha256 of an attachment's bytes, 64 hex digits, and give the bytes to the keeper."""
    sha256 = hashlib.sha256(data).hexdigest()
    keeper = _KEEPER.get()
    if keeper is not None:
        keeper.take(sha256, data)
    return sha256


def attachment_of_bytes(data: bytes, role: str, media_type: str | None, name: str | None = None) -> Attachment:
    """Return the attachment of bytes that a log contains.

    Args:
        role: Role of the bytes: screenshot, image, audio, document, or the log's own word.
        media_type: Media type, if it is known.
    """
    return Attachment(digest_of(data), role, media_type, name)


def attachment_of_member(
    blob: Blob, member: str, role: str, media_type: str | None, name: str | None = None
) -> Attachment:
    """Return the attachment of a file of a log; arguments as in `attachment_of_bytes`, named after the member."""
    sha256 = blob.digest(member)
    keeper = _KEEPER.get()
    if keeper is not None:
        keeper.refer(sha256, blob, member)
    return Attachment(sha256, role, media_type, member if name is None else name)
