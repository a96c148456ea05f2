"""Properties of a row that determine the diversity of a corpus: its task, environment, place, action and command.

Each is a text, and a 64-bit hash by which a whole corpus is counted. `diversity` measures the counts, and `share_caps`
limits the share of one value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.fingerprint import text_hashes
from trajmill.quality.signal import Measured, MeasuredBatches
from trajmill.quality.texts import Texts
from trajmill.quality.values import action_values

OF_TRAJECTORIES: Final = ("task", "environment")
OF_TRANSITIONS: Final = ("place", "action", "command_head")
KINDS: Final = (*OF_TRAJECTORIES, *OF_TRANSITIONS)
"""Kinds of properties. The first two are counted by trajectory, the others by transition.

The place is the host of a URL, the package of an Android activity, otherwise the working folder. The command head is
the program that a shell's command begins with, after `cd … &&`, `sudo`, variable assignments and `bash -c`.
"""

VARIETY_SCHEMA: Final = pa.schema(
    [pa.field(kind, pa.uint64(), nullable=False, metadata={"doc": "hash of its text; 0: not known"}) for kind in KINDS]
)
"""One row a transition, aligned to the transitions."""

_PLACE: Final = r"^(?:[a-z][a-z0-9+.-]*://(?P<host>[^/?#]*)|(?P<package>[A-Za-z][\w.]*)/[\w.$]+$)"
_HEAD: Final = (
    r"^\s*(?:(?:/bin/)?(?:ba|z)?sh\s+-l?c\s+['\"]?|cd\s+\S+\s*&&\s*|sudo\s+|[A-Za-z_]\w*=\S*\s+)*"
    r"(?P<head>[A-Za-z0-9_./+-]+)"
)
_SHELL: Final = r"(?i)^(?:.*(?:bash|shell|terminal|command).*|keystrokes|run|exec|execute)$"
"""Names of actions whose values are shell commands."""


def _extract(texts: pa.Array, pattern: str) -> list[pa.Array]:
    groups = pc.extract_regex(texts, pattern)
    return [pc.struct_field(groups, position) for position in range(groups.type.num_fields)]


def _places(texts: pa.Array) -> pa.Array:
    host, package = _extract(texts, _PLACE)
    return pc.coalesce(*(pc.if_else(pc.equal(part, ""), None, part) for part in (host, package)), texts)


def commands_of(view: Measured) -> Texts:
    """Return the command of each row with a shell action, null for the others."""
    return view.once(action_values).at(view.texts("action", "name").matching(_SHELL))


def kinds_of(view: Measured) -> Mapping[str, Texts]:
    """Return the text of each of `KINDS` on each row, null if it is not known."""
    commands = commands_of(view)
    (heads,) = _extract(commands.texts, _HEAD)
    where = view.texts("next_observation", "uri")
    return {
        "task": view.texts("task", "id").over(view.texts("task", "instruction")),
        "environment": view.texts("environment", "id"),
        "place": where.mapped(_places(where.texts)),
        "action": view.texts("action", "name"),
        "command_head": commands.mapped(heads),
    }


def plain(texts: Texts) -> pa.Array:
    """Return the text of each row; null if the row or its derived text is null."""
    return texts.texts.take(pa.array(texts.index, mask=texts.index < 0))


def _numbers(texts: Texts) -> npt.NDArray[np.uint64]:
    """Return the hash of each row's text, 0 if there is none."""
    hashes = text_hashes(texts.texts)[:, 0]
    known = texts.texts.is_valid().to_numpy(zero_copy_only=False)
    return texts.spread(np.where(known, hashes, 0).astype(np.uint64))


class Varying:
    """Hashes of each row of a file: batches of `VARIETY_SCHEMA`, aligned to the transitions.

    Args:
        measured: Measured batches that are shared with other measurers.
    """

    def __init__(self, measured: MeasuredBatches | None = None) -> None:
        self._measured = measured or MeasuredBatches()

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the hashes of `batch`, of `encode_schema()`."""
        if batch.num_rows:
            texts_by_kind = kinds_of(self._measured.measure(batch))
            yield pa.RecordBatch.from_arrays(
                [pa.array(_numbers(texts_by_kind[kind])) for kind in KINDS], schema=VARIETY_SCHEMA
            )

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return no batches: no hash waits for later rows."""
        return iter(())
