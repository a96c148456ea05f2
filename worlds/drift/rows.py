"""Rows of a run in the form for a drift report: a few numbers each, measured file by file, without text.

Rows are compared by hashes: of the task and everything seen and done before the answer (`key`), of the task, the text
before the action and the action (`context`), of the task and the action (`act`), and by a sketch of the history, the
smallest shingle in each of `MINS` orders. A served row names the log from which its session began, and pairs with the
row of that log after the same actions (`logged`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.generations.generations import stage_folders
from trajmill.pipelines.judge.world_models import answering
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, read_transitions, rows_of, transition_files
from trajmill.quality.fingerprint import Lanes, combine_hashes, mixed, struct_text, text_hashes
from trajmill.quality.lookback import Reaching
from trajmill.quality.replicate import Words
from trajmill.quality.segments import goes_on
from trajmill.quality.sets import distinct, holds, ranges
from trajmill.quality.settings import ESTIMATE
from trajmill.quality.shingle import shingles
from trajmill.quality.signal import Measured
from trajmill.quality.signals.empty_answer import EmptyAnswer
from trajmill.quality.signals.error_observation import shown_erroneous
from trajmill.quality.texts import Flags, Texts
from trajmill.quality.tokens import TokenCounter
from trajmill.quality.turns import turns
from trajmill.quality.without_element_ids import TREE, remove_element_ids

Hashes = npt.NDArray[np.uint64]

CARRIED: Final = 1 << 20
"""Words of a trajectory that are remembered from one batch to the next, those with the smallest hashes."""

_ODD_WORDS: Final = np.uint64(0x9E3779B97F4A7C15)


class SeenWords:
    """Words shown, done or said so far in the trajectory at the end of the last batch."""

    def __init__(self) -> None:
        self._seen: Hashes = np.zeros(0, np.uint64)

    def novelty(self, view: Measured) -> npt.NDArray[np.float32]:
        """Return, for each row, the share (0 to 1) of the distinct words of its answer that did not occur before.

        Rows that were not answered by the environment have no words.
        """
        texts = [
            ("task", "instruction"),
            ("observation", "content"),
            ("action", "text"),
            ("next_observation", "content"),
        ]
        shown, answered = (_of_world(view, side) for side in ("observation", "next_observation"))
        spoken = [
            _spoken(view.texts(*path), answered & shown if path[0] == "observation" else answered) for path in texts
        ]
        order = np.concatenate([rows * 2 + (number == len(texts) - 1) for number, (rows, _) in enumerate(spoken)])
        words = np.concatenate([words for _, words in spoken])
        placed = np.argsort(order, kind="stable")
        order, words = order[placed], words[placed]
        of = view.trajectory[order // 2]
        keys = mixed(words + (of.astype(np.uint64) + np.uint64(1)) * _ODD_WORDS)
        first = np.zeros(len(keys), np.bool_)
        first[np.unique(keys, return_index=True)[1]] = True
        if goes_on(view.batch) and len(self._seen):
            first &= ~((of == 0) & holds(self._seen, words))
        answers = order % 2 == 1
        rows = view.batch.num_rows
        new = np.bincount(order[first & answers] // 2, minlength=rows)
        firsts = np.unique(
            mixed(words[answers]) + (order[answers] // 2).astype(np.uint64) * _ODD_WORDS, return_index=True
        )[1]
        whole = np.bincount((order[answers] // 2)[firsts], minlength=rows)
        self._keep(view, words[of == len(view.starts) - 1])
        return (new / np.maximum(whole, 1)).astype(np.float32)

    def _keep(self, view: Measured, words: Hashes) -> None:
        goes = goes_on(view.batch) and len(view.starts) == 1
        self._seen = distinct(np.concatenate([self._seen, words]) if goes else words)[:CARRIED]


def _of_world(view: Measured, side: str = "next_observation") -> Flags:
    """Flag the rows whose observation on that side comes from the environment, not a user, agent or harness."""
    return view.texts(side, "origin").matching("^environment$")


def _spoken(texts: Texts, rows: Flags) -> tuple[npt.NDArray[np.int64], Hashes]:
    """Return (row, word) of every word of the flagged rows."""
    hashes, offsets = texts.words()
    index = np.where(texts.index >= 0, texts.index, 0)
    counts = np.where(rows & (texts.index >= 0), np.diff(offsets)[index] if len(texts.texts) else 0, 0)
    begins = offsets[:-1][index] if len(texts.texts) else index
    return np.repeat(np.arange(len(texts.index)), counts), hashes[ranges(begins, counts)]


MINS: Final = 8
"""Orders of shingles in the sketch of a history."""

REFUSAL: Final = (
    r"(?i)\A\W*(?:i(?:['’]?m| am) (?:sorry|unable)|sorry, |i apologi[sz]e|i can(?:['’]?t|not) |unfortunately, i )"
    r"|\bas an? (?:ai|large language|language)(?: language)? model\b"
)
"""Pattern of the beginning of a refusal, as models write it (RE2 syntax)."""

_SKETCHED: Final = 1 << 15
"""Characters of a text whose shingles are sketched."""

_ODD: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
_ORDERS: Final = np.array(
    [0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1, 0xD3A2646D, 0xFD7046C5, 0xB55A4F09]
)
_LANES: Final = np.uint32(0xFFFFFFFF)

SCHEMA: Final = pl.Schema(
    {
        **dict.fromkeys(("world_model", "domain", "tool"), pl.String),
        **dict.fromkeys(("file", "row"), pl.UInt32),
        "turn": pl.Int32,
        **dict.fromkeys(("place", "log", "logged", "key", "context", "act"), pl.UInt64),
        **dict.fromkeys(("trajectory", "step_hash", "answer"), pl.UInt64),
        "chars": pl.Int64,
        **dict.fromkeys(("error", "empty", "refusal", "novelty", "echo"), pl.Float32),
        **{f"min{number}": pl.UInt32 for number in range(MINS)},
    }
)
"""Columns of a side: one row a transition whose answer is text of the environment.

`turn` counts the turns that the environment answered. `place` is the task, or the log if no task is known. `log` is the
trajectory; for a served row, the one from which its session began, 0 if unnamed. `logged` is the log with all actions
so far. `world_model` is null on real rows. `error` is judged on both sides by the text and exit code, since no model
sees the marks of a log. `novelty` is the share of an answer's words that nothing before it showed, `echo` the share of
the action's words that it repeats.
"""


@dataclass(frozen=True, slots=True)
class Side:
    """Rows of one run.

    Attributes:
        names: Names of the files there, by number.
        rows: Rows of `SCHEMA` of the wanted kind.
        left_out: Number of rows of the other kind.
        share: Share of the tasks that the rows cover, chosen by hash, 0 to 1.
    """

    folder: Folder
    names: Sequence[str]
    rows: pl.DataFrame
    left_out: int
    share: float

    def words(self, places: pl.DataFrame) -> dict[tuple[int, int], Words]:
        """Return the words of the answers by (file, row), for the rows that `places` names by `file` and `row`."""
        by_place: dict[tuple[int, int], Words] = {}
        wanted = places.select("file", "row").unique().sort("file", "row")
        for (number,), some in wanted.group_by("file", maintain_order=True):
            rows, first = some["row"].to_numpy().astype(np.int64), 0
            columns = ["next_observation.content", "next_observation.dialect"]
            for batch in read_batches(self.folder, self.names[int(number)], columns):
                low, high = np.searchsorted(rows, (first, first + batch.num_rows))
                shown = batch["next_observation"].take(pa.array(rows[low:high] - first))
                texts, dialects = (pc.struct_field(shown, name).to_pylist() for name in ("content", "dialect"))
                for row, text, dialect in zip(rows[low:high].tolist(), texts, dialects, strict=True):
                    by_place[int(number), row] = Words.of(text or "", tree=(dialect or "").endswith(TREE))
                first += batch.num_rows
        return by_place


def read_sides(real: str, sim: str, most: int) -> tuple[Side, Side]:
    """Read the real rows of one run and the simulated rows of another, which may be the same.

    Args:
        real: A run's folder, normalized at least.
        sim: Another run's folder.
        most: Rows of a side above which only a share of the tasks is compared, the same tasks on both sides.

    Raises:
        ConfigError: There are no transitions.
        ShardError: A file cannot be read.
    """
    places = [_files(out) for out in (real, sim)]
    largest = max(sum(rows_of(folder, name) for name in names) for folder, names in places)
    bits = max(0, (-(-largest // most) - 1).bit_length())
    first, second = (
        _side(*location, bits, simulated=simulated) for location, simulated in zip(places, (False, True), strict=True)
    )
    return first, second


def _files(out: str) -> tuple[Folder, list[str]]:
    """Return the transitions files of a run, including later generations, or of a folder of transitions."""
    folder = Folder.named(out)
    stages = [stages_folder / "transitions" for stages_folder in stage_folders(folder)]
    places = [(stage.url.removeprefix(f"{folder.url}/"), stage) for stage in stages]
    names = [f"{lead}/{name}" for lead, stage in places for name in stage.names(".parquet")]
    return (folder, names) if names else transition_files(out)


def _side(folder: Folder, names: Sequence[str], bits: int, *, simulated: bool) -> Side:
    parts, left_out = [pl.DataFrame(schema=SCHEMA)], 0
    names = sorted(names)
    for number, name in enumerate(names):
        for frame in file_rows(folder, name, number):
            mine = frame.filter(pl.col("world_model").is_not_null() if simulated else pl.col("world_model").is_null())
            left_out += len(frame) - len(mine)
            parts.append(mine.filter((pl.col("place") & ((1 << bits) - 1)) == 0) if bits else mine)
    rows = pl.concat(parts).with_columns(turn=pl.col("turn").rank("dense").over("trajectory").cast(pl.Int32) - 1)
    return Side(folder, names, rows, left_out, 2.0**-bits)


def file_rows(folder: Folder, name: str, number: int) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file of transitions, batch by batch; `number` is the file's number."""
    reaching, measuring = Reaching(TokenCounter(ESTIMATE)), _Measuring(number)
    for batch in read_transitions(folder, name):
        for view in reaching.add(batch):
            yield measuring.measured(view)
    for view in reaching.rest():
        yield measuring.measured(view)


class _Measuring:
    """Measures of the batches of a file, in order; a trajectory may continue in the next batch."""

    def __init__(self, file: int) -> None:
        self._file, self._row = file, 0
        self._done: Lanes = np.zeros((1, 2), np.uint64)
        self._last: Lanes = np.zeros((1, 2), np.uint64)
        self._acted: Lanes = np.zeros((1, 2), np.uint64)
        self._mins = np.full(MINS, _LANES, np.uint32)
        self._words = SeenWords()

    def measured(self, view: Measured) -> pl.DataFrame:
        """Return the rows of a batch whose answer is text of the environment."""
        batch = view.batch
        content = view.texts("next_observation", "content")
        shared = view.once(turns)
        columns: dict[str, Any] = {
            "world_model": answering(batch["environment"]),
            "domain": batch["domain"].cast(pa.string()),
            "tool": struct_text(batch, "action", "name").cast(pa.string()),
            "file": np.full(batch.num_rows, self._file, np.uint32),
            "row": np.arange(self._row, self._row + batch.num_rows, dtype=np.uint32),
            "turn": batch["turn"],
            **self._hashes(view),
            "chars": content.spread(pc.utf8_length(content.texts).to_numpy(zero_copy_only=False).astype(np.int64)),
            "error": view.around(shown_erroneous).astype(np.float32),
            "empty": EmptyAnswer().measure(view),
            "refusal": content.matching(REFUSAL).astype(np.float32),
            "novelty": self._words.novelty(view),
            "echo": shared.overlap.astype(np.float32),
            **self._sketches(view),
        }
        self._row += batch.num_rows
        arrays = {
            name: columns[name] if isinstance(columns[name], pa.Array) else pa.array(columns[name]) for name in SCHEMA
        }
        measured_rows = pl.DataFrame(pa.table(arrays)).cast(SCHEMA)
        return measured_rows.filter(pl.Series((content.index >= 0) & _of_world(view)))

    def _hashes(self, view: Measured) -> dict[str, npt.NDArray[np.uint64]]:
        batch = remove_element_ids(view.batch)
        log = logs(view.batch)
        place_hashes = np.where(places(batch) != 0, places(batch), log)
        lead = np.repeat(place_hashes[:, None], 2, axis=1)
        answer = text_hashes(struct_text(batch, "next_observation", "content"))
        action = combine_hashes(
            [
                *(text_hashes(struct_text(batch, "action", name)) for name in ("name", "arguments", "text")),
                text_hashes(batch["interleaved"]),
            ]
        )
        step = batch["step"].to_numpy().astype(np.uint64)[:, None] + np.uint64(1)
        is_shown = struct_text(batch, "observation", "content").is_valid().to_numpy(zero_copy_only=False)
        previous = np.concatenate([self._last, answer[:-1]])
        previous[batch["step"].to_numpy() == 0] = 0
        seen = np.where(is_shown[:, None], text_hashes(struct_text(batch, "observation", "content")), previous)
        done = mixed(combine_hashes([seen, action]) + step * _ODD)
        before = np.cumsum(done, axis=0, dtype=np.uint64) - done
        before -= np.repeat(before[view.starts], view.lengths, axis=0)
        if goes_on(batch):
            before[: view.lengths[0]] += self._done
        self._done, self._last = before[-1:] + done[-1:], answer[-1:]
        copies = pc.utf8_slice_codeunits(batch["row_id"].cast(pa.string()), 0, 49)
        return {
            "place": place_hashes,
            "log": log,
            "logged": self._hash_logs(view, log),
            "key": combine_hashes([lead, before, seen, action])[:, 0],
            "context": combine_hashes([lead, seen, action])[:, 0],
            "act": combine_hashes([lead, action])[:, 0],
            "trajectory": text_hashes(copies)[:, 0],
            "step_hash": mixed(combine_hashes([action, answer]) + step * _ODD)[:, 0],
            "answer": answer[:, 0],
        }

    def _hash_logs(self, view: Measured, log: Hashes) -> Hashes:
        """Hash each row's log, its action, and all actions so far that the world answered."""
        act = mixed(text_hashes(struct_text(view.batch, "action", "text")))
        counted = np.where(_of_world(view)[:, None], act, np.uint64(0))
        so_far = np.cumsum(counted, axis=0, dtype=np.uint64)
        so_far -= np.repeat((so_far - counted)[view.starts], view.lengths, axis=0)
        if goes_on(view.batch):
            so_far[: view.lengths[0]] += self._acted
        self._acted = so_far[-1:]
        return np.where(log != 0, combine_hashes([np.repeat(log[:, None], 2, axis=1), so_far, act])[:, 0], 0)

    def _sketches(self, view: Measured) -> dict[str, npt.NDArray[np.uint32]]:
        own = np.minimum(
            *(_smallest(view.texts(*path)) for path in (("action", "text"), ("next_observation", "content")))
        )
        before = np.empty_like(own)
        goes = goes_on(view.batch)
        for index, (begin, length) in enumerate(zip(view.starts.tolist(), view.lengths.tolist(), strict=True)):
            carried = self._mins if goes and index == 0 else np.full(MINS, _LANES, np.uint32)
            run = np.minimum.accumulate(np.concatenate([carried[None], own[begin : begin + length]]), axis=0)
            before[begin : begin + length], last = run[:-1], run[-1]
            if index == len(view.starts) - 1:
                self._mins = last
        return {f"min{number}": before[:, number] for number in range(MINS)}


def places(batch: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """Return a hash of each row's domain and task; 0 if no task is known.

    The task is identified by the first known value of: the task's instruction, its id, the instance of the environment.
    """
    hashes = np.zeros(batch.num_rows, np.uint64)
    for struct, name in (("environment", "instance_id"), ("task", "id"), ("task", "instruction")):
        column = struct_text(batch, struct, name)
        known = column.is_valid().to_numpy(zero_copy_only=False)
        lanes = combine_hashes([text_hashes(batch["domain"]), text_hashes(column)]) + np.uint64(len(name))
        hashes = np.where(known, mixed(lanes)[:, 0] | np.uint64(1 << 63), hashes)
    return hashes


def logs(batch: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """Return a hash of each row's trajectory id, or of its scenario if a model answered; 0 without one."""
    sampling = struct_text(batch, "environment", "sampling").dictionary_encode()
    named = pa.array([_scenario(text) for text in sampling.dictionary.to_pylist()], pa.string())
    simulated = answering(batch["environment"]).is_valid()
    log = pc.if_else(simulated, named.take(sampling.indices), batch["trajectory_id"].cast(pa.string()))
    hashes: npt.NDArray[np.uint64] = text_hashes(log)[:, 0]
    return np.where(log.is_valid().to_numpy(zero_copy_only=False), hashes, 0)


def _scenario(sampling: str | None) -> str | None:
    settings = json.loads(sampling) if sampling else None
    scenario = settings.get("scenario") if isinstance(settings, dict) else None
    return scenario if isinstance(scenario, str) else None


def _smallest(texts: Texts) -> npt.NDArray[np.uint32]:
    """Return the smallest shingle of each row's text in each order; the largest 32-bit number if there is none."""
    cut = pc.utf8_slice_codeunits(texts.texts, 0, _SKETCHED)
    hashes, offsets = shingles(cut)
    mins = np.full((len(texts.texts), MINS), _LANES, np.uint32)
    some = np.flatnonzero(np.diff(offsets))
    for number, order in enumerate(_ORDERS.astype(np.uint32) if len(some) else ()):
        mins[some, number] = np.minimum.reduceat(hashes * order, offsets[some])
    absent = np.full((1, MINS), _LANES, np.uint32)
    return np.concatenate([mins, absent])[texts.index]
