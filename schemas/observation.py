"""Observations: the Python form of the `observation` and `next_observation` columns."""

from __future__ import annotations

from trajmill.schemas.record import record


@record
class Attachment:
    """A blob that belongs to an observation, by digest; the fields are those of the schema's `attachments`."""

    sha256: str
    role: str
    media_type: str | None = None
    name: str | None = None


@record
class Observation:
    """One observation; the fields are those of the schema. None in place of it: the log does not hold it.

    `sensitive` is of no column: secrets that the log shows and that `content` only masks. Scrubbing hides them wherever
    else they stand in the trajectory.
    """

    content: str | None
    media_type: str = "text/plain"
    form: str = "response"
    dialect: str | None = None
    origin: str = "environment"
    is_error: bool | None = None
    truncation: str = "none"
    uri: str | None = None
    envelope: str | None = None
    sensitive: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
