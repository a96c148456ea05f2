"""Differences from the last run into the same folder, by the records of both (`run.json`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

_SHOWN: Final = 8
"""Largest number of settings that are listed."""

_LONGEST: Final = 60
"""Largest number of characters of a value that are shown."""


def read_record(data: bytes | None) -> dict[str, Any] | None:
    """Parse the record of a run; None if there is none, or it is not valid."""
    try:
        values = json.loads(data) if data is not None else None
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def changes(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> tuple[str, ...]:
    """Describe the changes since an earlier run, a line each; empty if there was none."""
    if before is None:
        return ()
    try:
        begun = f"{datetime.fromtimestamp(before['begun'], UTC):%Y-%m-%d %H:%M}Z"
        if before["finished"] is None or before["last_stage"] != after["last_stage"]:
            return (f"since the run of {begun}: it stood after {before['last_stage']}, and this one went on",)
        found = [*_of_recipe(before, after), *_of_counts(before, after)]
    except (KeyError, TypeError, ValueError, AttributeError, OSError, OverflowError):
        return ()  # the record of another version
    if not found:
        return (f"since the run of {begun}: nothing changed",)
    return tuple(f"since the run of {begun}: {one}" for one in found)


def _of_recipe(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    if before["version"] != after["version"]:
        yield f"trajmill {before['version']} → {after['version']}"
    differ = settings_changed(before["recipe"], after["recipe"])
    for key, old, new in differ[:_SHOWN]:
        yield f"{key}: {told_value(old)} → {told_value(new)}"
    if len(differ) > _SHOWN:
        yield f"and {len(differ) - _SHOWN} settings of the recipe more"


def settings_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return (setting such as `judge.rules.no_op.cap`, value before, value after) of the differences of two recipes."""
    old, new = dict(_flat("", before)), dict(_flat("", after))
    return [
        (key, old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)
    ]


def _of_counts(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for unit, line in after["counts"].items():
        old = before["counts"].get(unit, {"entered": 0, "kept": 0})
        told = [f"{name} {old[key]:,} → {line[key]:,}" for name, key in _NAMED.items() if old[key] != line[key]]
        if told:
            yield f"{unit}: {', '.join(told)}"
    pools = sorted(before["samples"].keys() | after["samples"].keys())
    moved = [(key, before["samples"].get(key, 0), after["samples"].get(key, 0)) for key in pools]
    told = [f"{key} {old:,} → {new:,}" for key, old, new in moved if old != new]
    if told:
        yield f"samples: {', '.join(told)}"


_NAMED: Final = {"in": "entered", "kept": "kept"}


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(f"{path}.{key}" if path else str(key), inner)
    else:
        yield path, value


def told_value(value: Any) -> str:
    """Format a setting's value, shortened."""
    told = json.dumps(value, ensure_ascii=False)
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"
