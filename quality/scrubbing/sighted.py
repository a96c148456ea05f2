"""Finds in a view of a text: those that the text shows unchanged, and those that only the view shows."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from functools import lru_cache
from typing import Final

from trajmill.quality.scrubbing.kinds import Encoded, Kind, Loose, Span
from trajmill.quality.scrubbing.views import View

Found = tuple[list[Span], list[Loose], list[Encoded]]

_BY_FORM: Final[frozenset[Kind]] = frozenset(
    {"jwt", "token", "cloud_key", "url_password", "header", "assignment", "email"}
)
"""Kinds that are looked for where a line only seems to continue in the next one; a private key has lines of its own."""

_NAMES_NEXT: Final = re.compile(rb"[A-Za-z_][\w.-]*(?:\s?[:(](?!//)|\s?=(?=[^=\s])|\s=\s|\s?->)")
"""Beginning of a next line that is no continuation: `name = value`."""

_NEAR: Final = 4
"""Number of preceding suspects to check for one that contains a place."""

_WORD: Final = re.compile(rb"[A-Za-z]?[a-z]*[.,;:!?)]?")


def add_plain(
    text: bytes, view: View, finds: Found, spans: list[Span], loose: list[Loose], encoded: list[Encoded]
) -> None:
    """Add to the finds of a text those of a view that the text shows unchanged, but without the context that reveals
    them.
    """
    known = {(span.start, span.end, span.kind) for span in spans}
    for find in finds[0]:
        if _is_plain(view, find.start, find.end):
            start, end = view.place(find.start, find.end)
            if (start, end, find.kind) not in known:
                spans.append(replace(find, start=start, end=end))
    _add_suspects(text, view, finds[1], loose)
    bodies = {body.start for body in encoded}
    for body in finds[2]:
        if view.is_whole(body.start, body.end, open_end=True) and view.joint(body.start, body.end) is None:
            pieces = tuple(view.place(start, end) for start, end in body.pieces if start < end)
            if pieces[0][0] not in bodies:
                encoded.append(replace(body, pieces=pieces))


def _add_suspects(text: bytes, view: View, suspects: list[Loose], loose: list[Loose]) -> None:
    """Add the suspects that no accepted suspect contains; one that ends before hidden bytes replaces those that contain
    it.
    """
    ordered = sorted(loose, key=_start)
    added: list[Loose] = []
    replaced: set[tuple[int, int, Kind]] = set()
    accepted = lru_cache(None)(
        lambda other_suspect: other_suspect.accepts(text[other_suspect.start : other_suspect.end])
    )
    for suspect in suspects:
        if _is_plain(view, suspect.start, suspect.end):
            start, end = view.place(suspect.start, suspect.end)
            nearest = ordered[max(0, bisect_right(ordered, start, key=_start) - _NEAR) :]
            holders = [
                other_suspect
                for other_suspect in nearest[:_NEAR]
                if other_suspect.kind == suspect.kind and other_suspect.start <= start and end <= other_suspect.end
            ]
            if view.ends_hidden(suspect.end):
                replaced.update(
                    (other_suspect.start, other_suspect.end, other_suspect.kind) for other_suspect in holders
                )
            elif any(accepted(other_suspect) for other_suspect in holders):
                continue
            added.append(replace(suspect, start=start, end=end))
    loose[:] = [
        *(
            other_suspect
            for other_suspect in loose
            if (other_suspect.start, other_suspect.end, other_suspect.kind) not in replaced
        ),
        *added,
    ]


def _start(suspect: Loose) -> int:
    return suspect.start


def _is_plain(view: View, start: int, end: int) -> bool:
    return view.is_whole(start, end) and view.joint(start, end) is None


def only_in_view(view: View, finds: Found) -> Found:
    """Return the finds that only the view shows, since the text cuts or encodes them."""
    spans, loose, encoded = finds
    return (
        [span for span in spans if _is_sought(view, span.kind) and is_joined(view, span.start, span.end)],
        [
            suspect
            for suspect in loose
            if _is_sought(view, suspect.kind) and is_joined(view, suspect.start, suspect.end)
        ],
        [body for body in encoded if is_cut(view, body.start, body.end)],
    )


def _is_sought(view: View, kind: Kind) -> bool:
    return not view.wrapped or kind in _BY_FORM


def is_cut(view: View, start: int, end: int) -> bool:
    """Check whether the text cuts or encodes this part of a view, which may continue beyond the view."""
    return view.is_whole(start, end, open_end=True) and view.joint(start, end) is not None


def is_joined(view: View, start: int, end: int) -> bool:
    """Check whether the text cuts or encodes a find of a view.

    Where a line only seems to continue, the continuation must not be a word or a new assignment.
    """
    joint = view.joint(start, end) if view.is_whole(start, end) else None
    if joint is None or not view.wrapped:
        return joint is not None
    return not _WORD.fullmatch(view.data, joint, end) and not _NAMES_NEXT.match(view.data, joint)
