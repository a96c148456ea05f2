"""Answers of a served world model: what each says is observed, or why it is no observation.

Read as training wrote them: under the heading, or, where it was asked for tags, between these. An answer that holds no
observation is told as what it is, and never passed off as what a world showed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.synthesis.endpoint import DECLINED
from trajmill.synthesis.predictions import observation_in, unthought
from trajmill.synthesis.replies import Reply

_FILTERED: Final = "content_filter"


class Fault(StrEnum):
    """Why an answer is no observation.

    `refused`: the endpoint takes no such request. `declined`: the model would not answer, or its answer was held back.
    `cut`: it ends at the length that it may have. `silent`: it holds nothing. `malformed`: it holds no observation in
    the form that the model was trained to write.
    """

    REFUSED = "refused"
    DECLINED = "declined"
    CUT = "cut"
    SILENT = "silent"
    MALFORMED = "malformed"


class Observed(NamedTuple):
    """What a model says is observed, with the line that tells how a command ended; empty where nothing is shown."""

    text: str


def observed(reply: Reply, *, tagged: bool) -> Observed | Fault:
    """What an answer says is observed.

    Args:
        reply: of the model.
        tagged: whether it was asked to write that between tags.
    """
    if reply.finish == "refused":
        return Fault.REFUSED
    if reply.finish in (DECLINED, _FILTERED):
        return Fault.DECLINED
    if reply.finish == "length":
        return Fault.CUT
    if not reply.content.strip():
        return Fault.SILENT
    if tagged:
        found = observation_in(reply.content)
        return Fault.MALFORMED if found is None else Observed(found)
    text = unthought(reply.content)
    return Observed(text.removeprefix(MARKER)) if text.startswith(MARKER) else _bare(text)


def _bare(text: str) -> Observed | Fault:
    """An answer of which a server cut the blanks at its ends: a heading alone is an empty observation."""
    return Observed("") if text == MARKER.strip() else Fault.MALFORMED
