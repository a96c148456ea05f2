"""Events of OpenHands in one form: actions, observations and messages.

Two families are read: events with `action` or `observation` (0.x), whose observations name their cause by its number
from 2024 on, and events with a `kind` (the agent SDK, 1.x), which use `action_id` and `tool_call_id`. This module pairs
nothing. Bookkeeping (state changes, recalls, condensation requests, null observations, state updates) is dropped.

For a file edited by OpenHands's own tool, the agent saw `formatted_output_and_error` if the log has it; `content` is
then a diff that the agent never saw. The model's call is taken from the raw reply in `tool_call_metadata`, since the
event holds it in translated form. If the reply was removed, the call's name and id are stored beside it, and its
arguments are translated back. Errors that state that there was no such call, or that nothing was done, are replies of
the harness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from trajmill.connectors.conversation.failures import is_failure
from trajmill.connectors.conversation.harness_text import Source, is_clients, read_output, speaker
from trajmill.connectors.conversation.opaque import attachment_of_url
from trajmill.connectors.conversation.sampled import sampled_in
from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.conversation.wrapped_output import Output, limit_of
from trajmill.connectors.reading.fields import key_of, text_in, whole_number_of
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.values import value_or_none
from trajmill.connectors.swe.actions import call, spoken
from trajmill.connectors.swe.answer import content_of, observe
from trajmill.schemas import Observation
from trajmill.schemas.record import record

CLIENT: Final = Source("openhands", None, "", failed=True)

_OWN_KEYS: Final = frozenset(
    {
        "agent_state",
        "blocking",
        "confirmation_state",
        "file_urls",
        "final_thought",
        "hidden",
        "image_urls",
        "images_urls",
        "impl_source",
        "is_confirmed",
        "is_static",
        "keep_prompt",
        "kernel_init_code",
        "outputs",
        "security_risk",
        "task_completed",
        "thought",
        "translated_ipython_code",
        "wait_for_response",
    }
)
"""Arguments that OpenHands adds to an action, or that are stored in other columns."""

_NESTED_KEYS: Final = frozenset({"args", "extras", "id", "source", "cause", "message", "tool_call_metadata"})
"""Every event has at least one of these keys, except those of OpenHands's resolver for issues."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH: Final = _EPOCH.replace(tzinfo=None)
_MICROSECOND: Final = timedelta(microseconds=1)

_PARAMETERS: Final = {
    "execute_bash": ("command",),
    "execute_ipython_cell": ("code",),
    "str_replace_editor": ("command", "path", "file_text", "old_str", "new_str", "insert_line", "view_range"),
}
"""Parameters of OpenHands's tools among the arguments of their events."""

_RUN: Final = ("run", "run_ipython")
_NO_OBSERVATIONS: Final = frozenset({"agent_state_changed", "null", "recall", "agent_condensation"})
_SHELLS: Final = frozenset({"execute_bash", "terminal", "bash"})
_NO_ACTIONS: Final = frozenset({"change_agent_state", "null", "recall", "condensation_request", "send_pr", "push"})


@record
class Did:
    """An action: its event's id, what its observations may name instead, and the model's reply that it came from.

    `at` is in microseconds on the log's own clock, which is UTC if `is_utc`. `sampled` is what the model sampled for a
    reply that has this call alone.
    """

    action: Call
    offset: int
    ident: str | None
    reply: str | None
    at: int | None
    is_utc: bool
    ends: bool = False
    sampled: str | None = None


@record
class Shown:
    """An observation, the event that caused it if stated, and the end of the command by the harness's words."""

    seen: Observation | None
    offset: int
    cause: str | None
    exit_code: int | None = None
    at: int | None = None
    told: Output = Output(None)
    alone: bool = False
    """An error that may answer nothing, because no call could be parsed at all."""


@record
class Said:
    """A message to the agent from the user or harness, or its initial prompt (`system`) or tools (`tools`)."""

    role: str
    text: str
    seen: Observation | None = None
    at: int | None = None


@record
class Gap:
    """Gap left by events that the log lost: actions, observations and messages are unknown here."""


Event: TypeAlias = Did | Shown | Said | Gap


class BadEventError(Exception):
    """Error for an event that cannot be kept; the message explains why."""


def event_of(value: Any, offset: int) -> list[Event]:
    """Convert an event of the log to events in order; empty for bookkeeping.

    Raises:
        BadEventError: the value is no event.
    """
    if not isinstance(value, dict):
        raise BadEventError("wanted an object")
    if isinstance(value.get("action"), str):
        return _read_action(value, offset)
    if isinstance(value.get("observation"), str):
        return _read_observation(value, offset)
    if isinstance(value.get("kind"), str):
        return _of_kind(value, offset)
    raise BadEventError("wanted an `action`, an `observation` or a `kind`")


def _is_flat(value: Mapping[str, Any]) -> bool:
    """Check if an event has its arguments or extras at the top level, and no source, as the resolver writes it."""
    return _NESTED_KEYS.isdisjoint(value)


def _source(value: Mapping[str, Any]) -> Any:
    """Return the source of an event; a flat message that waits for no answer is an input to the agent."""
    if _is_flat(value) and value.get("action") == "message" and value.get("wait_for_response") is not True:
        return "user"
    return value.get("source")


def _read_action(value: Mapping[str, Any], offset: int) -> list[Event]:
    name, own_args = value["action"], value.get("args")
    if _is_flat(value):
        own_args = {key: member for key, member in value.items() if key != "action"}
    args: Mapping[str, Any] = own_args if isinstance(own_args, dict) else {}
    at, is_utc = moment(value.get("timestamp"))
    typed = _source(value) == "user"
    if name in _NO_ACTIONS:
        return []
    if name == "system":
        tools = shallow_json(args["tools"]) if isinstance(args.get("tools"), list) else None
        prompts: list[Event] = [Said("system", text)] if (text := text_in(args, "content")) else []
        return [*prompts, Said("tools", tools)] if tools is not None else prompts
    if name == "condensation":
        return [Said("harness", summary)] if (summary := text_in(args, "summary")) else []
    if name == "message" and typed:
        text = text_in(args, "content") or text_in(value, "message") or ""
        role = _speaker(text)
        return [Said(role, text, observe(_with_images(text, args.get("image_urls")), role), at)]
    if typed and name not in ("run", "run_ipython", "read", "write", "edit"):
        return []
    reply, own = _find_call(value)
    ident = key_of(value.get("id"))
    if name == "message":
        action: Call | None = spoken(text_in(args, "content") or "", text_in(args, "thought"))
    else:
        action = _call(name, args, value, own)
    if action is None:
        raise BadEventError("the arguments of an action are nested too deeply")
    if name in _RUN:
        action.limit = limit_of(args.get("timeout")) or limit_of(value.get("timeout"))
    ends = name in ("finish", "reject")
    sampled = own.get("sampled")
    return [
        Did(action=action, offset=offset, ident=ident, reply=reply, at=at, is_utc=is_utc, ends=ends, sampled=sampled)
    ]


def _call(name: str, args: Mapping[str, Any], value: Mapping[str, Any], own: Mapping[str, Any]) -> Call | None:
    thought = text_in(args, "thought") if name != "think" else None
    message = None
    if name == "finish":
        message = text_in(args, "final_thought") or thought or text_in(value, "message")
        thought = None
    inner = text_in(own, "reasoning_content")
    reasoning = f"{inner}\n\n{thought}" if inner and thought else inner or thought
    function = own.get("call")
    if isinstance(function, dict):
        function_arguments = function.get("arguments")
        arguments = function_arguments if isinstance(function_arguments, str | dict) else {}
        return call(function["name"], arguments, text_in(own, "id"), message, reasoning)
    own_arguments = {
        key: member for key, member in args.items() if (key not in _OWN_KEYS or name == "think") and member is not None
    }
    tool = text_in(own, "tool")
    if tool is not None:
        own_arguments = _tool_arguments(name, tool, own_arguments)
    return call(tool or name, own_arguments, text_in(own, "id"), message, reasoning)


def _tool_arguments(name: str, tool: str, event_arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an event in the form that its tool received."""
    if name == "call_tool_mcp":
        mcp_arguments = event_arguments.get("arguments")
        return mcp_arguments if isinstance(mcp_arguments, dict) else {}
    if name == "browse_interactive":
        return {"code": event_arguments.get("browser_actions", "")}
    if name == "read" and tool == "str_replace_editor":
        event_arguments = {"command": "view", **event_arguments}
    asked = {"is_input": "true"} if event_arguments.get("is_input") is True else {}
    names = _PARAMETERS.get(tool, event_arguments)
    return {key: member for key, member in event_arguments.items() if key in names} | asked


def _find_call(value: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the id of the model's reply, and the call in it that the event came from, as far as the log holds them."""
    metadata = value.get("tool_call_metadata")
    if not isinstance(metadata, dict):
        return None, {}
    response = metadata.get("model_response")
    reply = text_in(response, "id")
    ident = text_in(metadata, "tool_call_id")
    choices = response.get("choices") if isinstance(response, dict) else None
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = first.get("message")
    reply_message: Mapping[str, Any] = message if isinstance(message, dict) else {}
    asked = reply_message.get("tool_calls")
    calls = asked if isinstance(asked, list) else []
    for index, tool_call in enumerate(calls):
        if text_in(tool_call, "id") == ident and text_in(tool_call, "function", "name") is not None:
            inner = reply_message.get("reasoning_content") if index == 0 else None
            sampled = sampled_in(first) if len(calls) == 1 else None
            return reply, {
                "id": ident,
                "call": tool_call["function"],
                "reasoning_content": inner,
                "sampled": sampled,
            }
    return reply, {"id": ident, "tool": text_in(metadata, "function_name")}


def _read_observation(value: Mapping[str, Any], offset: int) -> list[Event]:
    name, beside = value["observation"], value if _is_flat(value) else value.get("extras")
    extras: Mapping[str, Any] = beside if isinstance(beside, dict) else {}
    if name in _NO_OBSERVATIONS:
        return []
    at, _ = moment(value.get("timestamp"))
    described = extras.get("metadata")
    metadata: Mapping[str, Any] = described if isinstance(described, dict) else {}
    origin = {"user_rejected": "user", "delegate": "agent", "think": "harness"}.get(name, "environment")
    folder = text_in(metadata, "working_dir") or text_in(extras, "url")
    content = text_in(extras, "formatted_output_and_error") if name == "edit" else None
    if name == "error":
        origin = speaker(text_in(value, "content") or "", CLIENT) or origin
    error = True if name == "error" else extras.get("error") is True if "error" in extras else None
    seen = observe(content or value.get("content"), origin, error, folder)
    shot = extras.get("screenshot")
    if seen is not None and isinstance(shot, str):
        image = attachment_of_url(shot, "image")
        images = () if image is None else (image,)
        seen = replace(seen, attachments=(*seen.attachments, *images))
    code = None
    for holder in (metadata, extras, value):
        if code is None:
            code = holder.get("exit_code")
    cause = key_of(value.get("cause"))
    beside = _around(metadata, extras)
    if seen is not None and seen.content and not beside.notes and name in _RUN:
        beside = read_output(seen.content, CLIENT)  # older versions write these words into the content
        seen = replace(seen, content=beside.text, uri=seen.uri or beside.folder)
    known = exit_code(code)
    return [Shown(seen=seen, offset=offset, cause=cause, exit_code=known, at=at, told=beside, alone=name == "error")]


def _around(metadata: Mapping[str, Any], beside: Mapping[str, Any]) -> Output:
    """Read the end of a command from the harness's words before and after its output, and the flag in `beside`."""
    before, after = metadata.get("prefix"), metadata.get("suffix")
    notes = tuple([words for words in (before, after) if isinstance(words, str) and words]) if before or after else ()
    output = read_output(after.strip("\n"), CLIENT) if isinstance(after, str) else Output(None)
    killed = output.killed or beside.get("timeout") is True
    return Output(None, output.exit_code, killed, output.limit, notes=notes)


def _of_kind(value: Mapping[str, Any], offset: int) -> list[Event]:
    """Convert an event of the agent SDK."""
    kind = value["kind"]
    at, is_utc = moment(value.get("timestamp"))
    if kind == "SystemPromptEvent":
        prompt = content_of(
            [prompt_part for key in ("system_prompt", "dynamic_context") if (prompt_part := value.get(key))]
        ).text
        tools = shallow_json(value["tools"]) if isinstance(value.get("tools"), list) else None
        prompts: list[Event] = [Said("system", prompt)] if prompt else []
        return [*prompts, Said("tools", tools)] if tools is not None else prompts
    if kind == "MessageEvent":
        message = value.get("llm_message")
        content = message.get("content") if isinstance(message, dict) else None
        text = content_of(content).text or ""
        if value.get("source") == "agent":
            action = spoken(text, text_in(message, "reasoning_content"))
            return [Did(action, offset, key_of(value.get("id")), None, at, is_utc)]
        role = _speaker(text) if value.get("source") == "user" else "harness"
        return [Said(role, text, observe(content, role), at)]
    if kind == "ActionEvent":
        return [_sdk_action(value, offset, at, is_utc)]
    if kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        return [_sdk_observation(value, offset, at)]
    if kind == "Condensation":
        return [Said("harness", summary)] if (summary := text_in(value, "summary")) else []
    return []


def _sdk_action(value: Mapping[str, Any], offset: int, at: int | None, is_utc: bool) -> Did:
    tool_call = value.get("tool_call")
    function = (
        tool_call.get("function")
        if isinstance(tool_call, dict) and isinstance(tool_call.get("function"), dict)
        else tool_call
    )
    arguments: Any = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(arguments, str | dict):
        sdk_action = value.get("action")
        arguments = (
            {key: member for key, member in sdk_action.items() if key != "kind"} if isinstance(sdk_action, dict) else {}
        )
    name = text_in(function, "name") or text_in(value, "tool_name")
    if name is None:
        raise BadEventError("an action without the name of its tool")
    thought = content_of(value.get("thought")).text
    inner = text_in(value, "reasoning_content")
    reasoning = "\n\n".join(part for part in (inner, thought) if part) or None
    ident = text_in(value, "tool_call_id") or text_in(tool_call, "id")
    action = call(name, arguments, ident, None, reasoning)
    if action is None:
        raise BadEventError("the arguments of an action are nested too deeply")
    action.limit = _limit(arguments) if name in _SHELLS else None
    reply = text_in(value, "llm_response_id")
    return Did(
        action=action,
        offset=offset,
        ident=ident or key_of(value.get("id")),
        reply=reply,
        at=at,
        is_utc=is_utc,
        ends=name == "finish",
    )


def _limit(arguments: Any) -> float | None:
    """Return the time limit in seconds that an agent set for its command."""
    values = value_or_none(arguments) if isinstance(arguments, str) else arguments
    return limit_of(values.get("timeout")) if isinstance(values, dict) else None


def _sdk_observation(value: Mapping[str, Any], offset: int, at: int | None) -> Shown:
    cause = text_in(value, "tool_call_id") or text_in(value, "action_id")
    if value["kind"] == "AgentErrorEvent":
        return Shown(observe(value.get("error"), "harness", True), offset, cause, at=at, alone=True)
    if value["kind"] == "UserRejectObservation":
        return Shown(observe(value.get("rejection_reason"), "user"), offset, cause, at=at)
    sdk_observation = value.get("observation")
    inner: Mapping[str, Any] = sdk_observation if isinstance(sdk_observation, dict) else {}
    described = inner.get("metadata")
    metadata: Mapping[str, Any] = described if isinstance(described, dict) else {}
    content = next((inner[key] for key in ("content", "output", "error") if inner.get(key) is not None), None)
    if text_in(value, "tool_name") == "finish":
        content = None  # the agent's own words, said back
    origin = "harness" if text_in(value, "tool_name") == "think" else "environment"
    seen = observe(content, origin, is_failure(inner), text_in(metadata, "working_dir"))
    code = exit_code(metadata.get("exit_code", inner.get("exit_code")))
    return Shown(seen, offset, cause, code, at, _around(metadata, inner))


def exit_code(value: Any) -> int | None:
    """Return an exit code as logged; None for -1, by which OpenHands states that the command still runs."""
    code = whole_number_of(value)
    return code if code is not None and abs(code) < 2**31 and code != -1 else None


def moment(value: Any) -> tuple[int | None, bool]:
    """Return (microseconds on the log's clock, whether that is UTC) of an ISO 8601 timestamp; naive ones are local."""
    if not isinstance(value, str) or len(value) > 64:
        return None, False
    try:
        read = datetime.fromisoformat(value)
        aware = read.tzinfo is not None
        return (read - (_EPOCH if aware else _LOCAL_EPOCH)) // _MICROSECOND, aware
    except (ValueError, OverflowError):
        return None, False


def _speaker(text: str) -> str:
    """Return the role for a user's message: the harness, if an evaluation answers for the user."""
    return "harness" if is_clients(text, "openhands") else "user"


def _with_images(text: str, urls: Any) -> Any:
    if not isinstance(urls, list) or not urls:
        return text
    return [text, *({"image_url": url} for url in urls if isinstance(url, str))]
