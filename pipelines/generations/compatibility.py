"""Compatibility of generations: the recipes and releases that may follow another one, and the rules of a folder.

Settings that decide how logs are judged and how much is drawn may change; they apply to new logs. Other settings may
not change: those by which data of earlier runs is compared (equality, groups and pools of nodes, tokens of budgets),
those that would change rows of earlier shards, and guarantees of the whole dataset. A key that is not listed here may
not change either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from trajmill.pipelines.generations.generations import Generation, stages_of
from trajmill.pipelines.generations.placed_nodes import VERSION as PLACES_VERSION
from trajmill.pipelines.publish.dataset import RuleSet
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import SALTED, parse_recipe
from trajmill.pipelines.recipe.templates import templates_digest
from trajmill.pipelines.storage.folders import Folder, sha256_of
from trajmill.pipelines.storage.ownership import RUN
from trajmill.quality import scrub, sketch, spans
from trajmill.quality.fingerprint import TRANSITION_TEXTS
from trajmill.schemas import SCHEMA_VERSION, ConfigError

FREE: Final = (
    "source", "licence", "domains", "card", "normalize.dataset",
    "normalize.connectors", "normalize.grown", "normalize.max_member_bytes",
    "normalize.max_reject_ratio", "normalize.max_unrecognized_ratio",
    "judge.include", "judge.exclude", "judge.signals", "judge.measure", "judge.rules", "judge.simulated",
    "judge.prefer", "judge.max_share", "judge.max_per_task", "judge.replicates.max", "judge.harness_text",
    "mix.stages", "mix.values", "mix.shard_bytes",
)  # fmt: skip
"""Keys that may change, including all keys below them."""

_SALT: Final = ("normalize", "scrub_salt")
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Change:
    """A value that differs between a recipe and a later one.

    Attributes:
        key: the key's path, joined by dots.
        before: the value as JSON; None if there is none.
        after: the later value as JSON; None if there is none.
    """

    key: str
    before: Any
    after: Any

    @property
    def is_free(self) -> bool:
        """True if a later generation may have the new value."""
        return any(self.key == name or self.key.startswith(f"{name}.") for name in FREE)

    def __str__(self) -> str:
        if self.key == ".".join(_SALT):
            return f"{self.key} is another"
        return f"{self.key}: {_shown(self.before)} → {_shown(self.after)}"


def _shown(value: Any) -> str:
    text = json.dumps(_prune(value), ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _prune(value: Any) -> Any:
    """Remove empty values from mappings."""
    if not isinstance(value, dict):
        return value
    pruned = {name: _prune(member) for name, member in value.items()}
    return {name: member for name, member in pruned.items() if member not in (None, [], {})}


def record_values(recipe: Recipe) -> dict[str, Any]:
    """Return the values of a recipe for a generation's manifest, with a digest in place of the salt."""
    values = recipe.model_dump(mode="json")
    values["normalize"]["scrub_salt"] = _salt_digest(recipe)
    return values


def _salt_digest(recipe: Recipe) -> str | None:
    salt = recipe.normalize.scrub_salt
    return None if salt is None else hashlib.sha256(f"salt of placeholders: {salt}".encode()).hexdigest()[:16]


def recipe_of_record(data: bytes, now: Recipe) -> Recipe | None:
    """Return the recipe in a run's record, with the current salt if it had one; None if it holds no valid recipe."""
    try:
        values = json.loads(data)["recipe"]
        if values["normalize"]["scrub_salt"] == SALTED:
            values["normalize"]["scrub_salt"] = now.normalize.scrub_salt
        return parse_recipe(json.dumps(values), "the recipe of a generation")
    except (ValueError, KeyError, TypeError, ConfigError):
        return None


def changes(before: Mapping[str, Any], after: Mapping[str, Any], lead: str = "") -> Iterator[Change]:
    """Yield the differences between recorded values, in the order of keys.

    A section that one side lacks is one difference.
    """
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from changes(old, new, f"{lead}{name}.")
        elif old != new:
            yield Change(f"{lead}{name}", old, new)


_TOLD_AT_ONCE: Final = 3
_TOLD: Final = {
    "schema": "the schema of transitions",
    "texts": "what is compared of transitions",
    "sketch": "what near copies are known by",
    "scrubbing": "what is scrubbed",
    "templates": "the texts of mix.templates",
    "spans": "what spans are told of",
    "places": "what nodes have a group",
}
"""Description of each version."""

TOKENIZER: Final = "tokenizer"


def versions_of(recipe: Recipe) -> dict[str, str]:
    """Return the versions of everything besides the recipe's values that may not change between generations."""
    texts = hashlib.sha256(json.dumps(TRANSITION_TEXTS).encode()).hexdigest()[:16]
    folder = recipe.mix.templates
    return {
        "schema": SCHEMA_VERSION,
        "texts": texts,
        "sketch": str(sketch.VERSION),
        "scrubbing": str(scrub.VERSION),
        "places": str(PLACES_VERSION),
        "templates": templates_digest(None if folder is None else Path(folder))[:16],
        **({"spans": str(spans.VERSION)} if recipe.judge.spans else {}),
    }


def recipe_of(out: Folder, generation: Generation, now: Recipe) -> Recipe | None:
    """Return the recipe of a generation; None if the current recipe has another salt, or if it is no longer valid."""
    if generation.recipe == now.digest():
        return now
    recipe = recipe_of_record(stages_of(out, generation).found(RUN) or b"", now)
    return recipe if recipe is not None and recipe.digest() == generation.recipe else None


def by_anew(out: Folder) -> str:
    """Format advice for a folder to which nothing can be appended."""
    return f"That takes a run over all logs: trajmill run RECIPE --raw LOGS --pools-from {out.path()} --out ANOTHER"


def require_follows(out: Folder, last: Generation, recipe: Recipe) -> None:
    """Check that a generation by the recipe and this release may follow the last one of a folder.

    Raises:
        ConfigError: it may not; the message names the differences.
    """
    differences = [str(change) for change in _forbidden(out, last, recipe)]
    now = versions_of(recipe)
    differences += [f"{_TOLD[name]} changed" for name, value in last.versions.items() if now.get(name, value) != value]
    tokenizer = recipe.judge.files().get(TOKENIZER)
    if tokenizer is not None and last.models.get(TOKENIZER, digest := sha256_of(tokenizer)) != digest:
        differences.append("the file of judge.tokenizer changed")
    if differences:
        more = f" and {len(differences) - _TOLD_AT_ONCE} more" if len(differences) > _TOLD_AT_ONCE else ""
        listed = "; ".join(differences[:_TOLD_AT_ONCE])
        raise ConfigError(f"{out.path()} cannot be added to by this recipe: {listed}{more}. {by_anew(out)}")


def _forbidden(out: Folder, last: Generation, recipe: Recipe) -> Sequence[Any]:
    """Return the changes of the recipe since the last generation that would affect more than new logs."""
    if last.recipe == recipe.digest():
        return ()
    before = recipe_of(out, last, recipe)
    values: Mapping[str, Any] = last.values if before is None else record_values(before)
    return [change for change in changes(values, record_values(recipe)) if not change.is_free]


def rule_sets(generations: Sequence[Generation]) -> list[RuleSet]:
    """List the rules of a folder: consecutive generations with equal recipe and versions of connectors."""
    rules: list[RuleSet] = []
    versions: dict[str, str] = {}
    for before, generation in zip([None, *generations], generations, strict=False):
        number, connectors = generation.number, generation.connectors
        changed = [str(change) for change in changes(before.values, generation.values)] if before is not None else []
        changed += [
            f"connector {name}: version {versions[name]} → {connectors[name]}"
            for name in sorted(connectors)
            if versions.get(name, connectors[name]) != connectors[name]
        ]
        versions |= connectors
        if rules and not changed:
            rules[-1] = replace(rules[-1], last=number, connectors={**rules[-1].connectors, **connectors})
        else:
            rules.append(RuleSet(number, number, generation.recipe[:16], connectors, tuple(changed)))
    return rules
