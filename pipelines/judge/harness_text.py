"""Lines that harnesses put around answers, found over the whole corpus, and the answers without loss because of them.

Counts of skeletons are shuffled by agent and version, never texts. One unit provides an example of each frame. The
resulting table applies to the generation in which it was found; units that an earlier run decided take no part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby
from textwrap import shorten
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.pipelines.judge.corpus_rule import Answers, Key, Keys, Round
from trajmill.pipelines.judge.judging import measure_file
from trajmill.pipelines.judge.packed_rows import LOSER
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import HARNESS_SHARE, HARNESS_TEXT
from trajmill.pipelines.judge.replicates import REPORTER
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table, row_groups
from trajmill.pipelines.storage.units import finish_unit
from trajmill.quality.answer_edges import (
    EDGES_SCHEMA,
    PLACES,
    Records,
    find_example,
    make_pattern,
)
from trajmill.quality.harness_text import (
    COUNT,
    FRAME,
    count_framed,
    count_skeletons,
    find_frames,
)
from trajmill.quality.variety import VARIETY_SCHEMA
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.manifest import FileEntry, Manifest

NAME: Final = "harness_text.parquet"
UNIT: Final = "harness_text"
"""Name of the table as a unit of the measures."""

TABLE: Final = pa.schema(
    [
        pa.field("agent", pa.string(), metadata={"doc": "the agent, or the connector of logs that name none"}),
        pa.field("version", pa.string(), metadata={"doc": "its version"}),
        pa.field("share", pa.float64(), metadata={"doc": "of the characters of its answers, how many stand in frames"}),
        pa.field("tool", pa.string(), metadata={"doc": "whose answers have it; null: those of several tools"}),
        pa.field("place", pa.string(), metadata={"doc": "where in an answer it stands"}),
        pa.field("skeleton", pa.string(), metadata={"doc": "what is the same in all of them"}),
        pa.field("answers", pa.int64(), metadata={"doc": "that have it"}),
        pa.field("among", pa.int64(), metadata={"doc": "answers of these tools"}),
        pa.field("kinds", pa.int64(), metadata={"doc": "tools and programs whose answers have it"}),
        pa.field("expected", pa.float64(), metadata={"doc": "as many, of as many answers drawn at random"}),
        pa.field("example", pa.string(), metadata={"doc": "one of them"}),
    ]
)

_COUNTED: Final = "harness_lines"
_FRAMES: Final = "harness_frames"
_TABLE: Final = "harness_table"
_PARTITIONS: Final = 16
"""Number of partitions of an agent's skeletons."""

_SHOWN: Final = 60
_WORTH_A_WARNING: Final = 0.001
"""Share of an agent's results, below which text that may be of its harness is not warned of."""

_MOST_FREQUENT: Final = 3
"""Number of frames that a warning shows, and characters of each."""

_HEADER: Final = np.dtype([("group", "<u8"), ("answers", "<u4"), ("told", "<u4")])


def _edges(standing: Standing) -> pa.Table:
    return read_table(standing.measured, measure_file(standing.unit.label, "edges"), EDGES_SCHEMA.names)


def count_by_agent(standing: Standing) -> Keys:
    """Count skeletons in the answers of a unit, by agent, version and partition of skeletons."""
    variety = read_table(standing.measured, measure_file(standing.unit.label, "variety"), VARIETY_SCHEMA.names)
    for group, (answers, skeletons) in count_skeletons(_edges(standing), variety, standing.unit.number).items():
        partition = skeletons["skeleton"] % np.uint64(_PARTITIONS)
        for number in np.unique(partition).tolist():
            own = skeletons[partition == number]
            header = np.array([(group, len(answers), len(own))], _HEADER)
            yield f"{group:016x}{number:02x}", header.tobytes() + answers.tobytes() + own.tobytes()


def find_by_agent(_: Key, packed: Iterable[bytes]) -> Answers:
    """Find the frames among the skeletons of an agent, and send them to each unit that has answers of the agent."""
    answers, skeletons, units = [], [], []
    group = 0
    for data in packed:
        header = np.frombuffer(data, _HEADER, 1)[0]
        group, number = int(header["group"]), int(header["answers"])
        answers.append(np.frombuffer(data, COUNT, number, _HEADER.itemsize))
        skeletons.append(np.frombuffer(data, COUNT, int(header["told"]), _HEADER.itemsize + number * COUNT.itemsize))
        units.append(int(answers[-1]["unit"][0]))
    known = find_frames(np.concatenate(answers), np.concatenate(skeletons))
    if len(known):
        header = np.array([(group, len(known), 0)], _HEADER).tobytes()
        yield from ((_FRAMES, unit, header + known.tobytes()) for unit in units)


def _frames(standing: Standing) -> dict[int, Records]:
    """Collect the frames that a unit received, by group."""
    frames: dict[int, list[Records]] = {}
    for data in standing.told(_FRAMES):
        header = np.frombuffer(data, _HEADER, 1)[0]
        frames.setdefault(int(header["group"]), []).append(np.frombuffer(data, FRAME, offset=_HEADER.itemsize))
    return {group: np.concatenate(some) for group, some in frames.items()}


@dataclass(frozen=True, slots=True)
class HarnessFrames:
    """Rule that takes the loss from answers with too large a share of harness frames.

    Attributes:
        most: share of an answer's characters in frames above which it bears no loss.
        most_of_agent: the same share over all answers of one version of an agent, whose trajectories are then dropped;
            None sets no bound.
    """

    most: float
    most_of_agent: float | None
    reported: tuple[str, ...] = ()
    losing: str = HARNESS_TEXT
    reasons: tuple[str, ...] = (HARNESS_TEXT, HARNESS_SHARE)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The counting of skeletons by agent, and the measuring of the shares in frames."""
        counting = Round(_COUNTED, count_by_agent, find_by_agent, sees_losses=False)
        return (counting, Round(HARNESS_TEXT, self.shares, self.losers, (_COUNTED,), sees_losses=False))

    def shares(self, standing: Standing) -> Keys:
        """Report by agent the share of a unit's answers in frames, the rows over the bound, and examples."""
        edges, known = _edges(standing), _frames(standing)
        group, size = (edges[name].combine_chunks().to_numpy() for name in ("group", "size"))
        within = count_framed(edges, known)
        over = within > self.most * size
        examples = _examples(standing, known)
        starts = standing.measures.starts
        for name in np.unique(group[group != 0]).tolist():
            mine = group == name
            report = {
                "unit": standing.unit.number,
                "framed": int(within[mine].sum()),
                "size": int(size[mine].sum()),
                "rows": np.flatnonzero(mine & over).tolist(),
                "trajectories": starts[np.add.reduceat(mine, starts) > 0].tolist(),
                "frames": examples.get(name, []),
            }
            yield f"{name:016x}", json.dumps(report).encode()

    def losers(self, _: Key, packed: Iterable[bytes]) -> Answers:
        """Yield the rows of an agent that are over the bound, or all its trajectories."""
        reports = [json.loads(data) for data in packed]
        share = sum(entry["framed"] for entry in reports) / max(sum(entry["size"] for entry in reports), 1)
        refused = self.most_of_agent is not None and share > self.most_of_agent
        for entry in reports:
            rows = np.zeros(len(entry["trajectories"] if refused else entry["rows"]), LOSER)
            rows["row"] = entry["trajectories"] if refused else entry["rows"]
            if len(rows):
                yield HARNESS_SHARE if refused else HARNESS_TEXT, entry["unit"], rows.tobytes()
        known = [{**frame, "share": share} for entry in reports for frame in entry["frames"]]
        if known:
            yield _TABLE, REPORTER, json.dumps(known).encode()

    def words(self, reason: str, survivor: int) -> str:
        """See `Decision`."""
        if reason == HARNESS_SHARE:
            return "too much of what this version of its agent was answered is text of the harness"
        return "text of the harness stands around the answer"


_LEAVES: Final = (
    *("agent.name", "agent.version", "action.name", "action.arguments"),
    *("provenance.connector", "next_observation.content"),
)
"""Columns from which a row of the table is made."""


def _examples(standing: Standing, known: dict[int, Records]) -> dict[int, list[dict[str, Any]]]:
    """Return by group the frames whose first answer is in the unit, as rows of the table without the share."""
    wanted = [(int(frame["row"]), group, frame) for group, some in known.items() for frame in some]
    wanted = [candidate for candidate in wanted if int(candidate[2]["unit"]) == standing.unit.number]
    if not wanted:
        return {}
    examples: dict[int, list[dict[str, Any]]] = {}
    first = 0
    for rows in row_groups(standing.judging.transitions, standing.unit.name):
        here = [candidate for candidate in wanted if first <= candidate[0] < first + rows.num_rows]
        if here:
            batch = rows.read(_LEAVES)
            for row, group, frame in here:
                (transition,) = batch.slice(row - first, 1).to_pylist()
                examples.setdefault(group, []).append(_table_row(transition, frame))
        first += rows.num_rows
    return examples


def _table_row(row: Mapping[str, Any], frame: np.void) -> dict[str, Any]:
    skeleton, text = find_example(row, int(frame["place"]), int(frame["skeleton"]))
    return {
        "agent": row["agent"]["name"] or row["provenance"]["connector"],
        "version": row["agent"]["version"],
        "tool": row["action"]["name"] if frame["tool"] else None,
        "place": PLACES[int(frame["place"])],
        "skeleton": skeleton,
        "example": text,
        **{name: int(frame[name]) for name in ("answers", "among", "kinds")},
        "expected": round(float(frame["expected"]), 1),
    }


def read_frames(measures: Folder) -> list[dict[str, Any]]:
    """Return the rows of `TABLE` in a folder of measures; empty if the search was off."""
    data = measures.found(NAME)
    return [] if data is None else pq.read_table(BytesIO(data)).to_pylist()


def table_line(row: Mapping[str, Any]) -> str:
    """Format a row of `TABLE` as a line of the table `connectors/conversation/harness_text.tsv`."""
    version = f"{row['version']}-{row['version']}" if row["version"] else "-"
    position, _, label = row["place"].partition("_")
    meaning, begin, end = ("before", "", r"(?:\n|\Z)") if position == "head" else ("after", "(?P<output>.*)", "")
    pattern = (begin if label else "") + make_pattern(row["skeleton"]) + ("" if label else end)
    return "\t".join((row["agent"], version, row["tool"] or "-", "any", meaning, pattern))


def frame_warnings(measures: Folder) -> tuple[str, ...]:
    """Format a warning for each version of an agent whose answers hold frames, with the most frequent ones."""
    messages = []
    for agent, rows in groupby(read_frames(measures), lambda row: (row["agent"], row["version"])):
        frames = list(rows)
        if frames[0]["share"] < _WORTH_A_WARNING:
            continue
        lines = ", ".join(f"'{shorten(row['example'], _SHOWN, placeholder='…')}'" for row in frames[:_MOST_FREQUENT])
        share, name = f"{frames[0]['share']:.1%}", " ".join(filter(None, agent))
        messages.append(f"{share} of the results of {name} may hold text of its harness (inspect --harness): {lines}")
    return tuple(messages)


def write_table(standing: Standing) -> Manifest:
    """Write the frames that unit `REPORTER` received as a unit, and return its manifest."""
    judging = standing.judging
    rows = [row for data in standing.told(_TABLE) for row in json.loads(data)]
    rows.sort(key=lambda row: (row["agent"], row["version"] or "", -row["answers"], row["place"], row["skeleton"]))
    buffer = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, TABLE), buffer)
    judging.measures.write(NAME, buffer.getvalue())
    entry = FileEntry(NAME, len(rows), len(buffer.getvalue()), hashlib.sha256(buffer.getvalue()).hexdigest())
    return finish_unit(judging.measures, Manifest("judge", UNIT, judging.digest, SCHEMA_VERSION, (entry,)))
