"""Append to a finished run: new logs are read, judged against the kept data, and become a generation of their own.

Nothing of an earlier generation is written again. See docs/decisions/generations.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from trajmill.pipelines.execution.dying_inputs import Deaths
from trajmill.pipelines.execution.execution import Execution, require_openable
from trajmill.pipelines.generations.compatibility import (
    by_anew,
    recipe_of,
    recipe_of_record,
    record_values,
    require_follows,
    versions_of,
)
from trajmill.pipelines.generations.generations import (
    FIRST,
    Generation,
    chain,
    clear_abandoned,
    commit,
    folder_of,
    ledgers_of,
    plan_of,
    stages_of,
    write_ledger,
)
from trajmill.pipelines.generations.known import KnownGenerations
from trajmill.pipelines.generations.known_inputs import Contents, FoundBefore, KnownInputs, input_rows
from trajmill.pipelines.generations.placed_nodes import place_rows
from trajmill.pipelines.generations.published import publish
from trajmill.pipelines.mix.mixing import mixing_digest
from trajmill.pipelines.mix.passages.preparation import STAGE as PASSAGES
from trajmill.pipelines.mix.passages.preparation import passage_inputs
from trajmill.pipelines.normalize.forgotten_keys import Tombstones
from trajmill.pipelines.plan.plan import Plan, make_plan
from trajmill.pipelines.plan.recognition import PlanCounts
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.run_log import RunLog
from trajmill.pipelines.run_record.summary import StageStart, Summary
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import PLAN, RUN, Ownership, identity_of
from trajmill.pipelines.storage.scratch import scratch_folder
from trajmill.pipelines.storage.stored_blob import opened_archive
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.schemas import ConfigError


@dataclass(frozen=True, slots=True)
class Appended:
    """Result of an append.

    Attributes:
        generation: the last generation of the folder.
        summary: summary of the run that made it, with the output folder as its path; None if nothing was new.
        known: number of inputs that were read before, under this name or another.
        changed: inputs whose bytes differ from those read at their place. The recipe decides whether they are left out
            or are among the added ones.
        begun: folders of uncommitted generations in an object store, on which others may be working.
    """

    generation: Generation
    summary: Summary | None
    known: int
    changed: tuple[str, ...]
    begun: tuple[str, ...] = ()


class Append:
    """One generation that is appended to a folder. Arguments are those of `Run`."""

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
        """Append the new inputs, and return the result.

        Args:
            last: the last stage to run. "judge" leaves an uncommitted generation, which may be replayed and which the
                next `run` continues.

        Raises:
            ConfigError: the folder holds no finished run of the recipe; otherwise as for `Run.run`.
        """
        self.execution.require_runner([*self.raws, self.out.url, *self.recipe.read_by_workers()])
        with self._owned():
            while True:
                generations = self._chain()
                self._publish(generations)  # which a run that was killed may have left
                appended = self._add(generations, last)
                if appended.summary is None or appended.summary.last != "mix":
                    return appended
                is_committed = appended.generation is not generations[-1]
                if is_committed:  # else another one was, whose child it has to be
                    self._publish([*generations, appended.generation])
                    return appended

    def begin(self) -> Generation:
        """Record the finished run in the folder as its first generation, so that later runs can only append."""
        with self._owned():
            return self._chain()[0]

    @contextmanager
    def _owned(self) -> Iterator[None]:
        """Hold the folder for an append."""
        identity = identity_of(self.out)
        if identity is None:
            raise ConfigError(f"{self.out.path()} holds no run that could be added to. Run without --append first.")
        self._owner = Ownership(self.out, identity, adding=True)
        self._owner.check(self.raws)
        chain(self.out)  # so that a folder that is being forgotten in is not taken
        with self._owner.held():
            self._owner.keep()
            yield

    def _publish(self, generations: list[Generation]) -> None:
        """Make the dataset of all generations, and again if another append was committed meanwhile.

        In an object store two processes may do so at once, and the one with fewer generations may write last. It
        therefore looks again.
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

    def _chain(self) -> list[Generation]:
        """Return the generations of the folder. The first is created from the finished run if it does not exist.

        Raises:
            ConfigError: the run was not finished, or no generation of the recipe may follow.
        """
        generations = chain(self.out)
        if not generations:
            made_by = self._maker()
            first = Generation(FIRST, "", "", Plan.from_json(self.out.read(PLAN)).digest, made_by.digest())
            first = self._named(first, made_by)
            require_follows(self.out, first, self.recipe)
            clear_abandoned(self.out, ())
            whole = self._with_tables(first, (), made_by)
            self._owner.renew()  # nobody who does not add has taken the folder
            commit(self.out, whole)
            generations = chain(self.out)
        require_follows(self.out, generations[-1], self.recipe)
        return generations

    def _maker(self) -> Recipe:
        """Return the recipe of the folder's finished run.

        Raises:
            ConfigError: the run was not finished, or its record is of another recipe.
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
            f"normalize.scrub_salt, or with other texts of mix.templates. {by_anew(self.out)}"
        )

    def _add(self, generations: list[Generation], last: str) -> Appended:
        """Make and commit the next generation. If nothing is new, return the last one without a summary."""
        known = KnownGenerations.of(self.out, generations)
        inputs = KnownInputs.of(known, self.recipe, self._contents)
        plan = self._plan(inputs, generations)
        known_inputs = inputs.again, tuple(inputs.changed)
        if not plan.parts and not plan.passages:
            return Appended(generations[-1], None, *known_inputs)
        contents = sorted(f"{self._contents.of(source)} {source.uri}" for source in [*plan.inputs, *plan.passages])
        digest = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
        parent, recipe = generations[-1].digest, self.recipe.digest()
        folder = folder_of(parent, digest, recipe)
        begun = clear_abandoned(self.out, {folder, *(earlier.folder for earlier in generations)})
        made_by = Run(
            self.recipe,
            self.raws,
            (self.out / folder).url,
            self.execution,
            self._tell,
            command=self._command,
            known=known,
            plan=plan,
            publishes=False,
            log=self._log,
        )
        summary = replace(made_by.run(last), out=self.out.path())
        if last != "mix":
            return Appended(generations[-1], summary, *known_inputs, begun)
        generation = self._named(Generation(len(generations) + 1, parent, folder, digest, recipe), self.recipe)
        generation = self._with_tables(generation, known.places, self.recipe)
        made_by.renew()  # so that nobody clears what is committed now
        committed = commit(self.out, generation)
        return Appended(generation if committed else generations[-1], summary, *known_inputs, begun)

    def _plan(self, inputs: KnownInputs, generations: Sequence[Generation]) -> Plan:
        """Plan the new inputs in the raw logs."""
        how, plans = self.execution, [plan_of(self.out, generation) for generation in generations]
        found_before, counts = FoundBefore.of(plans), PlanCounts()
        self._tell(StageStart("plan", counts=counts))
        plan = make_plan(
            self.recipe,
            self.raws,
            how.part_bytes,
            how.limit,
            strict=how.strict,
            workers=how.workers,
            is_known=inputs.knows,
            found_before=found_before,
            counts=counts,
            deaths=Deaths.left_in(self.out),
        )
        inputs.again += found_before.again
        known_rejects = {(reject.uri, reject.reason) for plan in plans for reject in plan.unrecognized}
        unrecognized = tuple(reject for reject in plan.unrecognized if (reject.uri, reject.reason) not in known_rejects)
        passages = tuple(passage for passage in passage_inputs(self.recipe.mix.passages) if not inputs.knows(passage))
        return replace(plan, unrecognized=unrecognized, passages=passages)

    def _named(self, generation: Generation, recipe: Recipe) -> Generation:
        """Complete a generation with the values of its finished stages."""
        shards = read_manifest(stages_of(self.out, generation) / "shards", MANIFEST)
        assert shards is not None
        connectors = {source.connector: source.version for source in plan_of(self.out, generation).inputs}
        return replace(
            generation,
            versions=versions_of(recipe),
            values=record_values(recipe),
            connectors=dict(sorted(connectors.items())),
            counts=shards.counts,
            mixture=shards.mixture,
            models=shards.models,
            shards=tuple(file for file in shards.files if "/" in file.name),
        )

    def _with_tables(self, generation: Generation, before: Sequence[Folder], recipe: Recipe) -> Generation:
        """Write the ledgers of a generation, which follow those in other folders, and add them to it."""
        stages, ledgers = stages_of(self.out, generation), ledgers_of(self.out, generation)
        plan = plan_of(self.out, generation)
        inputs = [*plan.inputs, *plan.passages]
        rows = input_rows(inputs, self._contents.read(inputs, stages))
        places = place_rows(recipe, stages, before)
        return replace(
            generation, ledgers=(write_ledger(ledgers, "inputs", rows), write_ledger(ledgers, "places", places))
        )


def run_with_pools_of(
    old: str,
    recipe: Recipe,
    raws: Sequence[str],
    out: str,
    execution: Execution | None = None,
    tell: Callable[[StageStart], None] = lambda _: None,
    command: Sequence[str] = (),
    log: RunLog | None = None,
) -> Summary:
    """Run a recipe anew, with the pools that groups have in the folder of an old run.

    Other arguments are those of `Run`.

    Trajectories that would join two pools are rejected (`bridges_pools`), and records that the old folder forgot are
    not read. The new folder is at its first generation, so later runs can only append.

    Raises:
        ConfigError: the old folder holds no finished run; otherwise as for `Run`.
    """
    how, source = execution or Execution(), Folder.named(old)
    tombstones = Tombstones.read(source)
    with _places_of(recipe, source) as (digest, places):
        known, plan = KnownGenerations(digest, places, tombstones), None
        if tombstones.keys:
            inputs = KnownInputs.of(known, recipe, Contents(recipe.normalize.max_member_bytes))
            sizes = how.part_bytes, how.limit
            plan = make_plan(recipe, raws, *sizes, strict=how.strict, is_known=inputs.knows, workers=how.workers)
        summary = Run(recipe, raws, out, how, tell, command=command, known=known, plan=plan, log=log).run()
    if tombstones.keys:
        tombstones.write(Folder.named(out))
    Append(recipe, raws, out, how).begin()
    return summary


@contextmanager
def _places_of(recipe: Recipe, old: Folder) -> Iterator[tuple[str, tuple[Folder, ...]]]:
    """Yield (digest, folders of ledgers) that hold the pools of an old folder's groups.

    Raises:
        ConfigError: the folder holds no finished run.
    """
    generations = chain(old)
    if generations:
        yield generations[-1].digest, tuple(ledgers_of(old, generation) for generation in generations)
        return
    draws = read_manifest(old / "draws", MANIFEST)
    if draws is None:
        raise ConfigError(f"{old.path()} holds no finished run whose pools could be kept.")
    with scratch_folder() as scratch:
        entry = write_ledger(Folder(scratch), "places", place_rows(recipe, old))
        yield hashlib.sha256(f"{draws.digest}{entry.sha256}".encode()).hexdigest(), (Folder(scratch),)
