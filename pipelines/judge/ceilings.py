"""Noise ceilings of the whole corpus: what replicates agree on, as columns that rules and mixtures decide by.

Rows that have replicates are told what these agree on; that is summed by domain, tool and turn, and every unit is told
what follows for its rows that have none. Nothing is dropped: the decisions after this one see the columns. What the
numbers mean is `quality.ceiling`'s.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from trajmill.pipelines.judge.ceiling_columns import CEILINGS_NAME, CEILINGS_REPORT, ESTIMATES, MEASURED_ROWS, ROW
from trajmill.pipelines.judge.corpus_rule import Answers, Key, Keys, Round
from trajmill.pipelines.judge.earlier import Earlier
from trajmill.pipelines.judge.measure_files import ceilings_name
from trajmill.pipelines.judge.packed_rows import PARTITIONS
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.replicates import AGREED, AGREEMENT, REPORTED, REPORTER, comparing
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.quality.ceiling import CELL, CLASSES, REPLAYED, ROWS_SCHEMA, SOURCES, Pool, shares_in, summed
from trajmill.schemas import DOMAINS

NAME: Final = "noise_ceilings"
_TABLE: Final = -1
"""The key under which all sums come together; rows of a unit stand under its number."""

_ALWAYS: Final = tuple(source for source in SOURCES if source != REPLAYED)
"""Sources that are told where no row is from them, too."""

_HEAD: Final = np.dtype([("unit", "<u4"), ("domain", "u1")])


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What replicates agree on → the columns of noise ceilings of every unit.

    Attributes:
        partitions: into how many packed records are cut.
        earlier: generations whose sums count too; None for the first.
    """

    partitions: int = PARTITIONS
    earlier: Earlier | None = None
    name: str = NAME
    reasons: tuple[str, ...] = ()
    hears: tuple[str, ...] = REPORTED
    common: str = ""

    @property
    def before(self) -> tuple[Round, ...]:
        """Groups of replicates are found and compared."""
        return comparing(self.partitions, spans=True, telling=True)

    def keys(self, standing: Standing) -> Keys:
        """What was measured of the unit: its sums by tool and turn, and its rows."""
        unit = standing.unit
        told = np.concatenate([np.zeros(0, AGREEMENT), *(np.frombuffer(d, AGREEMENT) for d in standing.told(AGREED))])
        first = told[told["first"] == 1]
        rows = read_table(standing.judging.measures, ceilings_name(unit.label), ROWS_SCHEMA.names).combine_chunks()
        place = first["row"].astype(np.int64)
        tool, turn = (rows[name].to_numpy()[place] for name in ("tool", "turn"))
        cells = summed(tool, turn, first["thousandths"].astype(np.int64), shares_in(rows)[place])
        head = np.array([(unit.number, DOMAINS.index(unit.domain))], _HEAD)
        yield _TABLE, head.tobytes() + cells.tobytes()
        if len(told):
            own = np.zeros(len(told), ROW)
            own["row"], own["thousandths"] = told["row"], told["thousandths"]
            yield unit.number, own.tobytes()

    def losers(self, key: Key, packed: Iterable[bytes]) -> Answers:
        """Nobody loses: rows are told to their unit, and what follows from all sums to every unit."""
        if key != _TABLE:
            yield from ((MEASURED_ROWS, int(key), bytes(data)) for data in packed)
            return
        own, units = Pool(), dict[int, str]()
        for data in packed:
            head = np.frombuffer(data, _HEAD, 1)[0]
            units[int(head["unit"])] = DOMAINS[int(head["domain"])]
            own.add(units[int(head["unit"])], np.frombuffer(data, CELL, offset=_HEAD.itemsize))
        whole = _with_earlier(own, self.earlier)
        estimates = {domain: json.dumps(whole.estimates(domain).told()).encode() for domain in set(units.values())}
        yield from ((ESTIMATES, unit, estimates[domain]) for unit, domain in sorted(units.items()))
        yield CEILINGS_REPORT, REPORTER, report(own, whole, sorted(set(units.values())))

    def words(self, reason: str, survivor: int) -> str:
        """See `Decision`."""
        return "by the recipe's rule"


def _with_earlier(own: Pool, earlier: Earlier | None) -> Pool:
    """What was measured, with what earlier generations measured."""
    whole = Pool()
    whole.add_told(own.told())
    for one in earlier.generations if earlier is not None else ():
        told = (one.folder / "measures").found(CEILINGS_NAME)
        if told is not None:
            whole.add_told(json.loads(told)["cells"])
    return whole


def told_by_domain(counts: Mapping[str, int], measures: Folder) -> dict[str, dict[str, Any]]:
    """Of each domain rows by where their ceilings are from, and how far estimates are off; see `Pool.errors`.

    Args:
        counts: of the manifest of verdicts.
        measures: where the file of ceilings lies.
    """
    rows: dict[str, dict[str, int]] = {}
    for key, count in counts.items():
        what, _, rest = key.partition(".")
        domain, _, source = rest.partition(".")
        if what == "ceilings":
            rows.setdefault(domain, dict.fromkeys(_ALWAYS, 0))[source] = count
    told = json.loads(measures.found(CEILINGS_NAME) or b"{}")
    errors = told.get("domains", {})
    return {domain: {"rows": of, "errors": errors.get(domain, {})} for domain, of in sorted(rows.items())}


def report(own: Pool, whole: Pool, domains: Iterable[str]) -> bytes:
    """The file of ceilings: errors by domain and rates over all that was measured, and the cells of this generation."""
    told: dict[str, Any] = {
        "domains": {domain: whole.errors(domain) for domain in domains},
        "rates": dict(zip(CLASSES, whole.rates(), strict=True)),
        "cells": own.told(),
    }
    return json.dumps(told).encode() + b"\n"
