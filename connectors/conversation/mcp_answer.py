"""Answers of a server of the Model Context Protocol as observations: texts, and the object that contained them.

The pairing of answers with requests is done elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trajmill.connectors.conversation.content import observation
from trajmill.connectors.conversation.mcp_content import resource_text, tool_result, without_data
from trajmill.connectors.conversation.mcp_envelope import cut_out, envelope
from trajmill.connectors.conversation.references import with_references
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.schemas import Observation


def response_observation(
    method: str, body: dict[str, Any], truncation: str = "none", text: str | bytes | None = None
) -> Observation | None:
    """Return the observation of a JSON-RPC response to a request of a method; None if it is nested too deeply.

    A protocol error becomes the JSON text of the error object, with its code; a null result beside it is ignored. Only
    a result has an envelope.

    Args:
        text: Text in the log that contains the response as JSON; None if it has no text of its own.
    """
    result = body.get("result")
    if not isinstance(result, dict):
        error = body.get("error") if result is None else None
        answer_text = error if isinstance(error, str) else shallow_json(result if error is None else error)
        return (
            None
            if answer_text is None
            else with_references(observation(answer_text, error is not None, (), truncation))
        )
    if method == "tools/call":
        content, attached = tool_result(result)
    elif method == "resources/read" and isinstance(result.get("contents"), list):
        content, attached = resource_text(result["contents"])
    else:
        attached = []
        content = shallow_json(without_data(result, attached))
    if content is None and not attached:
        return None
    seen = with_references(observation(content, result.get("isError") is True, attached, truncation))
    return None if seen is None else _add_envelope(seen, result, text)


def _add_envelope(seen: Observation, result: dict[str, Any], text: str | bytes | None) -> Observation:
    """Return an observation with its envelope and the attachments that only the envelope has."""
    envelope_text, attached = envelope(result, cut_out(result, text))
    known = {attachment.sha256 for attachment in seen.attachments}
    more = tuple({attachment.sha256: attachment for attachment in attached if attachment.sha256 not in known}.values())
    return replace(seen, envelope=envelope_text, attachments=(*seen.attachments, *more))
