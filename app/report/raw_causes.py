"""The bytes of raw logs that rejects speak of, as a report may show them: scrubbed, where the logs are still there.

A report is passed on, so it takes no bytes of a trajectory in whose rows anything was replaced: what one text of it
gave away as a secret may stand in others where nothing tells that it is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from trajmill.app.pages.raw_bytes import RawBytes, RawPlaces, members_of
from trajmill.app.report.sources import Sources
from trajmill.pipelines.storage.ownership import PLAN
from trajmill.pipelines.storage.paths import url_of
from trajmill.quality.scrub import KINDS, scrub_text
from trajmill.schemas import ConfigError

_DEEPEST: Final = 16 << 20
"""Decompressed bytes that are read through to come to a place."""

_PLAN_BYTES: Final = 64 << 20
"""Of plans that are read; those of more are of so many logs that looking into them takes longer than all the rest."""

_REPLACED: Final = "secrets of its trajectory were replaced"
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
            return RawCause("", _REPLACED)
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
