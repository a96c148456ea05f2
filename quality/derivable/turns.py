"""Rows as the verifiers read them: a text becomes a Python object only where some verifier looks at it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.compute as pc

from trajmill.quality.boilerplate import REQUESTS, TREES
from trajmill.quality.derivable import tools
from trajmill.quality.signal import Measured
from trajmill.quality.texts import Texts
from trajmill.quality.without_element_ids import TREE
from trajmill.schemas import KEYSTROKES

SUMS: Final = frozenset({"calculate", "calculator"})
"""Tools that work out their argument `expression`."""

_READ: Final = SUMS | tools.WRITES | tools.READS | tools.EDITS | {tools.EDITOR, KEYSTROKES}
_SERVICES: Final = "mcp"
_REQUEST: Final = "http_request"


@dataclass(frozen=True, slots=True)
class Turn:
    """What a row tells.

    Attributes:
        name: of the action.
        given: its arguments; empty if it has none.
        text: of the action.
        before: the observation before, where keys were typed; None if the log does not hold it.
        after: what the environment showed; None if it showed nothing, or the log does not hold it.
        failed: whether the answer is marked as an error.
        cut: whether part of it is left out.
        is_service: whether a service of records was called.
    """

    name: str
    given: Mapping[str, Any]
    text: str
    before: str | None
    after: str | None
    failed: bool
    cut: bool
    is_service: bool


class Turns:
    """The rows of a batch as turns."""

    def __init__(self, view: Measured) -> None:
        batch = view.batch
        self._action = {name: view.texts("action", name) for name in ("name", "arguments", "text")}
        self._sides = {side: view.texts(side, "content") for side in ("observation", "next_observation")}
        self._told = {name: view.texts("next_observation", name) for name in ("origin", "truncation", "dialect")}
        self._domain = Texts.of(batch["domain"])
        failed = pc.struct_field(batch["next_observation"], "is_error")
        self._failed = pc.fill_null(failed, False).to_pylist()

    def at(self, row: int) -> Turn:
        """The turn of a row; texts that no verifier reads are left out of it."""
        name = _text(self._action["name"], row) or ""
        is_service = _text(self._domain, row) == _SERVICES
        if name not in _READ and not is_service:
            after = "" if self._sides["next_observation"].index[row] >= 0 else None
            return Turn(name, {}, "", None, after, failed=False, cut=False, is_service=False)
        typed = name == KEYSTROKES
        origin = _text(self._told["origin"], row)
        return Turn(
            name,
            {} if typed else _object(_text(self._action["arguments"], row)),
            (_text(self._action["text"], row) or "") if typed else "",
            _text(self._sides["observation"], row) if typed else None,
            _text(self._sides["next_observation"], row) if origin == "environment" else None,
            failed=self._failed[row],
            cut=_text(self._told["truncation"], row) != "none",
            is_service=is_service,
        )

    def shown(self, row: int) -> str:
        """What was shown, as text."""
        return _text(self._sides["next_observation"], row) or ""

    def kind(self, row: int) -> str:
        """Of what kind an answer is, as `quality.boilerplate` tells them apart."""
        if _text(self._action["name"], row) == _REQUEST:
            return REQUESTS
        return TREES if (_text(self._told["dialect"], row) or "").endswith(TREE) else ""


def _text(texts: Texts, row: int) -> str | None:
    place = int(texts.index[row])
    found: str | None = texts.texts[place].as_py() if place >= 0 else None
    return found


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
