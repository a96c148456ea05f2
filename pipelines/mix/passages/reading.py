"""Passages from the files of a component: the list of its files, and the content of their rows.

The recipe defines the meaning of the columns. A row that does not match it becomes a reject with its place; nothing is
guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from trajmill.connectors.connector import Blob
from trajmill.connectors.published.tables import Table
from trajmill.connectors.reading.values import JsonError, json_value
from trajmill.pipelines.mix.passages.passage import Message, Passage
from trajmill.pipelines.plan.raw_files import RawFile, list_raw
from trajmill.pipelines.recipe.columns import Dataset
from trajmill.pipelines.recipe.passages import Passages, is_licence
from trajmill.schemas import ConfigError, ParseError, Reject, json_text
from trajmill.schemas.trajectory import WORLD_MODEL

_ENDINGS: Final = re.compile(r"\.(?:jsonl?|ndjson|parquet|arrow)(?:\.(?:gz|zst|bz2|xz))?\Z")
_NO_TEXT: Final = re.compile(r"sha256:[0-9a-f]{64}")
"""Pattern of the replacement that `tables` makes for bytes that are not UTF-8."""

_ROLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human", "prompter"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bot", "model"), "assistant"),
    **dict.fromkeys(("tool", "function", "observation", "tool_response", "ipython"), "tool"),
}
"""Role of the speaker, by the words of common layouts (OpenAI, ShareGPT, OpenAssistant, Gemma, Llama)."""

_ENVIRONMENT, _REASONING = _TELLING = ("environment", "reasoning")
"""Columns by which rows state who answered them."""

_CALLS: Final = ("tool_calls", "function_call")
_CALLING: Final = frozenset(("function_call", "tool_call", "tool_calls"))


class _FaultError(Exception):
    """Error for a row that is no passage: a reason, and an explanation."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


def component_files(component: Passages) -> list[RawFile]:
    """List the tables at a component's path, sorted by name; all files if none has a table's ending.

    Raises:
        ConfigError: there is nothing there.
    """
    files = list_raw(component.path, Dataset(config=component.config, splits=component.splits))
    tables = [file for file in files if _ENDINGS.search(file.name) is not None] or files
    return sorted(tables, key=lambda file: file.name)


def check_columns(component: Passages, blob: Blob) -> None:
    """Check that a table has the columns that the component names. A table without a schema passes.

    Raises:
        ConfigError: a column is missing.
    """
    try:
        schema = Table(blob).schema
    except ParseError:
        return  # reading it tells the same, as a reject
    if schema is None:
        return
    names = list(schema.names)
    for column in _columns_of(component):
        if column not in names and column.partition(".")[0] not in names:
            nearest = get_close_matches(column, names, 1)
            message = f"Component '{component.name}' has no column '{column}' in {blob.uri}"
            raise ConfigError(f"{message}; it has {', '.join(names)}.", nearest[0] if nearest else None)


def _columns_of(component: Passages) -> list[str]:
    columns = component.columns
    named = (component.content, columns.tools, columns.id, columns.licence)
    return [*(name for name in named if name is not None), *component.where]


def read_passages(component: Passages, blob: Blob, *, simulated: bool = False) -> Iterator[Passage | Reject]:
    """Yield the rows of a table in order, with a reject in place of each row that is no passage or is not wanted.

    Args:
        component: meaning of the columns, and filters of rows.
        simulated: whether to accept rows that state that a world model answered them.
    """
    wanted = [*chain.from_iterable((column, column.partition(".")[0]) for column in _columns_of(component))]
    offset, begun = 0, False
    try:
        table = Table(blob)
        telling_columns = _telling(table.schema)
        for offset, row in table.rows([*wanted, *telling_columns]):
            begun = True
            if isinstance(row, ParseError):
                yield Reject.of(row)
                continue
            try:
                yield replace(_passage(component, offset, row), world_model=_world_model(row, allowed=simulated))
            except _FaultError as fault:
                yield Reject("record", fault.reason, fault.detail, blob.uri, offset=offset)
    except ParseError as error:
        yield replace(Reject.of(error, "record" if begun else "input"), excerpt="")


def _telling(schema: pa.Schema | None) -> list[str]:
    """Return the columns of a table that can state that a world model answered a row."""
    struct_columns = [] if schema is None else [field.name for field in schema if pa.types.is_struct(field.type)]
    return [name for name in _TELLING if name in struct_columns]


def _world_model(row: Mapping[str, Any], *, allowed: bool) -> str | None:
    """Return the world model that a row states as its author; None if there is none.

    `trajmill model reason` writes it in this form.
    """
    environments = [_at(row, name) for name in (_ENVIRONMENT, f"{_REASONING}.{_ENVIRONMENT}")]
    models = [
        environment
        for environment in environments
        if isinstance(environment, Mapping) and environment.get("kind") == "model"
    ]
    if not models:
        return None
    if not allowed:
        raise _FaultError("simulated", "a world model answered it, and the recipe does not say judge.simulated: allow")
    name, sampling = str(models[0].get("world_model") or ""), models[0].get("sampling")
    if re.fullmatch(WORLD_MODEL, name) is None or not _is_object(sampling):
        raise _FaultError("unstated_world_model", "wanted are world_model as name@revision, and sampling as an object")
    return name


def _is_object(value: Any) -> bool:
    try:
        return isinstance(json_value(value.encode()) if isinstance(value, str) else value, Mapping)
    except (JsonError, UnicodeEncodeError):
        return False


def _passage(component: Passages, offset: int, row: Mapping[str, Any]) -> Passage:
    columns = component.columns
    for column, values in component.where.items():
        if _at(row, column) not in values:
            raise _FaultError("not_wanted", f"where: column '{column}' has another value")
    value = _at(row, component.content)
    messages = (
        (Message("", _text(value, component.content)),) if component.kind == "text" else _messages(columns, value)
    )
    size = sum(len(message.content.strip()) for message in messages)
    if size < component.min_chars:
        raise _FaultError("too_short", f"{size} characters, and min_chars is {component.min_chars}")
    tools, native_id = _tools(_at(row, columns.tools)), _identity(_at(row, columns.id))
    for text in (*(message.content for message in messages), tools, native_id):
        if text is not None and _has_surrogate(text):
            raise _FaultError("lone_surrogate", "half of a pair of UTF-16 stands alone, which is no character")
    return Passage(offset, _licence(component, row), messages, native_id, tools)


def _at(row: Mapping[str, Any], column: str | None) -> Any:
    """Return a row's value in a column, which may be inside structs."""
    if column is None or column in row:
        return row.get(column) if column is not None else None
    value: Any = row
    for name in column.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _text(value: Any, column: str) -> str:
    if value is None:
        raise _FaultError("no_text", f"column '{column}' is empty")
    if not isinstance(value, str):
        raise _FaultError("not_text", f"column '{column}' holds a {type(value).__name__}, and text is wanted")
    if _NO_TEXT.fullmatch(value):
        raise _FaultError("not_utf8", f"column '{column}' holds bytes that are no UTF-8")
    return value


def _messages(columns: Any, value: Any) -> tuple[Message, ...]:
    if isinstance(value, str):
        try:
            value = json_value(value.encode("utf-8", "surrogatepass"))
        except JsonError as error:
            raise _FaultError("bad_messages", f"column '{columns.messages}' is no JSON: {error}") from error
    if not isinstance(value, list) or not value:
        raise _FaultError("no_messages", f"column '{columns.messages}' holds no list of messages")
    messages = tuple(_message(columns, entry) for entry in value)
    if not any(message.role == "assistant" and message.content.strip() for message in messages):
        raise _FaultError("no_target", "no message of an assistant to learn from")
    return messages


def _message(columns: Any, value: Any) -> Message:
    if not isinstance(value, Mapping):
        raise _FaultError("bad_messages", f"a message is a {type(value).__name__}, and an object is wanted")
    role = str(_at(value, columns.role)).strip().lower()
    if role in _CALLING or any(value.get(name) for name in _CALLS):
        raise _FaultError("tool_calls", "a message calls tools beside its text, which samples cannot show")
    if role not in _ROLES:
        raise _FaultError("unknown_role", f"nobody is known by the role '{role[:40]}'")
    return Message(_ROLES[role], _content(_at(value, columns.content), columns.content))


def _content(value: Any, column: str) -> str:
    """Return the text of a message; a message in parts gives the concatenation of its parts."""
    if value is None:
        return ""
    if isinstance(value, list):
        parts: list[Any] = [part.get("text") if isinstance(part, Mapping) else part for part in value]
        if not all(isinstance(part, str) for part in parts):
            raise _FaultError("not_text", "a message holds more than text")
        value = "".join(parts)
    return _text(value, column)


def _tools(value: Any) -> str | None:
    if value is None or value in ("", []):
        return None
    return value if isinstance(value, str) else json_text(value)


def _identity(value: Any) -> str | None:
    known = isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip()
    return str(value).strip() if known else None


def _licence(component: Passages, row: Mapping[str, Any]) -> str:
    value = _at(row, component.columns.licence)
    values: list[Any] = value if isinstance(value, list) else [value]
    statements = [statement.strip() for statement in values if isinstance(statement, str)]
    licence = " AND ".join(str(statement) for statement in statements if statement) or component.licence
    if licence is None:
        raise _FaultError("no_licence", f"column '{component.columns.licence}' states none")
    if not is_licence(licence):
        raise _FaultError("no_licence", f"'{licence[:80]}' is no SPDX id or expression")
    return licence


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
