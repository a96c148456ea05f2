"""Examples of a report: samples in their training form, and rejects with the raw bytes that caused them.

Everything was scrubbed when it was written; bytes of raw logs that still exist are scrubbed for the report. Texts are
cut, with a note on the number of omitted characters.

A report is passed on, so it contains no raw bytes of a trajectory in whose rows anything was replaced: a value that one
text identified as a secret may occur in other bytes where nothing identifies it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from trajmill.app.pages.loss_runs import Rendered, Run, Said, render_row
from trajmill.app.pages.markup import visible
from trajmill.app.pages.raw_bytes import RawBytes, RawPlaces, members_of
from trajmill.app.report.sources import Sources, UnitFiles
from trajmill.pipelines.storage.ownership import PLAN
from trajmill.pipelines.storage.paths import url_of
from trajmill.quality.scrub import KINDS, scrub_text
from trajmill.schemas import ConfigError

_DEEPEST: Final = 16 << 20
"""Most decompressed bytes that are read to reach a position."""

_PLAN_BYTES: Final = 64 << 20
"""Most bytes of plans that are read. Reading larger plans would take longer than the rest of the report."""

_SECRETS_REPLACED: Final = "secrets of its trajectory were replaced"
_BINARY: Final = "they are no text"


@dataclass(frozen=True, slots=True)
class RawCause:
    """Text of a raw log at the offset of a reject, or the reason why it is not shown.

    Attributes:
        text: Record at the offset, scrubbed; empty if it is not shown.
        why: Reason in words that follow "Its raw bytes are not shown: "; empty if it is shown.
    """

    text: str
    why: str = ""


class RawCauses:
    """Raw logs of a run."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        settings: Mapping[str, Any] = sources.recipe.get("normalize") or {}
        self._kinds: Sequence[str] = settings.get("scrub", KINDS)
        self._is_salted = settings.get("scrub_salt") is not None

    @cached_property
    def _places(self) -> RawPlaces | None:
        """Locations of the raw logs; None if the plans are too large."""
        sources = self._sources
        names = [name for lead in reversed(sources.leads) if (name := f"{lead}{PLAN}") in sources.names]
        if sum(sources.size(name) for name in names) > _PLAN_BYTES:
            return None
        plans = (members_of(sources.folder.read(name)) for name in names)
        here = (
            {uri: of for uri, of in plan.items() if all(url_of(location.path) is None for location in of.values())}
            for plan in plans
        )
        return RawPlaces.of(*here, deepest=_DEEPEST)

    def at(self, reject: Mapping[str, Any], *, is_replaced: bool) -> RawCause:
        """Read the text of the raw log at the offset of a reject.

        Args:
            is_replaced: True if anything in the rows of its trajectory was replaced, or may have been.
        """
        if reject["offset"] < 0 or not reject["uri"]:
            return RawCause("", "the reject names no place")
        if is_replaced:
            return RawCause("", _SECRETS_REPLACED)
        if self._places is None:
            return RawCause("", "the plan is too large to look into")
        raw = self._places.at(reject["uri"], reject["member"], reject["offset"])
        if raw is None:
            return RawCause("", "no plan says where its log lies on this machine")
        if raw.fault:
            return RawCause("", "its log cannot be opened any more" if raw.is_gone else raw.fault)
        return self._scrubbed(raw)

    def _scrubbed(self, raw: RawBytes) -> RawCause:
        """Return the record, scrubbed together with the text around it, so that no secret is cut."""
        if b"\x00" in raw.at or raw.at.decode("utf-8", "ignore").encode()[:400] != raw.at[:400]:
            return RawCause("", _BINARY)
        before, at, after = (part.decode("utf-8", "replace") for part in (raw.before, raw.at, raw.after))
        whole = before + at + after
        try:
            scrubbed = scrub_text(whole, kinds=self._kinds)
        except ConfigError:
            return RawCause("", "the recipe's kinds of secrets are not known here")
        if self._is_salted and scrubbed != whole:
            return RawCause("", "they hold secrets, and the recipe's salt is not kept")
        begin = len(before.encode())
        return RawCause(scrubbed.encode()[begin : begin + len(at.encode())].decode("utf-8", "replace"))


EXAMPLES: Final = 10
"""Number of samples of a domain, and of rejects of a reason."""

CUT: Final = "cut"
"""Label of a run that stands for omitted text; its own text gives the amount."""

_REJECTS: Final = 300
"""Rejects of all reasons together. With many reasons, fewer of each are shown."""

_HELD_BACK: Final = "eval"
_SAMPLE: Final = 3_000
"""Characters of a sample that are shown."""

_RUN: Final = (420, 160)
"""Characters at the beginning and the end of a longer run that are shown."""

_GAP: Final = 120
"""Fewest characters that are omitted."""

_FIRST, _LAST = 5, 3
"""Messages at the beginning and the end of a sample that are shown."""

_TEXT: Final = 500
"""Characters of each text of a reject that are shown."""

_EXPANDED: Final = 2
"""Most bytes of the page that a character may take on average."""

_REPLACED: Final = "scrubbed"
"""Column with the number of replacements in a row."""

_COLUMNS: Final = ("unit", "reason", "detail", "uri", "member", "offset", "connector", "trajectory_id", "step")


class Beginning(NamedTuple):
    """Beginning of a text, and the number of omitted characters."""

    text: str
    left: int

    @classmethod
    def of(cls, text: str) -> Beginning:
        """Cut a text to the size shown with a reject."""
        begin = fitting(text, _TEXT)
        return cls(begin, len(text) - len(begin))


@dataclass(frozen=True, slots=True)
class Judged:
    """Transition that a reject refers to: action, answer, and whether its trajectory held secrets."""

    action: str
    answer: str
    is_replaced: bool


@dataclass(frozen=True, slots=True)
class Rejected:
    """Reject and its cause.

    Attributes:
        row: Its columns except the excerpt.
        excerpt: Bytes of the log as text: the stored excerpt, or the bytes in the log if none was stored.
        why: Reason in words why there is no excerpt; empty if there is one.
        action: Action of the judged transition, or of the trajectory's first one; empty if there is none.
        answer: Next observation of that transition.
    """

    row: Mapping[str, Any]
    excerpt: Beginning
    why: str
    action: Beginning
    answer: Beginning


def samples(sources: Sources) -> dict[str, list[Rendered]]:
    """Draw some samples of each domain, from the pools used for training, by the hash of their position."""
    ranks: dict[str, list[tuple[int, str, str, int]]] = {}
    for pool, domain, name in sources.shards():
        if pool != _HELD_BACK and name.endswith(".parquet"):
            for number in sources.some_rows(name, EXAMPLES):
                rank = xxhash.xxh64_intdigest(f"{name} {number}")
                ranks.setdefault(domain, []).append((rank, name, pool, number))
    return {
        domain: _render_samples(sources, domain, sorted(ranked)[:EXAMPLES]) for domain, ranked in sorted(ranks.items())
    }


def _render_samples(sources: Sources, domain: str, drawn: Sequence[tuple[int, str, str, int]]) -> list[Rendered]:
    rows: dict[str, dict[int, dict[str, Any]]] = {}
    for name in {name for _, name, _, _ in drawn}:
        rows[name] = sources.rows(name, [number for _, of, _, number in drawn if of == name])
    return [shorten(render_row(pool, domain, number, rows[name][number])) for _, name, pool, number in drawn]


def shorten(sample: Rendered) -> Rendered:
    """Shorten a sample that is too long: leave out messages in its middle, and the middles of its runs."""
    messages = list(sample.messages)
    left = len(messages) - _FIRST - _LAST
    if left > 0:
        gap = Said("", [Run(f"{left:,} messages", loss=False, label=CUT)])
        messages = [*messages[:_FIRST], gap, *messages[-_LAST:]]
    each = _SAMPLE // max(1, len(messages))
    return replace(
        sample, messages=[message._replace(runs=list(_cut_runs(message.runs, each))) for message in messages]
    )


def _cut_runs(runs: Sequence[Run], most: int) -> Iterator[Run]:
    """Yield runs of at most `most` characters together; the middles of long runs are omitted."""
    first, last = (round(length * min(1.0, most / sum(_RUN))) for length in _RUN)
    for number, run in enumerate(runs):
        if most <= 0:
            rest = sum(len(later.text) for later in runs[number:])
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
    """Return the beginning of a text: `most` characters, or fewer if a page needs many bytes for them."""
    begin = text[:most]
    size = len(visible(begin).encode("utf-8", "replace"))
    return begin if size <= _EXPANDED * most else begin[: _EXPANDED * most * len(begin) // size]


def reject_rows(sources: Sources) -> pa.Table:
    """Read the rejects of the sampled files, without excerpts, with their position: `stage`, `name`, `row`."""
    kinds = {name: pa.int64() if name in ("offset", "step") else pa.string() for name in _COLUMNS}
    schema = pa.schema({**kinds, "row": pa.int64(), "stage": pa.string(), "name": pa.string()})
    parts = [schema.empty_table()]
    for name, stage in sources.rejects:
        table = sources.table(name, _COLUMNS)
        table = table.append_column("row", pa.array(range(len(table)), pa.int64()))
        for column, value in (("stage", stage), ("name", name)):
            table = table.append_column(column, pa.repeat(pa.scalar(value), len(table)))
        parts.append(table)
    return pa.concat_tables(parts, promote_options="permissive")


def _spread(rejects: pa.Table) -> list[dict[str, Any]]:
    """Pick rejects of each stage and reason, spread evenly over the sampled ones, sorted by both and by position."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number, of in enumerate(zip(*(rejects[name].to_pylist() for name in ("stage", "reason")), strict=True)):
        groups.setdefault(of, []).append(number)
    most = min(EXAMPLES, max(1, _REJECTS // max(1, len(groups))))
    drawn: list[int] = []
    for numbers in groups.values():
        some = min(most, len(numbers))
        drawn += [numbers[-(-index * len(numbers) // some)] for index in range(some)]
    rows: list[dict[str, Any]] = rejects.take(pa.array(drawn, pa.int64())).to_pylist()
    return sorted(rows, key=lambda row: (row["stage"], row["reason"], row["name"], row["row"]))


def pick_rejects(sources: Sources, rejects: pa.Table) -> dict[tuple[str, str], list[Rejected]]:
    """Pick some rejects of each (stage, reason), spread evenly over the sampled ones."""
    chosen = _spread(rejects)
    excerpts = _excerpts(sources, chosen)
    judged = _read_judged_texts(sources, [row for row in chosen if row["trajectory_id"]])
    causes, examples = RawCauses(sources), dict[tuple[str, str], list[Rejected]]()
    for row in chosen:
        key = row["name"], row["row"]
        of = judged.get(
            key, Judged("", "", is_replaced=bool(row["trajectory_id"]) and _unit_of(row["name"]) is not None)
        )
        excerpt, why = excerpts[key], ""
        if not excerpt:
            cause = causes.at(row, is_replaced=of.is_replaced)
            excerpt, why = cause.text, cause.why
        example = Rejected(row, Beginning.of(excerpt), why, Beginning.of(of.action), Beginning.of(of.answer))
        examples.setdefault((row["stage"], row["reason"]), []).append(example)
    return examples


def _excerpts(sources: Sources, chosen: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], str]:
    texts: dict[tuple[str, int], str] = {}
    for name in sorted({row["name"] for row in chosen}):
        rows = sources.rows(name, [row["row"] for row in chosen if row["name"] == name], ["excerpt"])
        texts |= {(name, number): row["excerpt"] or "" for number, row in rows.items()}
    return texts


def _read_judged_texts(sources: Sources, chosen: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], Judged]:
    """Return the transition that each reject refers to, by file name and row."""
    judged: dict[tuple[str, int], Judged] = {}
    for name in sorted({row["name"] for row in chosen}):
        unit = _unit_of(name)
        if unit is None or unit.of("transitions") not in sources.names:
            continue
        mine = [row for row in chosen if row["name"] == name]
        ids = sources.table(unit.of("transitions"), ["trajectory_id", "step", _REPLACED])
        scrubbed = ids  # files of the first form lack the column
        if _REPLACED in ids.column_names:
            scrubbed = ids.filter(pc.greater(ids[_REPLACED], 0))
        replaced = set(scrubbed["trajectory_id"].unique().to_pylist())
        wanted = {(row["trajectory_id"], max(0, row["step"])) for row in mine}
        at = pc.indices_nonzero(pc.is_in(ids["trajectory_id"], pa.array({key for key, _ in wanted}, pa.string())))
        there = zip(*(ids[name].take(at).to_pylist() for name in ("trajectory_id", "step")), strict=True)
        places = {of: number for number, of in zip(at.to_pylist(), there, strict=True) if of in wanted}
        rows = sources.rows(unit.of("transitions"), places.values(), ["action", "next_observation"])
        for row in mine:
            row_number = places.get((row["trajectory_id"], max(0, row["step"])))
            if row_number is not None:
                action, after = rows[row_number]["action"] or {}, rows[row_number]["next_observation"] or {}
                texts = action.get("text") or "", after.get("content") or ""
                judged[name, row["row"]] = Judged(*texts, is_replaced=row["trajectory_id"] in replaced)
    return judged


def _unit_of(name: str) -> UnitFiles | None:
    """Return the unit of a rejects file of the judge and mix stages; None for another stage's file."""
    lead, _, rest = name.rpartition("rejects/")
    domain, dash, label = rest.partition("/")[2].partition("-")
    return UnitFiles(lead, domain, label) if dash and label.startswith("part-") else None
