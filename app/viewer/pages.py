"""The pages of the viewer: from what is looked at and a request to the values of a template, which escapes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import polars as pl
from starlette.exceptions import HTTPException
from starlette.requests import Request

from trajmill.app.pages.contents import Contents
from trajmill.app.pages.copies import clusters, copied, named_keeper, side_by_side
from trajmill.app.pages.index import FACETS, facet_counts, found_in
from trajmill.app.pages.loss_runs import Rendered, Run, Said, runs, sample_at, sample_counts, samples_of
from trajmill.app.pages.rejects import FACETS as REJECT_FACETS
from trajmill.app.pages.rejects import chosen_rejects, reject_facets
from trajmill.app.pages.run_files import RunFiles
from trajmill.app.pages.text_search import searched
from trajmill.app.pages.why import bounds, reason_words
from trajmill.app.viewer.selection import PAGE, Selection, number_of, text_of
from trajmill.app.viewer.steps import SIDES, attached, step_values
from trajmill.pipelines.render.loss_spans import answer_spans
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import turns
from trajmill.schemas import ConfigError


def drawn_samples(files: RunFiles, trajectory_id: str, domain: str) -> list[Rendered]:
    """The samples of the shards that were made of a trajectory, at most eight."""
    found = (sample_at(files, *place) for place in samples_of(files, trajectory_id, domain))
    return [sample for sample in found if sample is not None]


def view_of(files: RunFiles | None) -> View:
    """How the recipe of a run shows trajectories; as by default where its record is no recipe any more."""
    from trajmill.pipelines.recipe.recipe import Recipe
    from trajmill.pipelines.recipe.recipe_file import load_recipe

    mix = Recipe(name="view", source="view").mix
    if files is not None and files.recipe:
        with suppress(ConfigError, OSError):
            mix = load_recipe(str(files.root / "run.json")).mix
    return View.of(mix)


def with_spans(rows: Sequence[Mapping[str, Any]], spans: Path | None, first: int) -> list[Mapping[str, Any]]:
    """Rows with the classes of their characters, which stand in a file that is aligned to theirs from a row on."""
    if spans is None:
        return list(rows)
    told = pl.scan_parquet(spans, glob=False).select("spans").slice(first, len(rows)).collect()["spans"].to_list()
    return [{**row, "spans": labels} for row, labels in zip(rows, told, strict=True)]


def _is_seen(row: Mapping[str, Any]) -> bool:
    return (row["next_observation"] or {}).get("content") is not None


def preview(rows: Sequence[Mapping[str, Any]], view: View) -> Rendered:
    """The turns of a trajectory as a conversation, without a system prompt.

    Args:
        rows: of the trajectory, each with its `use`, and its `spans` where they were measured; those after which
            nothing was seen are not shown.
        view: how they are shown.
    """
    said: list[Said] = []
    for turn in turns([row if _is_seen(row) else {**row, "use": "omit"} for row in rows], view):
        borne = answer_spans(turn.answer) if turn.loss else []
        spans = [{"begin": one.begin, "end": one.end, "label": one.label} for one in borne]
        said += [Said("user", [Run(turn.user, loss=False)]), Said("assistant", runs(turn.assistant, spans))]
    first = rows[0]
    return Rendered("preview", first["domain"], 0, first["trajectory_id"], first["trajectory_id"], {}, said)


SORTED: Final = ("domain", "instruction", "fate", "pool", "outcome", "steps", "environment", "connector", "uri")
"""Columns of the index that a list of trajectories shows, and by which it is ordered."""

_AROUND: Final = 60
"""Steps listed before and after the one that is shown."""

_TRANSCRIPT_CHARACTERS: Final = 300_000
"""Of what was observed on a page of a transcript, after which no further step is shown."""

_PREVIEWED: Final = 200
"""Steps of a trajectory that are shown as a sample."""


class Pages:
    """What pages share: what is looked at, and what is made of it once."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents

    @cached_property
    def copies(self) -> pl.DataFrame:
        """The dropped copies, each with its keeper."""
        return copied(self.contents.index, self.contents.rejects)

    @cached_property
    def samples(self) -> dict[tuple[str, str], int]:
        """(pool, domain) → number of samples."""
        return sample_counts(self.contents.files) if self.contents.files else {}

    @cached_property
    def report(self) -> bytes:
        """The report of the run, each number a link to its trajectories."""
        from trajmill.app.report.report import report

        return report(str(self.contents.files.root), is_linked=True) if self.contents.files else b""

    def keeper(self, detail: str) -> str | None:
        """The key of the trajectory that a reject's detail names; None if it names none, or it is not there."""
        prefix = named_keeper(detail)
        if not prefix:
            return None
        found = self.contents.index.filter(pl.col("trajectory_id").str.starts_with(prefix) & (pl.col("fate") == "kept"))
        return found["key"][0] if len(found) else None

    def found(self, key: str) -> dict[str, Any]:
        """The row of the index with that key.

        Raises:
            HTTPException: there is none.
        """
        one = self.contents.trajectory(key)
        if one is None:
            raise HTTPException(404, "There is no such trajectory.")
        return one

    def rows(self, one: Mapping[str, Any], most: int = _PREVIEWED) -> list[dict[str, Any]]:
        """The first rows of a trajectory whole."""
        return self.contents.rows.whole(one["file"], one["first"], min(one["steps"], most))


def select_trajectories(held: Pages, request: Request) -> tuple[Selection, pl.DataFrame]:
    """The trajectories that an address chooses; while a large run is read, those of its files so far."""
    selection = Selection.of(request, "/", FACETS, SORTED)
    return selection, selection.ordered(found_in(held.contents.so_far().index, selection.chosen, selection.text))


def select_copies(held: Pages, request: Request) -> tuple[Selection, pl.DataFrame]:
    """The kept trajectories with copies that an address chooses, each with the numbers of its copies."""
    selection = Selection.of(request, "/copies", ("domain",), (*SORTED, "near", "equal"))
    kept = clusters(held.copies).join(held.contents.index, left_on="keeper", right_on="key", maintain_order="left")
    return selection, selection.ordered(found_in(kept, selection.chosen, selection.text))


def select_rejects(held: Pages, request: Request) -> tuple[Selection, pl.DataFrame]:
    """The rejects that an address chooses."""
    rejects = held.contents.rejects.with_row_index("number")
    selection = Selection.of(request, "/rejects", REJECT_FACETS, rejects.columns)
    return selection, selection.ordered(chosen_rejects(rejects, selection.chosen, selection.text))


SELECTIONS: Final = {"trajectories": select_trajectories, "copies": select_copies, "rejects": select_rejects}
"""Name of a list → what it selects by an address."""


def download(held: Pages, request: Request) -> tuple[str, str]:
    """A selection as a file: its name, and its rows as lines of JSON, or the ids of their trajectories a line each.

    Raises:
        HTTPException: there is no such list or kind of file.
    """
    name, kind = request.path_params["name"], request.path_params["kind"]
    if name not in SELECTIONS or kind not in {"jsonl", "txt"}:
        raise HTTPException(404, "There is no such file.")
    rows = SELECTIONS[name](held, request)[1].drop("file", "first", "row", "number", strict=False)
    ids = rows["trajectory_id"].unique(maintain_order=True).drop_nulls()
    text = rows.write_ndjson() if kind == "jsonl" else "".join(f"{one}\n" for one in ids if one)
    return f"{name}.{kind}", text


def browse(held: Pages, request: Request) -> dict[str, Any]:
    """All trajectories that the address chooses, a page of them."""
    so_far, (selection, rows) = held.contents.so_far(), select_trajectories(held, request)
    facets = facet_counts(so_far.index, selection.chosen, selection.text)
    told = {"total": len(so_far.index), "steps": int(rows["steps"].sum()), "so_far": so_far, "facets": facets}
    return {**selection.shown(rows), **told}


def search(held: Pages, request: Request) -> dict[str, Any]:
    """The steps that hold a text."""
    text, begin = text_of(request), (number_of(request, "file", 0), number_of(request, "row", 0))
    found = searched(held.contents.searchable, text, begin) if text else None
    tasks = {hit.key: held.contents.trajectory(hit.key) for hit in found.hits} if found else {}
    return {"text": text, "found": found, "tasks": tasks}


def transcript(held: Pages, request: Request) -> dict[str, Any]:
    """The steps of a trajectory from a number on, as many as make one page."""
    contents, one = held.contents, held.found(request.path_params["key"])
    begin = min(number_of(request, "from", 0), one["steps"] - 1)
    rows = contents.rows.whole(one["file"], one["first"] + begin, min(PAGE, one["steps"] - begin))
    sizes = accumulate(len((row["next_observation"] or {}).get("content") or "") for row in rows)
    rows = rows[: 1 + sum(size < _TRANSCRIPT_CHARACTERS for size in sizes)]
    outline = contents.rows.outline(one["file"], one["first"] + begin, len(rows))
    some = [{**step_values(contents, one, row), "told": told} for row, told in zip(rows, outline, strict=True)]
    return {"one": one, "begin": begin, "most": PAGE, "some": some, "outline": outline}


def step(held: Pages, request: Request) -> dict[str, Any]:
    """One step of a trajectory."""
    contents, number = held.contents, int(request.path_params.get("step", 0))
    one = held.found(request.path_params["key"])
    if number >= one["steps"]:
        raise HTTPException(404, f"It has {one['steps']} steps, counted from 0.")
    first = max(0, number - _AROUND)
    count = min(one["steps"], number + _AROUND + 1) - first
    row = contents.rows.whole(one["file"], one["first"] + number, 1)[0]
    verdict = contents.rows.verdict(one["file"], one["first"] + number)
    outline = contents.rows.outline(one["file"], one["first"] + first, count)
    told = {
        "told": _details(held, one, number) if verdict and verdict["reason"] else [],
        "in_words": reason_words(verdict["reason"], contents.rules) if verdict and verdict["reason"] else "",
        "bounds": bounds(verdict, contents.rules) if verdict else [],
    }
    about = {"one": one, "row": row, "number": number, "outline": outline, "verdict": verdict}
    return {**about, "step": step_values(contents, one, row), **told}


def _details(held: Pages, one: Mapping[str, Any], number: int) -> list[tuple[str, str | None]]:
    """What rejects say of a row or of its trajectory, and the trajectory that they name."""
    told = held.contents.rejects.filter(
        (pl.col("trajectory_id") == one["trajectory_id"])
        & (pl.col("uri") == one["uri"])
        & pl.col("step").is_in([-1, number])
    )
    return [(detail, held.keeper(detail)) for detail in told["detail"].unique(maintain_order=True).head(4)]


def attachment(held: Pages, request: Request) -> bytes:
    """The bytes of an attachment of a step.

    Raises:
        HTTPException: it has none such, or it was not kept.
    """
    one, (number, side, place) = (
        held.found(request.path_params["key"]),
        (request.path_params[name] for name in ("step", "side", "number")),
    )
    if number < one["steps"] and side in SIDES:
        sha256 = attached(held.contents.rows.whole(one["file"], one["first"] + number, 1)[0], side, place)
        data = held.contents.attachment(sha256) if sha256 else None
        if data is not None:
            return data
    raise HTTPException(404, "There is no such attachment.")


def raw(held: Pages, request: Request) -> dict[str, Any]:
    """The raw bytes at the place of a step."""
    one, number = held.found(request.path_params["key"]), int(request.path_params["step"])
    if number >= one["steps"]:
        raise HTTPException(404, f"It has {one['steps']} steps, counted from 0.")
    place = held.contents.rows.whole(one["file"], one["first"] + number, 1)[0]["provenance"]
    found = held.contents.places.at(place["uri"], place["member"], place["offset"])
    return {"one": one, "number": number, "place": place, "found": found}


def trained(held: Pages, request: Request) -> dict[str, Any]:
    """A trajectory as it is trained on, or as it would be shown."""
    one, files = held.found(request.path_params["key"]), held.contents.files
    drawn = drawn_samples(files, one["trajectory_id"], one["domain"]) if files and one["pool"] else []
    if drawn:
        return {"one": one, "drawn": drawn, "preview": None}
    rows = held.rows(one)
    uses = held.contents.rows.outline(one["file"], one["first"], len(rows))
    for row, told in zip(rows, uses, strict=True):
        row["use"] = told["use"] if one["fate"] == "kept" else "target"
    spans = held.contents.searchable[one["file"]].spans
    return {"one": one, "drawn": [], "preview": preview(with_spans(rows, spans, one["first"]), view_of(files))}


def copy_list(held: Pages, request: Request) -> dict[str, Any]:
    """The clusters of keepers and their copies, a page of them."""
    selection, rows = select_copies(held, request)
    return {**selection.shown(rows), "copies": len(held.copies)}


def copy_pair(held: Pages, request: Request) -> dict[str, Any]:
    """A keeper beside one of its copies."""
    keeper = held.found(request.path_params["key"])
    some = held.copies.filter(pl.col("keeper") == keeper["key"]).sort("dropped_by", descending=True).to_dicts()
    place = number_of(request, "copy", 0)
    if place >= len(some):
        raise HTTPException(404, f"It has {len(some)} copies, counted from 0.")
    beside = side_by_side(held.rows(keeper, 400), held.rows(some[place], 400))
    return {"keeper": keeper, "copies": some, "place": place, "other": some[place], "beside": beside}


def reject_list(held: Pages, request: Request) -> dict[str, Any]:
    """What was not carried on, by the choices of the address, a page of it."""
    selection, rows = select_rejects(held, request)
    facets = reject_facets(held.contents.rejects, selection.chosen, selection.text)
    return {**selection.shown(rows), "facets": facets, "total": len(held.contents.rejects)}


def reject(held: Pages, request: Request) -> dict[str, Any]:
    """One reject, with the bytes at its place."""
    number, rejects = int(request.path_params["number"]), held.contents.rejects
    if number >= len(rejects):
        raise HTTPException(404, f"There are {len(rejects)} rejects, counted from 0.")
    one = rejects.row(number, named=True)
    mine = held.contents.index.filter((pl.col("trajectory_id") == one["trajectory_id"]) & (pl.col("uri") == one["uri"]))
    found = held.contents.places.at(one["uri"], one["member"], one["offset"])
    key = mine["key"][0] if len(mine) else None
    told = {"one": one, "number": number, "total": len(rejects), "key": key, "found": found}
    told["in_words"] = reason_words(one["reason"], held.contents.rules)
    return {**told, "excerpt": held.contents.excerpt(one), "keeper": held.keeper(one["detail"])}


def sample_list(held: Pages, request: Request) -> dict[str, Any]:  # noqa: ARG001 - every page is asked alike
    """How many samples each pool has of each domain."""
    pools = list(dict.fromkeys(pool for pool, _ in held.samples))
    return {"counts": held.samples, "pools": pools, "domains": sorted({domain for _, domain in held.samples})}


def sample(held: Pages, request: Request) -> dict[str, Any]:
    """One sample as it is trained on."""
    pool, domain, number = (request.path_params[name] for name in ("pool", "domain", "number"))
    files = held.contents.files
    if files is None or not 0 <= number < held.samples.get((pool, domain), 0):
        raise HTTPException(404, "There is no such sample.")
    found = sample_at(files, pool, domain, number)
    mine = held.contents.index.filter(pl.col("trajectory_id") == ((found.trajectory_id if found else "") or ""))
    key = mine["key"][0] if len(mine) else None
    return {"sample": found, "number": number, "total": held.samples[pool, domain], "key": key}
