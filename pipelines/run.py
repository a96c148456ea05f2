"""A run: the stages one after the other, from one durable folder to the next, under a lock, with a balance at the end.

Every stage resumes: units that are done are not done again. What is decided here is only order and completeness.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pipelines import judge as judging_stage
from pipelines import mix as mixing_stage
from pipelines import normalize as normalizing_stage
from pipelines.addresses import require_openable
from pipelines.benchmarks import NAME as BENCHMARKS
from pipelines.benchmarks import write_index
from pipelines.card import card
from pipelines.connector_errors import Broken, broken_connectors, failed_inputs, must_be_read_again
from pipelines.conservation import (
    Line,
    input_line,
    record_line,
    trajectory_line,
    transition_line,
    unrecognized_line,
)
from pipelines.judge import UnitsToVerdicts
from pipelines.mix import Mixing, Shard, UnitsToShards, laid_out, mixing_digest, pool_sizes
from pipelines.normalize import Normalizer, PartsToTransitions, unit_digest
from pipelines.parquet import write_parquet
from pipelines.plan import Plan, make_plan
from pipelines.recipe import Recipe
from pipelines.replicates import NAME as REPLICATES
from pipelines.runner import Execution, run_over
from pipelines.sidecar import Judging, Unit, judging_digest
from pipelines.storage import Folder, sha256_of
from pipelines.units import MANIFEST, finish_stage, is_done, read_manifest, unit_manifests, units_of
from pipelines.variety import Varieties, kept_variety
from quality.scrub import scrub_text
from schemas import REJECT_SCHEMA, ConfigError, TrajmillError, reject_table
from schemas.manifest import Manifest, summed_counts

STAGES: Final = ("plan", "normalize", "judge", "mix")


class TooManyRejectsError(TrajmillError):
    """More was rejected than the recipe allows; the counts are in the line it carries.

    Args:
        line: of what too much was rejected.
        share: of it.
        limit: the share that the recipe allows.
        name: of the limit in the recipe.
    """

    def __init__(self, line: Line, share: float, limit: float, name: str) -> None:
        super().__init__(line, share, limit, name)
        self.line, self.share, self.limit, self.name = line, share, limit, name

    def __str__(self) -> str:
        what = "were not recognized" if self.line.unit == "files" else "could not be read"
        return (
            f"{self.share:.1%} of {self.line.entered:,} {self.line.unit} {what}, the recipe allows {self.limit:.1%} "
            f"({self.name}); not kept: {self.line.dropped}. See rejects/ in the output folder."
        )


def check_rejects(files: Line, inputs: Line, records: Line, recipe: Recipe) -> None:
    """Ends the run where too much was rejected.

    Too much is more than `max_reject_ratio` of inputs or of records that could not be read, more files than
    `max_unrecognized_ratio` that no connector recognized, and, whatever the reasons, everything, unless the recipe
    allows that all is rejected.

    Raises:
        TooManyRejectsError: the first of these that holds.
    """
    limit, unrecognized = recipe.normalize.max_reject_ratio, recipe.normalize.max_unrecognized_ratio
    name = "normalize.max_reject_ratio"
    share = 1 - files.kept / max(1, files.entered)
    if unrecognized is not None and share > unrecognized:
        raise TooManyRejectsError(files, share, unrecognized, "normalize.max_unrecognized_ratio")
    for line in (inputs, records):
        if line.unreadable > limit:
            raise TooManyRejectsError(line, line.unreadable, limit, name)
    for line in (inputs, files):
        if line.entered and not line.kept and limit < 1:
            raise TooManyRejectsError(line, 1.0, limit, name)


@dataclass(frozen=True, slots=True)
class StageStart:
    """Told to whoever shows progress when a stage begins.

    Attributes:
        stage: its name.
        units: in all.
        done: units that an earlier run has done.
        bytes: to read.
        manifests: the folder in which a unit's manifest appears when it is done.
        labels: of the units.
    """

    stage: str
    units: int
    done: int
    bytes: int
    manifests: Folder
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did.

    Attributes:
        out: the output folder.
        last: the last stage that ran.
        lines: the balance of files, if one was not recognized, inputs, records, trajectories and transitions, as far
            as the run went.
        tokens: of actions and next observations, of all transitions.
        target_tokens: the same of those that carry the loss.
        samples: `pool.domain` → samples.
        plan: the plan.
        seconds: of each stage.
        replicates: domain → what its replicates agree on, as `measures/replicates.json` has it.
        broken: connectors that failed, and what that cost.
    """

    out: str
    last: str
    lines: tuple[Line, ...]
    plan: Plan
    tokens: int = 0
    target_tokens: int = 0
    samples: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    replicates: dict[str, dict[str, float]] = field(default_factory=dict)
    broken: tuple[Broken, ...] = ()

    def line(self, unit: str) -> Line:
        """The balance of a unit."""
        return next(line for line in self.lines if line.unit == unit)


@contextmanager
def locked(out: Folder) -> Iterator[None]:
    """Holds the output folder; a second run on it is refused. The lock goes with the process, however it ends.

    Only local folders are locked: object stores have no lock that goes with a process.

    Raises:
        ConfigError: another run holds it.
    """
    if not out.is_local:
        yield
        return
    path = Path(out.path(".lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("a+")
    except OSError as error:
        raise ConfigError(f"{out.path()} cannot be an output folder: {error.strerror}.") from error
    with opened as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            stream.seek(0)
            holder = stream.read().strip() or "another process"
            raise ConfigError(
                f"{out.path()} is in use by a run of {holder}. Wait for it, or choose another --out."
            ) from error
        stream.truncate(0)
        stream.write(f"process {os.getpid()}")
        stream.flush()
        yield


class Run:
    """One run of a recipe into one folder.

    Args:
        recipe: what to make.
        raws: raw logs: files, folders, globs.
        out: the output folder, a path or a URL.
        execution: how.
        tell: called when a stage begins, with what there is to do.
    """

    def __init__(
        self,
        recipe: Recipe,
        raws: Sequence[str],
        out: str,
        execution: Execution | None = None,
        tell: Callable[[StageStart], None] = lambda _: None,
    ) -> None:
        self.recipe, self.raws, self.execution = recipe, raws, execution or Execution()
        self.out = Folder(out)
        self._tell = tell
        self._seconds: dict[str, float] = {}
        self._benchmarks = ""
        self._models: dict[str, str] = {}
        self._rejects = self.out / "rejects"
        self.transitions, self.verdicts = self.out / "transitions", self.out / "verdicts"
        self.spans = self.out / "spans"
        self.shards = self.out / "shards"

    def run(self, last: str = "mix") -> Summary:
        """Runs the stages up to `last` and returns what was done.

        Raises:
            ConfigError: an input or an option is wrong, or the folder is in use or cannot be written.
            ShardError: a file cannot be read or written, or the runner cannot be reached.
            TooManyRejectsError: more inputs were rejected than the recipe allows.
            ContractError: our own bug.
        """
        self.execution.require_runner()
        require_openable([*self.raws, self.out.url])
        with locked(self.out):
            self.out.clear_unfinished()
            summary = self._run(last)
            values = {
                "runner": self.execution.options().get_all_options(drop_default=True).get("runner"),
                "workers": self.execution.workers,
                "python": platform.python_version(),
                "seconds": self._seconds,
                "finished": time.time(),
            }
            self.out.write("run.json", json.dumps(values, indent=1).encode() + b"\n")
            return summary

    def _run(self, last: str) -> Summary:
        self._benchmarks = write_index(self.recipe.judge.benchmarks, self.out / "measures")
        self._models = {name: sha256_of(path) for name, path in self.recipe.judge.files().items()}
        plan = self._timed("plan", self._plan)
        lost: Counter[str] = Counter(one.reason for one in plan.unrecognized)
        summary = Summary(self.out.path(), "plan", (), plan, seconds=self._seconds)
        if last == "plan":
            return summary
        normalized = self._timed("normalize", lambda: self._normalize(plan))
        inputs, records = input_line(len(plan.inputs), normalized.counts), record_line(normalized.counts)
        files = unrecognized_line(sum(len(one.members) for one in plan.inputs), lost)
        read = (files, inputs, records) if files.lost else (inputs, records)
        parts = unit_manifests(self.transitions, [part.name for part in plan.parts])
        summary = replace(summary, broken=broken_connectors(failed_inputs(self._rejects / "normalize", parts)))
        check_rejects(files, inputs, records, self.recipe)
        summary = replace(summary, last="normalize", lines=read)
        if last == "normalize":
            return summary
        units = self._units(normalized)
        judged = self._timed("judge", lambda: self.judge(units))
        transitions = transition_line(judged.counts)
        tokens = judged.counts.get("tokens", 0), judged.counts.get("tokens.target", 0)
        summary = replace(summary, last="judge", lines=(*read, transitions), tokens=tokens[0], target_tokens=tokens[1])
        summary = replace(summary, replicates=self._replicates())
        if last == "judge":
            return summary
        mixed, lines = self._timed("mix", lambda: self._mix(units, normalized, judged, read, transitions))
        samples = {k.removeprefix("samples."): n for k, n in mixed.counts.items() if k.startswith("samples.")}
        return replace(summary, last="mix", lines=lines, samples=samples)

    def _timed(self, stage: str, work: Callable[[], Any]) -> Any:
        begin = time.monotonic()
        result = work()
        self._seconds[stage] = round(time.monotonic() - begin, 3)
        return result

    def _plan(self) -> Plan:
        plan = make_plan(self.recipe, self.raws, self.execution.part_bytes, self.execution.limit, self.out)
        if not plan.parts and not plan.unrecognized:
            raise ConfigError("There is nothing to do: no input was found.")
        self.out.write("plan.json", plan.to_json())
        salt = self.recipe.normalize.scrub_salt or ""
        rejects = [replace(one, excerpt=scrub_text(one.excerpt, one.uri, salt=salt)) for one in plan.unrecognized]
        table = reject_table(rejects).combine_chunks().to_batches()
        write_parquet(self._rejects / "plan", "part-00000.parquet", REJECT_SCHEMA, table)
        return plan

    def _begin(self, stage: str, folder: Folder, digests: dict[str, str], size: int) -> set[str]:
        """Tells that a stage begins and returns the labels of the units still to do."""
        open_units = {label for label, digest in digests.items() if not is_done(folder, label, digest)}
        self._tell(
            StageStart(stage, len(digests), len(digests) - len(open_units), size, units_of(folder), tuple(digests))
        )
        return open_units

    def _normalize(self, plan: Plan) -> Manifest:
        folder, rejects = self.transitions, self._rejects / normalizing_stage.STAGE
        digests = {part.name: unit_digest(part) for part in plan.parts}
        todo = self._begin("normalize", folder, digests, sum(part.bytes for part in plan.parts))
        todo |= {part.name for part in plan.parts if not is_done(rejects, part.name, digests[part.name])}
        strict = self.execution.strict
        todo |= {one.unit for one in unit_manifests(folder, digests) if must_be_read_again(one, strict=strict)}
        parts = [part for part in plan.parts if part.name in todo]
        run_over(parts, PartsToTransitions(Normalizer(self.recipe, folder, rejects, strict)), self.execution)
        finish_stage(rejects, "normalize", plan.digest, list(digests))
        return finish_stage(folder, "normalize", plan.digest, list(digests))

    def _units(self, normalized: Manifest) -> list[Unit]:
        return [Unit(number, file.name, file.sha256) for number, file in enumerate(normalized.files)]

    def judge(self, units: Sequence[Unit]) -> Manifest:
        """Judges units of transitions that lie in the folder, and returns the manifest of the verdicts."""
        rejects, measures = self._rejects / judging_stage.STAGE, self.out / "measures"
        models = tuple(sorted(self._models.items()))
        digest = judging_digest(self.recipe, units, self._benchmarks, models)
        labels = [unit.label for unit in units]
        size = sum(self.transitions.size(unit.name) for unit in units)
        todo = self._begin("judge", self.verdicts, dict.fromkeys(labels, digest), size)
        others = [rejects, *([self.spans] if self.recipe.judge.spans else [])]
        if todo or not all(is_done(other, label, digest) for other in others for label in labels):
            folders = (self.transitions, measures, self.verdicts, rejects, self.spans)
            spill = self.out / "spill" if self.execution.is_local else None
            judging = Judging(self.recipe, *folders, digest, tuple(labels), self._benchmarks, models, spill)
            measures.remove(REPLICATES)
            run_over(units, UnitsToVerdicts(judging), self.execution)
            (self.out / "spill").remove_all()
        extra = [BENCHMARKS] if self._benchmarks else []
        extra += [REPLICATES] if self.recipe.judge.replicates is not None else []
        finish_stage(measures, "judge", digest, labels, others=extra)
        for other in others:
            finish_stage(other, "judge", digest, labels)
        if not self.recipe.judge.spans:
            for folder in (self.spans, units_of(self.spans)):
                folder.remove_all()
        return finish_stage(self.verdicts, "judge", digest, labels, models=self._models)

    def _replicates(self) -> dict[str, dict[str, float]]:
        measures = self.out / "measures"
        if self.recipe.judge.replicates is None or not measures.exists(REPLICATES):
            return {}
        found: dict[str, dict[str, float]] = json.loads(measures.read(REPLICATES))
        return found

    def _mix(
        self, units: Sequence[Unit], normalized: Manifest, judged: Manifest, read: tuple[Line, ...], rows: Line
    ) -> tuple[Manifest, tuple[Line, ...]]:
        rejects = self._rejects / mixing_stage.STAGE
        digest = mixing_digest(self.recipe, judged)
        mixing = Mixing(self.recipe, self.transitions, self.verdicts, self.shards, rejects, digest)
        sizes = summed_counts([pool_sizes(unit, mixing) for unit in units])
        shards = laid_out(sizes, self.recipe.mix)
        labels = [unit.label for unit in units]
        size = sum(count for key, count in sizes.items() if key.startswith("bytes."))
        todo = self._begin("mix", self.shards, {shard.label: digest for shard in shards}, size)
        if todo or not all(is_done(rejects, label, digest) for label in labels):
            still = frozenset(shard.number for shard in shards if shard.label in todo)
            spill = self.out / "spill" if self.execution.is_local else None
            run_over(units, UnitsToShards(replace(mixing, shards=shards, open=still), spill), self.execution)
            (self.out / "spill").remove_all()
        dropped = summed_counts(unit_manifests(rejects, labels))
        finish_stage(rejects, "mix", digest, labels)
        counts = summed_counts(unit_manifests(self.shards, [shard.label for shard in shards]))
        whole = trajectory_line(normalized.counts, judged.counts, {**counts, **dropped})
        flow = (*read, whole, rows)
        kept = kept_variety(units, self.out / "measures", self.verdicts)
        return self._finish_shards(shards, counts, flow, kept), flow

    def _finish_shards(
        self, shards: Sequence[Shard], counts: dict[str, int], flow: Sequence[Line], kept: Varieties
    ) -> Manifest:
        """Writes card and manifest, both under the digest of what the dataset holds, however it was cut on the way."""
        files = [file for made in unit_manifests(self.shards, [s.label for s in shards]) for file in made.files]
        content = json.dumps([self.recipe.digest(), sorted((file.name, file.sha256) for file in files)])
        digest = hashlib.sha256(content.encode()).hexdigest()
        self.shards.write("README.md", card(self.recipe, shards, counts, flow, digest, kept).encode())
        labels = [shard.label for shard in shards]
        diversity = {
            domain: {kind: {name: round(number, 4) for name, number in asdict(one).items()} for kind, one in of.items()}
            for domain, of in kept.items()
        }
        told = {"diversity": diversity, "models": self._models}
        return finish_stage(self.shards, "mix", digest, labels, others=["README.md"], **told)


def manifest_of(out: str, stage: str) -> Manifest | None:
    """The manifest of a stage's folder of a run (`transitions`, `verdicts`, `shards`), or None."""
    return read_manifest(Folder(out) / stage, MANIFEST)
