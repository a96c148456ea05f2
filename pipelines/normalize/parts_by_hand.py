"""Unfinished parts of a plan, and normalizing of a share of them without a runner.

A part depends only on its inputs and the recipe, and has its own names. Anything that starts processes, such as an
array of Slurm or GNU parallel, can therefore share the parts: each process makes the same plan, does its share and
seals nothing. A run then does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from trajmill.pipelines.execution.dispatch import run_over
from trajmill.pipelines.execution.dying_inputs import Deaths, at_hand_folder
from trajmill.pipelines.execution.execution import Execution, require_openable
from trajmill.pipelines.normalize.connector_errors import must_be_read_again
from trajmill.pipelines.normalize.forgotten_keys import Tombstones
from trajmill.pipelines.normalize.normalizer import STAGE, Normalizer, PartsToTransitions, fault_alone, unit_digest
from trajmill.pipelines.plan.plan import Part, Plan, make_plan
from trajmill.pipelines.plan.planned_before import PlannedBefore
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import BLOBS, Identity, Ownership
from trajmill.pipelines.storage.units import done_units, manifest_names, unit_manifests
from trajmill.schemas import ConfigError

_SHARE: Final = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True, slots=True)
class Share:
    """One of `count` shares of all parts: the parts whose number modulo `count` is `number`."""

    number: int
    count: int

    @classmethod
    def of(cls, words: str) -> Share:
        """Parse a share such as `0/16`, the first of sixteen.

        Raises:
            ConfigError: the text is not a share.
        """
        match = _SHARE.fullmatch(words)
        if match is None or int(match[1]) >= int(match[2]):
            raise ConfigError(f"--part takes a share such as 0/16, the first of 16, to 15/16, the last; not '{words}'.")
        return cls(int(match[1]), int(match[2]))


@dataclass(frozen=True, slots=True)
class ShareDone:
    """Result of a share: the number of its parts, and of those that were done before."""

    parts: int
    before: int


def normalizer_of(
    recipe: Recipe,
    out: Folder,
    *,
    strict: bool,
    watched: bool = True,
    tombstones: Tombstones | None = None,
    earlier: Sequence[Folder] = (),
) -> Normalizer:
    """Build the settings of normalizing into an output folder.

    Args:
        strict: whether a connector's exception ends the run.
        watched: whether processes of this machine do the work, which name the inputs they read.
    """
    keeps = recipe.normalize.attachments == "keep"
    blobs, earlier_blobs = (out / BLOBS, tuple(folder / BLOBS for folder in earlier)) if keeps else (None, ())
    folders = out / "transitions", out / "rejects" / STAGE
    at_hand = at_hand_folder(out) if watched else None
    return Normalizer(recipe, *folders, strict, blobs, tombstones or Tombstones(), earlier_blobs, at_hand)


def stages_of(normalizer: Normalizer) -> tuple[str, ...]:
    """Return the folders that parts are written to, relative to the output folder, the transitions first."""
    return ("transitions", f"rejects/{STAGE}", *([BLOBS] if normalizer.blobs is not None else []))


def names_of(plan: Plan, normalizer: Normalizer) -> set[str]:
    """Return the names of all files that normalizing a plan may write, except blobs, relative to the output folder."""
    labels = [part.name for part in plan.parts]
    files = {f"transitions/{domain}/{label}.parquet" for domain in normalizer.recipe.domains for label in labels}
    files |= {f"rejects/{STAGE}/{label}.parquet" for label in labels}
    return files.union(*(manifest_names(stage, labels) for stage in stages_of(normalizer)))


def open_parts(parts: Sequence[Part], normalizer: Normalizer) -> list[Part]:
    """List the parts that are not done, or that the current code has to read again."""
    folders = [normalizer.transitions, normalizer.rejects]
    folders += [normalizer.blobs] if normalizer.blobs is not None else []
    digests = {part.name: unit_digest(part) for part in parts}
    todo = set[str]().union(*(digests.keys() - done_units(folder, digests) for folder in folders))
    manifests = unit_manifests(normalizer.transitions, digests)
    todo |= {manifest.unit for manifest in manifests if must_be_read_again(manifest, strict=normalizer.strict)}
    return [part for part in parts if part.name in todo]


def normalize_parts(
    parts: Sequence[Part],
    normalizer: Normalizer,
    over: Callable[[Sequence[Part], PartsToTransitions, bool], None],
    deaths: Deaths,
) -> None:
    """Normalize the unfinished parts.

    Args:
        normalizer: settings, with the folder of inputs being read, or without if the runner handles deaths.
        over: function that runs a transform over parts; its last argument tells whether to use only other processes.
    """

    def normalize(deadly: Mapping[str, str], isolated: bool) -> None:
        over(open_parts(parts, normalizer), PartsToTransitions(replace(normalizer, deadly=deadly)), isolated)

    def reader(name: str) -> Callable[[], object] | None:
        source = next((source for part in parts for source in part.inputs if source.name == name), None)
        return None if source is None else partial(fault_alone, source, normalizer)

    (deaths if normalizer.at_hand is not None else Deaths()).survive(normalize, reader)


def normalize_share(recipe: Recipe, raws: Sequence[str], out: str, share: Share, execution: Execution) -> ShareDone:
    """Normalize a share of a plan's parts in this process, beside others that may run at the same time.

    Args:
        raws: raw logs: files, folders, globs; the same for all shares.
        out: the output folder, a path or a URL.
        execution: settings, of which sizes, limit and strictness count. They must be the same for all shares and the
            run.

    Raises:
        ConfigError: an input or an option is wrong, or the folder belongs to another run; nothing was written.
        ShardError: a file of the folder cannot be read or written; repeating the share resumes it.
        ContractError: a bug of trajmill.
    """
    require_openable([*raws, out])
    folder = Folder.named(out)
    owner = Ownership(folder, Identity.of(recipe, raws))
    goes_on = owner.check(raws).identity == owner.identity
    deaths = Deaths.left_in(folder)
    plan = make_plan(
        recipe,
        raws,
        execution.part_bytes,
        execution.limit,
        strict=execution.strict,
        workers=execution.workers,
        found_before=PlannedBefore.left_in(folder) if goes_on else None,
        deaths=deaths,
    )
    normalizer = normalizer_of(recipe, folder, strict=execution.strict)
    mine = plan.parts[share.number :: share.count]
    with owner.shared(names_of(plan, normalizer)):
        todo = open_parts(mine, normalizer)

        def over(parts: Sequence[Part], transform: PartsToTransitions, isolated: bool) -> None:
            run_over(parts, transform, replace(execution, isolated=isolated))

        normalize_parts(mine, normalizer, over, deaths)
    return ShareDone(len(mine), len(mine) - len(todo))
