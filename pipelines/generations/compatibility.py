"""Compatibility of generations: which recipe and release may follow another one, and the rules that a folder was made
by.

What decides how logs are judged, and how much is drawn, may change: it applies to what is new. What parts of earlier
runs are compared by (who is equal to whom, which group and pool nodes have, in which tokens budgets count), what rows
of earlier shards would show otherwise, and what is promised of the whole dataset may not. Nor may a key that is not
listed here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trajmill.pipelines.generations.generations import Generation, stages_of
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
    "source",
    "licence",
    "domains",
    "normalize.connectors",
    "normalize.max_reject_ratio",
    "normalize.max_unrecognized_ratio",
    "normalize.max_member_bytes",
    "normalize.dataset",
    "judge.signals",
    "judge.measure",
    "judge.rules",
    "judge.simulated",
    "judge.prefer",
    "judge.max_share",
    "judge.max_per_task",
    "judge.replicates.max",
    "judge.harness_text",
    "mix.stages",
    "mix.values",
    "mix.shard_bytes",
    "card",
)
"""Keys that may change, with all that stands below them."""

_SALT: Final = ("normalize", "scrub_salt")
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Change:
    """A value that one recipe has and a later one has otherwise.

    Attributes:
        key: the names that lead to it, with points between.
        before: as JSON has it; None where there is none.
        after: the same.
    """

    key: str
    before: Any
    after: Any

    @property
    def is_free(self) -> bool:
        """True if a later generation may have it."""
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
    """Return the values of a recipe as a generation's manifest holds them: in the place of its salt, a digest."""
    values = recipe.model_dump(mode="json")
    values["normalize"]["scrub_salt"] = _salt_digest(recipe)
    return values


def _salt_digest(recipe: Recipe) -> str | None:
    salt = recipe.normalize.scrub_salt
    return None if salt is None else hashlib.sha256(f"salt of placeholders: {salt}".encode()).hexdigest()[:16]


def recipe_of_record(data: bytes, now: Recipe) -> Recipe | None:
    """The recipe that a run's record holds, with the salt at hand if it had one; None if none there is valid."""
    try:
        values = json.loads(data)["recipe"]
        if values["normalize"]["scrub_salt"] == SALTED:
            values["normalize"]["scrub_salt"] = now.normalize.scrub_salt
        return parse_recipe(json.dumps(values), "the recipe of a generation")
    except (ValueError, KeyError, TypeError, ConfigError):
        return None


def changes(before: Mapping[str, Any], after: Mapping[str, Any], lead: str = "") -> Iterator[Change]:
    """Yield the differences between recorded values, in the order of keys; what one side lacks is told as a whole."""
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
}
"""Descriptions of what the versions are of."""

TOKENIZER: Final = "tokenizer"


def versions_of(recipe: Recipe) -> dict[str, str]:
    """The versions of what may not change between generations, beside the values of the recipe."""
    texts = hashlib.sha256(json.dumps(TRANSITION_TEXTS).encode()).hexdigest()[:16]
    folder = recipe.mix.templates
    return {
        "schema": SCHEMA_VERSION,
        "texts": texts,
        "sketch": str(sketch.VERSION),
        "scrubbing": str(scrub.VERSION),
        "templates": templates_digest(None if folder is None else Path(folder))[:16],
        **({"spans": str(spans.VERSION)} if recipe.judge.spans else {}),
    }


def recipe_of(out: Folder, generation: Generation, now: Recipe) -> Recipe | None:
    """Return the recipe that a generation was made by; None where the one at hand has another salt, or it is no more
    valid.

    Args:
        out: the output folder.
        generation: the generation.
        now: the recipe at hand, whose salt is taken.
    """
    if generation.recipe == now.digest():
        return now
    recipe = recipe_of_record(stages_of(out, generation).found(RUN) or b"", now)
    return recipe if recipe is not None and recipe.digest() == generation.recipe else None


def by_anew(out: Folder) -> str:
    """Advise what to do where nothing can be added to a folder."""
    return f"That takes a run over all logs: trajmill run RECIPE --raw LOGS --pools-from {out.path()} --out ANOTHER"


def require_follows(out: Folder, last: Generation, recipe: Recipe) -> None:
    """Check that a generation by the recipe and this release may follow the last one of a folder.

    Raises:
        ConfigError: it may not; the message names what is otherwise.
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
    """The changes of the recipe since the last generation that apply to more than what is new."""
    if last.recipe == recipe.digest():
        return ()
    before = recipe_of(out, last, recipe)
    values: Mapping[str, Any] = last.values if before is None else record_values(before)
    if not values:
        return (f"its last generation is of another recipe, of which {RUN} there does not tell",)
    return [change for change in changes(values, record_values(recipe)) if not change.is_free]


def rule_sets(generations: Sequence[Generation]) -> list[RuleSet]:
    """List the rules that a folder was made by: generations in a row of one recipe, and of one version a connector."""
    rules: list[RuleSet] = []
    versions: dict[str, str] = {}
    for before, generation in zip([None, *generations], generations, strict=False):
        newer = {
            name: version for name, version in generation.connectors.items() if versions.get(name, version) != version
        }
        changed = [f"connector {name}: version {versions[name]} → {newer[name]}" for name in sorted(newer)]
        versions |= generation.connectors
        both = before is not None and before.values and generation.values
        changed = [
            *map(str, changes(before.values, generation.values) if before is not None and both else ()),
            *changed,
        ]
        if before is not None and not changed and (both or before.recipe == generation.recipe):
            previous = rules.pop()
            rules.append(
                RuleSet(
                    previous.first,
                    generation.number,
                    previous.recipe,
                    {**previous.connectors, **generation.connectors},
                    previous.changed,
                )
            )
        else:
            rules.append(
                RuleSet(
                    generation.number, generation.number, generation.recipe[:16], generation.connectors, tuple(changed)
                )
            )
    return rules
