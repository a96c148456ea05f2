"""What a report shows of the data itself: samples as they are trained on, and rejects beside what caused them.

All of it was scrubbed when it was written; bytes of raw logs that are still there are scrubbed now. Texts are cut to a
length, with a word on how much is left out.

A report is passed on, so it takes no bytes of a trajectory in whose rows anything was replaced: what one text of it
gave away as a secret may stand in others where nothing tells that it is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from trajmill.app.pages.loss_runs import Rendered, Run, Said, rendered
from trajmill.app.pages.markup import visible
from trajmill.app.pages.raw_bytes import RawBytes, RawPlaces, members_of
from trajmill.app.report.sources import Sources, UnitFiles
from trajmill.pipelines.storage.ownership import PLAN
from trajmill.pipelines.storage.paths import url_of
from trajmill.quality.scrub import KINDS, scrub_text
from trajmill.schemas import ConfigError

_DEEPEST: Final = 16 << 20
"""Decompressed bytes that are read through to come to a place."""

_PLAN_BYTES: Final = 64 << 20
"""Of plans that are read; those of more are of so many logs that looking into them takes longer than all the rest."""

_SECRETS_REPLACED: Final = "secrets of its trajectory were replaced"
_BINARY: Final = "they are no text"


@dataclass(frozen=True, slots=True)
class RawCause:
    """What stands in a raw log at a reject's place.

    Attributes:
        text: the record there, scrubbed; empty where it is not shown.
        why: it is not shown, in words that follow "Its raw bytes are not shown: "; empty if it is.
    """

    text: str
    why: str = ""


class RawCauses:
    """The raw logs of a run.

    Args:
        sources: of its report.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        told: Mapping[str, Any] = sources.recipe.get("normalize") or {}
        self._kinds: Sequence[str] = told.get("scrub", KINDS)
        self._is_salted = told.get("scrub_salt") is not None

    @cached_property
    def _places(self) -> RawPlaces | None:
        """None where the plans are too large."""
        sources = self._sources
        names = [name for lead in reversed(sources.leads) if (name := f"{lead}{PLAN}") in sources.names]
        if sum(sources.size(name) for name in names) > _PLAN_BYTES:
            return None
        plans = (members_of(sources.folder.read(name)) for name in names)
        here = ({uri: of for uri, of in plan.items() if not any(map(_is_far, of.values()))} for plan in plans)
        return RawPlaces.of(*here, deepest=_DEEPEST)

    def at(self, reject: Mapping[str, Any], *, is_replaced: bool) -> RawCause:
        """What stands at a reject's place.

        Args:
            reject: its row.
            is_replaced: whether anything in the rows of its trajectory was replaced, or may have been.
        """
        if reject["offset"] < 0 or not reject["uri"]:
            return RawCause("", "the reject names no place")
        if is_replaced:
            return RawCause("", _SECRETS_REPLACED)
        if self._places is None:
            return RawCause("", "the plan is too large to look into")
        found = self._places.at(reject["uri"], reject["member"], reject["offset"])
        if found is None:
            return RawCause("", "no plan says where its log lies on this machine")
        if found.fault:
            return RawCause("", "its log cannot be opened any more" if found.is_gone else found.fault)
        return self._scrubbed(found)

    def _scrubbed(self, found: RawBytes) -> RawCause:
        """The record, scrubbed with what stands around it, so that nothing is cut where a secret could be."""
        if b"\x00" in found.at or found.at.decode("utf-8", "ignore").encode()[:400] != found.at[:400]:
            return RawCause("", _BINARY)
        before, at, after = (part.decode("utf-8", "replace") for part in (found.before, found.at, found.after))
        whole = before + at + after
        try:
            scrubbed = scrub_text(whole, kinds=self._kinds)
        except ConfigError:
            return RawCause("", "the recipe's kinds of secrets are not known here")
        if self._is_salted and scrubbed != whole:
            return RawCause("", "they hold secrets, and the recipe's salt is not kept")
        begin = len(before.encode())
        return RawCause(scrubbed.encode()[begin : begin + len(at.encode())].decode("utf-8", "replace"))


def _is_far(place: Any) -> bool:
    return url_of(place.path) is not None


EXAMPLES: Final = 10
"""Samples of a domain, and rejects of a reason."""

CUT: Final = "cut"
"""The label of a run that stands for text that is left out; its text says how much."""

_REJECTS: Final = 300
"""Rejects of all reasons together: of many reasons, fewer each are shown."""

_HELD_BACK: Final = "eval"
_SAMPLE: Final = 3_000
"""Characters of a sample."""

_RUN: Final = (420, 160)
"""Characters of the beginning and of the end of a run that are shown where it is longer."""

_GAP: Final = 120
"""Characters that are left out at least, if any are."""

_FIRST, _LAST = 5, 3
"""Messages of a sample that are shown from its beginning and its end."""

_TEXT: Final = 500
"""Characters of each text beside a reject."""

_EXPANDED: Final = 2
"""Bytes of the page that a character may take on average."""

_REPLACED: Final = "scrubbed"
"""The column that counts what was replaced in a row."""

_COLUMNS: Final = ("unit", "reason", "detail", "uri", "member", "offset", "connector", "trajectory_id", "step")


class Beginning(NamedTuple):
    """The beginning of a text, and how many characters of it are left out."""

    text: str
    left: int

    @classmethod
    def of(cls, text: str) -> Beginning:
        """As much of a text as is shown beside a reject."""
        begin = fitting(text, _TEXT)
        return cls(begin, len(text) - len(begin))


@dataclass(frozen=True, slots=True)
class Judged:
    """A transition that a reject speaks of: what was done, what followed, and whether its trajectory held secrets."""

    action: str
    answer: str
    is_replaced: bool


@dataclass(frozen=True, slots=True)
class Rejected:
    """A reject and what caused it.

    Attributes:
        row: its columns, but for the excerpt.
        excerpt: the bytes of the log, as text, as they were kept or, where none were, as they are there now.
        why: there is no excerpt, in words; empty if there is one.
        action: of the transition that was judged, or of the first one of the trajectory; empty where there is none.
        answer: what followed it.
    """

    row: Mapping[str, Any]
    excerpt: Beginning
    why: str
    action: Beginning
    answer: Beginning


def samples(sources: Sources) -> dict[str, list[Rendered]]:
    """Domain → some samples of the pools that are trained on, drawn by the hash of their place."""
    found: dict[str, list[tuple[int, str, str, int]]] = {}
    for pool, domain, name in sources.shards():
        if pool != _HELD_BACK and name.endswith(".parquet"):
            for number in sources.some_rows(name, EXAMPLES):
                rank = xxhash.xxh64_intdigest(f"{name} {number}")
                found.setdefault(domain, []).append((rank, name, pool, number))
    return {domain: _rendered(sources, domain, sorted(ranked)[:EXAMPLES]) for domain, ranked in sorted(found.items())}


def _rendered(sources: Sources, domain: str, drawn: Sequence[tuple[int, str, str, int]]) -> list[Rendered]:
    rows: dict[str, dict[int, dict[str, Any]]] = {}
    for name in {name for _, name, _, _ in drawn}:
        rows[name] = sources.rows(name, [number for _, of, _, number in drawn if of == name])
    return [shortened(rendered(pool, domain, number, rows[name][number])) for _, name, pool, number in drawn]


def shortened(sample: Rendered) -> Rendered:
    """A sample with what is too long of it left out: messages in its middle, and the middles of its runs."""
    messages = list(sample.messages)
    left = len(messages) - _FIRST - _LAST
    if left > 0:
        gap = Said("", [Run(f"{left:,} messages", loss=False, label=CUT)])
        messages = [*messages[:_FIRST], gap, *messages[-_LAST:]]
    each = _SAMPLE // max(1, len(messages))
    return replace(sample, messages=[said._replace(runs=list(_cut_runs(said.runs, each))) for said in messages])


def _cut_runs(runs: Sequence[Run], most: int) -> Iterator[Run]:
    """Runs of so many characters together, each with its middle left out where it is long."""
    first, last = (round(one * min(1.0, most / sum(_RUN))) for one in _RUN)
    for number, run in enumerate(runs):
        if most <= 0:
            rest = sum(len(one.text) for one in runs[number:])
            yield Run(f"{rest:,} characters", loss=False, label=CUT)
            return
        if run.label == CUT:
            yield run
            continue
        begin = fitting(run.text, first if len(run.text) > first + last + _GAP else len(run.text))
        end = fitting(run.text[len(begin) :][-last:], last) if len(begin) < len(run.text) else ""
        yield run._replace(text=begin)
        if gone := len(run.text) - len(begin) - len(end):
            yield Run(f"{gone:,} characters", loss=run.loss, label=CUT)
        if end:
            yield run._replace(text=end)
        most -= len(begin) + len(end)


def fitting(text: str, most: int) -> str:
    """The beginning of a text: so many characters, or fewer where a page needs many bytes for them."""
    begin = text[:most]
    size = len(visible(begin).encode("utf-8", "replace"))
    return begin if size <= _EXPANDED * most else begin[: _EXPANDED * most * len(begin) // size]


def reject_rows(sources: Sources) -> pa.Table:
    """The rejects of the files that are looked at, without excerpts, and where they stand: `stage`, `name`, `row`."""
    kinds = {name: pa.int64() if name in ("offset", "step") else pa.string() for name in _COLUMNS}
    schema = pa.schema({**kinds, "row": pa.int64(), "stage": pa.string(), "name": pa.string()})
    parts = [schema.empty_table()]
    for name, stage in sources.rejects:
        told = sources.table(name, _COLUMNS)
        told = told.append_column("row", pa.array(range(len(told)), pa.int64()))
        for column, value in (("stage", stage), ("name", name)):
            told = told.append_column(column, pa.repeat(pa.scalar(value), len(told)))
        parts.append(told)
    return pa.concat_tables(parts, promote_options="permissive")


def _spread(rejects: pa.Table) -> list[dict[str, Any]]:
    """Rejects of each stage and reason, spread evenly over those that are looked at; by both, and by their places."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number, of in enumerate(zip(*(rejects[name].to_pylist() for name in ("stage", "reason")), strict=True)):
        groups.setdefault(of, []).append(number)
    most = min(EXAMPLES, max(1, _REJECTS // max(1, len(groups))))
    drawn: list[int] = []
    for numbers in groups.values():
        some = min(most, len(numbers))
        drawn += [numbers[-(-place * len(numbers) // some)] for place in range(some)]
    rows: list[dict[str, Any]] = rejects.take(pa.array(drawn, pa.int64())).to_pylist()
    return sorted(rows, key=lambda row: (row["stage"], row["reason"], row["name"], row["row"]))


def rejected(sources: Sources, rejects: pa.Table) -> dict[tuple[str, str], list[Rejected]]:
    """(stage, reason) → some rejects, spread evenly over those that are looked at."""
    chosen = _spread(rejects)
    excerpts = _excerpts(sources, chosen)
    judged = _judged_texts(sources, [row for row in chosen if row["trajectory_id"]])
    causes, found = RawCauses(sources), dict[tuple[str, str], list[Rejected]]()
    for row in chosen:
        place = row["name"], row["row"]
        of = judged.get(
            place, Judged("", "", is_replaced=bool(row["trajectory_id"]) and _unit_of(row["name"]) is not None)
        )
        excerpt, why = excerpts[place], ""
        if not excerpt:
            cause = causes.at(row, is_replaced=of.is_replaced)
            excerpt, why = cause.text, cause.why
        one = Rejected(row, Beginning.of(excerpt), why, Beginning.of(of.action), Beginning.of(of.answer))
        found.setdefault((row["stage"], row["reason"]), []).append(one)
    return found


def _excerpts(sources: Sources, chosen: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for name in sorted({row["name"] for row in chosen}):
        rows = sources.rows(name, [row["row"] for row in chosen if row["name"] == name], ["excerpt"])
        found |= {(name, number): row["excerpt"] or "" for number, row in rows.items()}
    return found


def _judged_texts(sources: Sources, chosen: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], Judged]:
    """Name and row of a reject → the transition that it speaks of."""
    found: dict[tuple[str, int], Judged] = {}
    for name in sorted({row["name"] for row in chosen}):
        unit = _unit_of(name)
        if unit is None or unit.of("transitions") not in sources.names:
            continue
        mine = [row for row in chosen if row["name"] == name]
        ids = sources.table(unit.of("transitions"), ["trajectory_id", "step", _REPLACED])
        told = ids  # files of the first form lack the column
        if _REPLACED in ids.column_names:
            told = ids.filter(pc.greater(ids[_REPLACED], 0))
        replaced = set(told["trajectory_id"].unique().to_pylist())
        wanted = {(row["trajectory_id"], max(0, row["step"])) for row in mine}
        at = pc.indices_nonzero(pc.is_in(ids["trajectory_id"], pa.array({key for key, _ in wanted}, pa.string())))
        there = zip(*(ids[name].take(at).to_pylist() for name in ("trajectory_id", "step")), strict=True)
        places = {of: number for number, of in zip(at.to_pylist(), there, strict=True) if of in wanted}
        rows = sources.rows(unit.of("transitions"), places.values(), ["action", "next_observation"])
        for row in mine:
            place = places.get((row["trajectory_id"], max(0, row["step"])))
            if place is not None:
                action, after = rows[place]["action"] or {}, rows[place]["next_observation"] or {}
                texts = action.get("text") or "", after.get("content") or ""
                found[name, row["row"]] = Judged(*texts, is_replaced=row["trajectory_id"] in replaced)
    return found


def _unit_of(name: str) -> UnitFiles | None:
    """The unit whose rejects stand in a file of the stages judge and mix; None of another stage's."""
    lead, _, rest = name.rpartition("rejects/")
    domain, dash, label = rest.partition("/")[2].partition("-")
    return UnitFiles(lead, domain, label) if dash and label.startswith("part-") else None
