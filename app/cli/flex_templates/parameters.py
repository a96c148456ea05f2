"""What a template is asked for: every value of a recipe and every option of a run, read off those themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import yaml

from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.section import Section
from trajmill.schemas import ConfigError

STAGES: Final = ("normalize", "judge", "mix", "finish")
"""A template each: what it does and what was left open before it. `finish` seals what the last job wrote."""

_TEMPLATES_OWN: Final = ("runner", "stop_after", "stage", "part")
"""Options of a run that a template says itself, or that are for work by hand."""

IMAGE: Final = "sdk_container_image"
"""Beam's option, which is a parameter too: who launches a template by Google's tools says it there."""

LEAD: Final = "__"
"""Between the names of a section and of what is in it."""

_OTHERWISE: Final = {
    "config": "The name of a built-in recipe such as 'android', or the URL of a recipe file.",
    "raw": "Raw logs: a URL of a file, a folder or a glob, or several as a list: [gs://a/b, gs://c/d].",
    "workers": "Processes that work at once; so many machines are taken as have so many cores.",
}
"""What options are told as where it is otherwise than on a command line."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing that a template is asked for.

    Attributes:
        name: letters, digits and underscores.
        help_text: what it says.
        keys: that lead to the value in a recipe; none of an option.
        is_optional: whether it may be left out.
        kind: as templates call them: TEXT, NUMBER, BOOLEAN or ENUM.
        choices: of an ENUM.
        pattern: that values match; empty for any.
        is_plain: whether the text is the value; else it is YAML.
    """

    name: str
    help_text: str
    keys: tuple[str, ...] = ()
    is_optional: bool = True
    kind: str = "TEXT"
    choices: tuple[str, ...] = ()
    pattern: str = ""
    is_plain: bool = False

    def to_json(self) -> dict[str, Any]:
        """As `metadata.json` tells it."""
        values: dict[str, Any] = {
            "name": self.name,
            "label": ".".join(self.keys) or self.name.replace("_", " "),
            "helpText": self.help_text,
            "isOptional": self.is_optional,
            "paramType": self.kind,
        }
        if self.choices:
            values["enumOptions"] = [{"value": one, "label": one} for one in self.choices]
        if self.pattern:
            values["regexes"] = [self.pattern]
        return values


def parameters(stage: str) -> list[Parameter]:
    """Everything that the template of a stage is asked for: what it needs first, then options, then the recipe."""
    own = [
        Parameter("stage", f"This template's stage: {stage}.", is_optional=False, pattern=f"^{stage}$"),
        Parameter("spent_hours", "What earlier jobs of the run took of its limit.", kind="NUMBER"),
        Parameter(IMAGE, "The image of the workers; the template's own, where the service tells the launcher of it."),
    ]
    return [*own, *options(), *recipe_parameters()]


def options() -> list[Parameter]:
    """The options of `trajmill run` that a template has too, those that are needed first."""
    from trajmill.app.cli.cli import run

    words = inspect.signature(run, eval_str=True).parameters.values()
    told = [one for one in words if get_origin(one.annotation) is Annotated and one.name not in _TEMPLATES_OWN]
    return sorted(map(_option, told), key=lambda one: one.is_optional)


def _option(word: inspect.Parameter) -> Parameter:
    kind, info = get_args(word.annotation)[:2]
    told = _OTHERWISE.get(word.name, info.help or "")
    return Parameter(word.name, told, is_optional=word.default is not word.empty, kind=_type_name(_bare(kind)))


def recipe_parameters(kind: type[Section] = Recipe, keys: tuple[str, ...] = ()) -> list[Parameter]:
    """Every value of a recipe, as far as sections lead; mappings and lists are one value each, in YAML."""
    told = _told(kind)
    found: list[Parameter] = []
    for name, field in kind.model_fields.items():
        path = (*keys, name)
        inner = _bare(field.annotation)
        may_be_null = type(None) in get_args(field.annotation)
        is_section = isinstance(inner, type) and issubclass(inner, Section)
        if may_be_null or not is_section:
            type_name = "TEXT" if may_be_null else _type_name(inner)
            is_plain = inner is str and not may_be_null
            text = told.get(name, "") or "See the documentation of recipes."
            text += " A value in YAML." if type_name == "TEXT" and not is_plain else ""
            said = f"{text[:1].upper()}{text[1:]} As the recipe says, by default."
            choices = _choices(inner) if type_name == "ENUM" else ()
            found.append(Parameter(LEAD.join(path), said, path, True, type_name, choices, is_plain=is_plain))
        if is_section:
            found += recipe_parameters(inner, path)
    return found


def _bare(annotation: Any) -> Any:
    """A type without what is annotated, and without None where that is one of two."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    inner = [one for one in get_args(annotation) if one is not type(None)]
    return _bare(inner[0]) if len(inner) == 1 < len(get_args(annotation)) else annotation


def _choices(kind: Any) -> tuple[str, ...]:
    return tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()


def _type_name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "ENUM"
    return {bool: "BOOLEAN", int: "NUMBER", float: "NUMBER"}.get(kind, "TEXT")


def _told(kind: type[Section]) -> dict[str, str]:
    """What the docstring of a section says of each value."""
    text = (kind.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", text, re.MULTILINE)
    return {name: " ".join(said.split()) for name, said in entries}


def taken(words: Sequence[str], stage_names: Sequence[str] = STAGES) -> tuple[dict[str, str], list[str]]:
    """Parameters by name, as text, and the words that are none, which are Beam's.

    Raises:
        ConfigError: one that is needed is missing, or one has no value.
    """
    known = {one.name: one for one in parameters(stage_names[0])}
    found: dict[str, str] = {}
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        name, mark, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in known:
            others.append(word)
            continue
        if not mark:
            value = next(rest, "--")
            if value.startswith("--"):
                raise ConfigError(f"--{name} has no value.")
        found[name] = value
    missing = [f"--{one.name}" for one in known.values() if not one.is_optional and not found.get(one.name)]
    if missing:
        raise ConfigError(f"What the template needs is missing: {', '.join(missing)}.")
    if found["stage"] not in stage_names:
        raise ConfigError(f"There is no stage '{found['stage']}'; there are: {', '.join(stage_names)}.")
    return found, others


def changes_of(found: Mapping[str, str]) -> dict[tuple[str, ...], Any]:
    """What the parameters change in a recipe: keys that lead to a value → the value.

    Raises:
        ConfigError: one is no YAML.
    """
    return dict(_changes(found))


def _changes(found: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for one in recipe_parameters():
        if one.name in found:
            try:
                value = found[one.name] if one.is_plain else yaml.safe_load(found[one.name])
            except yaml.YAMLError as error:
                raise ConfigError(f"--{one.name} is not YAML: {' '.join(str(error).split())}") from error
            yield one.keys, value
