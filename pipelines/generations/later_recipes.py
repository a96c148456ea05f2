"""Later recipes: what may change from one generation of a folder to the next, and what stands for all of them.

What decides how logs are judged, and how much is drawn, may change: it applies to what is new. What ledgers rest on
(who is equal to whom, which group and pool nodes have, in which tokens budgets count), what rows of earlier shards
would show otherwise, and what is promised of the whole dataset may not. A key that is not listed here may not change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import SALTED, parse_recipe
from trajmill.schemas import ConfigError

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
    "judge.replicates.max",
    "mix.stages",
    "mix.values",
    "mix.shard_bytes",
    "card",
)
"""What may change, with all that stands below it."""

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
        """Whether a later generation may have it."""
        return any(self.key == name or self.key.startswith(f"{name}.") for name in FREE)

    def __str__(self) -> str:
        if self.key == ".".join(_SALT):
            return f"{self.key} is another"
        return f"{self.key}: {_shown(self.before)} → {_shown(self.after)}"


def _shown(value: Any) -> str:
    text = json.dumps(_pruned(value), ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _pruned(value: Any) -> Any:
    """The value without what a mapping holds of nothing."""
    if not isinstance(value, dict):
        return value
    pruned = {name: _pruned(one) for name, one in value.items()}
    return {name: one for name, one in pruned.items() if one not in (None, [], {})}


def recorded(recipe: Recipe) -> dict[str, Any]:
    """The values of a recipe as a generation's manifest holds them: in the place of its salt, a digest."""
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
    """What differs between recorded values, in the order of keys; what one side lacks is told as a whole."""
    for name in sorted({*before, *after}):
        one, other = before.get(name), after.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from changes(one, other, f"{lead}{name}.")
        elif one != other:
            yield Change(f"{lead}{name}", one, other)
