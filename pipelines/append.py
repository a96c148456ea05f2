"""Adding to a finished run: what is new is read, judged against what is kept, and becomes a generation of its own.

Nothing of an earlier generation is written again. See docs/decisions/generations.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from trajmill.pipelines.execution.addresses import require_openable
from trajmill.pipelines.execution.dispatch import run_over
from trajmill.pipelines.execution.dying_inputs import Deaths
from trajmill.pipelines.execution.execution import Execution, Seeing
from trajmill.pipelines.generations.compatibility import by_rebuild, recipe_of, require_follows, versions_of
from trajmill.pipelines.generations.forgotten_keys import Tombstones
from trajmill.pipelines.generations.generations import FIRST, Generation, chain, commit, folder_of, ledgers_of
from trajmill.pipelines.generations.ledgers import write_ledger
from trajmill.pipelines.generations.stale_generations import clear_abandoned
from trajmill.pipelines.judge.buckets import UnitsToBuckets, bands_name, files_of
from trajmill.pipelines.judge.earlier import Earlier
from trajmill.pipelines.judge.judging import Judging, Unit
from trajmill.pipelines.judge.measures import tasks_of
from trajmill.pipelines.judge.similarity_index import STAGE as LIKENESS
from trajmill.pipelines.mix.earlier_generations import EarlierGenerations, added, stages_in
from trajmill.pipelines.mix.mixing import mixing_digest
from trajmill.pipelines.mix.mixture import Judged
from trajmill.pipelines.mix.passages.preparation import STAGE as PASSAGES
from trajmill.pipelines.mix.passages.preparation import Prepared, passage_inputs
from trajmill.pipelines.mix.simulation_instructions import read_instructions
from trajmill.pipelines.plan.known_inputs import Contents, FoundBefore, input_rows, members_read
from trajmill.pipelines.plan.plan import Plan, make_plan
from trajmill.pipelines.plan.recognition import PlanCounts
from trajmill.pipelines.publish.diversity import kept_counts, variety_rows
from trajmill.pipelines.publish.published_generations import publish
from trajmill.pipelines.recipe.later_recipes import recipe_of_record, recorded
from trajmill.pipelines.recipe.read_by_workers import read_by_workers
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.run_log import RunLog
from trajmill.pipelines.run_record.summary import StageStart, Summary
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import PLAN, RUN, Ownership, identity_of
from trajmill.pipelines.storage.parquet import rows_of
from trajmill.pipelines.storage.stored_blob import opened_archive
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.schemas import ConfigError
from trajmill.schemas.manifest import FileEntry, Manifest


@dataclass(frozen=True, slots=True)
class Appended:
    """What was added.

    Attributes:
        generation: the last one of the folder.
        summary: of the run that made it, in the folder that it was added to; None where there was nothing new.
        known: inputs that were read before, under this name or another.
        changed: inputs whose bytes are not those that were read where they lie; they are left as they were read, or
            are among those that were added, as the recipe says.
        begun: folders of generations in a store that nobody committed, which others may be working on.
    """

    generation: Generation
    summary: Summary | None
    known: int
    changed: tuple[str, ...]
    begun: tuple[str, ...] = ()


class Append:
    """One generation that is added to a folder; arguments as of `Run`.

    Raises:
        ConfigError: as of `Run`.
    """

    def __init__(
        self,
        recipe: Recipe,
        raws: Sequence[str],
        out: str,
        execution: Execution | None = None,
        tell: Callable[[StageStart], None] = lambda _: None,
        command: Sequence[str] = (),
        log: RunLog | None = None,
    ) -> None:
        require_openable([*raws, out])
        self.recipe, self.raws, self.execution = recipe, raws, execution or Execution()
        self.out = Folder.named(out)
        self._tell, self._command, self._log = tell, command, log
        opened_archive.cache_clear()  # archives that this process read before may have changed since
        self._contents = Contents(recipe.normalize.max_member_bytes)
        self._owner: Ownership

    def run(self, last: str = "mix") -> Appended:
        """Adds what is new, and returns what that was.

        Args:
            last: the stage that it ends after: "judge" leaves a generation that is not committed, which may be replayed
                and with which the next `run` goes on.

        Raises:
            ConfigError: the folder holds no finished run of the recipe; otherwise as of `Run.run`.
        """
        self.execution.require_runner([*self.raws, self.out.url, *read_by_workers(self.recipe)])
        identity = identity_of(self.out)
        if identity is None:
            raise ConfigError(f"{self.out.path()} holds no run that could be added to. Run without --append first.")
        self._owner = owner = Ownership(self.out, identity, adding=True)
        owner.check(self.raws)
        chain(self.out)  # so that a folder that is being forgotten in is not taken
        with owner.held():
            owner.keep()
            while True:
                generations = self._chain()
                self._publish(generations)  # which a run that was killed may have left
                made = self._made(generations, last)
                if made.summary is None or made.summary.last != "mix":
                    return made
                if made.generation is not generations[-1]:  # else another one was committed, whose child it has to be
                    self._publish([*generations, made.generation])
                    return made

    def _publish(self, generations: list[Generation]) -> None:
        """Makes the dataset of all generations; once more where another append was committed meanwhile.

        In a store two may do so at once, and the one that is of fewer generations may write last: it looks again.
        """
        while True:
            last = generations[-1]
            is_ours = last.recipe == self.recipe.digest()
            recipe = self.recipe if is_ours else recipe_of(self.out, last, self.recipe) or self.recipe
            publish(recipe, self.out, generations, self._owner)
            now = generations if self.out.is_local else chain(self.out)
            if len(now) == len(generations):
                return
            generations = now

    def begin(self) -> Generation:
        """Writes down what a finished run in the folder holds, as its first generation, so that it is only added to.

        Raises:
            ConfigError: as of `run`.
        """
        identity = identity_of(self.out)
        assert identity is not None
        self._owner = owner = Ownership(self.out, identity, adding=True)
        owner.check(self.raws)
        with owner.held():
            owner.keep()
            return self._chain()[0]

    def _chain(self) -> list[Generation]:
        """The generations of the folder, the first of which is made of what a run left there if it is not yet.

        Raises:
            ConfigError: it was not finished, or no generation of the recipe may follow.
        """
        found = chain(self.out)
        if not found:
            made_by = self._maker()
            first = self._named(Generation(FIRST, "", "", self._read_plan("").digest, made_by.digest()), made_by)
            shards = read_manifest(self.out / "shards", MANIFEST)
            require_follows(self.out, replace(first, models=shards.models if shards else {}), self.recipe)
            clear_abandoned(self.out, ())
            whole = self._with_ledgers(first, None, made_by)
            self._owner.renew()  # nobody who does not add has taken the folder
            commit(self.out, whole)
            found = chain(self.out)
        require_follows(self.out, found[-1], self.recipe)
        return found

    def _maker(self) -> Recipe:
        """The recipe that the finished run of the folder was made by.

        Raises:
            ConfigError: it was not finished, or its record is of another recipe.
        """
        manifests = [
            read_manifest(self.out / stage, MANIFEST) for stage in ("transitions", "verdicts", "draws", "shards")
        ]
        verdicts, draws = manifests[1], manifests[2]
        if verdicts is None or draws is None or None in manifests or not self.out.exists(PLAN):
            raise ConfigError(f"{self.out.path()} holds no finished run. Run without --append first.")
        passages = read_manifest(self.out / PASSAGES, MANIFEST)
        record = self.out.found(RUN) or b"{}"
        made_by = json.loads(record).get("recipe_digest")
        forgot = bool(Tombstones.read(self.out).keys)  # which changed the verdicts that the digest is of
        for recipe in (self.recipe, recipe_of_record(record, self.recipe)):
            by_record = recipe is not None and (forgot or recipe.mix.asks_replays)  # which may be others by now
            if recipe is not None and (
                made_by == recipe.digest() if by_record else draws.digest == mixing_digest(recipe, verdicts, passages)
            ):
                return recipe
        raise ConfigError(
            f"{self.out.path()} was made by another recipe than {RUN} there says, with another "
            f"normalize.scrub_salt, or with other texts of mix.templates. {by_rebuild(self.out)}"
        )

    def _named(self, one: Generation, recipe: Recipe) -> Generation:
        """A generation with what it is made by: versions, the recipe's values, and the connectors of its plan."""
        connectors = {found.connector: found.version for found in self._read_plan(one.folder).inputs}
        told = dict(sorted(connectors.items()))
        return replace(one, versions=versions_of(recipe), values=recorded(recipe), connectors=told)

    def _read_plan(self, folder: str) -> Plan:
        return Plan.from_json((self.out / folder if folder else self.out).read(PLAN))

    def _made(self, generations: list[Generation], last: str) -> Appended:
        """Makes and commits the next generation; the last one without a summary if nothing is new."""
        before = EarlierGenerations.of(self.recipe, self.out, generations)
        before.inputs.contents = self._contents
        plan = self._plan(before, generations)
        told = before.inputs.again, tuple(before.inputs.changed)
        if not plan.parts and not plan.passages:
            return Appended(generations[-1], None, *told)
        contents = sorted(f"{self._contents.of(one)} {one.uri}" for one in [*plan.inputs, *plan.passages])
        digest = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
        parent, recipe = generations[-1].digest, self.recipe.digest()
        folder = folder_of(parent, digest, recipe)
        begun = clear_abandoned(self.out, {folder, *(one.folder for one in generations)})
        where, before = self.out / folder, replace(before, plan=plan)
        made_by = Run(
            self.recipe,
            self.raws,
            where.url,
            self.execution,
            self._tell,
            command=self._command,
            before=before,
            log=self._log,
        )
        summary = replace(made_by.run(last), out=self.out.path())
        if last != "mix":
            return Appended(generations[-1], summary, *told, begun)
        made = self._named(Generation(len(generations) + 1, parent, folder, digest, recipe), self.recipe)
        made = self._with_ledgers(made, before, self.recipe)
        made_by.renew()  # so that nobody clears what is committed now
        committed = commit(self.out, made)
        return Appended(made if committed else generations[-1], summary, *told, begun)

    def _plan(self, before: EarlierGenerations, generations: Sequence[Generation]) -> Plan:
        """What is new in the raw logs."""
        how, plans = self.execution, [self._read_plan(one.folder) for one in generations]
        found_before = FoundBefore.of(plans)
        is_known, counts = before.inputs.knows, PlanCounts()
        self._tell(StageStart("plan", counts=counts))
        plan = make_plan(
            self.recipe,
            self.raws,
            how.part_bytes,
            how.limit,
            strict=how.strict,
            workers=how.workers,
            is_known=is_known,
            found_before=found_before,
            counts=counts,
            deaths=Deaths.left_in(self.out),
        )
        before.inputs.again += found_before.again
        told = {(one.uri, one.reason) for plan in plans for one in plan.unrecognized}
        unrecognized = tuple(one for one in plan.unrecognized if (one.uri, one.reason) not in told)
        passages = tuple(one for one in passage_inputs(self.recipe.mix.passages) if not is_known(one))
        return replace(plan, unrecognized=unrecognized, passages=passages)

    def _with_ledgers(self, one: Generation, before: EarlierGenerations | None, recipe: Recipe) -> Generation:
        """A generation whose stages are done by a recipe, with its ledgers written."""
        folder = self.out / one.folder if one.folder else self.out
        transitions, shards = (read_manifest(folder / name, MANIFEST) for name in ("transitions", "shards"))
        assert transitions is not None
        assert shards is not None
        units = [Unit(number, file.name, file.sha256) for number, file in enumerate(transitions.files)]
        stages = folder / "transitions", folder / "verdicts", folder / "measures"
        likeness = folder / LIKENESS if read_manifest(folder / LIKENESS, MANIFEST) is not None else None
        told = recipe.mix.instructions
        instructions = {} if told is None else read_instructions(told)
        drawn = None if before is None else before.drawn
        passages = Prepared(recipe, recipe.mix.passages, folder) if recipe.mix.passages else None
        judged = Judged(units, *stages, passages, instructions, drawn, likeness)
        more = added(recipe, judged, folder / "draws")
        plan = self._read_plan(one.folder)
        inputs = [*plan.inputs, *plan.passages]
        read = members_read(plan.inputs, folder / "transitions", [unit.name for unit in units])
        rows = {**more.rows, "inputs": input_rows(inputs, self._contents, read)}
        rows["variety"] = variety_rows(kept_counts(units, judged.measures, judged.verdicts))
        where = ledgers_of(self.out, one)
        entries = tuple(write_ledger(where, kind, rows[kind]) for kind in sorted(rows))
        entries += self._buckets(one, before, recipe, len(rows["trajectories"]))
        made = replace(one, drawn=more.drawn, given=more.given, shards=_files(shards), ledgers=entries)
        return replace(made, counts=shards.counts, mixture=shards.mixture, models=shards.models)

    def _buckets(
        self, one: Generation, before: EarlierGenerations | None, recipe: Recipe, kept: int
    ) -> tuple[FileEntry, ...]:
        """Writes the ledger of buckets of a generation that keeps so many trajectories."""
        near = recipe.judge.near_duplicates
        if near is None:
            return ()
        earlier = Earlier("", ()) if before is None else before.earlier
        stages = stages_in(self.out, one)
        if earlier.generations:
            units = [Unit(number, name, "") for number, name in enumerate(stages.names)]
            earlier = earlier.with_tasks(tasks_of(units, stages.folder / "measures"))
        earlier = replace(earlier, generations=(*earlier.generations, stages), whole=True)
        at = stages.folder
        folders = at / "transitions", at / "measures", at / "verdicts", at / "rejects/judge", at / "spans"
        spill = self._owner.spill if self.execution.is_local else None
        records = near.bands * kept
        partitions = self.execution.partitions_of(records)
        judging = Judging(recipe, *folders, "", partitions=partitions, spill=spill, earlier=earlier)
        ledgers, files = stages.ledgers, files_of(records)
        self._owner.make_spill()
        try:
            seeing = None if self.execution.is_local else Seeing(self.out, self._owner.token)
            run_over(judging.work(()), UnitsToBuckets(judging, ledgers, files), self.execution, seeing)
        finally:
            self._owner.clear_spill()
        there = [name for name in map(bands_name, range(files)) if ledgers.exists(name)]
        return tuple(
            FileEntry(name, rows_of(ledgers, name), ledgers.size(name), ledgers.sha256(name)) for name in there
        )


def _files(shards: Manifest) -> tuple[FileEntry, ...]:
    return tuple(file for file in shards.files if "/" in file.name)
