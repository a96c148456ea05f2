"""Mapping of a table's rows in a recipe: the layout that they have, and the column that holds each value.

Values only: the recipe checks them, `layouts` reads rows by them. It is part of a blob's choices, so it imports nothing
of the connectors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

Layout = Literal["messages", "steps", "log", "transitions"]

WHOLE: Final = (
    "id",
    "task",
    "instruction",
    "tools",
    "system",
    "initial_state",
    "agent",
    "model",
    "environment",
    "instance",
    "resolved",
    "score",
    "domain",
    "licence",
)
"""Roles of columns that tell something of a whole trajectory."""

OF_STEP: Final = (
    "action",
    "arguments",
    "observation",
    "next_observation",
    "message",
    "reasoning",
    "reward",
    "terminated",
    "truncated",
    "is_error",
    "exit_code",
    "started_at",
    "url",
)
"""Roles that tell something of one step: fields of a step's struct (`steps`), columns of a row (`transitions`)."""

ROLES: Final[dict[Layout, tuple[str, ...]]] = {
    "messages": ("messages", *WHOLE),
    "steps": ("steps", *OF_STEP, *WHOLE),
    "log": ("content", *WHOLE),
    "transitions": (*OF_STEP, *WHOLE),
}
"""The roles that each layout has."""

NEEDED: Final[dict[Layout, tuple[str, ...]]] = {
    "messages": ("messages",),
    "steps": ("steps", "action"),
    "log": ("content",),
    "transitions": ("id", "action"),
}
"""The roles without which a layout cannot be read; `steps` and `transitions` need an observation besides."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Reading of a table's rows; the defaults say nothing, and known layouts are told by their columns.

    Attributes:
        layout: `messages`: a row holds a conversation; `steps`: a row holds a list of steps; `log`: a row holds a whole
            log of another format; `transitions`: a row is one transition; None: to be told by the columns.
        columns: (role, column) pairs; a column is a name, or names joined by dots that lead into structs.
        domain: of every trajectory, unless a column says so.
        format: name of the connector that reads the logs of layout `log`.
        tool: the tool that an action of plain text is a call of; None: the text is the action as it stands.
        argument: the argument of that tool which the text is.
        form: form of the observations; None: the one usual in the domain.
        kind: kind of the environment: `real`, `code` or `model`.
        world_model: `name@revision` of the model, where the kind is `model`.
        sampling: its sampling settings as JSON text, where the kind is `model`.
    """

    layout: Layout | None = None
    columns: tuple[tuple[str, str], ...] = ()
    domain: str | None = None
    format: str | None = None
    tool: str | None = None
    argument: str = "input"
    form: str | None = None
    kind: str = "real"
    world_model: str | None = None
    sampling: str | None = None
    _by_role: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_role", dict(self.columns))

    def column(self, role: str) -> str | None:
        """The column that has the role, None if none has."""
        return self._by_role.get(role)


UNMAPPED: Final = Rows()
