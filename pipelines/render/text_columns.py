"""What turns are written of, by columns: each distinct text is made once, whatever the number of rows that show it.

The twins of what `turns` says of one row, for whoever counts or writes many.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.render.actions import shown_action
from trajmill.pipelines.render.turns import COMMANDS, View, ending, time_limit
from trajmill.quality.control_strings import ESCAPABLE
from trajmill.quality.fingerprint import struct_text
from trajmill.quality.texts import Texts

Told: TypeAlias = "tuple[list[str], npt.NDArray[np.int64]]"
"""Texts, and of each row the place of its own."""


def shown_actions(batch: pa.RecordBatch, view: View) -> Told:
    """Actions in their fences, as of `shown_action`."""
    domains, actions = Texts.of(batch["domain"]), Texts.of(struct_text(batch, "action", "text"))
    pairs, which = np.unique(domains.index * len(actions.texts) + actions.index, return_inverse=True)
    names, texts = domains.texts.to_pylist(), actions.texts.to_pylist()
    rows = ({"domain": names[pair // len(texts)], "action": {"text": texts[pair % len(texts)]}} for pair in pairs)
    return [shown_action(row, view.edits, view.actions) for row in rows], which


def time_limits(batch: pa.RecordBatch) -> Told:
    """What stands of the time after which the harness kills, as of `time_limit`."""
    limits, which = np.unique(batch["time_limit_s"].to_numpy(zero_copy_only=False), return_inverse=True)
    return [time_limit({"time_limit_s": None if np.isnan(one) else float(one)}) for one in limits], which


def endings(batch: pa.RecordBatch) -> Told:
    """How what actions started ended, as of `ending`."""
    codes = pc.fill_null(batch["exit_code"].cast(pa.int64()), _NO_CODE).to_numpy(zero_copy_only=False)
    late = pc.fill_null(batch["timed_out"], False).to_numpy(zero_copy_only=False)
    told_here = pc.is_in(batch["domain"], pa.array(sorted(COMMANDS), pa.string())).to_numpy(zero_copy_only=False)
    known, which = np.unique(np.where(told_here, np.where(late, _LATE, codes), _NO_CODE), return_inverse=True)
    rows: list[dict[str, Any]] = [
        {"domain": "terminal", "timed_out": one == _LATE, "exit_code": None if one == _NO_CODE else one}
        for one in known.tolist()
    ]
    return list(map(ending, rows)), which


_NO_CODE: Final = 1 << 40
_LATE: Final = _NO_CODE + 1
"""What no exit code is: those of 32 bits are smaller."""


def observed(batch: pa.RecordBatch, side: str, view: View) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """What stands for each observation, as of `View.text`, and whether that is the object of MCP."""
    content = struct_text(batch, side, "content")
    envelope = struct_text(batch, side, "envelope") if view.mcp == "envelope" else None
    if envelope is None or envelope.null_count == len(envelope):
        return content, np.zeros(len(content), np.bool_)
    held = pc.and_(envelope.is_valid(), content.is_valid())
    shown = pc.if_else(held, envelope.cast(pa.string()), content.cast(pa.string()))
    return shown, held.to_numpy(zero_copy_only=False)


def capped_texts(texts: pa.StringArray, view: View) -> pa.StringArray:
    """The texts, of which none is null, as of `View.capped`."""
    most = view.observation_chars
    if most is None or not len(texts) or pc.max(pc.binary_length(texts)).as_py() <= most:  # none has more characters
        return texts
    long = pc.greater(pc.utf8_length(texts), most)
    if not pc.any(long).as_py():
        return texts
    cut = [view.capped(text) for text in texts.filter(long).to_pylist()]
    return pc.replace_with_mask(texts, long, pa.array(cut, pa.string()))


def plain_texts(texts: pa.StringArray, view: View, some: npt.NDArray[np.bool_] | None = None) -> pa.StringArray:
    """The texts, of which none is null, as of `View.plain`.

    Args:
        texts: as they are.
        view: how they are shown.
        some: which of them alone may be changed, where that is known.
    """
    if not view.escapes:
        return texts
    held = pc.match_substring_regex(texts, ESCAPABLE) if some is None else pa.array(some)
    fresh = [view.plain(text) for text in texts.filter(held).to_pylist()]
    return pc.replace_with_mask(texts, held, pa.array(fresh, pa.string())) if fresh else texts
