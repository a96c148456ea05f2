"""A run: the stages one after the other, from one durable folder to the next, under a lock, with a balance at the end.

Every stage resumes: finished units are not repeated. This module decides only order and completeness.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from trajmill.pipelines.execution.dispatch import run_over
from trajmill.pipelines.execution.dying_inputs import Deaths
from trajmill.pipelines.execution.execution import Execution, Seeing, require_openable
from trajmill.pipelines.execution.flow import Step
from trajmill.pipelines.execution.pool import worker_pool
from trajmill.pipelines.judge.evaluation_index import NAME as BENCHMARKS
from trajmill.pipelines.judge.evaluation_index import UNIT as BENCHMARKS_UNIT
from trajmill.pipelines.judge.evaluation_index import write_index
from trajmill.pipelines.judge.harness_text import NAME as HARNESS_TABLE
from trajmill.pipelines.judge.harness_text import UNIT as HARNESS_UNIT
from trajmill.pipelines.judge.harness_text import frame_warnings
from trajmill.pipelines.judge.judge import UnitsToVerdicts
from trajmill.pipelines.judge.judging import (
    Judging,
    Unit,
    Withdrawn,
    count_packed_records,
    judging_digest,
    measure_files,
    units_in,
)
from trajmill.pipelines.judge.measuring import measuring_digest
from trajmill.pipelines.judge.near_duplicates import STAGE as LIKENESS
from trajmill.pipelines.judge.replicates import NAME as REPLICATES
from trajmill.pipelines.judge.replicates import UNIT as REPLICATES_UNIT
from trajmill.pipelines.judge.selected_ids import unknown_ids
from trajmill.pipelines.judge.verdicts import STAGE as JUDGE
from trajmill.pipelines.mix.candidates import draws_name
from trajmill.pipelines.mix.known import Known
from trajmill.pipelines.mix.large_tasks import require_room
from trajmill.pipelines.mix.mix import UnitsToShards
from trajmill.pipelines.mix.mixing import REPLAYS, SAMPLES, Mixing, Shard, lay_out_shards, mixing_digest, shard_names
from trajmill.pipelines.mix.mixing import STAGE as MIX
from trajmill.pipelines.mix.mixture import ANSWERS, POOLS_UNIT, Judged, Mixture, write_draws
from trajmill.pipelines.mix.passages.preparation import READ as PASSAGES_READ
from trajmill.pipelines.mix.passages.preparation import REJECTS as PASSAGES_REJECTED
from trajmill.pipelines.mix.passages.preparation import STAGE as PASSAGES
from trajmill.pipelines.mix.passages.preparation import Preparation, passage_inputs
from trajmill.pipelines.mix.passages.preparing import names_to_keep, prepare
from trajmill.pipelines.mix.replay_results import replays_of
from trajmill.pipelines.mix.sample_columns import images_in
from trajmill.pipelines.mix.simulation_instructions import read_instructions
from trajmill.pipelines.normalize.connector_errors import broken_connectors, read_failures, withdrawals
from trajmill.pipelines.normalize.normalizer import unit_digest
from trajmill.pipelines.normalize.parts_by_hand import names_of, normalize_parts, normalizer_of, stages_of
from trajmill.pipelines.plan.plan import UNRECOGNIZED_REASONS, Plan, make_plan
from trajmill.pipelines.plan.planned_before import PlannedBefore
from trajmill.pipelines.plan.recognition import PlanCounts
from trajmill.pipelines.publish.card import CARD_UNIT, DESCRIBED_IN, content_digest, finish_dataset
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run_record.changes import changes, read_record
from trajmill.pipelines.run_record.conservation import (
    Line,
    attachment_line,
    check_rejects,
    input_line,
    passage_lines,
    record_line,
    trajectory_line,
    transition_line,
    unrecognized_line,
)
from trajmill.pipelines.run_record.endings import Code, ending_of
from trajmill.pipelines.run_record.run_log import LOG, RunLog
from trajmill.pipelines.run_record.run_record import Record
from trajmill.pipelines.run_record.summary import OVER, StageStart, Summary
from trajmill.pipelines.run_record.warnings import domain_counts, lost_domains, mixture_warnings, nothing_kept
from trajmill.pipelines.storage.folders import Folder, sha256_of
from trajmill.pipelines.storage.ownership import BLOBS, PLAN, RUN, Identity, Ownership
from trajmill.pipelines.storage.parquet import write_parquet
from trajmill.pipelines.storage.scratch import clear_scratch
from trajmill.pipelines.storage.units import (
    MANIFEST,
    done_units,
    finish_stage,
    finish_unit,
    manifest_names,
    stage_names,
    unit_manifests,
    units_folder,
    units_of,
)
from trajmill.quality.scrub import scrub_reject
from trajmill.schemas import REJECT_SCHEMA, SCHEMA_VERSION, ConfigError, ShardError, reject_table
from trajmill.schemas.manifest import Manifest, sum_counts

PASSAGE_STAGES: Final = (PASSAGES, PASSAGES_READ, PASSAGES_REJECTED)


class Run:
    """One run of a recipe into one folder.

    Args:
        raws: raw logs: files, folders, globs.
        out: the output folder, a path or a URL.
        tell: function that is called when a stage begins, with its amount of work.
        overwrite: whether an existing run of trajmill in the folder is replaced.
        command: the command line, for `run.json`.
        known: decisions of earlier runs.
        plan: the plan; None makes it.
        publishes: whether the result is a dataset of its own, with a card.
        log: log of the run, which is written to `run.log`.

    Raises:
        ConfigError: there is no file system for a raw log or the output folder.
    """

    def __init__(
        self,
        recipe: Recipe,
        raws: Sequence[str],
        out: str,
        execution: Execution | None = None,
        tell: Callable[[StageStart], None] = lambda _: None,
        *,
        overwrite: bool = False,
        command: Sequence[str] = (),
        known: Known | None = None,
        plan: Plan | None = None,
        publishes: bool = True,
        log: RunLog | None = None,
    ) -> None:
        require_openable([*raws, out])
        self.recipe, self.raws, self.execution = recipe, raws, execution or Execution()
        self.out = Folder.named(out)
        self._owner = Ownership(self.out, Identity.of(recipe, raws), overwrite=overwrite)
        self._record = Record(recipe, self.execution, command)
        self._tell = tell
        self._known, self._plan, self._publishes, self._log = known or Known(), plan, publishes, log
        self._so_far: Summary | None = None
        self._seconds: dict[str, float] = {}
        self._benchmarks = ""
        told = recipe.mix.instructions
        self._instructions = {} if told is None else read_instructions(told)
        self._models: dict[str, str] = {}
        self._proven: Manifest | None = None
        self._deaths = Deaths()
        self._work = work = self.out.held(self._owner.token)
        self._rejects = work / "rejects"
        self.transitions, self.verdicts = work / "transitions", work / "verdicts"
        self.blobs = work / BLOBS if recipe.normalize.attachments == "keep" else None
        self.spans, self.measures = work / "spans", work / "measures"
        self._likeness = work / LIKENESS if self._known.asks_likeness(recipe) else None
        self.draws, self.shards = work / "draws", work / "shards"

    def run(self, last: str = "mix") -> Summary:
        """Run the stages up to `last` and return a summary.

        Raises:
            ConfigError: an input or an option is wrong, or the folder belongs to another run; nothing was written.
            TooManyRejectsError: more was rejected than the recipe allows.
            ShardError: a file of the folder cannot be read or written, or no runner answers; running again resumes.
            ContractError: a bug of trajmill.
        """
        self.execution.require_runner([*self.raws, self.out.url, *self.recipe.read_by_workers()])
        with worker_pool(self.execution.workers):
            return self._run_checked(last)

    def _run_checked(self, last: str) -> Summary:
        goes_on = self._owner.check(self.raws).identity == self._owner.identity
        clear_scratch()
        self._deaths = Deaths.left_in(self.out)
        plan = self._timed("plan", lambda: self._planned(goes_on))
        with self._owner.held():
            try:
                left = read_record(self.out.found(RUN))
                summary = self._run(plan, last)
                summary = replace(summary, changed=changes(left, json.loads(self._record.to_json(summary))))
            except BaseException as error:
                ending = ending_of(error)
                with suppress(OSError, ShardError):  # what ended the run may keep its record from being written
                    self._write_record(ending.code, ending.line)
                    self._end_log(f"ended with {ending.code:d}: {ending.line}")
                raise
            self._tell(OVER)
            code = Code.CONNECTOR if summary.broken else Code.DONE
            self._write_record(code)
            self._end_log(f"ended with {code:d}, after {summary.last}")
            return summary

    def renew(self) -> None:
        """Prove after the run that a folder in a store is still this run's.

        Raises:
            OvertakenError: another run has taken it.
        """
        self._owner.renew()

    def _begin_log(self) -> None:
        """Start writing the log, once the folder holds work."""
        if self._log is not None:
            self._owner.intend([LOG])
            self._log.open(self.out.found(LOG), lambda data: self.out.write(LOG, data, private=True))

    def _end_log(self, told: str) -> None:
        if self._log is not None:
            self._log.add(told)
            self._log.close()

    def _write_record(self, code: Code | None = None, error: str = "") -> None:
        """Write the record, once the folder holds work."""
        if self._so_far is not None:
            self._owner.intend([RUN])
            self.out.write(RUN, self._record.to_json(self._so_far, code, error), private=True)

    def _reached(self, summary: Summary) -> Summary:
        self._so_far = summary
        return summary

    def _run(self, plan: Plan, last: str) -> Summary:
        self._benchmarks = self._index_benchmarks()
        self._models = {name: sha256_of(path) for name, path in self.recipe.judge.files().items()}
        self._write_plan(plan)
        self._owner.keep()
        self._begin_log()
        lost = Counter(one.reason for one in plan.unrecognized)
        damaged = {reason: lost.pop(reason) for reason in sorted(lost.keys() - UNRECOGNIZED_REASONS)}
        broken = broken_connectors(withdrawals(plan))
        summary = self._reached(Summary(self.out.path(), "plan", (), plan, seconds=self._seconds, broken=broken))
        self._write_record()
        if last == "plan":
            return summary
        normalized = self._timed("normalize", lambda: self._normalize(plan))
        planned = sum(len(part.inputs) for part in plan.parts)
        inputs, records = input_line(planned, normalized.counts, damaged), record_line(normalized.counts)
        places = {place for log in plan.inputs for place in log.members.values()}  # logs may share a file
        files = unrecognized_line(len(places), lost)
        attached = attachment_line(normalized.counts)
        read = (*((files,) if files.lost else ()), inputs, records, *((attached,) if attached.entered else ()))
        parts = unit_manifests(self.transitions, [part.name for part in plan.parts])
        failed = read_failures(self._rejects / "normalize", parts)
        broken = broken_connectors([*withdrawals(plan), *failed])
        summary = self._reached(
            replace(summary, last="normalize", lines=read, broken=broken, warnings=nothing_kept(read))
        )
        check_rejects(files, inputs, records, self.recipe, summary.broken)
        if last == "normalize":
            return summary
        units = units_in(self._work)
        if last in ("draw", "mix") and not self._known.stages:
            require_room(self.recipe, units, self.transitions)
        judged = self._timed("judge", lambda: self.judge(units))
        transitions = transition_line(judged.counts)
        tokens = judged.counts.get("tokens", 0), judged.counts.get("tokens.target", 0)
        summary = replace(summary, last="judge", lines=(*read, transitions), tokens=tokens[0], target_tokens=tokens[1])
        by_domain = domain_counts(units, self.verdicts)
        gone = (*lost_domains(by_domain, units, self._rejects / JUDGE), *frame_warnings(self.measures))
        gone += tuple(unknown_ids(self.recipe.judge, [self._work, *self._known.stages]))
        domains = {name: (counts["trajectories"], counts["trajectories.kept"]) for name, counts in by_domain.items()}
        summary = replace(summary, domains=domains, warnings=nothing_kept(read) + gone)
        summary = self._reached(replace(summary, replicates=self._replicates()))
        if last == "judge":
            return summary
        mixed = self._timed("mix", lambda: self._mix(plan, units, normalized, judged, read, transitions, last))
        if mixed is None:
            return self._reached(replace(summary, last="draw"))
        counts, lines, mixture = mixed
        samples, tokens_drawn, loss_tokens = (
            {key.removeprefix(f"{unit}."): number for key, number in counts.items() if key.startswith(f"{unit}.")}
            for unit in ("samples", "tokens", "loss_tokens")
        )
        nothing = nothing_kept(lines)
        is_first, warnings = not self._known.stages, nothing + gone
        warnings += () if nothing else mixture_warnings(mixture, self.recipe.mix, samples, is_first=is_first)
        shown = images_in(counts)
        warnings += (f"the samples show {shown:,} screenshots, and no picture is scrubbed",) if shown else ()
        summary = replace(summary, last="mix", lines=lines, warnings=warnings, mixture=mixture.told())
        return self._reached(replace(summary, samples=samples, drawn_tokens=tokens_drawn, loss_tokens=loss_tokens))

    def _timed(self, stage: str, work: Callable[[], Any]) -> Any:
        begin = time.monotonic()
        result = work()
        self._seconds[stage] = round(time.monotonic() - begin, 3)
        return result

    def _planned(self, goes_on: bool) -> Plan:
        """Return the plan. A run that continues in its folder does not open unchanged files again."""
        how = self.execution
        if self._plan is not None:
            return self._plan
        counts = PlanCounts()
        self._tell(StageStart("plan", counts=counts))
        left = PlannedBefore.left_in(self.out) if goes_on else None
        self._record.listed = time.time()
        plan = make_plan(
            self.recipe,
            self.raws,
            how.part_bytes,
            how.limit,
            strict=how.strict,
            workers=how.workers,
            found_before=left,
            counts=counts,
            deaths=self._deaths,
        )
        if not plan.parts and not plan.unrecognized:
            raise ConfigError("There is nothing to do: no input was found.")
        return replace(plan, passages=tuple(passage_inputs(self.recipe.mix.passages)))

    def _index_benchmarks(self) -> str:
        if self.recipe.judge.benchmarks:
            self._owner.intend({f"measures/{BENCHMARKS}", *manifest_names("measures", [BENCHMARKS_UNIT])})
        return write_index(self.recipe.judge.benchmarks, self.measures)

    def _write_plan(self, plan: Plan) -> None:
        folder, unit = self._rejects / "plan", "part-00000"
        self._owner.intend({f"rejects/plan/{unit}.parquet", *manifest_names("rejects/plan", [unit])})
        self.out.write(PLAN, plan.to_json(), private=True)
        normalize = self.recipe.normalize
        rejects = [scrub_reject(one, normalize.scrub_salt or "", normalize.scrub) for one in plan.unrecognized]
        table = reject_table(rejects).combine_chunks().to_batches()
        entry = write_parquet(folder, f"{unit}.parquet", REJECT_SCHEMA, table)
        finish_unit(folder, Manifest("plan", unit, plan.digest, SCHEMA_VERSION, (entry,)))
        finish_stage(folder, "plan", plan.digest, [unit])

    def _over(self, work: Sequence[Any], transform: Step, isolated: bool = False) -> None:
        """Run the transform over the work. Workers elsewhere first prove that they see the folder."""
        seeing = None if self.execution.is_local else Seeing(self.out, self._owner.token)
        self._owner.make_spill()
        try:
            run_over(work, transform, replace(self.execution, isolated=isolated), seeing)
        finally:
            self._owner.clear_spill()

    def _begin(self, stage: str, digests: dict[str, str], size: int, *steps: tuple[Folder, dict[str, str]]) -> set[str]:
        """Announce a stage and return the labels of the unfinished units, by the last of their steps."""
        open_units = set(digests) - done_units(steps[-1][0], digests)
        watched = tuple((units_of(folder), of) for folder, of in steps)
        self._tell(StageStart(stage, len(digests), len(digests) - len(open_units), size, watched))
        return open_units

    def _normalize(self, plan: Plan) -> Manifest:
        digests = {part.name: unit_digest(part) for part in plan.parts}
        self._begin("normalize", digests, sum(part.bytes for part in plan.parts), (self.transitions, digests))
        normalizer = normalizer_of(
            self.recipe,
            self.out,
            strict=self.execution.strict,
            watched=self.execution.is_local,
            tombstones=self._known.tombstones,
            earlier=self._known.stages,
        )
        self._owner.intend(names_of(plan, normalizer))
        normalize_parts(plan.parts, normalizer, self._over, self._deaths)
        return self._sealed(stages_of(normalizer), "normalize", plan.digest, digests)

    def _sealed(self, stages: Sequence[str], name: str, digest: str, units: Iterable[str], **more: Any) -> Manifest:
        """Seal folders of equal units and remove an earlier run's files there; return the first folder's manifest."""
        labels = list(units)
        self._owner.intend({f"{stage}/{MANIFEST}" for stage in stages})
        for stage in stages[1:]:
            finish_stage(self._work / stage, name, digest, labels)
        sealed = finish_stage(self._work / stages[0], name, digest, labels, **more)
        for stage in stages:
            self._prune(stage, stage_names(self._work, stage, labels))
        return sealed

    def _prune(self, stage: str, wanted: set[str]) -> None:
        self._owner.prune([stage, units_folder(stage)], wanted)

    def judge(self, units: Sequence[Unit]) -> Manifest:
        """Judge units of transitions in the folder, and return the manifest of the verdicts.

        This is repeated until no kept trajectory would join two pools.
        """
        withdrawn: dict[str, set[int]] = {}
        while True:
            judged = self._judge(units, tuple((label, tuple(sorted(withdrawn[label]))) for label in sorted(withdrawn)))
            bridges = self._known.bridges(self.recipe, units, self._work)
            if not bridges:
                return judged
            for label, rows in bridges:
                withdrawn.setdefault(label, set()).update(rows)

    def _judge(self, units: Sequence[Unit], withdrawn: Withdrawn = ()) -> Manifest:
        rejects = self._rejects / JUDGE
        models = tuple(sorted(self._models.items()))
        digest = judging_digest(self.recipe, units, self._benchmarks, models, self._known.digest, withdrawn)
        labels = [unit.label for unit in units]
        spill = self._owner.spill if self.execution.is_local else None
        folders = (self.transitions, self.measures, self.verdicts, rejects, self.spans)
        transitions = [self.transitions, *(one / "transitions" for one in self._known.stages)]
        partitions = self.execution.partitions_of(count_packed_records(self.recipe, transitions))
        more = partitions, spill, self._likeness, withdrawn
        judging = Judging(self.recipe, *folders, digest, self._benchmarks, models, *more)
        sizes = {unit: self.transitions.size(unit.name) for unit in units}
        beside = [
            "rejects/judge",
            *(["spans"] if self.recipe.judge.spans else []),
            *([LIKENESS] if self._likeness else []),
        ]
        rules = self.recipe.judge
        asked = ((rules.replicates, REPLICATES_UNIT), (rules.harness_text, HARNESS_UNIT))
        measured = [*labels, *(unit for wanted, unit in asked if units and wanted is not None)]  # a unit writes them
        whole = dict.fromkeys(labels, digest)
        made = {unit.label: measuring_digest(unit, judging) for unit in units}
        todo = self._begin("judge", whole, sum(sizes.values()), (self.measures, dict(made)), (self.verdicts, whole))
        made |= dict.fromkeys(measured[len(labels) :], digest)
        undone = any(len(done_units(self._work / other, whole)) < len(labels) for other in beside)
        undone = undone or len(done_units(self.measures, made)) < len(made)
        if todo or undone:
            self._intend_judging(units, beside, measured)
            largest_first = sorted(units, key=sizes.__getitem__, reverse=True)  # so that workers end together
            self._over([*largest_first, *self._known.units()], UnitsToVerdicts(judging))
        measured += [BENCHMARKS_UNIT] if self._benchmarks else []
        self._sealed(["measures"], "judge", digest, measured)
        if not self.recipe.judge.spans:
            self._prune("spans", set())
        return self._sealed(["verdicts", *beside], "judge", digest, labels, models=self._models)

    def _intend_judging(self, units: Sequence[Unit], beside: Sequence[str], measured: Sequence[str]) -> None:
        labels = [unit.label for unit in units]
        names = {
            f"{stage}/{unit.name}" for stage in ("verdicts", *beside) if stage != "rejects/judge" for unit in units
        }
        names |= {f"rejects/judge/{label}.parquet" for label in labels}
        names |= {f"measures/{name}" for label in labels for name in measure_files(label)}
        names |= {f"measures/{name}" for name in (REPLICATES, HARNESS_TABLE)}
        for stage in ("verdicts", *beside):
            names |= manifest_names(stage, labels)
        self._owner.intend(names | manifest_names("measures", measured))

    def _replicates(self) -> dict[str, dict[str, float]]:
        if self.recipe.judge.replicates is None or (data := self.measures.found(REPLICATES)) is None:
            return {}
        found: dict[str, dict[str, float]] = json.loads(data)
        return found

    def _mix(
        self,
        plan: Plan,
        units: Sequence[Unit],
        normalized: Manifest,
        judged: Manifest,
        read: tuple[Line, ...],
        rows: Line,
        last: str,
    ) -> tuple[dict[str, int], tuple[Line, ...], Mixture] | None:
        """Mix, or only draw if that is the last stage."""
        rejects = self._rejects / MIX
        preparation = self._preparation(plan)
        passages = self._pass_through(preparation)
        replays = self._work / REPLAYS if self.recipe.mix.asks_replays else None
        self._proven = None if replays is None else replays_of(replays)
        digest = mixing_digest(self.recipe, judged, passages, self._proven)
        instructions = self._instructions
        found = Judged(units, self._work, preparation, instructions, self._known)
        mixture = self._draw(found, digest)
        if last == "draw":
            return None
        samples = self._work / SAMPLES
        blobs = tuple(one / BLOBS for one in (self._work, *self._known.stages))
        mixing = Mixing(self.recipe, self._work, digest, preparation, instructions, replays, blobs)
        shards = lay_out_shards(mixture.counts, self.recipe.mix, self._known.generation)
        labels = found.labels()
        size = sum(count for key, count in mixture.counts.items() if key.startswith("text_bytes."))
        wanted = {shard.label: digest for shard in shards}
        todo = self._begin("mix", wanted, size, (self.shards, wanted))
        if todo or len(done_units(rejects, dict.fromkeys(labels, digest))) < len(labels):
            still = frozenset(shard.number for shard in shards if shard.label in todo)
            spill = self._owner.spill if self.execution.is_local else None
            self._owner.intend(shard_names(shards, labels))
            made = frozenset(done_units(samples, dict.fromkeys(labels, digest)))
            mixing = replace(mixing, shards=shards, open=still, made=made)
            largest_first = sorted(units, key=lambda unit: self.transitions.size(unit.name), reverse=True)
            self._over([*largest_first, *found.passage_units()], UnitsToShards(mixing, spill))
        dropped = self._sealed(["rejects/mix"], "mix", digest, labels).counts
        counts = sum_counts(unit_manifests(self.shards, [shard.label for shard in shards]))
        whole = trajectory_line(normalized.counts, judged.counts, {**counts, **dropped})
        passed = passage_lines([one.name for one in self.recipe.mix.passages], passages.counts if passages else {})
        flow = (*read, whole, rows, *passed)
        self._finish_shards(shards, flow, mixture)
        self._prune(SAMPLES, set())
        return counts, flow, mixture

    def _preparation(self, plan: Plan) -> Preparation | None:
        """Return the settings of passing through rows of other corpora; None if the recipe names none."""
        if not self.recipe.mix.passages:
            return None
        models, work = tuple(sorted(self._models.items())), self._work
        only = frozenset(place for one in plan.passages for place in one.members.values())
        components, decided = self.recipe.mix.passages, self._known.stages
        return Preparation(self.recipe, components, work, self._benchmarks, models, only, decided)

    def _pass_through(self, preparation: Preparation | None) -> Manifest | None:
        """Prepare the rows of other corpora, and remove such files of an earlier run."""
        if preparation is None:
            for stage in PASSAGE_STAGES:
                self._prune(stage, set())
            return None
        manifest = prepare(preparation, self._over, self._owner.intend)
        for stage, names in names_to_keep(preparation):
            self._prune(stage, names)
        return manifest

    def _draw(self, judged: Judged, digest: str) -> Mixture:
        """Draw the mixture, which is written before any shard is made."""
        labels = [*judged.labels(), POOLS_UNIT]
        names = {f"draws/{draws_name(label)}" for label in labels} | {f"draws/{ANSWERS}"}
        self._owner.intend(names | manifest_names("draws", labels))
        mixture = write_draws(self.recipe, judged, self.draws, digest)
        self._sealed(["draws"], "mix", digest, labels)
        return mixture

    def _finish_shards(self, shards: Sequence[Shard], flow: Sequence[Line], mixture: Mixture) -> None:
        """Write card and manifest; for an appended generation only the manifest."""
        labels, values = [shard.label for shard in shards], self.recipe.mix.values
        selections = {key: sha256_of(path) for key, path in self.recipe.judge.selections().items()}
        made = unit_manifests(self.shards, labels)
        told = mixture.told() | ({} if self._proven is None else {"replays": self._proven.digest})
        models = self._models | selections | ({} if values is None else {"mix.values": sha256_of(values)})
        if self._publishes:
            self._owner.intend({*(f"shards/{name}" for name in DESCRIBED_IN), *manifest_names("shards", [CARD_UNIT])})
            finish_dataset(self.recipe, self.shards, [self._work], made, flow, told, models)
            labels.append(CARD_UNIT)
        else:
            finish_stage(self.shards, "mix", content_digest(self.recipe, made), labels, mixture=told, models=models)
        self._prune("shards", stage_names(self._work, "shards", labels))
