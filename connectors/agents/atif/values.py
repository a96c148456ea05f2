"""Values of an ATIF document as those of the schema, each checked before it is taken: documents are not trusted.

What ATIF has no field for stands under `extra.trajmill` of the document, a step, a call or a result, as
`pipelines.render.atif_documents` writes it. Nothing here knows the order of steps; see `steps`.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any, Final

from trajmill.connectors.conversation.content import media_type
from trajmill.connectors.conversation.harness_text import truncation
from trajmill.connectors.conversation.terminus_texts import TERMINUS, out_of_time
from trajmill.connectors.conversation.wrapped_output import Output
from trajmill.connectors.reading.fields import INT32, text_in, whole_number_of
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import Attachment, Environment, Observation, Outcome
from trajmill.schemas.trajectory import WORLD_MODEL
from trajmill.schemas.transition import (
    CONTEXT_ORIGINS,
    ENVIRONMENT_KINDS,
    OBSERVATION_FORMS,
    OBSERVATION_ORIGINS,
    TRUNCATIONS,
)

OWN: Final = "trajmill"
"""Key under `extra` of what ATIF has no field for."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

TERMINAL_HEADS: Final = (("New Terminal Output:\n", "stream"), ("Current Terminal Screen:\n", "screen"))
"""Lines that Terminus-2 puts before what the terminal showed, and the form of what follows."""

_WARNED: Final = "Previous response had warnings:\n"
_REFUSED: Final = "Previous response had parsing errors:\n"
_ASKED: Final = "\n\nAre you sure you want to mark the task as complete?"
_STATE: Final = "Current terminal state:\n"


NOTHING: Final[dict[str, Any]] = {}
"""Shared, since most steps have nothing under `extra`; never written to."""


def table(value: Any, key: str) -> dict[str, Any]:
    """The object under `key`, empty if there is none; not to be changed."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else NOTHING


def raw_result(extra: Any) -> dict[str, Any] | None:
    """Return what Harbor kept of an answer of Claude Code: its block with the content, and its tool's object beside it.

    None where it kept no block.
    """
    found = table(extra, "tool_result_metadata")
    return found if "content" in table(found, "raw_tool_result") else None


def is_filler(step: dict[str, Any], message: str) -> bool:
    """Whether Harbor wrote the message, since the agent called a tool and said nothing."""
    calls = items(step, "tool_calls")
    call = calls[0] if len(calls) == 1 else NOTHING
    return message == f"Executed {text_in(call, 'function_name')} {text_in(call, 'tool_call_id')}"


def own(value: Any) -> dict[str, Any]:
    """What stands under `extra.trajmill`, empty if nothing does; not to be changed."""
    extra = value.get("extra") if isinstance(value, dict) else None
    return table(extra, OWN) if extra else NOTHING


def items(value: Any, key: str) -> list[Any]:
    """The list under `key`, empty if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def flag(value: Any, key: str) -> bool | None:
    """The truth value under `key`, None if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, bool) else None


def number(value: Any, key: str) -> float | None:
    """The finite number under `key`, None if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, int | float) or isinstance(found, bool):
        return None
    try:
        return float(found) if math.isfinite(found) else None
    except OverflowError:
        return None


def int32(value: Any, key: str) -> int | None:
    """The integer of 32 bits under `key`, None if there is none."""
    return whole_number_of(value.get(key), INT32) if isinstance(value, dict) else None


def json_of(value: Any) -> str | None:
    """A value as JSON text; a string that is JSON text already as it is."""
    if isinstance(value, str):
        try:
            return shallow_json(json_value(value)) and value
        except ValueError:
            return None
    return None if value is None else shallow_json(value)


def _one_of(value: Any, key: str, options: tuple[str, ...], default: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) and found in options else default


def attachments(value: Any) -> tuple[Attachment, ...]:
    """The attachments that stand under `attachments`."""
    found = []
    for one in items(value, "attachments"):
        digest, role = text_in(one, "sha256"), text_in(one, "role")
        if digest is not None and role is not None and _DIGEST.fullmatch(digest):
            found.append(Attachment(digest, role, text_in(one, "media_type"), text_in(one, "name")))
    return tuple(found)


def observation(content: str | None, told: dict[str, Any], given: Observation) -> Observation:
    """The observation `given` with what is `told` of it under `extra.trajmill`."""
    return Observation(
        content=content,
        media_type=text_in(told, "media_type") or media_type(content),
        form=_one_of(told, "form", OBSERVATION_FORMS, given.form),
        dialect=text_in(told, "dialect"),
        origin=_one_of(told, "origin", OBSERVATION_ORIGINS, given.origin),
        is_error=flag(told, "is_error") if "is_error" in told else given.is_error,
        truncation=_one_of(told, "truncation", TRUNCATIONS, given.truncation),
        uri=text_in(told, "uri"),
        attachments=attachments(told) or given.attachments,
    )


def seen(told: dict[str, Any]) -> tuple[Observation | None] | None:
    """What stood before a step, in a tuple, where it is told; None where it is what was shown last."""
    if "observation" not in told:
        return None
    given = told["observation"]
    if not isinstance(given, dict):
        return (None,)
    content = given.get("content")
    return (observation(content if isinstance(content, str) else None, given, Observation(None)),)


def environment(told: dict[str, Any]) -> Environment | None:
    """The environment that is told, None if it is a world model's and does not say so whole.

    That is by its kind, its name and revision (`name@revision`), and its sampling, an object.
    """
    given = table(told, "environment")
    kind = _one_of(given, "kind", ENVIRONMENT_KINDS, "real")
    model, sampling = text_in(given, "world_model"), json_of(given.get("sampling"))
    if kind == "model" or model is not None or sampling is not None:
        named = kind == "model" and model is not None and re.fullmatch(WORLD_MODEL, model)
        if not named or sampling is None or not sampling.lstrip().startswith("{"):
            return None
    return Environment(
        text_in(given, "id"), text_in(given, "instance_id"), kind, text_in(given, "version"), model, sampling
    )


def context_origin(told: dict[str, Any]) -> str:
    """Whether the context was logged, derived or synthesized."""
    return _one_of(table(told, "context"), "origin", CONTEXT_ORIGINS, "logged")


def outcome(told: dict[str, Any]) -> Outcome | None:
    """The outcome that is told, None if none is."""
    given = table(told, "outcome")
    return Outcome(flag(given, "resolved"), number(given, "score"), text_in(given, "verifier")) if given else None


def terminal_output(content: str) -> tuple[Observation, Output]:
    """What a terminal showed, from an observation as Terminus-2 words it, and what the harness put around it."""
    if content.startswith(_REFUSED):
        return Observation(content, origin="harness"), Output(None)
    notes = []
    if content.startswith(_WARNED):
        warning, blank, rest = content.partition("\n\n")
        if blank:
            notes.append(warning)
            content = rest
    late = out_of_time(content)
    if late is not None:
        notes += late.notes
        content = late.text or ""
    if content.startswith(_STATE) and (place := content.rfind(_ASKED)) >= 0:
        notes.append(content[place:].lstrip("\n"))
        content = content[len(_STATE) : place]
    form = "response"
    for head, kind in TERMINAL_HEADS:
        if content.startswith(head):
            content, form = content[len(head) :], kind
            break
    cut = truncation(content, TERMINUS)
    told = replace(late or Output(None), text=None, notes=tuple(notes))
    return Observation(content, form=form, truncation=cut), told
