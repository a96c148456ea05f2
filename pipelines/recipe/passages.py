"""The section of a recipe that names rows to pass through beside trajectories: professional corpora and replay data.

Each entry is a component of the mixture of kind `text` or `messages`. It gives the location of the rows, their columns
and the filters. The amount to draw is set in `mix.stages`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from trajmill.pipelines.recipe.section import LISTED, Section, Share
from trajmill.quality.settings import DATATROVE
from trajmill.schemas import DOMAINS, ConfigError

if TYPE_CHECKING:
    from trajmill.quality.signal import Signal

_SPDX: Final = re.compile(r"\(*[A-Za-z0-9][A-Za-z0-9.+-]*\)*(?: (?:AND|OR|WITH) \(*[A-Za-z0-9][A-Za-z0-9.+-]*\)*)*")
"""Form of an SPDX expression.

The ids are not checked against SPDX's list, since `LicenseRef-…` names any other licence.
"""

Kind = Literal["text", "messages"]
Value = str | bool | int | float


def _several(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,) if isinstance(value, Value) else value


Values = Annotated[tuple[Value, ...], BeforeValidator(_several)]


def is_licence(text: str) -> bool:
    """Return True if a text has the form of an SPDX expression, such as `Apache-2.0 OR MIT`."""
    return _SPDX.fullmatch(text) is not None and text.count("(") == text.count(")")


class PassageColumns(Section):
    """Columns by role. Names joined by dots lead into structs.

    Attributes:
        text: the text, for kind `text`.
        messages: the conversation, for kind `messages`: a list of messages or its JSON text.
        role: the field of a message that names the speaker: system, user, assistant or tool, or the words of other
            layouts for these, such as human and gpt.
        content: the field of a message that holds its text.
        tools: definitions of the tools, for kind `messages`.
        id: id of the row, or of the document that several rows are pieces of; these rows always share a pool.
        licence: the row's licence.
    """

    text: str = "text"
    messages: str = "messages"
    role: str = "role"
    content: str = "content"
    tools: str | None = None
    id: str | None = None
    licence: str | None = None


class Passages(Section):
    """A component of the mixture whose rows are passed through.

    Attributes:
        name: name in samples, folders and counts, where it is the domain of the rows.
        kind: `text` for documents, whose tokens all bear the loss; `messages` for conversations, whose assistant
            messages bear it.
        path: a file, a folder, a glob or `hf://owner/name`, of JSON Lines, JSON, Parquet or Arrow.
        config: configuration of a data set of the Hub; the default configuration if empty.
        splits: the splits whose files are read; all if empty.
        columns: the column of each role.
        source: the corpus name in every row; the component's name if empty.
        licence: SPDX id or expression for rows whose licence column is empty or missing.
        where: column → accepted values; rows with other values there are dropped.
        language: accepted language labels of the prose (see the signal `language`); any if empty.
        min_language: probability of these languages below which a row is dropped; rows with less than 100 bytes of
            prose are kept.
        filters: datatrove filters that a row has to pass, by class name, with their settings.
        min_chars: least number of characters of a row, without blanks at its ends.
        max_tokens: largest number of tokens of a row under `judge.tokenizer`; null sets no bound.
        overflow: treatment of a longer text: `windows` cuts it into pieces between paragraphs, `drop` drops it. A
            longer conversation is always dropped.
        control_tokens: `drop` for rows that hold a token of a chat template, `keep` to leave them.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    kind: Kind
    path: Annotated[str, Field(min_length=1)]
    config: str = ""
    splits: Annotated[tuple[str, ...], LISTED] = ()
    columns: PassageColumns = PassageColumns()
    source: str = ""
    licence: str | None = None
    where: dict[str, Values] = Field(default_factory=dict)
    language: Annotated[tuple[str, ...], LISTED] = ()
    min_language: Share = 0.5
    filters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    min_chars: Annotated[int, Field(ge=1)] = 1
    max_tokens: Annotated[int, Field(ge=1)] | None = 1 << 18
    overflow: Literal["drop", "windows"] = "windows"
    control_tokens: Literal["drop", "keep"] = "drop"

    @field_validator("name")
    @classmethod
    def _no_domain(cls, value: str) -> str:
        if value in DOMAINS:
            raise ValueError(f"'{value}' is a domain of trajectories; choose another name")
        return value

    @field_validator("licence")
    @classmethod
    def _spdx(cls, value: str | None) -> str | None:
        if value is not None and not is_licence(value):
            raise ValueError("wanted an SPDX id or expression, such as CC-BY-4.0, or LicenseRef- and a name")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.licence is None and self.columns.licence is None:
            raise ValueError("a licence is needed: an SPDX id, or columns.licence")
        if self.kind == "text" and self.columns.tools is not None:
            raise ValueError("columns.tools are of kind messages")
        try:
            self.signals()
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def corpus(self) -> str:
        """The corpus name that every row has."""
        return self.source or self.name

    @property
    def content(self) -> str:
        """The column of the passed-through content."""
        return self.columns.text if self.kind == "text" else self.columns.messages

    def signals(self) -> tuple[tuple[str, Signal, float], ...]:
        """Return (reason, signal, smallest value that passes) of all signals that are measured of a row.

        Raises:
            ConfigError: a language or a filter is not known, or datatrove is not installed.
        """
        from trajmill.quality.registry import make_signal

        signals: list[tuple[str, Signal, float]] = []
        if self.language:
            signals.append(
                ("other_language", make_signal("language", {"languages": [*self.language]}), self.min_language)
            )
        for name, settings in self.filters.items():
            signals.append((_reason(name), make_signal(DATATROVE + name, settings), 1.0))
        return tuple(signals)


def _reason(name: str) -> str:
    """Return a filter's name as the reason of a reject: `GopherQualityFilter` is `gopher_quality_filter`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def check_names(components: tuple[Passages, ...]) -> tuple[Passages, ...]:
    """Check that the names of components differ, and return the components.

    Raises:
        ValueError: two components have the same name.
    """
    names = [component.name for component in components]
    if len(set(names)) < len(names):
        raise ValueError("two components have one name")
    return components
