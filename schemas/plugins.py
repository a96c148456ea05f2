"""Classes that other packages register as entry points."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from trajmill.schemas.errors import ConfigError

T = TypeVar("T")


def plugins(group: str, base: type[T]) -> Iterator[tuple[EntryPoint, type[T]]]:
    """Load the classes of a group of entry points, sorted by name.

    A plug-in that cannot be loaded is skipped with a warning, so that it does not disable the others.

    Raises:
        ConfigError: An entry point names an object that is not a class derived from `base`.
    """
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            kind = point.load()
        except Exception as error:  # noqa: BLE001 - code of others, which may fail in any way when it is imported
            text = f"The plug-in '{point.name}' ({point.value}) of {group} cannot be loaded and is left out"
            warnings.warn(f"{text}: {type(error).__name__}: {error}", stacklevel=2)
            continue
        if not (isinstance(kind, type) and issubclass(kind, base)):
            message = f"Entry point '{point.name}' of {group} is {point.value}, which is no {base.__name__} class."
            raise ConfigError(message)
        yield point, kind
