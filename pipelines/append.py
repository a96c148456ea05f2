"""Adding to a finished run: what is new is read, judged against what is kept, and becomes a generation of its own.

Nothing of an earlier generation is written again. See docs/design/generations.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pipelines.account.summary import StageStart, Summary
from pipelines.engine.addresses import require_openable
from pipelines.engine.execution import Execution
from pipelines.engine.generations import FIRST, GENERATIONS, Generation, chain, commit, folder_of, ledgers_of
from pipelines.engine.ledgers import write_ledger
from pipelines.engine.ownership import PLAN, Ownership, survey
from pipelines.engine.paths import local_path, url_of
from pipelines.engine.storage import Folder
from pipelines.engine.units import MANIFEST, read_manifest
from pipelines.judge.judging import Unit
from pipelines.mix.earlier_generations import EarlierGenerations, added
from pipelines.mix.mix import mixing_digest
from pipelines.mix.mixture import Judged
from pipelines.plan.known_inputs import Contents, input_rows
from pipelines.plan.plan import Plan, make_plan
from pipelines.publish.published_generations import publish
from pipelines.recipe.read_by_workers import read_by_workers
from pipelines.recipe.recipe import Recipe
from pipelines.run import Run
from quality import sketch
from quality.fingerprint import TRANSITION_TEXTS
from schemas import SCHEMA_VERSION, ConfigError
from schemas.manifest import FileEntry, Manifest

_REBUILD: Final = "Run the recipe over all logs into another --out."


@dataclass(frozen=True, slots=True)
class Appended:
    """What was added.

    Attributes:
        generation: the last one of the folder.
        summary: of the run that made it; None where there was nothing new.
        known: inputs that were read before.
        changed: inputs whose bytes are not those that were read where they lie; they are left as they were read.
    """

    generation: Generation
    summary: Summary | None
    known: int
    changed: tuple[str, ...]


class Append:
    """One generation that is added to a folder; arguments as of `Run`.

    Raises:
        ConfigError: the recipe asks for what cannot be added to; or as of `Run`.
    """

    def __init__(
        self,
        recipe: Recipe,
        raws: Sequence[str],
        out: str,
        execution: Execution | None = None,
        tell: Callable[[StageStart], None] = lambda _: None,
        command: Sequence[str] = (),
    ) -> None:
        require_openable([*raws, out])
        require_addable(recipe)
        self.recipe, self.raws, self.execution = recipe, raws, execution or Execution()
        self.out = Folder(out if url_of(out) is not None else local_path(out))
        self._tell, self._command = tell, command
        self._contents = Contents()

    def run(self) -> Appended:
        """Adds what is new, and returns what that was.

        Raises:
            ConfigError: the folder holds no finished run of the recipe; otherwise as of `Run.run`.
        """
        self.execution.require_runner([*self.raws, self.out.url, *read_by_workers(self.recipe)])
        found = survey(self.out)
        if found.identity is None:
            raise ConfigError(f"{self.out.path()} holds no run that could be added to. Run without --append first.")
        owner = Ownership(self.out, found.identity, adding=True)
        owner.check(self.raws)
        with owner.held():
            owner.keep()
            while True:
                generations = self._chain()
                publish(self.recipe, self.out, generations, owner)  # which a run that was killed may have left
                made = self._made(generations)
                if made.summary is None:
                    return made
                if made.generation is not generations[-1]:  # else another one was committed, whose child it has to be
                    publish(self.recipe, self.out, [*generations, made.generation], owner)
                    return made

    def _chain(self) -> list[Generation]:
        """The generations of the folder, the first of which is made of what a run left there if it is not yet.

        Raises:
            ConfigError: it was not finished, or was made by another recipe, or with other fingerprints.
        """
        found = chain(self.out)
        if not found:
            self._check_finished()
            self._clear(set())
            first = Generation(FIRST, "", "", self._read_plan("").digest, self.recipe.digest(), _versions())
            commit(self.out, self._with_ledgers(first, ()))
            found = chain(self.out)
        if any(one.recipe != self.recipe.digest() for one in found):
            raise ConfigError(f"{self.out.path()} was made by another recipe than this one. {_REBUILD}")
        if any(one.versions != _versions() for one in found):
            raise ConfigError(f"{self.out.path()} was made by a trajmill that tells copies otherwise. {_REBUILD}")
        return found

    def _check_finished(self) -> None:
        manifests = [
            read_manifest(self.out / stage, MANIFEST) for stage in ("transitions", "verdicts", "draws", "shards")
        ]
        verdicts, draws = manifests[1], manifests[2]
        if verdicts is None or draws is None or None in manifests or not self.out.exists(PLAN):
            raise ConfigError(f"{self.out.path()} holds no finished run. Run without --append first.")
        if draws.digest != mixing_digest(self.recipe, verdicts):
            raise ConfigError(f"{self.out.path()} was made by another recipe than this one. {_REBUILD}")

    def _read_plan(self, folder: str) -> Plan:
        return Plan.from_json((self.out / folder if folder else self.out).read(PLAN))

    def _made(self, generations: list[Generation]) -> Appended:
        """Makes and commits the next generation; the last one without a summary if nothing is new."""
        before = EarlierGenerations.of(self.out, generations)
        before.inputs.contents = self._contents
        plan = self._plan(before, generations)
        told = before.inputs.again, tuple(before.inputs.changed)
        if not plan.parts:
            return Appended(generations[-1], None, *told)
        contents = sorted(f"{self._contents.of(one)} {one.uri}" for one in plan.inputs)
        digest = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
        parent, recipe = generations[-1].digest, self.recipe.digest()
        folder = folder_of(parent, digest, recipe)
        self._clear({folder, *(one.folder for one in generations)})
        where, before = self.out / folder, replace(before, plan=plan)
        summary = Run(
            self.recipe, self.raws, where.url, self.execution, self._tell, command=self._command, before=before
        ).run()
        made = Generation(len(generations) + 1, parent, folder, digest, recipe, _versions())
        made = self._with_ledgers(made, before.drawn.ledgers)
        return Appended(made, summary, *told) if commit(self.out, made) else Appended(generations[-1], summary, *told)

    def _plan(self, before: EarlierGenerations, generations: Sequence[Generation]) -> Plan:
        """What is new in the raw logs."""
        how = self.execution
        plan = make_plan(
            self.recipe, self.raws, how.part_bytes, how.limit, strict=how.strict, is_known=before.inputs.knows
        )
        told = {(one.uri, one.reason) for made in generations for one in self._read_plan(made.folder).unrecognized}
        return replace(plan, unrecognized=tuple(one for one in plan.unrecognized if (one.uri, one.reason) not in told))

    def _with_ledgers(self, one: Generation, ledgers: Sequence[Folder]) -> Generation:
        """A generation whose stages are done, with its ledgers written."""
        folder = self.out / one.folder if one.folder else self.out
        transitions, shards = (read_manifest(folder / name, MANIFEST) for name in ("transitions", "shards"))
        assert transitions is not None
        assert shards is not None
        units = [Unit(number, file.name, file.sha256) for number, file in enumerate(transitions.files)]
        judged = Judged(units, folder / "transitions", folder / "verdicts", folder / "measures")
        more = added(self.recipe, judged, folder / "draws", ledgers)
        rows = {**more.rows, "inputs": input_rows(self._read_plan(one.folder).inputs, self._contents)}
        where = ledgers_of(self.out, one)
        entries = tuple(write_ledger(where, kind, rows[kind]) for kind in sorted(rows))
        made = replace(one, drawn=more.drawn, given=more.given, shards=_files(shards), ledgers=entries)
        return replace(made, counts=shards.counts, mixture=shards.mixture)

    def _clear(self, kept: set[str]) -> None:
        """Removes what runs that were killed left of generations that nobody committed; only where a lock is held."""
        if self.out.is_local:
            for name in (self.out / GENERATIONS).names(unfinished=True):
                folder = f"{GENERATIONS}/{name.partition('/')[0]}"
                if folder not in kept and not name.partition("/")[0].isdigit():
                    self.out.remove(f"{GENERATIONS}/{name}")


def _files(shards: Manifest) -> tuple[FileEntry, ...]:
    return tuple(file for file in shards.files if "/" in file.name)


def _versions() -> dict[str, str]:
    texts = hashlib.sha256(json.dumps(TRANSITION_TEXTS).encode()).hexdigest()[:16]
    return {"schema": SCHEMA_VERSION, "texts": texts, "sketch": str(sketch.VERSION)}


def require_addable(recipe: Recipe) -> None:
    """Nothing, if generations can be added by the recipe.

    Raises:
        ConfigError: it bounds how much is drawn in all, or passes rows of other corpora through.
    """
    for pool, stage in recipe.mix.stages.items():
        counted = [name for name in ("budget", "samples", "max_per_group") if getattr(stage, name) is not None]
        counted += ["bounds with max_tokens"] if any(one.max_tokens is not None for one in stage.bounds) else []
        if counted:
            raise ConfigError(
                f"mix.stages.{pool} has {' and '.join(counted)}, which no generation can add to yet: what earlier ones "
                f"drew is not counted. {_REBUILD}"
            )
    if recipe.mix.passages:
        raise ConfigError(f"mix.passages cannot be added to yet. {_REBUILD}")
    if recipe.normalize.attachments == "keep":
        raise ConfigError(f"normalize.attachments: keep cannot be added to yet. {_REBUILD}")
