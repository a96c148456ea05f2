"""The dataset of all generations: files of later ones beside those of the first, with a common card and manifest.

It is derived from the committed generations, so that anything lost in a kill is made again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trajmill.pipelines.generations.compatibility import rule_sets
from trajmill.pipelines.generations.generations import Generation, stages_of
from trajmill.pipelines.mix.passages.preparation import STAGE as PASSAGES
from trajmill.pipelines.mix.simulated import NAME as SIMULATED
from trajmill.pipelines.mix.simulated import sum_mixtures
from trajmill.pipelines.plan.plan import UNRECOGNIZED_REASONS, Plan
from trajmill.pipelines.publish.card import CARD_UNIT, DESCRIBED_IN, finish_dataset
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run_record.conservation import (
    Line,
    attachment_line,
    input_line,
    passage_lines,
    record_line,
    summed_lines,
    trajectory_line,
    transition_line,
)
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import PLAN, Ownership
from trajmill.pipelines.storage.units import (
    MANIFEST,
    finish_unit,
    manifest_names,
    read_manifest,
    require_manifest,
    unit_manifests,
    units_of,
)
from trajmill.schemas import ShardError
from trajmill.schemas.manifest import FileEntry, Manifest

SHARDS: Final = "shards"


def publish(recipe: Recipe, out: Folder, generations: Sequence[Generation], owner: Ownership) -> None:
    """Put the files of all generations into `shards/`, with card and manifest, unless they are there."""
    files = sorted(file.name for generation in generations for file in generation.shards)
    shards = out / SHARDS
    sealed = read_manifest(shards, MANIFEST)
    if sealed is not None and [file.name for file in sealed.files if "/" in file.name] == files:
        return
    publish_again(recipe, out, generations, owner)


def publish_again(
    recipe: Recipe, out: Folder, generations: Sequence[Generation], owner: Ownership, *, changed: bool = False
) -> None:
    """Publish the files of all generations, even if files of the same names exist.

    Args:
        changed: whether files of generations may have been rewritten under their names.
    """
    shards, units = out / SHARDS, list[Manifest]()
    sizes = None if shards.is_local or changed else shards.sizes()
    owner.intend({f"{SHARDS}/{name}" for name in DESCRIBED_IN})
    for generation in generations:
        where = stages_of(out, generation) / SHARDS
        mine = {file.name for file in generation.shards}
        unit_manifests_of_files = manifests_of_files(where, generation.shards)
        owner.intend(
            {f"{SHARDS}/{name}" for name in mine}
            | manifest_names(SHARDS, [unit.unit for unit in unit_manifests_of_files])
        )
        for file in generation.shards if generation.folder else ():
            if not _is_there(shards, file, sizes):
                _copy(where, shards, file)
        for unit in unit_manifests_of_files if generation.folder else ():
            finish_unit(shards, unit)
        units += unit_manifests_of_files
    stages = [stages_of(out, generation) for generation in generations]
    both = zip(stages, generations, strict=True)
    flow = summed_lines(line for folder, generation in both for line in _balance(recipe, folder, generation))
    mixture, rules = _mixtures([generation.mixture for generation in generations]), rule_sets(generations)
    finish_dataset(recipe, shards, stages, units, flow, mixture, generations[-1].models, rules)


def manifests_of_files(shards: Folder, files: Sequence[FileEntry]) -> list[Manifest]:
    """Return the manifests of the units that made these files."""
    names = {file.name for file in files}
    labels = (name.removesuffix(".json") for name in units_of(shards).names(".json"))
    manifests = unit_manifests(shards, labels)
    return [
        manifest
        for manifest in manifests
        if manifest.unit != CARD_UNIT and manifest.files and {file.name for file in manifest.files} <= names
    ]


def _is_there(shards: Folder, file: FileEntry, sizes: Mapping[str, int] | None) -> bool:
    """Return True if a copy exists. In a store, which checks its content, the size is compared."""
    return shards.sha256(file.name) == file.sha256 if sizes is None else sizes.get(file.name) == file.bytes


def _copy(source: Folder, target: Folder, file: FileEntry) -> None:
    data = source.read(file.name)
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise ShardError(f"{source.path(file.name)} is damaged: its sha256 is not that of its generation's manifest.")
    target.write(file.name, data)


def _mixtures(some: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum the draws of generations. Shares and shortfalls are those of the last, which counts all earlier ones."""
    pools: dict[str, dict[str, dict[str, float]]] = {}
    stages: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for mixture in some:
        for pool, by_domain in mixture["pools"].items():
            for domain, amounts in by_domain.items():
                total = pools.setdefault(pool, {}).setdefault(domain, {"asked": 0.0, "given": 0})
                total["asked"], total["given"] = (
                    round(total["asked"] + amounts["asked"], 1),
                    total["given"] + amounts["given"],
                )
        for stage, drawn in mixture["stages"].items():
            for category in drawn:
                by_key = stages.setdefault(stage, {})
                key = category["component"], category["domain"]
                by_key[key] = _add_categories(by_key[key], category) if key in by_key else dict(category)
    result = {
        "pools": pools,
        "stages": {stage: [categories[key] for key in sorted(categories)] for stage, categories in stages.items()},
    }
    simulated = sum_mixtures(some)
    return {**result, **({SIMULATED: simulated} if simulated else {})}


def _add_categories(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    summed = {name: earlier[name] + later[name] for name in ("samples", "tokens", "loss_tokens", "available")}
    return {**later, **summed, "epochs": round(summed["tokens"] / max(summed["available"], 1), 4)}


def _balance(recipe: Recipe, folder: Folder, generation: Generation) -> Iterator[Line]:
    """Balance the inputs and outputs of a generation, from its manifests."""
    names = ("transitions", "verdicts", "rejects/mix")
    normalized, judged, dropped = (require_manifest(folder / name) for name in names)
    plan = Plan.from_json(folder.read(PLAN))
    lost = Counter(reject.reason for reject in plan.unrecognized if reject.reason not in UNRECOGNIZED_REASONS)
    yield input_line(normalized.counts.get("inputs", 0), normalized.counts, dict(sorted(lost.items())))
    yield record_line(normalized.counts)
    attached = attachment_line(normalized.counts)
    if attached.entered:
        yield attached
    yield trajectory_line(normalized.counts, judged.counts, {**generation.counts, **dropped.counts})
    yield transition_line(judged.counts)
    passages = read_manifest(folder / PASSAGES, MANIFEST)
    if passages is not None:
        yield from passage_lines([component.name for component in recipe.mix.passages], passages.counts)
