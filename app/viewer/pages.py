"""Pages of the viewer: each turns the contents and a request into values of a template, which escapes them."""

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
from trajmill.app.pages.copies import clusters, find_copies, keeper_prefix, side_by_side
from trajmill.app.pages.index import FACETS, facet_counts, filter_index
from trajmill.app.pages.loss_runs import Rendered, Run, Said, runs, sample_at, sample_counts, samples_of
from trajmill.app.pages.rejects import FACETS as REJECT_FACETS
from trajmill.app.pages.rejects import chosen_rejects, reject_facets
from trajmill.app.pages.run_files import RunFiles
from trajmill.app.pages.text_search import search_text
from trajmill.app.pages.why import bounds, reason_words
from trajmill.app.viewer.selection import PAGE, Selection, number_of, text_of
from trajmill.app.viewer.steps import SIDES, attachment_digest, step_values
from trajmill.pipelines.render.loss_spans import answer_spans
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import turns
from trajmill.schemas import ConfigError


def load_drawn_samples(files: RunFiles, trajectory_id: str, domain: str) -> list[Rendered]:
    """Load the samples of the shards that were made from a trajectory, at most eight."""
    samples = (sample_at(files, *address) for address in samples_of(files, trajectory_id, domain))
    return [sample for sample in samples if sample is not None]


def view_of(files: RunFiles | None) -> View:
    """Return the view settings of a run's recipe; the defaults if the run record holds no valid recipe."""
    from trajmill.pipelines.recipe.recipe import Recipe
    from trajmill.pipelines.recipe.recipe_file import load_recipe

    mix = Recipe(name="view", source="view").mix
    if files is not None and files.recipe:
        with suppress(ConfigError, OSError):
            mix = load_recipe(str(files.root / "run.json")).mix
    return View.of(mix)


def with_spans(rows: Sequence[Mapping[str, Any]], spans: Path | None, first: int) -> list[Mapping[str, Any]]:
    """Add the classes of their characters to rows, from an aligned file and the first row's number."""
    if spans is None:
        return list(rows)
    span_lists = pl.scan_parquet(spans, glob=False).select("spans").slice(first, len(rows)).collect()["spans"].to_list()
    return [{**row, "spans": labels} for row, labels in zip(rows, span_lists, strict=True)]


def _is_seen(row: Mapping[str, Any]) -> bool:
    return (row["next_observation"] or {}).get("content") is not None


def preview(rows: Sequence[Mapping[str, Any]], view: View) -> Rendered:
    """Render the turns of a trajectory as a conversation, without a system prompt.

    Args:
        rows: Rows of the trajectory, each with its `use`, and its `spans` if measured. Rows without a next observation
            are not shown.
    """
    messages: list[Said] = []
    for turn in turns([row if _is_seen(row) else {**row, "use": "omit"} for row in rows], view):
        borne = answer_spans(turn.answer) if turn.loss else []
        spans = [{"begin": span.begin, "end": span.end, "label": span.label} for span in borne]
        messages += [Said("user", [Run(turn.user, loss=False)]), Said("assistant", runs(turn.assistant, spans))]
    first = rows[0]
    return Rendered("preview", first["domain"], 0, first["trajectory_id"], first["trajectory_id"], {}, messages)


SORTED: Final = ("domain", "instruction", "fate", "pool", "outcome", "steps", "environment", "connector", "uri")
"""Columns of the index that a list of trajectories shows, and by which it can be sorted."""

_AROUND: Final = 60
"""Steps listed before and after the shown one."""

_TRANSCRIPT_CHARACTERS: Final = 300_000
"""Characters of observations on a page of a transcript, after which no further step is shown."""

_PREVIEWED: Final = 200
"""Steps of a trajectory that are shown as a sample."""


class Pages:
    """State that pages share: the open contents and what is computed from them once."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents

    @cached_property
    def copies(self) -> pl.DataFrame:
        """Dropped copies, each with its keeper."""
        return find_copies(self.contents.index, self.contents.rejects)

    @cached_property
    def samples(self) -> dict[tuple[str, str], int]:
        """Number of samples by (pool, domain)."""
        return sample_counts(self.contents.files) if self.contents.files else {}

    @cached_property
    def report(self) -> bytes:
        """Report of the run, with each number linked to its trajectories."""
        from trajmill.app.report.report import report

        return report(str(self.contents.files.root), is_linked=True) if self.contents.files else b""

    def keeper(self, detail: str) -> str | None:
        """Return the key of the trajectory that a reject's detail names; None if there is none."""
        prefix = keeper_prefix(detail)
        if not prefix:
            return None
        matches = self.contents.index.filter(
            pl.col("trajectory_id").str.starts_with(prefix) & (pl.col("fate") == "kept")
        )
        return matches["key"][0] if len(matches) else None

    def found(self, key: str) -> dict[str, Any]:
        """Return the row of the index with that key.

        Raises:
            HTTPException: There is none.
        """
        trajectory = self.contents.trajectory(key)
        if trajectory is None:
            raise HTTPException(404, "There is no such trajectory.")
        return trajectory

    def rows(self, trajectory: Mapping[str, Any], most: int = _PREVIEWED) -> list[dict[str, Any]]:
        """Return the first rows of a trajectory with all columns."""
        return self.contents.rows.whole(trajectory["file"], trajectory["first"], min(trajectory["steps"], most))


def select_trajectories(shared: Pages, request: Request) -> tuple[Selection, pl.DataFrame]:
    """Select the trajectories that match the query; while a large run is being read, those of the files read so far."""
    selection = Selection.of(request, "/", FACETS, SORTED)
    return selection, selection.sort_rows(
        filter_index(shared.contents.so_far().index, selection.chosen, selection.text)
    )


def select_copies(shared: Pages, request: Request) -> tuple[Selection, pl.DataFrame]:
    """Select the kept trajectories with copies that match the query, each with the number of its copies."""
    selection = Selection.of(request, "/copies", ("domain",), (*SORTED, "near", "equal"))
    keepers = clusters(shared.copies).join(
        shared.contents.index, left_on="keeper", right_on="key", maintain_order="left"
    )
    return selection, selection.sort_rows(filter_index(keepers, selection.chosen, selection.text))


def select_rejects(shared: Pages, request: Request) -> tuple[Selection, pl.DataFrame]:
    """Select the rejects that match the query."""
    rejects = shared.contents.rejects.with_row_index("number")
    selection = Selection.of(request, "/rejects", REJECT_FACETS, rejects.columns)
    return selection, selection.sort_rows(chosen_rejects(rejects, selection.chosen, selection.text))


SELECTIONS: Final = {"trajectories": select_trajectories, "copies": select_copies, "rejects": select_rejects}
"""Selection function by name of the list."""


def download(shared: Pages, request: Request) -> tuple[str, str]:
    """Return a selection as a file: its name, and its rows as lines of JSON, or the ids of their trajectories, one a
    line.

    Raises:
        HTTPException: There is no such list or kind of file.
    """
    name, kind = request.path_params["name"], request.path_params["kind"]
    if name not in SELECTIONS or kind not in {"jsonl", "txt"}:
        raise HTTPException(404, "There is no such file.")
    rows = SELECTIONS[name](shared, request)[1].drop("file", "first", "row", "number", strict=False)
    ids = rows["trajectory_id"].unique(maintain_order=True).drop_nulls()
    text = (
        rows.write_ndjson()
        if kind == "jsonl"
        else "".join(f"{trajectory_id}\n" for trajectory_id in ids if trajectory_id)
    )
    return f"{name}.{kind}", text


def browse(shared: Pages, request: Request) -> dict[str, Any]:
    """Return a page of the trajectories that the address selects."""
    so_far, (selection, rows) = shared.contents.so_far(), select_trajectories(shared, request)
    facets = facet_counts(so_far.index, selection.chosen, selection.text)
    totals = {"total": len(so_far.index), "steps": int(rows["steps"].sum()), "so_far": so_far, "facets": facets}
    return {**selection.shown(rows), **totals}


def search(shared: Pages, request: Request) -> dict[str, Any]:
    """Return the steps that contain a text."""
    text, begin = text_of(request), (number_of(request, "file", 0), number_of(request, "row", 0))
    result = search_text(shared.contents.searchable, text, begin) if text else None
    tasks = {hit.key: shared.contents.trajectory(hit.key) for hit in result.hits} if result else {}
    return {"text": text, "found": result, "tasks": tasks}


def transcript(shared: Pages, request: Request) -> dict[str, Any]:
    """Return the steps of a trajectory from a number on that fit on one page."""
    contents, trajectory = shared.contents, shared.found(request.path_params["key"])
    begin = min(number_of(request, "from", 0), trajectory["steps"] - 1)
    rows = contents.rows.whole(trajectory["file"], trajectory["first"] + begin, min(PAGE, trajectory["steps"] - begin))
    sizes = accumulate(len((row["next_observation"] or {}).get("content") or "") for row in rows)
    rows = rows[: 1 + sum(size < _TRANSCRIPT_CHARACTERS for size in sizes)]
    outline = contents.rows.outline(trajectory["file"], trajectory["first"] + begin, len(rows))
    some = [{**step_values(contents, trajectory, row), "told": entry} for row, entry in zip(rows, outline, strict=True)]
    about = {"one": trajectory, "begin": begin, "most": PAGE, "some": some, "outline": outline}
    return {**about, **_reasons(shared, trajectory, trajectory["dropped_by"], -1)}


def step(shared: Pages, request: Request) -> dict[str, Any]:
    """Return one step of a trajectory."""
    contents, number = shared.contents, int(request.path_params.get("step", 0))
    trajectory = shared.found(request.path_params["key"])
    if number >= trajectory["steps"]:
        raise HTTPException(404, f"It has {trajectory['steps']} steps, counted from 0.")
    first = max(0, number - _AROUND)
    count = min(trajectory["steps"], number + _AROUND + 1) - first
    row = contents.rows.whole(trajectory["file"], trajectory["first"] + number, 1)[0]
    verdict = contents.rows.verdict(trajectory["file"], trajectory["first"] + number)
    outline = contents.rows.outline(trajectory["file"], trajectory["first"] + first, count)
    reasons = _reasons(shared, trajectory, verdict["reason"] if verdict else None, number)
    reasons |= {"bounds": bounds(verdict, contents.rules, row["domain"]) if verdict else []}
    about = {"one": trajectory, "row": row, "number": number, "outline": outline, "verdict": verdict}
    return {**about, "step": step_values(contents, trajectory, row), **reasons}


def _reasons(shared: Pages, trajectory: Mapping[str, Any], reason: str | None, number: int) -> dict[str, Any]:
    """Explain the reason of a step, or of the trajectory if the number is -1; empty values where there is none."""
    words = reason_words(reason, shared.contents.rules) if reason else ""
    return {"in_words": words, "told": _details(shared, trajectory, number) if reason else []}


def _details(shared: Pages, trajectory: Mapping[str, Any], number: int) -> list[tuple[str, str | None]]:
    """Return the details of the rejects of a row or of its trajectory, each with the key of the trajectory that it
    names.
    """
    rejects = shared.contents.rejects.filter(
        (pl.col("trajectory_id") == trajectory["trajectory_id"])
        & (pl.col("uri") == trajectory["uri"])
        & pl.col("step").is_in([-1, number])
    )
    return [(detail, shared.keeper(detail)) for detail in rejects["detail"].unique(maintain_order=True).head(4)]


def attachment(shared: Pages, request: Request) -> bytes:
    """Return the bytes of an attachment of a step.

    Raises:
        HTTPException: There is no such attachment, or it was not kept.
    """
    trajectory, (number, side, index) = (
        shared.found(request.path_params["key"]),
        (request.path_params[name] for name in ("step", "side", "number")),
    )
    if number < trajectory["steps"] and side in SIDES:
        sha256 = attachment_digest(
            shared.contents.rows.whole(trajectory["file"], trajectory["first"] + number, 1)[0], side, index
        )
        data = shared.contents.attachment(sha256) if sha256 else None
        if data is not None:
            return data
    raise HTTPException(404, "There is no such attachment.")


def raw(shared: Pages, request: Request) -> dict[str, Any]:
    """Return the raw bytes at the position of a step."""
    trajectory, number = shared.found(request.path_params["key"]), int(request.path_params["step"])
    if number >= trajectory["steps"]:
        raise HTTPException(404, f"It has {trajectory['steps']} steps, counted from 0.")
    provenance = shared.contents.rows.whole(trajectory["file"], trajectory["first"] + number, 1)[0]["provenance"]
    raw_bytes = shared.contents.places.at(provenance["uri"], provenance["member"], provenance["offset"])
    return {"one": trajectory, "number": number, "place": provenance, "found": raw_bytes}


def trained(shared: Pages, request: Request) -> dict[str, Any]:
    """Return a trajectory in its training form, or a preview of it."""
    trajectory, files = shared.found(request.path_params["key"]), shared.contents.files
    drawn = (
        load_drawn_samples(files, trajectory["trajectory_id"], trajectory["domain"])
        if files and trajectory["pool"]
        else []
    )
    if drawn:
        return {"one": trajectory, "drawn": drawn, "preview": None}
    rows = shared.rows(trajectory)
    uses = shared.contents.rows.outline(trajectory["file"], trajectory["first"], len(rows))
    for row, entry in zip(rows, uses, strict=True):
        row["use"] = entry["use"] if trajectory["fate"] == "kept" else "target"
    spans = shared.contents.searchable[trajectory["file"]].spans
    return {
        "one": trajectory,
        "drawn": [],
        "preview": preview(with_spans(rows, spans, trajectory["first"]), view_of(files)),
    }


def copy_list(shared: Pages, request: Request) -> dict[str, Any]:
    """Return a page of the clusters of keepers and their copies."""
    selection, rows = select_copies(shared, request)
    return {**selection.shown(rows), "copies": len(shared.copies)}


def copy_pair(shared: Pages, request: Request) -> dict[str, Any]:
    """Return a keeper beside one of its copies."""
    keeper = shared.found(request.path_params["key"])
    some = shared.copies.filter(pl.col("keeper") == keeper["key"]).sort("dropped_by", descending=True).to_dicts()
    index = number_of(request, "copy", 0)
    if index >= len(some):
        raise HTTPException(404, f"It has {len(some)} copies, counted from 0.")
    beside = side_by_side(shared.rows(keeper, 400), shared.rows(some[index], 400))
    return {"keeper": keeper, "copies": some, "place": index, "other": some[index], "beside": beside}


def reject_list(shared: Pages, request: Request) -> dict[str, Any]:
    """List the rejects that match the query of the address, one page of them."""
    selection, rows = select_rejects(shared, request)
    facets = reject_facets(shared.contents.rejects, selection.chosen, selection.text)
    return {**selection.shown(rows), "facets": facets, "total": len(shared.contents.rejects)}


def reject(shared: Pages, request: Request) -> dict[str, Any]:
    """Return one reject, with the bytes at its position."""
    number, rejects = int(request.path_params["number"]), shared.contents.rejects
    if number >= len(rejects):
        raise HTTPException(404, f"There are {len(rejects)} rejects, counted from 0.")
    row = rejects.row(number, named=True)
    mine = shared.contents.index.filter(
        (pl.col("trajectory_id") == row["trajectory_id"]) & (pl.col("uri") == row["uri"])
    )
    raw_bytes = shared.contents.places.at(row["uri"], row["member"], row["offset"])
    key = mine["key"][0] if len(mine) else None
    values = {"one": row, "number": number, "total": len(rejects), "key": key, "found": raw_bytes}
    values["in_words"] = reason_words(row["reason"], shared.contents.rules)
    return {**values, "excerpt": shared.contents.excerpt(row), "keeper": shared.keeper(row["detail"])}


def sample_list(shared: Pages, request: Request) -> dict[str, Any]:  # noqa: ARG001 - every page is asked alike
    """Count the samples of each pool and domain."""
    pools = list(dict.fromkeys(pool for pool, _ in shared.samples))
    return {"counts": shared.samples, "pools": pools, "domains": sorted({domain for _, domain in shared.samples})}


def sample(shared: Pages, request: Request) -> dict[str, Any]:
    """Return one sample in its training form."""
    pool, domain, number = (request.path_params[name] for name in ("pool", "domain", "number"))
    files = shared.contents.files
    if files is None or not 0 <= number < shared.samples.get((pool, domain), 0):
        raise HTTPException(404, "There is no such sample.")
    rendered = sample_at(files, pool, domain, number)
    mine = shared.contents.index.filter(pl.col("trajectory_id") == ((rendered.trajectory_id if rendered else "") or ""))
    key = mine["key"][0] if len(mine) else None
    return {"sample": rendered, "number": number, "total": shared.samples[pool, domain], "key": key}
