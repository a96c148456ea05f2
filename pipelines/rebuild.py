"""Rebuilding: a run over all logs into another folder, whose groups keep the pools that they have in an old one.

For what no generation can be added by: another recipe, other fingerprints, or what lost against something forgotten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from trajmill.pipelines.append import Append
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.generations.forgotten_keys import Tombstones
from trajmill.pipelines.generations.generations import chain, ledgers_of
from trajmill.pipelines.generations.ledgers import write_ledger
from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.mix.earlier_generations import EarlierGenerations, added
from trajmill.pipelines.mix.mixture import Judged
from trajmill.pipelines.mix.passages.placing_passages import passage_places
from trajmill.pipelines.plan.known_inputs import Contents
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.summary import StageStart, Summary
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.scratch import scratch_folder
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.schemas import ConfigError


def rebuild(
    recipe: Recipe,
    raws: Sequence[str],
    out: str,
    old: str,
    execution: Execution | None = None,
    tell: Callable[[StageStart], None] = lambda _: None,
    command: Sequence[str] = (),
) -> Summary:
    """Runs a recipe into a folder, with the pools of an old one; arguments else as of `Run`.

    What would join two pools is rejected (`bridges_pools`), and what the old folder was made to forget is not read. The
    new folder is at its first generation, and is only added to.

    Raises:
        ConfigError: the old folder holds no finished run; or as of `Run`.
    """
    how = execution or Execution()
    source = Folder.named(old)
    tombstones = Tombstones.read(source)
    with _pools(recipe, source) as (digest, pools):
        before = EarlierGenerations.only_pools(digest, pools, tombstones)
        if tombstones.keys:
            before.inputs.contents = Contents(recipe.normalize.max_member_bytes)
            sizes, knows = (how.part_bytes, how.limit), before.inputs.knows
            plan = make_plan(recipe, raws, *sizes, strict=how.strict, is_known=knows, workers=how.workers)
            before = replace(before, plan=plan)
        summary = Run(recipe, raws, out, how, tell, command=command, before=before).run()
    if tombstones.keys:
        tombstones.write(Folder.named(out))
    Append(recipe, raws, out, how).begin()
    return summary


@contextmanager
def _pools(recipe: Recipe, old: Folder) -> Iterator[tuple[str, tuple[Folder, ...]]]:
    """(digest, folders of ledgers) that say which pools the groups of an old folder have.

    Raises:
        ConfigError: it holds no finished run.
    """
    generations = chain(old)
    if generations:
        yield generations[-1].digest, tuple(ledgers_of(old, one) for one in generations)
        return
    transitions, draws = (read_manifest(old / stage, MANIFEST) for stage in ("transitions", "draws"))
    if transitions is None or draws is None:
        raise ConfigError(f"{old.path()} holds no finished run whose pools could be kept.")
    units = [Unit(number, file.name, file.sha256) for number, file in enumerate(transitions.files)]
    judged = Judged(units, old / "transitions", old / "verdicts", old / "measures")
    with scratch_folder() as place:
        rows = added(recipe, judged, old / "draws", counting=False).rows["groups"]
        rows = np.unique(np.concatenate([rows, *passage_places(old)]))
        entry = write_ledger(Folder(place), "groups", rows)
        yield hashlib.sha256(f"{draws.digest}{entry.sha256}".encode()).hexdigest(), (Folder(place),)
