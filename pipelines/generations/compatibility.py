"""What a generation records of how it was made, and whether one by another recipe or release may follow it.

What may change is the matter of `generations.later_recipes`. Nothing is written here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trajmill.pipelines.generations.generations import Generation, stages_of
from trajmill.pipelines.generations.later_recipes import changes, recipe_of_record, recorded
from trajmill.pipelines.publish.dataset import RuleSet
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.templates import templates_digest
from trajmill.pipelines.storage.folders import Folder, sha256_of
from trajmill.pipelines.storage.ownership import RUN
from trajmill.quality import scrub, sketch, spans
from trajmill.quality.fingerprint import TRANSITION_TEXTS
from trajmill.schemas import SCHEMA_VERSION, ConfigError

_SHOWN: Final = 3
_TOLD: Final = {
    "schema": "the schema of transitions",
    "texts": "what is compared of transitions",
    "sketch": "what near copies are known by",
    "scrubbing": "what is scrubbed",
    "templates": "the texts of mix.templates",
    "spans": "what spans are told of",
}
"""What versions are of."""

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


def recipe_of(out: Folder, one: Generation, now: Recipe) -> Recipe | None:
    """The recipe that a generation was made by; None where the one at hand has another salt, or it is no more valid.

    Args:
        out: the output folder.
        one: the generation.
        now: the recipe at hand, whose salt is taken.
    """
    if one.recipe == now.digest():
        return now
    found = recipe_of_record(stages_of(out, one).found(RUN) or b"", now)
    return found if found is not None and found.digest() == one.recipe else None


def by_anew(out: Folder) -> str:
    """What to do where nothing can be added to a folder."""
    return f"That takes a run over all logs: trajmill run RECIPE --raw LOGS --pools-from {out.path()} --out ANOTHER"


def require_follows(out: Folder, last: Generation, recipe: Recipe) -> None:
    """Nothing, if a generation by the recipe and this release may follow the last one of a folder.

    Raises:
        ConfigError: it may not; the message names what is otherwise.
    """
    found = [str(change) for change in _forbidden(out, last, recipe)]
    now = versions_of(recipe)
    found += [f"{_TOLD[name]} changed" for name, value in last.versions.items() if now.get(name, value) != value]
    tokenizer = recipe.judge.files().get(TOKENIZER)
    if tokenizer is not None and last.models.get(TOKENIZER, was := sha256_of(tokenizer)) != was:
        found.append("the file of judge.tokenizer changed")
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        told = "; ".join(found[:_SHOWN])
        raise ConfigError(f"{out.path()} cannot be added to by this recipe: {told}{more}. {by_anew(out)}")


def _forbidden(out: Folder, last: Generation, recipe: Recipe) -> Sequence[Any]:
    """The changes of the recipe since the last generation that apply to more than what is new."""
    if last.recipe == recipe.digest():
        return ()
    before = recipe_of(out, last, recipe)
    values: Mapping[str, Any] = last.values if before is None else recorded(before)
    if not values:
        return (f"its last generation is of another recipe, of which {RUN} there does not tell",)
    return [change for change in changes(values, recorded(recipe)) if not change.is_free]


def rule_sets(generations: Sequence[Generation]) -> list[RuleSet]:
    """By which rules a folder was made: generations in a row of one recipe, and of one version a connector."""
    found: list[RuleSet] = []
    versions: dict[str, str] = {}
    for before, one in zip([None, *generations], generations, strict=False):
        newer = {name: version for name, version in one.connectors.items() if versions.get(name, version) != version}
        told = [f"connector {name}: version {versions[name]} → {newer[name]}" for name in sorted(newer)]
        versions |= one.connectors
        both = before is not None and before.values and one.values
        told = [*map(str, changes(before.values, one.values) if before is not None and both else ()), *told]
        if before is not None and not told and (both or before.recipe == one.recipe):
            was = found.pop()
            found.append(RuleSet(was.first, one.number, was.recipe, {**was.connectors, **one.connectors}, was.changed))
        else:
            found.append(RuleSet(one.number, one.number, one.recipe[:16], one.connectors, tuple(told)))
    return found
