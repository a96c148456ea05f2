"""Published data sets in the layout of the Hub: the files of a configuration and its splits, and the licence.

A data set is recognized by its card (a `README.md` that begins with YAML between `---`), or by the files of
`save_to_disk` of `datasets`. `hf://owner/name` and `hf://datasets/owner/name` (with `@revision`, and a folder, file or
glob below) are folders of the Hub, read through fsspec and `huggingface_hub`. Nothing here reads a row.

Sources: the Hub's documentation of dataset cards, manual configuration (`configs`, `data_files`, `data_dir`) and
automatic split names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import fsspec
import yaml
from fsspec.utils import glob_translate

from trajmill.schemas import ConfigError

HUB: Final = "hf://"
CARD: Final = "README.md"
CARD_BYTES: Final = 4 << 20

_OTHER_REPOS: Final = ("datasets/", "spaces/", "models/", "buckets/")
SAVED_INFO: Final = "dataset_info.json"
_SAVED: Final = (SAVED_INFO, "state.json")
_SAVED_SPLITS: Final = "dataset_dict.json"
_COMPANIONS: Final = frozenset({CARD, *_SAVED, _SAVED_SPLITS, "dataset_infos.json", "LICENSE", "LICENSE.md", "LICENCE"})
"""Files that describe a data set and hold no rows."""

_SPLITS: Final = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""Words by which a file's name indicates its split, as on the Hub."""

_SPDX: Final = {
    name.lower(): name
    for name in (
        *("Apache-2.0", "MIT", "CC0-1.0", "CC-BY-2.0", "CC-BY-3.0", "CC-BY-4.0", "CC-BY-SA-3.0", "CC-BY-SA-4.0"),
        *("CC-BY-NC-4.0", "CC-BY-NC-SA-4.0", "CC-BY-ND-4.0", "CC-BY-NC-ND-4.0", "BSD-2-Clause", "BSD-3-Clause"),
        *("BSL-1.0", "EPL-2.0", "MPL-2.0", "ISC", "Unlicense", "Zlib", "ODbL-1.0", "CDLA-Permissive-2.0"),
    )
} | {"odc-by": "ODC-By-1.0", "odbl": "ODbL-1.0", "pddl": "PDDL-1.0", "gpl-3.0": "GPL-3.0-only"}


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration: its name, whether it is the default, and the globs of each split's files."""

    name: str
    default: bool
    splits: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Card:
    """Card of a data set: its licence (an SPDX id if known) and its configurations."""

    licence: str | None = None
    configs: tuple[Config, ...] = ()


def address(raw: str) -> str:
    """Return the raw argument, with a data set of the Hub under its name in `huggingface_hub`.

    Raises:
        ConfigError: it names no data set of the Hub.
    """
    if not raw.startswith(HUB):
        return raw
    rest = raw.removeprefix(HUB)
    if not rest.startswith(_OTHER_REPOS):
        rest = f"datasets/{rest}"
    if rest.count("/") < 2 or not all(rest.split("/")[:3]):
        raise ConfigError(f"'{raw}' names no data set of the Hub: wanted {HUB}owner/name or {HUB}datasets/owner/name.")
    return f"{HUB}{rest}"


def require_reachable(url: str) -> None:
    """Check that the Hub has the data set at the URL.

    Raises:
        ConfigError: the Hub does not answer, has no such data set, or refuses access.
    """
    from huggingface_hub.errors import HTTPError

    filesystem, path = fsspec.core.url_to_fs(url)
    hint = "A data set that is gated or private needs a token (HF_TOKEN); without a network, name a local copy."
    try:
        if filesystem.exists(repository(str(path))):
            return
    except (HTTPError, OSError) as error:
        raise ConfigError(f"The Hub cannot be asked for '{url}': {error}. {hint}") from error
    raise ConfigError(f"The Hub has no data set at '{url}'. {hint}")


def repository(path: str) -> str:
    """Return the repository of a path in the Hub's file system: its first three names."""
    return "/".join(path.split("/")[:3])


def read_card(data: bytes) -> Card | None:
    """Parse a card; return None if the text is no card, because it does not begin with a YAML mapping."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    pieces = re.split(r"^---[ \t]*$", text, maxsplit=2, flags=re.MULTILINE)
    if len(pieces) < 3 or pieces[0].strip():
        return None
    try:
        values = yaml.safe_load(pieces[1])
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    configs = values.get("configs")
    parsed = [_config(config) for config in configs] if isinstance(configs, list) else []
    return Card(_licence(values), tuple(config for config in parsed if config is not None))


def _licence(values: Mapping[str, Any]) -> str | None:
    licences = values.get("license")
    names = [
        licence
        for licence in (licences if isinstance(licences, list) else [licences])
        if isinstance(licence, str) and licence
    ]
    if names == ["other"] and isinstance(values.get("license_name"), str):
        names = [values["license_name"]]
    known = [_SPDX.get(name.lower(), name) for name in names if name.lower() not in ("unknown", "other")]
    return " AND ".join(known) or None


def _config(value: Any) -> Config | None:
    name = value.get("config_name") if isinstance(value, dict) else None
    if not isinstance(name, str):
        return None
    below = value.get("data_dir")
    prefix = f"{below.strip('/')}/" if isinstance(below, str) and below.strip("/.") else ""
    files = value.get("data_files")
    splits: list[tuple[str, tuple[str, ...]]] = []
    if isinstance(files, dict):
        files = [{"split": split, "path": paths} for split, paths in files.items()]
    if isinstance(files, str) or (isinstance(files, list) and files and isinstance(files[0], str)):
        files = [{"split": "", "path": files}]
    for entry in files if isinstance(files, list) else [{"split": "", "path": "**"}]:
        paths = entry.get("path") if isinstance(entry, dict) else None
        listed = [paths] if isinstance(paths, str) else paths if isinstance(paths, list) else []
        globs = tuple(prefix + path.removeprefix("./") for path in listed if isinstance(path, str))
        split = entry.get("split") if isinstance(entry, dict) else None
        splits.append((split if isinstance(split, str) else "", globs))
    return Config(name, value.get("default") is True, tuple(splits))


def is_dataset(names: Iterable[str], card: Card | None) -> bool:
    """Return True if files of these names, below one folder, are a data set in the Hub's layout."""
    known = set(names)
    return card is not None or _SAVED_SPLITS in known or known.issuperset(_SAVED)


def choose_files(names: Sequence[str], card: Card | None, config: str, splits: Sequence[str], where: str) -> list[str]:
    """Choose the files of a data set for a configuration and its splits, in order.

    Args:
        config: the configuration; the default one, or the only one, if empty.
        splits: the splits; all if empty.
        where: the raw argument, for errors.

    Raises:
        ConfigError: there is no such configuration or split, none is the default, or it matches no file.
    """
    rows = [name for name in names if name.rpartition("/")[2] not in _COMPANIONS]
    configuration = _configuration(card, config, where)
    if configuration is None:
        return _of_splits(rows, splits, where)
    taken: list[str] = []
    patterns = dict.fromkeys(glob for _, globs in configuration.splits for glob in globs)
    known_splits = [split for split, _ in configuration.splits if split]
    if splits and known_splits:
        for split in splits:
            _require("split", split, known_splits, where)
        patterns = dict.fromkeys(glob for split, globs in configuration.splits if split in splits for glob in globs)
    for glob in patterns:
        matches = re.compile(glob_translate(glob)).fullmatch
        below = f"{glob.rstrip('/')}/"
        taken += [name for name in rows if matches(name) or name.startswith(below)]
    if not taken:
        raise ConfigError(
            f"Configuration '{configuration.name}' of '{where}' names files ({', '.join(patterns)}) that are not there."
        )
    taken_names = set(taken)
    ordered = [name for name in rows if name in taken_names]
    return ordered if known_splits or not splits else _of_splits(ordered, splits, where)


def _configuration(card: Card | None, config: str, where: str) -> Config | None:
    configs = card.configs if card is not None else ()
    if config:
        _require("configuration", config, [candidate.name for candidate in configs], where)
        return next(candidate for candidate in configs if candidate.name == config)
    marked = [candidate for candidate in configs if candidate.default] or [
        candidate for candidate in configs if candidate.name == "default"
    ]
    if marked or len(configs) == 1:
        return (marked or list(configs))[0]
    if configs:
        names = ", ".join(candidate.name for candidate in configs)
        raise ConfigError(
            f"'{where}' has the configurations {names}, none of them the default: name one as normalize.dataset.config."
        )
    return None


def _require(kind: str, name: str, known: Sequence[str], where: str) -> None:
    if name not in known:
        listed = ", ".join(known) or "none"
        raise ConfigError(f"'{where}' has no {kind} '{name}'; it has {listed}.", *get_close_matches(name, known, 1))


def _of_splits(names: Sequence[str], splits: Sequence[str], where: str) -> list[str]:
    """Choose the names with a word of one of the splits; all names if no split is given."""
    if not splits:
        return list(names)
    taken: set[str] = set()
    for split in splits:
        words = "|".join(map(re.escape, _SPLITS.get(split, (split,))))
        tells = re.compile(rf"(?:^|[-._ 0-9/])(?:{words})(?:[-._ 0-9/]|$)").search
        matching = [name for name in names if tells(name)]
        if not matching:
            raise ConfigError(f"No file of '{where}' is named as one of split '{split}'.")
        taken.update(matching)
    return [name for name in names if name in taken]


def read_licence(data: bytes) -> str | None:
    """Read the licence that a `dataset_info.json` states; None if it states none."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return _licence(values) if isinstance(values, dict) else None
