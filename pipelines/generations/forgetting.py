"""Forgetting of records, in order: tombstones, a journal, rewriting file by file, and a scan that finds nothing left.

A killed process leaves the journal, with which the same command continues. The transitions of a unit are rewritten
last, since they identify the rows of its other files. See docs/decisions/forgetting.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.generations.compatibility import recipe_of
from trajmill.pipelines.generations.generations import (
    GENERATIONS,
    JOURNAL,
    Generation,
    chain,
    clear_abandoned,
    close_chain,
    ledgers_of,
    manifest_of,
    read_ledger,
    reopen,
    stages_of,
    write_ledger,
)
from trajmill.pipelines.generations.known import Draws
from trajmill.pipelines.generations.known_inputs import Contents, addresses_of, place_of
from trajmill.pipelines.generations.published import SHARDS, manifests_of_files, publish_again
from trajmill.pipelines.generations.traces import (
    Change,
    Flags,
    Selection,
    attachment_digests,
    cut_lines,
    find_selected,
    flag_kept_rows,
    holding,
    is_whole,
    mend_draws,
    nearest,
    of_ids,
    of_places,
    of_rows,
    of_unseen,
    parquet_holds,
    read_unseen,
    rewritten,
    shown_pools,
)
from trajmill.pipelines.judge.judging import Unit, measure_file, measure_files, units_in
from trajmill.pipelines.judge.measuring import Answering
from trajmill.pipelines.judge.near_duplicates import STAGE as LIKENESS
from trajmill.pipelines.mix.candidates import draws_name
from trajmill.pipelines.mix.mixture import ANSWERS
from trajmill.pipelines.mix.samples import count_eval_kinds
from trajmill.pipelines.mix.shard_writing import sample_sizes
from trajmill.pipelines.normalize.forgotten_keys import FILE, LOG, NAME, TRAJECTORY, Tombstones
from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.render.answered import HELD, Distractors
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.object_store import forget
from trajmill.pipelines.storage.ownership import BLOBS, PLAN, REPORT, Ownership, identity_of
from trajmill.pipelines.storage.parquet import read_table, read_transitions, rows_of, write_parquet
from trajmill.pipelines.storage.units import (
    MANIFEST,
    finish_unit,
    read_manifest,
    require_manifest,
    unit_manifests,
    units_of,
)
from trajmill.quality.measure import family_nodes
from trajmill.schemas import ConfigError, ContractError
from trajmill.schemas.manifest import FileEntry, sum_counts

DONE: Final = f"{GENERATIONS}/done.json"
"""Journal of the records that are being forgotten, until the result is reported."""

_BLOB: Final = re.compile(rf"(?:.*/)?{BLOBS}/[0-9a-f]{{64}}")
_NOTED: Final = ("ids", "uris", "units", "places", "done")
_KINDS: Final = "environment_", "time_"
"""Prefixes of counts of eval samples by kind."""

_REJECTS: Final = ("rejects/normalize", "rejects/judge", "rejects/mix")


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Result of forgetting.

    Attributes:
        logs: uris of logs of which nothing is left.
        raw: paths where these logs still exist; raw logs are never changed.
        rewritten: names of rewritten files in the output folder.
        scanned: number of files that were scanned afterwards, without a finding.
        older: number of objects of which a store keeps older versions, which still hold the records; None if the store
            does not report that.
    """

    trajectories: int
    logs: tuple[str, ...]
    raw: tuple[str, ...]
    rewritten: tuple[str, ...]
    scanned: int
    older: int | None = 0


@dataclass(slots=True)
class _Journal:
    """Journal of the records that are being forgotten, with the facts that rewritten files no longer hold.

    Attributes:
        uris: uris of logs of which nothing is left.
        units: units as `folder|name`.
        places: pools and domains in which they were drawn, as `folder|pool|domain`.
        done: path and digest of files before their rows were renumbered.
    """

    out: Folder
    ids: set[str]
    uris: set[str]
    units: set[str]
    places: set[str]
    done: set[str]

    @classmethod
    def begun(cls, out: Folder) -> _Journal:
        data = out.found(JOURNAL) or out.found(DONE)
        values: dict[str, list[str]] = json.loads(data) if data is not None else {}
        return cls(out, *(set(values.get(name, ())) for name in _NOTED))

    def write(self) -> None:
        values = {name: sorted(getattr(self, name)) for name in _NOTED}
        self.out.write(JOURNAL, json.dumps(values).encode(), private=True)

    def close(self) -> None:
        """Allow the folder to be read again. `DONE` keeps the forgotten records until the end."""
        self.out.write(DONE, self.out.read(JOURNAL), private=True)
        self.out.remove(JOURNAL)

    def is_open(self, folder: Folder, name: str) -> bool:
        """Return True if a file still has to be changed, which must not happen twice; record its digest first."""
        mark = f"{folder.path()}/{name}|"
        now = f"{mark}{folder.sha256(name)}"
        if not any(entry.startswith(mark) for entry in self.done):
            self.done.add(now)
            self.write()
        return now in self.done


class Forgetting:
    """Removal of trajectories from an output folder."""

    def __init__(self, recipe: Recipe, out: str) -> None:
        self.recipe, self.out = recipe, Folder.named(out)
        self._rewritten: set[str] = set()

    def forget(self, selection: Selection, finish: Callable[[], object] = lambda: None) -> Forgotten:
        """Forget the selected records, and verify that they are gone.

        Args:
            finish: function that is called afterwards. If the process is killed in it, the same command continues.

        Raises:
            ConfigError: the folder holds no finished run, or nothing is selected.
            ShardError: a file cannot be read or written, or another run has taken the folder; repeating the command
                continues.
        """
        identity = identity_of(self.out)
        if identity is None or read_manifest(self.out / SHARDS, MANIFEST) is None:
            raise ConfigError(f"{self.out.path()} holds no finished run that could forget.")
        if not chain(self.out, moved=True):
            Append(self.recipe, (), self.out.url).begin()
        owner = Ownership(self.out, identity, adding=True, alone=True)
        owner.check(())
        with owner.held():
            owner.keep()
            self.out = self.out.held(owner.token, replaces=True)
            generations = close_chain(self.out)
            stages = [stages_of(self.out, generation) for generation in generations]
            journal = _Journal.begun(self.out)
            transitions = [folder / "transitions" for folder in stages]
            chosen = find_selected(selection, transitions)
            journal.ids |= chosen.ids
            journal.uris |= chosen.uris
            if not journal.ids:
                reopen(self.out, generations)
                raise ConfigError("Nothing of that is in the folder.", nearest(selection, transitions))
            journal.units |= {
                f"{self._lead(folder)}|{name}" for folder in stages for name in holding(folder, journal.ids)
            }
            for folder in stages:
                self._note_places(folder, journal)
            raw = self._bury(stages, journal)
            journal.write()
            clear_abandoned(
                self.out, [generation.folder for generation in generations], timedelta(0)
            )  # none of these can follow
            self.out.remove(REPORT)  # it shows texts; whoever is asked for another makes it of what is left
            for number, at in enumerate(stages):
                self._forget_in(at, stages[:number], journal, ledgers_of(self.out, generations[number]))
            self._rewrite_chain(generations)
            self._drop_blobs(stages)
            rewritten_chain = chain(self.out, moved=True)
            last = recipe_of(self.out, rewritten_chain[-1], self.recipe)
            publish_again(last or self.recipe, self.out, rewritten_chain, owner, changed=True)
            forget()  # what is looked through is what lies there, and no copy of it
            scanned = self._scan(journal)
            reopen(self.out, generations)
            journal.close()
            finish()
            self.out.remove(DONE)
            owner.let_join()
            logs, names = tuple(sorted(journal.uris)), tuple(sorted(self._rewritten))
            return Forgotten(len(journal.ids), logs, raw, names, scanned, self.out.older())

    def _lead(self, at: Folder) -> str:
        return at.path()[len(self.out.path()) + 1 :]

    def _note_places(self, at: Folder, journal: _Journal) -> None:
        """Record the pools and domains of the forgotten trajectories, which rewritten units do not show."""
        drawn = (
            pool_and_domain
            for unit in self._units_affected(at, journal)
            for pool_and_domain in shown_pools(at, unit, journal.ids)
        )
        journal.places |= {f"{self._lead(at)}|{pool}|{domain}" for pool, domain in drawn}

    def _units_affected(self, at: Folder, journal: _Journal) -> list[Unit]:
        return [unit for unit in units_in(at) if f"{self._lead(at)}|{unit.name}" in journal.units]

    def _bury(self, stages: Sequence[Folder], journal: _Journal) -> tuple[str, ...]:
        """Write tombstones before anything is removed; return the paths of the logs."""
        contents, stones, gone = Contents(self.recipe.normalize.max_member_bytes), Tombstones.read(self.out), []
        for at in stages:
            some = [source for source in Plan.from_json(at.read(PLAN)).inputs if source.uri in journal.uris]
            stones = stones.adding(LOG, filter(None, contents.read(some, at).values()))
            gone += some
        stones.adding(FILE, addresses_of(gone)).adding(TRAJECTORY, journal.ids).write(self.out)
        return tuple(sorted({location.path for source in gone for location in source.members.values()}))

    def _forget_in(self, at: Folder, before: Sequence[Folder], journal: _Journal, ledgers: Folder) -> None:
        """Remove the forgotten data from the stages, the ledgers and the shards of one generation."""
        lead = f"{self._lead(at)}|"
        units, affected = units_in(at), self._units_affected(at, journal)
        shown = (entry.removeprefix(lead).split("|") for entry in journal.places if entry.startswith(lead))
        touched = {(pool, domain) for pool, domain in shown}
        for unit in affected:
            kept_flags = flag_kept_rows(at, unit, journal.ids)
            if not kept_flags.all():
                self._forget_unit(at, unit, kept_flags, journal)
        for stage in _REJECTS:
            self._forget_rejects(at / stage, journal)
        self._forget_plan(at, journal)
        unseen = self._forget_environments(at, before, units, journal)
        if (at / "draws").exists(ANSWERS):
            self._merge_answers(at, before, units)  # which holds those of earlier generations too
        for stage in ("transitions", "measures", "verdicts", "spans", "replays", LIKENESS, "draws", *_REJECTS):
            self._reseal(at / stage)
        self._forget_shards(at, touched, journal, unseen)
        if affected:
            self._forget_ledgers(at, ledgers, journal)

    def _forget_environments(
        self, at: Folder, before: Sequence[Folder], units: Sequence[Unit], journal: _Journal
    ) -> frozenset[str]:
        """Return trajectories of eval whose environment training no longer shows, and update the draws.

        There are none if only eval had drawn the forgotten data.
        """
        if all(entry.split("|")[1] == "eval" for entry in journal.places):
            return frozenset()
        for name in mend_draws(at, units, Draws.of(self.recipe, [*before, at]).environments()):
            self._note(at / "draws", name)
        return read_unseen(at, units)

    def _note(self, folder: Folder, name: str) -> None:
        self._rewritten.add(f"{self._lead(folder)}/{name}")

    def _forget_unit(self, at: Folder, unit: Unit, kept_flags: Flags, journal: _Journal) -> None:
        """Cut all files of a unit, its transitions last."""
        measures, label = at / "measures", unit.label
        numbered = {measure_file(label, "benchmarks"): measures, unit.name: at / LIKENESS}
        for name in measure_files(label):
            if not measures.exists(name) or name in numbered:
                continue
            if name == measure_file(label, "answers"):
                self._remake_answers(at, unit, kept_flags)
            elif is_whole(measures, name, kept_flags):
                rewritten(measures, name, of_rows(kept_flags))
            self._note(measures, name)
        for folder in (at / "verdicts", at / "spans", at / "replays"):
            if folder.exists(unit.name):
                if is_whole(folder, unit.name, kept_flags):
                    rewritten(folder, unit.name, of_rows(kept_flags))
                self._note(folder, unit.name)
        for name, folder in numbered.items():
            if folder.exists(name):
                if journal.is_open(folder, name):
                    rewritten(folder, name, of_places(kept_flags, "row"))
                self._note(folder, name)
        rewritten(at / "draws", draws_name(label), of_ids(journal.ids))
        self._note(at / "draws", draws_name(label))
        rewritten(at / "transitions", unit.name, of_rows(kept_flags))
        self._note(at / "transitions", unit.name)

    def _remake_answers(self, at: Folder, unit: Unit, kept_flags: Flags) -> None:
        """Rewrite the answers on which checks are tried, from the remaining rows of a unit."""
        answering, first = Answering(View.of(self.recipe.mix)), 0
        for batch in read_transitions(at / "transitions", unit.name):
            list(answering.add(batch.filter(pa.array(kept_flags[first : first + batch.num_rows]))))
            first += batch.num_rows
        write_parquet(at / "measures", measure_file(unit.label, "answers"), HELD, answering.rest())

    def _merge_answers(self, at: Folder, before: Sequence[Folder], units: Sequence[Unit]) -> None:
        distractors = Distractors()
        sources = [(folder_before / "draws", ANSWERS) for folder_before in before]
        sources += [(at / "measures", measure_file(unit.label, "answers")) for unit in units]
        for folder, name in sources:
            for batch in read_table(folder, name, HELD.names).to_batches():
                distractors.take(batch)
        write_parquet(at / "draws", ANSWERS, HELD, [distractors.batch()])
        self._note(at / "draws", ANSWERS)

    def _forget_rejects(self, folder: Folder, journal: _Journal) -> None:
        """Remove rejects of the forgotten data, and its ids from the details of other rejects."""
        ids, uris = pa.array(sorted(journal.ids)), pa.array(sorted(journal.uris), pa.string())
        short = "|".join(sorted(key[:16] for key in journal.ids))

        def change(table: pa.Table, _: int) -> pa.Table:
            gone = pc.or_(pc.is_in(table["trajectory_id"], value_set=ids), pc.is_in(table["uri"], value_set=uris))
            left = table.filter(pc.invert(gone))
            details = pc.replace_substring_regex(left["detail"], f"(?:{short})…", "that was forgotten")
            return left.set_column(left.schema.get_field_index("detail"), left.schema.field("detail"), details)

        for name in folder.names(".parquet"):
            table = read_table(folder, name, ["trajectory_id", "uri", "detail"])
            if not change(table, 0).equals(table):
                rewritten(folder, name, change)
                self._note(folder, name)

    def _forget_plan(self, at: Folder, journal: _Journal) -> None:
        plan = Plan.from_json(at.read(PLAN))
        parts = tuple(
            replace(part, inputs=tuple(source for source in part.inputs if source.uri not in journal.uris))
            for part in plan.parts
        )
        if parts != plan.parts:
            gone = {
                location.path
                for source in plan.inputs
                if source.uri in journal.uris
                for location in source.members.values()
            }
            opened = tuple(archive for archive in plan.opened if archive.place.path not in gone)
            at.write(PLAN, replace(plan, parts=parts, opened=opened).to_json(), private=True)
            self._note(at, PLAN)

    def _forget_shards(
        self, at: Folder, touched: set[tuple[str, str]], journal: _Journal, unseen: frozenset[str]
    ) -> None:
        """Rewrite the shards of the pools and domains in which the forgotten data was drawn, and those of eval.

        In shards of eval it also updates the familiarity of environments.
        """
        shards = at / SHARDS
        for unit in unit_manifests(shards, _labels(shards)):
            counts, files = dict(unit.counts), []
            for file in unit.files:
                pool, _, rest = file.name.partition("/")
                domain = rest.partition("/")[0].partition("_")[0]
                entry = (
                    self._shard(shards, file, journal.ids, f"{pool}.{domain}", counts, unseen)
                    if (pool, domain) in touched or (pool == "eval" and unseen)
                    else file
                )
                files.append(entry)
            if tuple(files) != unit.files:
                finish_unit(shards, replace(unit, files=tuple(files), counts=counts))
        self._reseal(shards)

    def _shard(
        self, shards: Folder, file: FileEntry, ids: set[str], key: str, counts: dict[str, int], unseen: frozenset[str]
    ) -> FileEntry:
        """Remove the samples of some trajectories from a shard, and update the counts."""
        if file.name.endswith(".jsonl"):
            before = shards.read(file.name)
            data = cut_lines(before, ids, unseen)
            if data != before:
                shards.write(file.name, data)
            now = {f"samples.{key}": data.count(b"\n")}
        else:
            with shards.open(file.name) as stream:
                table = pq.read_table(stream)
            cut, mark_unseen = of_ids(ids), of_unseen(unseen)
            change: Change = (lambda some, at: mark_unseen(cut(some, at), at)) if key.startswith("eval.") else cut
            left = change(table, 0)
            if not left.equals(table):
                rewritten(shards, file.name, change, shard=True)
            now = {f"samples.{key}": left.num_rows}
            if key.startswith("eval."):
                kinds = [name for name in counts if name.startswith(_KINDS) and name.endswith(f".{key}")]
                now |= dict.fromkeys(kinds, 0)
                now |= {f"{name}.{key}": number for name, number in count_eval_kinds(left).items()}
            now |= {f"{name}.{key}": pc.sum(values, min_count=0).as_py() for name, values in sample_sizes(left).items()}
        entry = _entry(shards, file.name)
        if entry != file:  # also where a kill came before it was told
            self._note(shards, file.name)
            counts |= {name: number for name, number in now.items() if name in counts or name.startswith(_KINDS)}
        return entry

    def _forget_ledgers(self, at: Folder, ledgers: Folder, journal: _Journal) -> None:
        rows, ids = read_ledger([ledgers], "places"), pa.array(sorted(journal.ids), pa.string())
        alone = pa.record_batch({"trajectory_id": ids, "parent_trajectory_id": pa.nulls(len(ids), pa.string())})
        write_ledger(ledgers, "places", rows[~np.isin(rows["node"], family_nodes(alone)[0])])
        left = {int(place_of(source)[:16], 16) for source in Plan.from_json(at.read(PLAN)).inputs}
        inputs = read_ledger([ledgers], "inputs")
        write_ledger(ledgers, "inputs", inputs[np.isin(inputs["place"], np.array(sorted(left), np.uint64))])

    def _reseal(self, stage: Folder) -> None:
        """Update the manifests of a stage to its files."""
        sealed = read_manifest(stage, MANIFEST)
        if sealed is None:
            return
        sizes = stage.sizes()

        def now(file: FileEntry) -> FileEntry:
            is_other = f"{self._lead(stage)}/{file.name}" in self._rewritten or sizes.get(file.name) != file.bytes
            return _entry(stage, file.name) if is_other else file

        for unit in unit_manifests(stage, _labels(stage)):
            files = tuple(now(file) for file in unit.files)
            if files != unit.files:
                finish_unit(stage, replace(unit, files=files))
        units = unit_manifests(stage, _labels(stage))
        counts = sum_counts(units) if stage.path().endswith(f"/{SHARDS}") else sealed.counts
        stage.write(MANIFEST, replace(sealed, files=tuple(map(now, sealed.files)), counts=counts).to_json())

    def _rewrite_chain(self, generations: Sequence[Generation]) -> None:
        parent = ""
        for generation in generations:
            where, ledgers = stages_of(self.out, generation) / SHARDS, ledgers_of(self.out, generation)
            entries = {file.name: file for file in require_manifest(where).files}
            shards = tuple(entries.get(file.name, file) for file in generation.shards)
            rewritten_generation = replace(
                generation,
                parent=parent,
                shards=shards,
                ledgers=tuple(_entry(ledgers, file.name) for file in generation.ledgers),
                counts=sum_counts(manifests_of_files(where, shards)),
                read="",
            )
            self.out.write(manifest_of(generation.number), rewritten_generation.to_json())
            parent = rewritten_generation.digest

    def _drop_blobs(self, stages: Sequence[Folder]) -> None:
        """Remove attachments that no row of any generation refers to."""
        stores = [
            (blobs, sealed) for at in stages if (sealed := read_manifest(blobs := at / BLOBS, MANIFEST)) is not None
        ]
        left = {digest for at in stages for digest in attachment_digests(at / "transitions")} if stores else set()
        for blobs, sealed in stores:
            gone = {file.name for file in sealed.files} - left
            for name in sorted(gone):
                blobs.remove(name)
                self._note(blobs, name)
            for unit in unit_manifests(blobs, _labels(blobs)):
                finish_unit(blobs, replace(unit, files=tuple(file for file in unit.files if file.name not in gone)))
            files = tuple(file for file in sealed.files if file.name not in gone)
            blobs.write(MANIFEST, replace(sealed, files=files).to_json())

    def _scan(self, journal: _Journal) -> int:
        """Scan the files for the forgotten data; return the number of scanned files.

        Raises:
            ContractError: a file still holds some of it.
        """
        names = [name for name in self.out.names() if name not in (JOURNAL, DONE, NAME) and not _BLOB.fullmatch(name)]
        for name in names:
            if name.endswith(".parquet"):
                is_found = parquet_holds(self.out, name, journal.ids, journal.uris)
            else:
                data = self.out.read(name)
                is_found = any(key.encode() in data for key in journal.ids)
            if is_found:
                raise ContractError(f"{self.out.path(name)} still holds what was to be forgotten")
        return len(names)


def _entry(folder: Folder, name: str) -> FileEntry:
    if not name.endswith(".parquet"):
        data = folder.read(name)
        return FileEntry(name, data.count(b"\n"), len(data), hashlib.sha256(data).hexdigest())
    with folder.open(name) as stream:
        size = stream.seek(0, os.SEEK_END)
    return FileEntry(name, rows_of(folder, name), size, folder.sha256(name))


def _labels(stage: Folder) -> list[str]:
    return [name.removesuffix(".json") for name in units_of(stage).names(".json")]
