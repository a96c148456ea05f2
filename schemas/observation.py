"""Observations: the Python form of the `observation` and `next_observation` columns."""

from __future__ import annotations

from trajmill.schemas.record import record


@record
class Attachment:
    """Blob that belongs to an observation, by digest; the fields are those of the schema's `attachments`."""

    sha256: str
    role: str
    media_type: str | None = None
    name: str | None = None


@record
class Observation:
    """One observation, with the fields of the schema's observation columns. None in its place means that the log does
    not hold it.

    `sensitive` belongs to no column. It lists secrets of the observation that `content` only masks; scrubbing hides
    them wherever else the trajectory contains them.
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
