"""A trajectory as samples show it: those that were made of it, or, where none was, how its turns would be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from trajmill.app.pages.loss_runs import Rendered, Run, Said, runs, sample_at, samples_of
from trajmill.app.pages.run_files import RunFiles
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
