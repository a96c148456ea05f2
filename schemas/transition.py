"""The transition schema: a row is one transition, (observation, action, next_observation), of one trajectory.

`TRANSITION_SCHEMA` is written by hand and is the contract between all stages. Each field documents its content, its
unit and the meaning of null, so that the JSON Schema and docs/schema.md are derived from it and cannot drift.

In memory, text columns are dictionary-encoded (`encode_schema`): a repeated text costs four bytes a row, and
observation and next_observation share one dictionary of texts. On disk the types are plain, so that any Parquet reader
can read them. `assembler` builds rows, `invariants` checks them.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import pyarrow as pa

from trajmill.schemas.domains import DOMAINS

SCHEMA_VERSION: Final = "6"
"""Version of the row format, in the metadata of every file; `migrations` describes older versions."""

VERSION_KEY: Final = b"trajmill.transition_schema"

ENVIRONMENT_KINDS: Final = ("real", "code", "model")
CONTEXT_ORIGINS: Final = ("logged", "derived", "synthesized")
OBSERVATION_FORMS: Final = ("screen", "stream", "state", "response")
OBSERVATION_ORIGINS: Final = ("environment", "user", "agent", "harness")
TRUNCATIONS: Final = ("none", "harness", "recorder")
RELATIONS: Final = ("subagent", "continuation", "branch")


def _field(name: str, kind: pa.DataType, doc: str, null: str = "", **more: str) -> pa.Field:
    """Return a field with its documentation. It is nullable exactly if `null` gives the meaning of null."""
    metadata = {"doc": doc, **({"null": null} if null else {}), **more}
    return pa.field(name, kind, nullable=bool(null), metadata=metadata)


def _choice(name: str, options: tuple[str, ...], doc: str, null: str = "") -> pa.Field:
    return _field(name, pa.string(), doc, null, options=",".join(options))


_S, _I, _B = pa.string(), pa.int32(), pa.bool_()
_ABSENT = "the log does not hold it"

ATTACHMENT: Final = pa.struct(
    [
        _field("sha256", _S, "SHA-256 digest of the blob, 64 hex digits; its key in the blob folder"),
        _field("media_type", _S, "media type, e.g. image/png", "not known"),
        _field("role", _S, "kind of content: screenshot, image, document, audio or the log's own word"),
        _field("name", _S, "the log's own file name or reference", _ABSENT),
    ]
)

OBSERVATION: Final = pa.struct(
    [
        _field("content", _S, "shown content as UTF-8 text", "only attachments hold it (a screenshot without text)"),
        _field("media_type", _S, "media type of content, e.g. text/plain, application/json"),
        _choice(
            "form",
            OBSERVATION_FORMS,
            "screen: everything visible now; stream: new output; state: a complete structured state; "
            "response: the answer to one call",
        ),
        _field("dialect", _S, "the text form within its media type, e.g. uitree/1, ansi-screen", "plain text"),
        _choice("origin", OBSERVATION_ORIGINS, "author of the content"),
        _field("is_error", _B, "whether the environment itself marked it as an error", "the log does not mark errors"),
        _choice(
            "truncation",
            TRUNCATIONS,
            "harness: the agent saw the cut text, so the cut is learnable; "
            "recorder: the log lost the rest, which bears no loss",
        ),
        _field("uri", _S, "location of the agent: URL, activity, working folder", _ABSENT),
        _field("attachments", pa.list_(pa.field("item", ATTACHMENT, nullable=False)), "blobs by digest, in order"),
        _field(
            "envelope",
            _S,
            "JSON text of the MCP result object that holds the content: as the log wrote it, "
            "else serialized again; opaque payloads are replaced by references",
            _ABSENT + ", or written before version 5",
        ),
    ]
)

ACTION: Final = pa.struct(
    [
        _field("name", _S, "the action or tool, in the domain's vocabulary or the log's own word"),
        _field("arguments", _S, "JSON text of an object: the original arguments", "the action takes none"),
        _field("call_id", _S, "the log's id of the call; not trusted to be unique", _ABSENT),
        _field("text", _S, "the action in the form that a model reads"),
        _field("message", _S, "text that the agent wrote with the action", "it wrote nothing, or " + _ABSENT),
        _field("reasoning", _S, "the agent's reasoning; never shown to a world model", _ABSENT),
        _field(
            "sampled",
            _S,
            "JSON text of {token_ids, logprobs}: what the model sampled for the whole turn, on its first call; "
            "logprobs has a number for each id, or is null",
            _ABSENT + ", scrubbing changed an action of the turn, or written before version 6",
        ),
    ]
)

ENVIRONMENT: Final = pa.struct(
    [
        _field("id", _S, "the environment: app package, site, image, server", _ABSENT),
        _field(
            "instance_id", _S, "one instance of the environment: container, device, repository at a commit", _ABSENT
        ),
        _choice("kind", ENVIRONMENT_KINDS, "real; code: a programmed simulator; model: predicted by a world model"),
        _field("version", _S, "its version", _ABSENT),
        _field("world_model", _S, "name@revision of the predicting model", "kind is not model"),
        _field("sampling", _S, "JSON text of the sampling settings", "kind is not model"),
    ]
)

AGENT: Final = pa.struct(
    [
        _field("name", _S, "the agent or harness that acted", _ABSENT),
        _field("version", _S, "its version", _ABSENT),
        _field("model", _S, "the model behind it", "a person or a script acted, or " + _ABSENT),
    ]
)

TASK: Final = pa.struct(
    [
        _field("id", _S, "the task's id in its corpus", _ABSENT),
        _field("instruction", _S, "what the agent was asked to do", _ABSENT),
    ]
)

CONTEXT: Final = pa.struct(
    [
        _field("action_space", _S, "JSON text of the available tools or actions", _ABSENT),
        _field("initial_state", _S, "the environment before the first action, as text", _ABSENT),
        _field("demonstrations", _S, "examples shown to the agent", _ABSENT),
        _field(
            "simulation_instruction",
            _S,
            "instruction to a simulator: the events that it is to bring about",
            "none was given",
        ),
        _field("agent_system", _S, "the agent's system prompt; never shown to a world model", _ABSENT),
        _choice("origin", CONTEXT_ORIGINS, "whether the fields above were logged, derived or synthesized"),
    ]
)

OUTCOME: Final = pa.struct(
    [
        _field("resolved", _B, "whether the task was solved", "not known"),
        _field("score", pa.float32(), "the verifier's score, in its own range", "not known"),
        _field("verifier", _S, "author of the verdict: test suite, reward model, the agent itself", "not known"),
    ]
)

PROVENANCE: Final = pa.struct(
    [
        _field("uri", _S, "the input, relative to the raw root it was found under, with / between folders"),
        _field("member", _S, "the file within a log of several files, or an archive's member; empty for one file"),
        _field(
            "offset",
            pa.int64(),
            "bytes into the decompressed member where the action's record begins; in Parquet and Arrow the row",
        ),
        _field("sha256", _S, "digest of the whole decompressed member, 64 hex digits"),
        _field("connector", _S, "connector that read the log"),
        _field("connector_version", _S, "its version"),
        _field("licence", _S, "SPDX id of the source's licence", "neither recipe, row nor dataset card says"),
    ]
)

TRANSITION_SCHEMA: Final = pa.schema(
    [
        _field(
            "row_id",
            _S,
            "the key, unique in the table and the same whenever the same inputs are read: `trajectory_id`-copy-`step`, "
            "where copy is 16 hex digits, derived from input and order, that distinguish trajectories with one id; "
            "verdicts hold it too",
        ),
        _field(
            "trajectory_id", _S, "sha256 of (connector, native_id, canonical content), 32 hex digits; copies share it"
        ),
        _field("native_id", _S, "the log's own id of the trajectory; not unique"),
        _field("step", _I, "0 … num_steps-1 in the order of the log; never renumbered"),
        _field("num_steps", _I, "transitions of the whole trajectory, over all segments"),
        _field("turn", _I, "0-based turn; the calls of one turn share it and its observation"),
        _field("call_index", _I, "0 … num_calls-1: place of the call in its turn"),
        _field("num_calls", _I, "calls in the turn"),
        _field("parent_trajectory_id", _S, "trajectory that started this one", "it has no parent"),
        _field("parent_step", _I, "step of the parent that started it", "it has no parent, or " + _ABSENT),
        _choice("relation", RELATIONS, "relation to the parent", "it has no parent"),
        _field("segment", _I, "0-based segment; a trajectory over 128 MB is split into several, between turns"),
        _field("num_segments", _I, "segments of the trajectory"),
        _choice("domain", DOMAINS, "domain of the trajectory"),
        _field("source", _S, "the corpus, as the recipe names it"),
        _field("environment", ENVIRONMENT, "the environment that answered"),
        _field("agent", AGENT, "the agent that acted"),
        _field("task", TASK, "the agent's task"),
        _field("context", CONTEXT, "context for a system prompt"),
        _field("observation", OBSERVATION, "observation before the action", _ABSENT),
        _field("action", ACTION, "the action"),
        _field("next_observation", OBSERVATION, "the environment's answer", _ABSENT),
        _field(
            "interleaved",
            _S,
            "messages between observation and action: a JSON array of {role, content}",
            "there were none",
        ),
        _field("reward", pa.float32(), "reward of the transition (Gymnasium)", _ABSENT),
        _field("terminated", _B, "the environment ended the episode here (Gymnasium)", _ABSENT),
        _field("truncated", _B, "a limit outside the task ended it here (Gymnasium)", _ABSENT),
        _field("outcome", OUTCOME, "outcome of the whole trajectory", "not known"),
        _field("exit_code", _I, "exit status of the command", "no process ended, or " + _ABSENT),
        _field("started_at", pa.timestamp("us", tz="UTC"), "when the action began", _ABSENT + ", or without a zone"),
        _field("duration_s", pa.float64(), "seconds from action to next observation, >= 0", _ABSENT),
        _field(
            "time_limit_s",
            pa.float64(),
            "seconds after which the harness kills the started process, if known before the action, > 0",
            _ABSENT,
        ),
        _field(
            "timed_out",
            _B,
            "whether the harness killed the started process at its time limit; the next observation is the output "
            "until then",
            _ABSENT + ", or written before version 4",
        ),
        _field("provenance", PROVENANCE, "location of the raw bytes"),
        _field(
            "scrubbed",
            _I,
            "number of placeholders that scrubbing put into the row's own texts: both observations, the action, "
            "interleaved; if it is not 0, an exact comparison with the environment's answer is not possible",
            "written before version 2",
        ),
    ],
    metadata={VERSION_KEY: SCHEMA_VERSION.encode()},
)

SHARED_TEXT: Final = tuple(
    f"{side}.{name}" for name in ("content", "envelope") for side in ("observation", "next_observation")
)
"""Columns whose texts share one dictionary in memory: observation and next_observation, for each field name."""

PLAIN_TEXT: Final = frozenset(
    {
        "row_id",
        *(f"action.{name}" for name in ("arguments", "call_id", "text", "message", "reasoning", "sampled")),
        "interleaved",
    }
)
"""Text columns that seldom repeat and stay plain in memory."""


def _encode_field(field: pa.Field, path: str, within_nullable: bool = False) -> pa.Field:
    kind = field.type
    nullable = field.nullable or within_nullable  # Parquet takes the empty places under a null struct for nulls
    if pa.types.is_struct(kind):
        kind = pa.struct([_encode_field(child, f"{path}.{child.name}", nullable) for child in kind.fields])
    elif pa.types.is_string(kind) and path not in PLAIN_TEXT:
        kind = pa.dictionary(pa.int32(), pa.string())
    return pa.field(field.name, kind, nullable=nullable)


@cache
def encode_schema(schema: pa.Schema = TRANSITION_SCHEMA) -> pa.Schema:
    """Return the schema of batches in memory: repeating text is dictionary-encoded, documentation is dropped."""
    return pa.schema([_encode_field(field, field.name) for field in schema], metadata=schema.metadata)


def dictionary_columns() -> list[str]:
    """Return the leaf paths (`context.action_space`) that a Parquet reader should return dictionary-encoded."""
    return [path for path, kind in leaves(encode_schema()) if pa.types.is_dictionary(kind)]


def leaves(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Return every non-struct column as (dotted path, type), in schema order."""

    def walk(field: pa.Field, path: str) -> list[tuple[str, pa.DataType]]:
        if pa.types.is_struct(field.type):
            return [leaf for child in field.type.fields for leaf in walk(child, f"{path}.{child.name}")]
        return [(path, field.type)]

    return [leaf for field in schema for leaf in walk(field, field.name)]


def _json_type(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_struct(kind):
        return _json_object(list(kind.fields))
    if pa.types.is_list(kind):
        return {"type": "array", "items": _json_type(kind.value_type)}
    if pa.types.is_timestamp(kind):
        return {"type": "string", "format": "date-time"}
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_integer(kind):
        return {"type": "integer"}
    if pa.types.is_floating(kind):
        return {"type": "number"}
    return {"type": "string"}


def _json_object(fields: list[pa.Field]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in fields:
        doc = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        spec = _json_type(field.type)
        if "options" in doc:
            options: list[str | None] = [*doc["options"].split(",")]
            spec["enum"] = [*options, None] if field.nullable else options
        if field.nullable:
            spec["type"] = [spec["type"], "null"]
        spec["description"] = doc["doc"] + (f"; null: {doc['null']}" if "null" in doc else "")
        properties[field.name] = spec
    return {
        "type": "object",
        "properties": properties,
        "required": [field.name for field in fields],
        "additionalProperties": False,
    }


def json_schema() -> dict[str, Any]:
    """Return the schema of one row as JSON Schema (draft 2020-12), derived from `TRANSITION_SCHEMA`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"trajmill/transition/{SCHEMA_VERSION}",
        "title": "trajmill transition",
        **_json_object(list(TRANSITION_SCHEMA)),
    }
