"""Recipes read from YAML files, or from those that come with trajmill.

All faults of a recipe are reported at once, each with its place and the nearest valid name. `recipe` defines the valid
values.
"""

from __future__ import annotations

import json
import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import yaml
from pydantic import ValidationError

from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.templates import configs
from trajmill.schemas import ConfigError

VERSION_KEY: Final = "trajmill_run"
"""Key that marks the record of a run (`run.json`), whose recipe can be run again."""

SALTED: Final = "kept apart"
"""Value in a record that replaces the recipe's salt."""

EXTENDS: Final = "extends"
"""Key that names the built-in recipe whose values are the defaults of a recipe."""

_TAKEN: Final = ("domains", "normalize", "judge", "mix")
"""Sections that are inherited from an extended recipe.

They define how logs are read, judged and mixed, not the data set's name or owner.
"""

_BY_NAME: Final = ("rules", "signals", "benchmarks")
"""Parts of `judge` that are merged by name.

An inherited entry stays unless the recipe has an entry of that name or sets it to null.
"""

SALT: Final = "TRAJMILL_SCRUB_SALT"
"""Environment variable that holds the salt of a recorded recipe."""


def _names_at(keys: tuple[int | str, ...]) -> list[str]:
    """Return the valid names below the keys where an unknown name was found."""
    kind: Any = Recipe
    for name in keys:
        model = _model(kind)
        kind = model if get_origin(kind) in (dict, tuple) else model.model_fields[str(name)].annotation
    return list(_model(kind).model_fields)


def _model(kind: Any) -> Any:
    """Return the model class that a type is or contains."""
    return next(candidate for candidate in (kind, *get_args(kind)) if hasattr(candidate, "model_fields"))


def _message(error: Any) -> str:
    keys = tuple(name for name in error["loc"] if name != "[key]")
    where = ".".join(map(str, keys)) or "the recipe"
    if error["type"] == "extra_forbidden":
        valid = _names_at(keys[:-1])
        nearest = get_close_matches(str(keys[-1]), valid, 1)
        hint = f"did you mean '{nearest[0]}'?" if nearest else f"there are: {', '.join(valid)}"
        return f"{where}: there is no such name; {hint}"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "literal_error":
        options = [option.strip("'") for option in error["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        nearest = get_close_matches(str(error["input"]), options, 1)
        message += f"; did you mean '{nearest[0]}'?" if nearest else ""
    if error["type"] == "missing" or isinstance(error["input"], dict):  # a whole section tells nobody what is wrong
        return f"{where}: {message}"
    return f"{where}: {message} (met {error['input']!r})"


def _extend(values: dict[str, Any], name: str) -> dict[str, Any]:
    """Fill the missing values of a recipe with those of the built-in recipe that it extends.

    Raises:
        ConfigError: there is no such built-in recipe.
    """
    if EXTENDS not in values:
        return values
    own = {key: value for key, value in values.items() if key != EXTENDS}
    known, wanted = builtin_recipes(), str(values[EXTENDS])
    if wanted not in known:
        message = f"{name} extends '{wanted}', which is no built-in recipe; there are: {', '.join(known)}."
        raise ConfigError(message, *get_close_matches(wanted, known, 1))
    base = _extend(yaml.load(known[wanted], yaml.CSafeLoader), wanted)
    for section in _TAKEN:
        if section in base:
            own[section] = _merge(base[section], own[section]) if section in own else base[section]
    return own


def _merge(base: Any, own: Any) -> Any:
    """Merge a recipe's own section over the inherited one. A value that is not a section replaces the inherited one."""
    if not (isinstance(base, dict) and isinstance(own, dict)):
        return own
    merged = base | own
    for key in _BY_NAME:
        if key in base and key in own:
            merged[key] = _by_name(base[key], own[key])
    return {key: value for key, value in merged.items() if value is not None or key not in _BY_NAME}


def _by_name(base: Any, own: Any) -> Any:
    """Merge two mappings, or lists of mappings with a `name`. Own entries replace inherited ones of the same name."""
    if isinstance(base, dict) and isinstance(own, dict):
        return {key: value for key, value in (base | own).items() if value is not None}
    if isinstance(own, list) and all(isinstance(entry, dict) for entry in own):
        named = {str(entry.get("name")): entry for entry in own}
        merged = [named.get(entry["name"], entry) for entry in base]
        return merged + [entry for entry in own if entry not in merged]
    return own


def parse_recipe(text: str, name: str) -> Recipe:
    """Parse a recipe from YAML text.

    Args:
        text: the YAML.
        name: the text's name in errors.

    Raises:
        ConfigError: the text is not YAML, extends an unknown recipe, or holds an invalid value; all faults are reported
            at once.
    """
    try:
        values = yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{name} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{name} should be a mapping of names to values, it is {type(values).__name__}.")
    try:
        return Recipe.model_validate(_extend(values, name))
    except ValidationError as error:
        faults = "; ".join(_message(fault) for fault in error.errors())
        raise ConfigError(f"{name} is no valid recipe: {faults}") from error


def builtin_recipes() -> dict[str, str]:
    """Read the recipes that come with trajmill, as YAML text by name (`android`)."""
    entries = [entry for entry in configs().iterdir() if entry.name.endswith(".yaml")]
    return {
        entry.name.removesuffix(".yaml"): entry.read_text("utf-8") for entry in sorted(entries, key=lambda e: e.name)
    }


def _read_record(text: str, name: str) -> str:
    """Return the recipe in a run's record, as YAML; empty if the text is no record.

    Raises:
        ConfigError: the recipe has a salt, which records omit, and the environment does not provide it.
    """
    try:
        recipe = json.loads(text)["recipe"] if f'"{VERSION_KEY}"' in text[:100] else None
    except (ValueError, KeyError, TypeError):
        recipe = None
    if not isinstance(recipe, dict):
        return ""
    normalize = recipe.get("normalize")
    if isinstance(normalize, dict) and normalize.get("scrub_salt") == SALTED:
        normalize["scrub_salt"] = os.environ.get(SALT)
        if normalize["scrub_salt"] is None:
            raise ConfigError(
                f"The recipe of {name} has a salt, which no record holds. Set the environment variable {SALT} to it."
            )
    return json.dumps(recipe)


def recipe_in(record: bytes, name: str) -> Recipe:
    """Return the recipe in the record of a run.

    Args:
        record: the file's bytes.
        name: the file's name in errors.

    Raises:
        ConfigError: the record holds no valid recipe, or its salt is not available.
    """
    text = record.decode("utf-8", "replace")
    return parse_recipe(_read_record(text, name) or text, name)


def load_recipe(config: str) -> Recipe:
    """Load a recipe from a file, from the record of a run (`run.json`), or from the built-in recipes.

    Args:
        config: the path or name.

    Raises:
        ConfigError: there is no such file or built-in recipe, or the recipe is not valid.
    """
    path = Path(config)
    if path.is_file():
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            raise ConfigError(f"The recipe {config} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"{config} is no recipe: it is no text in UTF-8.") from error
        return parse_recipe(_read_record(text, config) or text, config)
    known = builtin_recipes()
    if config in known:
        return parse_recipe(known[config], f"built-in recipe '{config}'")
    message = f"There is no recipe file '{config}', nor a built-in recipe of that name ({', '.join(known)})."
    raise ConfigError(message, *get_close_matches(path.stem, known, 1))
