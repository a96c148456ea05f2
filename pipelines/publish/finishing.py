"""Finishing a dataset whose shards are written: its card and its manifest, under the digest of what it holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from trajmill.pipelines.publish.card import CARD_UNIT, told_apart, write_card
from trajmill.pipelines.publish.dataset import Dataset, RuleSet, samples_in
from trajmill.pipelines.publish.diversity import kept_variety, told_variety
from trajmill.pipelines.publish.licences import licences_of
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run_record.conservation import Line
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.units import finish_stage
from trajmill.schemas.manifest import Manifest, summed_counts


def content_digest(recipe: Recipe, units: Sequence[Manifest]) -> str:
    """Digest what a dataset holds, however it was cut on the way."""
    files = sorted((file.name, file.sha256) for one in units for file in one.files)
    return hashlib.sha256(json.dumps([recipe.digest(), files]).encode()).hexdigest()


def finish_dataset(
    recipe: Recipe,
    shards: Folder,
    stages: Sequence[Folder],
    units: Sequence[Manifest],
    flow: Sequence[Line],
    mixture: Mapping[str, Any],
    models: Mapping[str, str],
    rules: Sequence[RuleSet] = (),
) -> None:
    """Write card and manifest.

    Args:
        recipe: by which the last of the shards were made.
        shards: the folder of the dataset.
        stages: the folders of the runs whose shards it holds.
        units: the manifests of the shards.
        flow: what went in and came out, by unit.
        mixture: what its pools and stages were given.
        models: digests of what the recipe names.
        rules: by which the runs were made, where there are several.
    """
    digest, counts = content_digest(recipe, units), summed_counts(list(units))
    files = tuple(file for one in units for file in one.files)
    kept = kept_variety(stages)
    licences = licences_of(stages, shards, files, samples_in(counts))
    write_card(Dataset(recipe, shards, files, counts, flow, digest, kept, mixture, licences, len(stages), rules))
    more = {"mixture": {**mixture, "eval": told_apart(counts)}, "diversity": told_variety(kept), "models": dict(models)}
    finish_stage(shards, "mix", digest, [*(one.unit for one in units), CARD_UNIT], **more)
