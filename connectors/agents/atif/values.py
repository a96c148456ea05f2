"""Values of an ATIF document, checked and converted to those of the schema, since documents are not trusted.

Facts that ATIF has no field for are stored under `extra.trajmill` of the document, a step, a call or a result, as
`pipelines.render.atif_documents` writes them. The order of steps is the concern of `steps`.
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
"""Key under `extra` for facts that ATIF has no field for."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

TERMINAL_HEADS: Final = (("New Terminal Output:\n", "stream"), ("Current Terminal Screen:\n", "screen"))
"""Lines that Terminus-2 puts before the terminal's content, and the form of that content."""

_WARNED: Final = "Previous response had warnings:\n"
_REFUSED: Final = "Previous response had parsing errors:\n"
_ASKED: Final = "\n\nAre you sure you want to mark the task as complete?"
_STATE: Final = "Current terminal state:\n"


NOTHING: Final[dict[str, Any]] = {}
"""An empty dict shared by the many steps without `extra`; it is never written to."""


def table(value: Any, key: str) -> dict[str, Any]:
    """Return the object under `key`, empty if there is none. The result must not be changed."""
    entry = value.get(key) if isinstance(value, dict) else None
    return entry if isinstance(entry, dict) else NOTHING


def raw_result(extra: Any) -> dict[str, Any] | None:
    """Return the content block and the tool's object that Harbor keeps beside an answer of Claude Code.

    None if it kept no block.
    """
    metadata = table(extra, "tool_result_metadata")
    return metadata if "content" in table(metadata, "raw_tool_result") else None


def is_filler(step: dict[str, Any], message: str) -> bool:
    """Return True if Harbor made up the message because the agent called a tool without a message."""
    calls = items(step, "tool_calls")
    call = calls[0] if len(calls) == 1 else NOTHING
    return message == f"Executed {text_in(call, 'function_name')} {text_in(call, 'tool_call_id')}"


def own(value: Any) -> dict[str, Any]:
    """Return the object under `extra.trajmill`, empty if there is none. The result must not be changed."""
    extra = value.get("extra") if isinstance(value, dict) else None
    return table(extra, OWN) if extra else NOTHING


def items(value: Any, key: str) -> list[Any]:
    """Return the list under `key`, empty if there is none."""
    entry = value.get(key) if isinstance(value, dict) else None
    return entry if isinstance(entry, list) else []


def flag(value: Any, key: str) -> bool | None:
    """Return the boolean under `key`; None if there is none."""
    entry = value.get(key) if isinstance(value, dict) else None
    return entry if isinstance(entry, bool) else None


def number(value: Any, key: str) -> float | None:
    """Return the finite number under `key`; None if there is none."""
    entry = value.get(key) if isinstance(value, dict) else None
    if not isinstance(entry, int | float) or isinstance(entry, bool):
        return None
    try:
        return float(entry) if math.isfinite(entry) else None
    except OverflowError:
        return None


def int32(value: Any, key: str) -> int | None:
    """Return the 32-bit integer under `key`; None if there is none."""
    return whole_number_of(value.get(key), INT32) if isinstance(value, dict) else None


def json_of(value: Any) -> str | None:
    """Return a value as JSON text. A string must be JSON text already and is returned as it is."""
    if isinstance(value, str):
        try:
            return shallow_json(json_value(value)) and value
        except ValueError:
            return None
    return None if value is None else shallow_json(value)


def _choose_option(value: Any, key: str, options: tuple[str, ...], default: str) -> str:
    entry = value.get(key)
    return entry if isinstance(entry, str) and entry in options else default


def attachments(value: Any) -> tuple[Attachment, ...]:
    """Return the attachments listed under `attachments`."""
    result = []
    for item in items(value, "attachments"):
        digest, role = text_in(item, "sha256"), text_in(item, "role")
        if digest is not None and role is not None and _DIGEST.fullmatch(digest):
            result.append(Attachment(digest, role, text_in(item, "media_type"), text_in(item, "name")))
    return tuple(result)


def observation(content: str | None, extension: dict[str, Any], default: Observation) -> Observation:
    """Return the observation `default` with the changes that the `extension` under `extra.trajmill` states."""
    return Observation(
        content=content,
        media_type=text_in(extension, "media_type") or media_type(content),
        form=_choose_option(extension, "form", OBSERVATION_FORMS, default.form),
        dialect=text_in(extension, "dialect"),
        origin=_choose_option(extension, "origin", OBSERVATION_ORIGINS, default.origin),
        is_error=flag(extension, "is_error") if "is_error" in extension else default.is_error,
        truncation=_choose_option(extension, "truncation", TRUNCATIONS, default.truncation),
        uri=text_in(extension, "uri"),
        attachments=attachments(extension) or default.attachments,
    )


def seen(extension: dict[str, Any]) -> tuple[Observation | None] | None:
    """Return the stated observation before a step, in a tuple; None if it is the last observation shown."""
    if "observation" not in extension:
        return None
    entry = extension["observation"]
    if not isinstance(entry, dict):
        return (None,)
    content = entry.get("content")
    return (observation(content if isinstance(content, str) else None, entry, Observation(None)),)


def environment(extension: dict[str, Any]) -> Environment | None:
    """Read the stated environment; None if it is a world model and its facts are incomplete.

    A world model needs its kind, its name and revision (`name@revision`), and its sampling settings as an object.
    """
    entry = table(extension, "environment")
    kind = _choose_option(entry, "kind", ENVIRONMENT_KINDS, "real")
    model, sampling = text_in(entry, "world_model"), json_of(entry.get("sampling"))
    if kind == "model" or model is not None or sampling is not None:
        named = kind == "model" and model is not None and re.fullmatch(WORLD_MODEL, model)
        if not named or sampling is None or not sampling.lstrip().startswith("{"):
            return None
    return Environment(
        text_in(entry, "id"), text_in(entry, "instance_id"), kind, text_in(entry, "version"), model, sampling
    )


def context_origin(extension: dict[str, Any]) -> str:
    """Return the origin of the context: logged, derived or synthesized."""
    return _choose_option(table(extension, "context"), "origin", CONTEXT_ORIGINS, "logged")


def outcome(extension: dict[str, Any]) -> Outcome | None:
    """Read the stated outcome; None if there is none."""
    entry = table(extension, "outcome")
    return Outcome(flag(entry, "resolved"), number(entry, "score"), text_in(entry, "verifier")) if entry else None


def terminal_output(content: str) -> tuple[Observation, Output]:
    """Split an observation of Terminus-2 into the terminal's content and the harness's words around it."""
    if content.startswith(_REFUSED):
        return Observation(content, origin="harness"), Output(None)
    notes = []
    if content.startswith(_WARNED):
        warning, blank, remainder = content.partition("\n\n")
        if blank:
            notes.append(warning)
            content = remainder
    late = out_of_time(content)
    if late is not None:
        notes += late.notes
        content = late.text or ""
    if content.startswith(_STATE) and (prompt_begin := content.rfind(_ASKED)) >= 0:
        notes.append(content[prompt_begin:].lstrip("\n"))
        content = content[len(_STATE) : prompt_begin]
    form = "response"
    for head, kind in TERMINAL_HEADS:
        if content.startswith(head) or content == head.rstrip("\n"):
            content, form = content[len(head) :], kind
            break
    cut = truncation(content, TERMINUS)
    output = replace(late or Output(None), text=None, notes=tuple(notes))
    return Observation(content, form=form, truncation=cut), output
