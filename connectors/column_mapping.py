"""Mapping of a table's rows in a recipe: their layout, and the column of each value.

The recipe checks the values, and `layouts` reads rows by them. They are part of a blob's choices, so this module
imports no connector module.
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
"""Roles of columns that describe a whole trajectory."""

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
"""Roles that describe one step: fields of a step's struct (`steps`), columns of a row (`transitions`)."""

ROLES: Final[dict[Layout, tuple[str, ...]]] = {
    "messages": ("messages", *WHOLE),
    "steps": ("steps", *OF_STEP, *WHOLE),
    "log": ("content", *WHOLE),
    "transitions": (*OF_STEP, *WHOLE),
}
"""Roles of each layout."""

NEEDED: Final[dict[Layout, tuple[str, ...]]] = {
    "messages": ("messages",),
    "steps": ("steps", "action"),
    "log": ("content",),
    "transitions": ("id", "action"),
}
"""Roles that a layout requires; `steps` and `transitions` require an observation too."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Reading of a table's rows; with the defaults, the columns decide among the known layouts.

    Attributes:
        layout: `messages`: a row holds a conversation; `steps`: a row holds a list of steps; `log`: a row holds a whole
            log of another format; `transitions`: a row is one transition; None: the columns decide.
        columns: (role, column) pairs; a column is a name, or names joined by dots that lead into structs.
        domain: Domain of every trajectory, unless a column names it.
        format: Name of the connector that reads the logs of layout `log`.
        tool: Tool that an action of plain text calls; None: the text is the action as it stands.
        argument: Argument of that tool that holds the text.
        form: Form of the observations; None: the usual one of the domain.
        kind: Kind of the environment: `real`, `code` or `model`.
        world_model: `name@revision` of the model, if the kind is `model`.
        sampling: Its sampling settings as JSON text, if the kind is `model`.
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
        """Return the column with the role; None if there is none."""
        return self._by_role.get(role)


UNMAPPED: Final = Rows()
