"""A recipe to begin with, drafted from what raw paths hold: which formats and domains, under which licences.

Only names, sizes and the first bytes of files are looked at, as by `plan`. What the logs are worth is not.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trajmill.app.cli.column_draft import column_draft
from trajmill.app.console import shown
from trajmill.connectors.registry import connector
from trajmill.pipelines.plan.plan import Plan, make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.schemas import DOMAINS, ConfigError

_ODD: Final = re.compile(r"[^a-z0-9]+")


def recipe_draft(raws: Sequence[str], written: str) -> str:
    """The text of a valid recipe for what the paths hold, with what was found as its comments.

    It extends the built-in recipe of the domain, or `all` where the formats can hold logs of several.

    Args:
        raws: files, folders or globs.
        written: where the recipe will be, for the command that runs it.

    Raises:
        ConfigError: a path names nothing, or none of the files is of a format that is read.
    """
    recipe = Recipe(name="init", source="init")
    plan = make_plan(recipe, raws)
    columns = column_draft(plan, raws, recipe)
    if not plan.inputs and not columns:
        raise ConfigError(
            f"None of the {len(plan.unrecognized):,} files is of a format that is read: see trajmill sniff."
        )
    formats = Counter(one.connector for one in plan.inputs)
    held = {domain for name in formats for domain in connector(name).domains}
    domains = [domain for domain in DOMAINS if domain in held or not held]
    name = _name(raws[0])
    lines = [
        f"# trajmill run {shlex.quote(written)} --raw {shlex.join(raws)} --out out/{name}",
        f"# What was found: {', '.join(f'{one} {number:,}' for one, number in sorted(formats.items())) or 'no log'}.",
        *_refused(plan),
        *columns,
    ]
    text = "".join(f"{shown(line)}\n" for line in lines) + _values(name, domains, _licence(plan))
    parse_recipe(text, "the draft")
    return text


def _name(raw: str) -> str:
    """A name after a path's last part that is no pattern."""
    parts = [part for part in raw.split("/") if not set(part) & set("*?[")]
    stem = Path(parts[-1]).name.partition(".")[0] if parts else ""
    return _ODD.sub("-", stem.lower()).strip("-") or "my-logs"


def _refused(plan: Plan) -> list[str]:
    """A line on files that are not read, if there are any."""
    counts = Counter(reject.reason for reject in plan.unrecognized)
    told = ", ".join(f"{reason} {number:,}" for reason, number in sorted(counts.items()))
    return [f"# Files that are not read: {told}. `trajmill sniff` says which and why."] if told else []


def _licence(plan: Plan) -> str:
    """The line of the licence: what all inputs state, or a place for it."""
    stated = {one.licence for one in plan.inputs}
    only = stated.pop() if len(stated) == 1 else None
    return f"licence: {json.dumps(only)}" if only else "# licence: CC-BY-4.0    # of the raw logs, as SPDX calls it"


def _values(name: str, domains: Sequence[str], licence: str) -> str:
    """The recipe itself."""
    return f"""
name: {json.dumps(name)}
source: {json.dumps(name)}    # how rows name the corpus
{licence}
extends: {domains[0] if len(domains) == 1 else "all"}
domains: [{", ".join(domains)}]

# What stands here counts before what is extended: other bounds of a rule by its name, or null to take it away.
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
