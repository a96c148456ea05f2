"""Measuring of a unit of transitions: numbers of each row, and further files that some decisions need."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.execution.memory import give_back_memory
from trajmill.pipelines.judge.evaluation_index import read_index
from trajmill.pipelines.judge.judging import FileKind, Judging, Unit, measure_file
from trajmill.pipelines.render import costs
from trajmill.pipelines.render.answered import HELD, LONGEST, Distractors, head_of
from trajmill.pipelines.render.costs import COSTS_SCHEMA, Costing
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import answer_texts
from trajmill.pipelines.storage.parquet import ParquetSink, read_transitions
from trajmill.pipelines.storage.units import check_file, finish_unit, is_done
from trajmill.quality.answer_edges import EDGES_SCHEMA, EdgeLines
from trajmill.quality.answer_edges import VERSION as EDGES_VERSION
from trajmill.quality.contamination_matches import MATCH_SCHEMA, Exposing
from trajmill.quality.fingerprint import TRANSITION_TEXTS, struct_text
from trajmill.quality.measure import Measuring
from trajmill.quality.replicate import REPLICATE_SCHEMA, Following
from trajmill.quality.signal import MeasuredBatches
from trajmill.quality.sketch import HASHED, SKETCH_SCHEMA, VERSION, Sketching
from trajmill.quality.spans import SPANS_SCHEMA, Labelling
from trajmill.quality.spans import VERSION as SPANS_VERSION
from trajmill.quality.texts import Texts
from trajmill.quality.tokens import TokenCounter
from trajmill.quality.variety import VARIETY_SCHEMA, Varying
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.invariants import check
from trajmill.schemas.manifest import Manifest
from trajmill.schemas.verdict import measure_schema


class Answering:
    """Answers of a file's rows that serve as distractors, as one batch at the end of the file.

    Args:
        view: how samples show trajectories.
    """

    def __init__(self, view: View) -> None:
        self._view, self._held = view, Distractors()

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Collect the answers of a batch. Nothing is yielded, since the choice depends on all rows."""
        rows = batch.filter(struct_text(batch, "next_observation", "content").is_valid())
        answers = answer_texts(rows, self._view, marker="")
        fits = pc.less_equal(pc.utf8_length(answers), LONGEST)
        rows, answers = rows.select(["domain", "action"]).filter(fits), answers.filter(fits)
        columns = (rows["domain"], *(struct_text(rows, "action", name) for name in ("name", "arguments")))
        self._held.add_all([*map(head_of, *(Texts.of(column).to_pylist() for column in columns))], answers)
        return iter(())

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield all kept answers."""
        yield self._held.batch()


class Kind(Protocol):
    """Measurer of a unit's rows, batch by batch in order."""

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the measures that are complete after the batch."""

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the measures that needed the end of the file."""


def measuring_digest(unit: Unit, judging: Judging) -> str:
    """Digest everything that a unit's measures depend on."""
    rules = judging.recipe.judge
    near = rules.near_duplicates
    chosen = [
        judging.signals,
        rules.tokenizer,
        rules.prefer,
        [near is not None and VERSION, near is not None and near.part_names],
        rules.replicates is not None,
        judging.benchmarks,
    ]
    chosen += [rules.spans and SPANS_VERSION, judging.models, [rules.signals.get(name) for name in judging.signals]]
    chosen += [rules.harness_text is not None and EDGES_VERSION]
    chosen += [] if rules.group_folders else ["folders apart"]
    chosen += [costs.VERSION, asdict(View.of(judging.recipe.mix)), judging.recipe.mix.asks_for_turns]
    settings = [unit.sha256, *chosen, TRANSITION_TEXTS, VARIETY_SCHEMA.names, SCHEMA_VERSION]
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()


def measure_unit(unit: Unit, judging: Judging) -> Unit:
    """Measure a unit's transitions into files of the measures folder, unless that was done, and return the unit."""
    if unit.is_decided:
        return unit
    rules = judging.recipe.judge
    digest = measuring_digest(unit, judging)
    if not is_done(judging.measures, unit.label, digest):
        check_file(judging.transitions, unit.name, unit.sha256)
        schemas: dict[FileKind, pa.Schema | None] = {
            "variety": VARIETY_SCHEMA,
            "costs": COSTS_SCHEMA,
            "answers": HELD if judging.recipe.mix.asks_for_turns else None,
            "sketch": None if rules.near_duplicates is None else SKETCH_SCHEMA,
            "replicates": None if rules.replicates is None else REPLICATE_SCHEMA,
            "spans": SPANS_SCHEMA if rules.spans else None,
            "benchmarks": MATCH_SCHEMA if judging.benchmarks else None,
            "edges": None if rules.harness_text is None else EDGES_SCHEMA,
        }
        measured = measure_schema(judging.signals, judging.telling)
        hashed = {"sketch": HASHED, "costs": costs.COST_HASHES}
        sinks = {"measures": ParquetSink(judging.measures, f"{unit.label}.parquet", measured)}
        for kind, schema in schemas.items():
            if schema is not None:
                name = measure_file(unit.label, kind)
                sinks[kind] = ParquetSink(judging.measures, name, schema, hashed=hashed.get(kind, ()))
        try:
            _measure_into(sinks, unit, judging)
        except BaseException:
            for sink in sinks.values():
                sink.abandon()
            raise
        entries = tuple(sink.close() for sink in sinks.values())
        finish_unit(judging.measures, Manifest("measure", unit.label, digest, SCHEMA_VERSION, entries))
        give_back_memory()
    return unit


def _measure_into(sinks: Mapping[str, ParquetSink], unit: Unit, judging: Judging) -> None:
    rules = judging.recipe.judge
    counter, measured = TokenCounter(rules.tokenizer), MeasuredBatches()
    kinds: dict[str, Kind] = {
        "measures": Measuring(judging.made, counter, rules.prefer, folders=rules.group_folders),
        "sketch": Sketching(measured, parted=rules.near_duplicates is not None and rules.near_duplicates.part_names),
        "replicates": Following(measured),
        "variety": Varying(measured),
        "costs": Costing(View.of(judging.recipe.mix), counter),
        "spans": Labelling(measured),
        "edges": EdgeLines(measured),
        "answers": Answering(View.of(judging.recipe.mix)),
    }
    if judging.benchmarks:
        kinds["benchmarks"] = Exposing(read_index(judging.measures, judging.benchmarks))
    for batch in read_transitions(judging.transitions, unit.name):
        check(batch)
        with counter.remember_columns(), measured.remember():
            for name, sink in sinks.items():
                for done in kinds[name].add(batch):
                    sink.write(done)
    for name, sink in sinks.items():
        for done in kinds[name].rest():
            sink.write(done)
