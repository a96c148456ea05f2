"""Values of a row's cells: by column, by the role that a recipe gives a column, and those of the whole trajectory.

Data sets hold all sorts of values, so a value counts only if it is of the type that its role wants; any other counts as
absent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from trajmill.connectors.column_mapping import Rows
from trajmill.connectors.conversation.calls import MessageError, action_space, json_of
from trajmill.connectors.reading.fields import brief, whole_number_of
from trajmill.connectors.reading.json_text import parse_if_json
from trajmill.schemas import DOMAINS, Outcome, Trajectory

FORMS: Final = {"terminal": "stream", "web": "screen", "os": "screen", "android": "screen"}
"""The usual form of observations of a domain; in the other domains it is `response`."""


def at(row: Mapping[str, Any], column: str | None) -> Any:
    """The value of a column, or of a field within it, named as `column.field`; None if there is none.

    A struct that is stored as JSON text is looked into as well.
    """
    if column is None:
        return None
    if column in row:
        return row[column]
    value: Any = row
    for name in column.split("."):
        value = parse_if_json(value)
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def role(row: Mapping[str, Any], rows: Rows, name: str) -> Any:
    """The value of the column to which the recipe gives the role; None if it gives it to none."""
    column = rows.column(name)
    return None if column is None else at(row, column)


def text(value: Any) -> str | None:
    """The value as text: a text that is not empty, or a number; None for anything else."""
    if isinstance(value, str):
        return value or None
    return str(value) if whole_number_of(value) is not None else None


def number(value: Any) -> float | None:
    """The value as a finite number; None if it is something else."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e30 and math.isfinite(value) else None


def truth(value: Any) -> bool | None:
    """True or False, also for 1 and 0; None for anything else, such as -1 for unknown."""
    return bool(value) if isinstance(value, bool | int | float) and value in (0, 1) else None


def cell_text(value: Any) -> str | None:
    """The value as text: a text as it is, any other as JSON text, None for null.

    Raises:
        MessageError: it nests too deeply.
    """
    return value if value is None or isinstance(value, str) else json_of(value)


def domain_of(row: Mapping[str, Any], rows: Rows, usual: str) -> str:
    """The domain that the row's column names, else the recipe, else the usual one.

    Raises:
        MessageError: the column names no domain.
    """
    column = rows.column("domain")
    domain = at(row, column)
    if column is None or domain is None:
        return rows.domain or usual
    if domain not in DOMAINS:
        raise MessageError("unknown_domain", f"column {column} is {brief(domain)}, wanted one of {', '.join(DOMAINS)}")
    return str(domain)


def complete_trajectory(trajectory: Trajectory, row: Mapping[str, Any], rows: Rows) -> Trajectory:
    """The trajectory with what the row's columns and the recipe say of it as a whole; else it keeps its values.

    Raises:
        MessageError: a value nests too deeply, or a domain is unknown.
    """

    def cell(name: str) -> str | None:
        return text(role(row, rows, name))

    environment = trajectory.environment
    if rows.kind != "real":
        environment = replace(environment, kind=rows.kind, world_model=rows.world_model, sampling=rows.sampling)
    resolved, score = truth(role(row, rows, "resolved")), number(role(row, rows, "score"))
    known = resolved is not None or score is not None
    return replace(
        trajectory,
        native_id=cell("id") or trajectory.native_id,
        domain=domain_of(row, rows, trajectory.domain),
        environment=replace(
            environment,
            id=cell("environment") or environment.id,
            instance_id=cell("instance") or environment.instance_id,
        ),
        agent=replace(
            trajectory.agent, name=cell("agent") or trajectory.agent.name, model=cell("model") or trajectory.agent.model
        ),
        task=replace(
            trajectory.task,
            id=cell("task") or trajectory.task.id,
            instruction=cell_text(role(row, rows, "instruction")) or trajectory.task.instruction,
        ),
        context=replace(
            trajectory.context,
            action_space=action_space(role(row, rows, "tools")) or trajectory.context.action_space,
            initial_state=cell_text(role(row, rows, "initial_state")) or trajectory.context.initial_state,
            agent_system=cell_text(role(row, rows, "system")) or trajectory.context.agent_system,
        ),
        outcome=Outcome(resolved, score, trajectory.outcome.verifier if trajectory.outcome else None)
        if known
        else trajectory.outcome,
        licence=cell("licence") or trajectory.licence,
    )
