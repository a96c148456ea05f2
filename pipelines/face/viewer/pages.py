"""The pages of the viewer: from what is looked at and a request to the values of a template, which escapes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from pipelines.face.looking.contents import Contents
from pipelines.face.looking.differences import difference
from pipelines.face.looking.index import FACETS, facet_counts, found_in
from pipelines.face.looking.observations import shown, shown_text
from pipelines.face.looking.why import bounds

PAGE: Final = 50
"""Rows of a list on a page."""

_AROUND: Final = 60
"""Steps listed before and after the one that is shown."""

_SHOWN_AS: Final = frozenset({"screen", "state"})
"""Forms of observations of which one is compared with the next."""


class Pages:
    """What pages share: what is looked at."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents


def _number(request: Request, name: str, default: int = 1) -> int:
    given = request.query_params.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else default


def _chosen(request: Request, facets: tuple[str, ...]) -> dict[str, str]:
    return {name: request.query_params[name] for name in facets if name in request.query_params}


def browse(held: Pages, request: Request) -> dict[str, Any]:
    """All trajectories that the choices of the address leave, a page of them."""
    index = held.contents.index
    chosen, text = _chosen(request, FACETS), request.query_params.get("q", "").strip()[:200]
    found = found_in(index, chosen, text)
    page = min(max(1, _number(request, "page")), max(1, -(-len(found) // PAGE)))
    return {
        "rows": found[(page - 1) * PAGE : page * PAGE].to_dicts(),
        "facets": facet_counts(index, chosen, text),
        "chosen": chosen,
        "text": text,
        "total": len(index),
        "steps": int(found["steps"].sum()),
        "number": len(found),
        "page": page,
        "pages": max(1, -(-len(found) // PAGE)),
    }


def step(held: Pages, request: Request) -> dict[str, Any]:
    """One step of a trajectory."""
    contents = held.contents
    one = contents.trajectory(request.path_params["key"])
    number = int(request.path_params.get("step", 0))
    if one is None:
        raise HTTPException(404, "There is no such trajectory.")
    if number >= one["steps"]:
        raise HTTPException(404, f"It has {one['steps']} steps, counted from 0.")
    first = max(0, number - _AROUND)
    count = min(one["steps"], number + _AROUND + 1) - first
    row = contents.rows.whole(one["file"], one["first"] + number, 1)[0]
    verdict = contents.rows.verdict(one["file"], one["first"] + number)
    target = _target(row["action"])
    return {
        "one": one,
        "row": row,
        "number": number,
        "outline": contents.rows.outline(one["file"], one["first"] + first, count),
        "before": shown(row["observation"], target),
        "after": shown(row["next_observation"]),
        "changes": _changes(row),
        "arguments": shown_text(row["action"]["arguments"] or "", is_json=True),
        "action_text": shown_text(row["action"]["text"] or ""),
        "verdict": verdict,
        "bounds": bounds(verdict, contents.rules) if verdict else [],
    }


def _target(action: Mapping[str, Any]) -> str:
    arguments = shown_text(action["arguments"] or "", is_json=True)
    return next((event.text for event in arguments.events if event.mark == "element"), "")


def _changes(row: Mapping[str, Any]) -> Any:
    """The difference of the two observations; None where they are no two states of one thing."""
    before, after = row["observation"], row["next_observation"]
    if not before or not after or before["content"] is None or after["content"] is None:
        return None
    if before["form"] not in _SHOWN_AS or before["form"] != after["form"] or before["dialect"] != after["dialect"]:
        return None
    return difference(before["content"], after["content"])
