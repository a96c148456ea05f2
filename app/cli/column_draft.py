"""The section of a recipe that says what a table's columns hold, drafted from their names, for who fills it in.

A table whose columns no known layout has is read only by such a section. What the columns mean is guessed by their
names and nothing else, so the draft is a comment, and a person decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from trajmill.connectors.published.row_lines import RowLines
from trajmill.connectors.published.tables import Table
from trajmill.pipelines.plan.column_mapping import TABLE
from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.plan.raw_files import gather
from trajmill.pipelines.recipe.columns import Dataset
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.schemas import ParseError

_ROWS: Final = 20
_SHOWN: Final = 20
"""How many rows of JSON Lines tell the columns, and how many columns are named."""

_TABLES: Final = (".jsonl", ".ndjson", ".json")
SECTION: Final = "# normalize:"
"""The line with which the section begins."""

_IDS: Final = (
    "episode_id", "trajectory_id", "traj_id", "session_id", "conversation_id", "conv_id", "dialogue_id", "chat_id",
    "run_id", "episode", "ep", "trajectory", "session", "id",
)  # fmt: skip
_USUAL: Final = {
    "id": _IDS,
    "instruction": ("instruction", "goal", "task_description", "task", "query"),
    "observation": ("observation", "obs", "state", "before", "input_state"),
    "action": ("action", "command", "cmd", "tool_call", "call", "act"),
    "next_observation": ("next_observation", "next_obs", "next_state", "output", "result", "response", "after"),
    "reward": ("reward",),
}
"""Role → names that its column usually has, the likeliest first."""

_OF_CONVERSATIONS: Final = {
    "id": _IDS,
    "messages": ("messages", "conversations", "conversation", "dialogue", "dialog", "chat", "turns", "history"),
    "instruction": ("instruction", "goal", "task_description", "task", "query"),
    "tools": ("tools", "functions"),
}
"""The same of a table each of whose rows is a conversation."""


def column_draft(plan: Plan, raws: Sequence[str], recipe: Recipe) -> list[str]:
    """Lines of comments that draft `normalize.dataset` for the first table of unknown columns; none if there is none.

    Args:
        plan: of the paths.
        raws: the paths.
        recipe: that the plan was made with.
    """
    found = unknown_table(plan, raws, recipe)
    if found is None:
        return []
    name, columns = found
    more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    held = ", ".join(columns[:_SHOWN]) + more
    talks = not {"action", "actions", *_USUAL["action"]} & set(columns) and {*_OF_CONVERSATIONS["messages"]} & set(
        columns
    )
    layout, usual = ("messages", _OF_CONVERSATIONS) if talks else ("transitions", _USUAL)
    roles = {role: next((one for one in names if one in columns), None) for role, names in usual.items()}
    needed = () if talks else ("id", "action")
    drafted = ", ".join(f"{role}: {column or '…'}" for role, column in roles.items() if column or role in needed)
    rows = (
        "a row is a conversation; or `steps`, `transitions`" if talks else "a row is one step; or `steps`, `messages`"
    )
    return [
        f"# {name} has columns that no known layout has: {held}.",
        "# It is read once the recipe says what they hold. This is a guess by their names: mend it, take the marks",
        "# away, and see what `trajmill plan` says. All roles and layouts: docs/datasets.md.",
        SECTION,
        "#   dataset:",
        f"#     layout: {layout}    # {rows}",
        f"#     columns: {{{drafted}}}",
        "#     domain: terminal       # of the rows: one of `domains` below",
    ]


def unknown_table(plan: Plan, raws: Sequence[str], recipe: Recipe) -> tuple[str, list[str]] | None:
    """Uri and columns of the first table that no known layout reads; None if there is none. Arguments as above."""
    return next(_unknown(plan, raws, recipe), None)


def _unknown(plan: Plan, raws: Sequence[str], recipe: Recipe) -> Iterator[tuple[str, list[str]]]:
    """(uri, columns) of tables that no known layout reads, in order of uri: those of a schema first."""
    limit = recipe.normalize.max_member_bytes
    for one in plan.inputs:
        if one.connector == TABLE:
            blob = StoredBlob(one.uri, one.members, limit)
            with suppress(ParseError):
                table = Table(blob)
                if RowLines(blob, table).format() is None:
                    yield one.uri, list(table.schema.names) if table.schema is not None else []
    others = {reject.uri for reject in plan.unrecognized}
    for file in sorted(gather(raws, Dataset()), key=lambda file: file.name) if others else ():
        if file.name in others and not file.fault and any(end in file.name for end in _TABLES):
            blob = StoredBlob(file.name, {"": file.place}, limit)
            columns = _written(blob)
            if columns and RowLines(blob, Table(blob)).format() is None:
                yield file.name, columns


def _written(blob: StoredBlob) -> list[str]:
    """The names in the first rows of JSON Lines, in the order in which they come."""
    names: dict[str, None] = {}
    with suppress(ParseError):
        for _, row in islice(Table(blob).rows(), _ROWS):
            if isinstance(row, ParseError):
                return []
            names.update(dict.fromkeys(row))
    return list(names)
