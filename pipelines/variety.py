"""How diverse the trajectories of a run are: tasks, environments, places and commands, by domain."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.parquet import read_transitions, transition_files
from quality.diversity import Diversity, diversity
from quality.fingerprint import trajectory_starts
from quality.signal import Measured
from quality.texts import Texts
from quality.tokens import TokenCounter
from quality.values import action_values

KINDS: Final = ("tasks", "environments", "places", "actions", "command heads")
"""tasks and environments are counted a trajectory, the rest a transition. Places: the host of a URL, the package of an
Android activity, else the working folder. Command heads: the program that a shell's command
begins with, after `cd … &&`, `sudo`, settings of variables and `bash -c`."""

_PLACE: Final = r"^(?:[a-z][a-z0-9+.-]*://(?P<host>[^/?#]*)|(?P<package>[A-Za-z][\w.]*)/[\w.$]+$)"
_HEAD: Final = (
    r"^\s*(?:(?:/bin/)?(?:ba|z)?sh\s+-l?c\s+['\"]?|cd\s+\S+\s*&&\s*|sudo\s+|[A-Za-z_]\w*=\S*\s+)*"
    r"(?P<head>[A-Za-z0-9_./+-]+)"
)
_SHELL: Final = r"(?i)^(?:.*(?:bash|shell|terminal|command).*|keystrokes|run|exec|execute)$"
"""Names of actions whose values are a shell's commands."""


def _tally(texts: pa.Array) -> Counter[str]:
    counts = pc.value_counts(texts.drop_null())
    return Counter({entry["values"]: entry["counts"] for entry in counts.to_pylist()})


def _plain(texts: Texts) -> pa.Array:
    index = pa.array(texts.index, mask=texts.index < 0)
    return texts.texts.take(index)


def _extracted(texts: pa.Array, pattern: str) -> list[pa.Array]:
    found = pc.extract_regex(texts, pattern)
    return [pc.struct_field(found, position) for position in range(found.type.num_fields)]


def kinds_in(batch: pa.RecordBatch) -> dict[str, Counter[str]]:
    """How often each thing of each of `KINDS` occurs in a batch of whole trajectories."""
    view = Measured.of(batch, TokenCounter())
    first = pa.array(trajectory_starts(batch))
    task = pc.coalesce(*(_plain(view.texts("task", name)).take(first) for name in ("id", "instruction")))
    where = _plain(view.texts("next_observation", "uri"))
    host, package = _extracted(where, _PLACE)
    place = pc.coalesce(*(pc.if_else(pc.equal(one, ""), None, one) for one in (host, package)), where)
    shell = pa.array(view.texts("action", "name").matching(_SHELL))
    (head,) = _extracted(pc.if_else(shell, _plain(view.once(action_values)), None), _HEAD)
    found = (
        task,
        _plain(view.texts("environment", "id")).take(first),
        place,
        _plain(view.texts("action", "name")),
        head,
    )
    return {kind: _tally(texts) for kind, texts in zip(KINDS, found, strict=True)}


def variety(path: str) -> dict[str, dict[str, Diversity]]:
    """The diversity of each of `KINDS`, by domain, of a run's folder or of its transitions folder.

    Raises:
        ConfigError: there are no transitions.
    """
    folder, names = transition_files(path)
    counts: dict[str, dict[str, Counter[str]]] = {}
    for name in names:
        of = counts.setdefault(name.split("/")[0], {kind: Counter[str]() for kind in KINDS})
        for batch in read_transitions(folder, name):
            for kind, some in kinds_in(batch).items():
                of[kind].update(some)
    return {domain: {kind: diversity(some) for kind, some in of.items()} for domain, of in counts.items()}
