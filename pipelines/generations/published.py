"""The dataset of all generations: files of later ones beside those of the first, and a card and a manifest over all.

Derived from what is committed: whatever a kill leaves of it is made again.
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
    read_manifest,
    unit_manifests,
    units_of,
    written_names,
)
from trajmill.schemas import ShardError
from trajmill.schemas.manifest import FileEntry, Manifest

SHARDS: Final = "shards"


def publish(recipe: Recipe, out: Folder, generations: Sequence[Generation], owner: Ownership) -> None:
    """Puts the files of all generations into `shards/`, with card and manifest; nothing happens if they are there.

    Raises:
        ShardError: a file cannot be read or written.
    """
    files = sorted(file.name for one in generations for file in one.shards)
    shards = out / SHARDS
    sealed = read_manifest(shards, MANIFEST)
    if sealed is not None and [file.name for file in sealed.files if "/" in file.name] == files:
        return
    publish_again(recipe, out, generations, owner)


def publish_again(
    recipe: Recipe, out: Folder, generations: Sequence[Generation], owner: Ownership, *, changed: bool = False
) -> None:
    """The same, also where names are those that are there.

    Args:
        recipe: of the last generation.
        out: the folder.
        generations: all of it.
        owner: of the folder.
        changed: whether files of generations may have been written again, under their names.

    Raises:
        ShardError: a file cannot be read or written.
    """
    shards, units = out / SHARDS, list[Manifest]()
    sizes = None if shards.is_local or changed else shards.sizes()
    owner.intend({f"{SHARDS}/{name}" for name in DESCRIBED_IN})
    for one in generations:
        where = stages_of(out, one) / SHARDS
        mine = {file.name for file in one.shards}
        found = made_in(where, one.shards)
        owner.intend({f"{SHARDS}/{name}" for name in mine} | written_names(SHARDS, [made.unit for made in found]))
        for file in one.shards if one.folder else ():
            if not _is_there(shards, file, sizes):
                _copy(where, shards, file)
        for made in found if one.folder else ():
            finish_unit(shards, made)
        units += found
    stages = [stages_of(out, one) for one in generations]
    both = zip(stages, generations, strict=True)
    flow = summed_lines(line for folder, one in both for line in _balance(recipe, folder, one))
    mixture, rules = _mixtures([one.mixture for one in generations]), rule_sets(generations)
    finish_dataset(recipe, shards, stages, units, flow, mixture, generations[-1].models, rules)


def made_in(shards: Folder, files: Sequence[FileEntry]) -> list[Manifest]:
    """The manifests of the units that made these files."""
    names = {file.name for file in files}
    labels = (name.removesuffix(".json") for name in units_of(shards).names(".json"))
    found = unit_manifests(shards, labels)
    return [
        made for made in found if made.unit != CARD_UNIT and made.files and {file.name for file in made.files} <= names
    ]


def _is_there(shards: Folder, file: FileEntry, sizes: Mapping[str, int] | None) -> bool:
    """Whether a copy lies there: in a store, which checks what it holds, by its size."""
    return shards.sha256(file.name) == file.sha256 if sizes is None else sizes.get(file.name) == file.bytes


def _copy(source: Folder, target: Folder, file: FileEntry) -> None:
    data = source.read(file.name)
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise ShardError(f"{source.path(file.name)} is damaged: its sha256 is not that of its generation's manifest.")
    target.write(file.name, data)


def _mixtures(some: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of what generations drew; shares and shortfalls are told by the last, which counts all before it."""
    pools: dict[str, dict[str, dict[str, float]]] = {}
    stages: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for one in some:
        for pool, of in one["pools"].items():
            for domain, told in of.items():
                held = pools.setdefault(pool, {}).setdefault(domain, {"asked": 0.0, "given": 0})
                held["asked"], held["given"] = round(held["asked"] + told["asked"], 1), held["given"] + told["given"]
        for stage, drawn in one["stages"].items():
            for category in drawn:
                place = stages.setdefault(stage, {})
                key = category["component"], category["domain"]
                place[key] = _added(place[key], category) if key in place else dict(category)
    found = {"pools": pools, "stages": {stage: [of[key] for key in sorted(of)] for stage, of in stages.items()}}
    simulated = sum_mixtures(some)
    return {**found, **({SIMULATED: simulated} if simulated else {})}


def _added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    summed = {name: one[name] + other[name] for name in ("samples", "tokens", "loss_tokens", "available")}
    return {**other, **summed, "epochs": round(summed["tokens"] / max(summed["available"], 1), 4)}


def _balance(recipe: Recipe, folder: Folder, one: Generation) -> Iterator[Line]:
    """What went into a generation and what came out, from its manifests."""
    names = ("transitions", "verdicts", "rejects/mix")
    normalized, judged, dropped = (_manifest(folder / name) for name in names)
    plan = Plan.from_json(folder.read(PLAN))
    lost = Counter(one.reason for one in plan.unrecognized if one.reason not in UNRECOGNIZED_REASONS)
    yield input_line(normalized.counts.get("inputs", 0), normalized.counts, dict(sorted(lost.items())))
    yield record_line(normalized.counts)
    attached = attachment_line(normalized.counts)
    if attached.entered:
        yield attached
    yield trajectory_line(normalized.counts, judged.counts, {**one.counts, **dropped.counts})
    yield transition_line(judged.counts)
    passages = read_manifest(folder / PASSAGES, MANIFEST)
    if passages is not None:
        yield from passage_lines([component.name for component in recipe.mix.passages], passages.counts)


def _manifest(stage: Folder) -> Manifest:
    found = read_manifest(stage, MANIFEST)
    if found is None:
        raise ShardError(f"{stage.path(MANIFEST)} is missing or damaged.")
    return found
