"""Draft of a recipe from raw paths: their formats, domains and licences.

Only names, sizes and the first bytes of files are read, as by `plan`; the quality of the logs is not examined.

A table with unknown columns can be read only with a section of its own in the recipe. The meaning of the columns is
guessed from their names alone, so the section is drafted as a comment for a person to complete.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from trajmill.app.console import shown
from trajmill.connectors.published.row_lines import RowLines
from trajmill.connectors.published.tables import Table
from trajmill.connectors.registry import connector
from trajmill.pipelines.plan.column_mapping import TABLE
from trajmill.pipelines.plan.plan import Plan, make_plan
from trajmill.pipelines.plan.raw_files import gather
from trajmill.pipelines.recipe.columns import Dataset
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import builtin_recipes, load_recipe, parse_recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import RECIPE, RUN
from trajmill.pipelines.storage.paths import url_of
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.schemas import DOMAINS, ConfigError, ParseError

_ROWS: Final = 20
_SHOWN: Final = 20
"""Number of JSON Lines rows from which columns are read, and of columns that are named."""

_RECIPES: Final = (".yaml", ".yml")
_TABLES: Final = (".jsonl", ".ndjson", ".json")
SECTION: Final = "  # dataset:"
"""The line with which the drafted section begins."""

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
"""Usual column names by role, the most likely first."""

_OF_CONVERSATIONS: Final = {
    "id": _IDS,
    "messages": ("messages", "conversations", "conversation", "dialogue", "dialog", "chat", "turns", "history"),
    "instruction": ("instruction", "goal", "task_description", "task", "query"),
    "tools": ("tools", "functions"),
}
"""Usual column names by role for a table with a conversation in each row."""


def column_draft(plan: Plan, raws: Sequence[str], recipe: Recipe) -> tuple[list[str], list[str]]:
    """Draft `normalize.dataset` for the first table of unknown columns: a note, and lines of comments to correct.

    Both are empty if there is no such table.

    Args:
        recipe: that the plan was made with.
    """
    table = unknown_table(plan, raws, recipe)
    if table is None:
        return [], []
    name, columns = table
    more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    listed = ", ".join(columns[:_SHOWN]) + more
    talks = not {"action", "actions", *_USUAL["action"]} & set(columns) and {*_OF_CONVERSATIONS["messages"]} & set(
        columns
    )
    layout, usual = ("messages", _OF_CONVERSATIONS) if talks else ("transitions", _USUAL)
    roles = {
        role: next((candidate for candidate in names if candidate in columns), None) for role, names in usual.items()
    }
    needed = () if talks else ("id", "action")
    drafted = ", ".join(f"{role}: {column or '…'}" for role, column in roles.items() if column or role in needed)
    rows = (
        "a row is a conversation; or `steps`, `transitions`" if talks else "a row is one step; or `steps`, `messages`"
    )
    note = [
        f"# {name} has columns that no known layout has: {listed}.",
        "# `normalize.dataset` below says what they hold, guessed by their names. Correct it, remove the marks, and",
        "# see what `trajmill plan` says. All roles and layouts: docs/datasets.md.",
    ]
    return note, [
        SECTION,
        f"  #   layout: {layout}    # {rows}",
        f"  #   columns: {{{drafted}}}",
        "  #   domain: terminal       # of the rows: one of `domains` above",
    ]


def unknown_table(plan: Plan, raws: Sequence[str], recipe: Recipe) -> tuple[str, list[str]] | None:
    """Return the URI and columns of the first table that no known layout reads; None if there is none. Arguments as of
    `column_draft`.
    """
    return next(_unknown(plan, raws, recipe), None)


def _unknown(plan: Plan, raws: Sequence[str], recipe: Recipe) -> Iterator[tuple[str, list[str]]]:
    """Yield (uri, columns) of tables that no known layout reads: first those with a schema, then the others, by uri."""
    limit = recipe.normalize.max_member_bytes
    for log in plan.inputs:
        if log.connector == TABLE:
            blob = StoredBlob(log.uri, log.members, limit)
            with suppress(ParseError):
                table = Table(blob)
                if RowLines(blob, table).format() is None:
                    yield log.uri, list(table.schema.names) if table.schema is not None else []
    others = {reject.uri for reject in plan.unrecognized}
    for file in sorted(gather(raws, Dataset()), key=lambda file: file.name) if others else ():
        if file.name in others and not file.fault and any(end in file.name for end in _TABLES):
            blob = StoredBlob(file.name, {"": file.place}, limit)
            columns = _first_columns(blob)
            if columns and RowLines(blob, Table(blob)).format() is None:
                yield file.name, columns


def _first_columns(blob: StoredBlob) -> list[str]:
    """Return the names in the first rows of JSON Lines, in order of appearance."""
    names: dict[str, None] = {}
    with suppress(ParseError):
        for _, row in islice(Table(blob).rows(), _ROWS):
            if isinstance(row, ParseError):
                return []
            names.update(dict.fromkeys(row))
    return list(names)


_ODD: Final = re.compile(r"[^a-z0-9]+")


def parse_run_arguments(config: str, raws: Sequence[str], out: str | None) -> tuple[str, list[str], str]:
    """Return (recipe, raw logs, output folder) of a run that was given logs instead of a recipe, or a recipe and logs.

    For logs, the recipe is `recipe.yaml` in the output folder, which is drafted from them if it does not exist.

    Raises:
        ConfigError: There is neither a recipe nor a log of that name, or a recipe was given without logs.
    """
    is_recipe = config in builtin_recipes() or Path(config).suffix in _RECIPES or Path(config).name == RUN
    if not is_recipe and not raws and (Path(config).exists() or url_of(config) is not None):
        out = out or f"{config.rstrip('/')}-trajmill"
        folder = Folder(out)
        if folder.found(RECIPE) is None:
            folder.write(RECIPE, recipe_draft([config], folder.path(RECIPE), out).encode())
        return folder.path(RECIPE), [config], out
    load_recipe(config)
    if not raws:
        raise ConfigError(f"{config} is a recipe; say which logs it is for: --raw LOGS.")
    return config, list(raws), out or f"{raws[0].rstrip('/')}-trajmill"


def recipe_draft(raws: Sequence[str], written: str, out: str | None = None) -> str:
    """Draft a valid recipe for raw paths, with comments on the logs found there.

    It extends the built-in recipe of the domain, or `all` if the formats can hold several domains.

    Args:
        raws: Files, folders or globs.
        out: Output folder of that command; by default one below `out`.

    Raises:
        ConfigError: A path matches nothing, or none of the files has a supported format.
    """
    recipe = Recipe(name="init", source="init")
    plan = make_plan(recipe, raws)
    note, dataset = column_draft(plan, raws, recipe)
    if not plan.inputs and not dataset:
        raise ConfigError(
            f"None of the {len(plan.unrecognized):,} files is of a format that is read: see trajmill sniff."
        )
    formats = Counter(log.connector for log in plan.inputs)
    possible = {domain for name in formats for domain in connector(name).domains}
    domains = [domain for domain in DOMAINS if domain in possible or not possible]
    name = _name(raws[0])
    lines = [
        f"# trajmill run {shlex.quote(written)} --raw {shlex.join(raws)} --out {shlex.quote(out or f'out/{name}')}",
        f"# What was found: {', '.join(f'{key} {number:,}' for key, number in sorted(formats.items())) or 'no log'}.",
        *_unread_files_note(plan),
        *note,
    ]
    text = "".join(f"{shown(line)}\n" for line in lines)
    text += _values(name, domains, _licence(plan), "".join(f"{shown(line)}\n" for line in dataset))
    parse_recipe(text, "the draft")
    return text


def _name(raw: str) -> str:
    """Return a name from the last part of a path that is not a pattern."""
    parts = [part for part in raw.split("/") if not set(part) & set("*?[")]
    stem = Path(parts[-1]).name.partition(".")[0] if parts else ""
    return _ODD.sub("-", stem.lower()).strip("-") or "my-logs"


def _unread_files_note(plan: Plan) -> list[str]:
    """Return a comment line on the files that are not read, if there are any."""
    counts = Counter(reject.reason for reject in plan.unrecognized)
    listed = ", ".join(f"{reason} {number:,}" for reason, number in sorted(counts.items()))
    return [f"# Files that are not read: {listed}. `trajmill sniff` says which and why."] if listed else []


def _licence(plan: Plan) -> str:
    """Return the licence line: the licence that all inputs state, or a comment to fill in."""
    stated = {log.licence for log in plan.inputs}
    only = stated.pop() if len(stated) == 1 else None
    return f"licence: {json.dumps(only)}" if only else "# licence: CC-BY-4.0    # of the raw logs, as SPDX calls it"


def _values(name: str, domains: Sequence[str], licence: str, dataset: str) -> str:
    """Return the text of the recipe itself."""
    return f"""
name: {json.dumps(name)}
source: {json.dumps(name)}    # how rows name the corpus
{licence}
extends: {domains[0] if len(domains) == 1 else "all"}
domains: [{", ".join(domains)}]

normalize:
  grown: extend    # --append reads what a log that grew has added; `ignore` leaves such logs as they were read
{dataset}
# What stands here counts before what is extended: other bounds of a rule by its name, or null to remove it.
judge:
  rules:
    few_turns: {{signal: turns, min: 1}}
  # benchmarks:
  #   - {{name: my-qa, path: qa.jsonl, id: id, texts: question, answer: answer}}

mix:
  pools: {{cpt: 0.4, sft: 0.25, rl: 0.2, eval: 0.15}}
  window_tokens: {{cpt: 262144, sft: 262144}}
  # group_by: [repository]                     # or site, app, server: what is never parted between pools
  # stages:                                    # what is not named takes all that its pool holds
  #   cpt:
  #     budget: 2000000000                     # tokens under judge.tokenizer
  #     components:
  #       worlds: {{weight: 0.8, temperature: 2}}
  #       manuals: {{kind: text, weight: 0.2}}
  #   rl: {{max_per_group: 8}}
  # passages:
  #   - {{name: manuals, kind: text, path: manuals.jsonl, licence: CC0-1.0}}
"""
