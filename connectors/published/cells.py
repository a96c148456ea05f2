"""Values of a row's cells: by column, by the role that a recipe gives a column, and those of the whole trajectory.

Data sets hold values of all types. A value counts only if it has the type of its role; any other value counts as
absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from trajmill.connectors.column_mapping import Rows
from trajmill.connectors.conversation.calls import MessageError, action_space, json_of
from trajmill.connectors.reading.fields import brief, number_of, whole_number_of
from trajmill.connectors.reading.json_text import parse_if_json
from trajmill.schemas import DOMAINS, Outcome, Trajectory

FORMS: Final = {"terminal": "stream", "web": "screen", "os": "screen", "android": "screen"}
"""The usual form of observations of a domain; in the other domains it is `response`."""


def at(row: Mapping[str, Any], column: str | None) -> Any:
    """Return the value of a column, or of a field within it, named as `column.field`; None if there is none.

    A struct that is stored as JSON text is searched as well.
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
    """Return the value of the column that has the role in the recipe; None if no column has it."""
    column = rows.column(name)
    return None if column is None else at(row, column)


def text(value: Any) -> str | None:
    """Return the value as text: a non-empty text, or a number; None for anything else."""
    if isinstance(value, str):
        return value or None
    return str(value) if whole_number_of(value) is not None else None


def number(value: Any) -> float | None:
    """Return the value as a finite number; None for anything else."""
    return number_of(value, 1e30)


def truth(value: Any) -> bool | None:
    """Return True or False, also for 1 and 0; None for anything else, such as -1 for unknown."""
    return bool(value) if isinstance(value, bool | int | float) and value in (0, 1) else None


def cell_text(value: Any) -> str | None:
    """Return the value as text: a text as it is, other values as JSON text, None for null.

    Raises:
        MessageError: the value nests too deeply.
    """
    return value if value is None or isinstance(value, str) else json_of(value)


def domain_of(row: Mapping[str, Any], rows: Rows, usual: str) -> str:
    """Return the domain in the row's column, else the recipe's, else the usual one.

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
    """Complete the trajectory with the facts about the whole in the row's columns and the recipe.

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
