"""Templates and recipes that come with trajmill: under `configs/` in the checkout, inside the package in the wheel.

Prompt templates are stored in a folder per domain and a file per pool, `terminal/{rl,cpt,sft-1,sft-2,…}.md.j2`, with
one for short samples, `terminal/{rl,cpt,sft}-short.md.j2`. A user's own folder of the same layout replaces them domain
by domain; the templates for short samples are optional there. Pools never share a template, so that a model learns the
world and not the wording. `pipelines.render.prompts` provides the values of a prompt.
"""

from __future__ import annotations

import hashlib
import re
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2
import jinja2.meta
import jinja2.sandbox
import xxhash

from trajmill.schemas import DOMAINS, ConfigError


def configs() -> Traversable:
    """Return the folder of built-in recipes, templates and rubrics."""
    return files("trajmill") / "configs"


_TEXTS: Final = frozenset({"action_space", "initial_state", "demonstrations", "simulation_instruction", "screen"})
_LISTS: Final = frozenset({"forms", "dialects"})
_FLAGS: Final = frozenset({"ends", "enveloped", "shows_diffs", "keeps_messages", "native", "tagged"})
VARIABLES: Final = _TEXTS | _LISTS | _FLAGS
"""Variables of a prompt template: texts, which are empty if unknown; lists; flags."""

_SUFFIX: Final = ".md.j2"
_FILE: Final = re.compile(r"((rl|cpt|sft)-short|rl|cpt|sft-[1-9][0-9]*)\.md\.j2")
_SHORT: Final = "-short"
_KIND: Final = {"rl": "rl", "eval": "rl", "cpt": "cpt", "sft": "sft"}
"""Kind of template file for the prompts of each pool. Eval uses those of RL."""


class PromptTemplate(NamedTuple):
    """A prompt template: its name such as `terminal/sft-2`, the sha256 of its text, its text, and its origin.

    `own` tells that a user made it.
    """

    name: str
    digest: str
    text: str
    own: bool

    @property
    def template(self) -> jinja2.Template:
        """The compiled template. It is compiled on first use, since a run draws few of the templates."""
        return _compile(self.text, self.own)

    @property
    def reference(self) -> str:
        """The template's name in samples: `terminal/sft-2@` and 12 digits of the digest."""
        return f"{self.name}@{self.digest[:12]}"


@cache
def template(name: str) -> jinja2.Template:
    """Return the template of that name.

    Undefined names are errors. Nothing is escaped, since the output is Markdown.
    """
    return _environment().from_string((configs() / "templates" / name).read_text("utf-8"))


def prompt_template(
    domain: str, pool: str, key: str, seed: int, folder: Path | None = None, is_short: bool = False
) -> PromptTemplate:
    """Choose the template of a sample's system prompt.

    Args:
        domain: one of the seven domains.
        pool: `cpt`, `sft`, `rl`, or `eval`, which uses those of `rl`. A file for `sft` is drawn by hash.
        key: key of the draw, such as the id of a trajectory; equal keys draw the same file.
        seed: seed of the draw.
        folder: a user's own templates; a domain without a folder there has the built-in ones.
        is_short: whether to use the short template, if there is one.

    Raises:
        ConfigError: a template of the user is not valid; `check_templates` reports that at launch.
    """
    own = folder if folder is not None and (folder / domain).exists() else None
    kinds = _of_domain(domain, own)
    templates = (kinds[_KIND[pool] + _SHORT] if is_short else ()) or kinds[_KIND[pool]]
    return templates[xxhash.xxh3_64_intdigest(f"template:{key}".encode(), seed) % len(templates)]


def check_templates(folder: Path) -> None:
    """Read all templates of a user's own folder, so that none fails while shards are written.

    Raises:
        ConfigError: the folder cannot be read or is empty, it holds an unexpected file or folder, a domain lacks a
            pool, or a template has a syntax error, names an unknown variable, includes another file or cannot be
            rendered. The message names the file.
    """
    try:
        inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise ConfigError(f"mix.templates: {folder} cannot be listed: {error.strerror}.") from error
    if not inside:
        raise ConfigError(f"mix.templates: {folder} is empty; wanted are folders named by domains, such as terminal/.")
    for path in inside:
        if path.name not in DOMAINS:
            nearest = get_close_matches(path.name, DOMAINS, 1)
            raise ConfigError(f"mix.templates: {path} is no folder of a domain.", *nearest)
        _of_domain(path.name, folder)


def templates_digest(folder: Path | None = None) -> str:
    """Return the sha256 of all prompt templates, a user's own or the built-in ones, as 64 hex digits."""
    digests = [
        (template.name, template.digest)
        for domain in DOMAINS
        for some in _of_domain(domain, folder).values()
        for template in some
    ]
    return hashlib.sha256(repr(sorted(digests)).encode()).hexdigest()


@cache
def built_in_texts() -> list[str]:
    """Return the texts of all built-in prompt templates."""
    return [template.text for domain in DOMAINS for some in _of_domain(domain, None).values() for template in some]


@cache
def _of_domain(domain: str, folder: Path | None) -> dict[str, tuple[PromptTemplate, ...]]:
    """Return the templates of a domain by kind of file, each kind in the order of the numbers in the file names."""
    source_folder: Traversable = configs() / "templates" / domain if folder is None else folder / domain
    pools = ("rl", "cpt", "sft")
    templates: dict[str, list[PromptTemplate]] = {kind + end: [] for kind in pools for end in ("", _SHORT)}
    try:
        names = sorted((path.name for path in source_folder.iterdir() if not path.name.startswith(".")), key=_in_order)
    except OSError as error:
        raise ConfigError(f"mix.templates: {source_folder} cannot be listed: {error.strerror}.") from error
    for name in names:
        if _FILE.fullmatch(name) is None:
            raise ConfigError(
                f"mix.templates: {source_folder / name} is none of rl{_SUFFIX}, cpt{_SUFFIX}, sft-N{_SUFFIX}, "
                f"{{rl,cpt,sft}}{_SHORT}{_SUFFIX}."
            )
        stem = name.removesuffix(_SUFFIX)
        kind = stem if stem.endswith(_SHORT) else stem.partition("-")[0]
        templates[kind].append(_read(source_folder / name, f"{domain}/{stem}", own=folder is not None))
    missing = [f"{kind}-1{_SUFFIX}" if kind == "sft" else kind + _SUFFIX for kind in pools if not templates[kind]]
    if missing:
        raise ConfigError(f"mix.templates: {source_folder} holds no {', no '.join(missing)}.")
    return {kind: tuple(some) for kind, some in templates.items()}


def _in_order(name: str) -> tuple[int, str]:
    return len(name), name


def _read(path: Traversable, name: str, own: bool) -> PromptTemplate:
    """Read the template in a file. A user's own template (`own`) is test-rendered, in a sandbox."""
    environment = _sandbox()
    try:
        text = path.read_text("utf-8")
        template = PromptTemplate(name, hashlib.sha256(text.encode()).hexdigest(), text, own)
        if not own:
            return template  # tests hold ours to what follows
        tree = environment.parse(text)
        named = jinja2.meta.find_undeclared_variables(tree)
        includes = next(iter(jinja2.meta.find_referenced_templates(tree)), "") != ""
        _compile(text, own)
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(f"mix.templates: {path}, line {error.lineno}: {error.message}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"mix.templates: {path} cannot be read: {error}") from error
    if unknown := sorted(named - VARIABLES):
        nearest = get_close_matches(unknown[0], sorted(VARIABLES), 1)
        raise ConfigError(f"mix.templates: {path} names '{unknown[0]}', which no prompt has.", *nearest)
    if includes:
        raise ConfigError(f"mix.templates: {path} takes in another file; its digest is to tell all that it says.")
    _try(_compile(text, own), path)
    return template


def _try(compiled: jinja2.Template, path: Traversable) -> None:
    """Render a template with every value set and with none.

    Raises:
        ConfigError: the template cannot be rendered, or renders to nothing.
    """
    for known in (True, False):
        try:
            text = compiled.render(_values(known))
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise ConfigError(f"mix.templates: {path} cannot be rendered: {error}") from error
        if not text.strip():
            raise ConfigError(f"mix.templates: {path} says nothing.")


def _values(known: bool) -> dict[str, Any]:
    texts = dict.fromkeys(_TEXTS, "x" if known else "")
    return {**texts, **dict.fromkeys(_LISTS, ["x"] if known else []), **dict.fromkeys(_FLAGS, known)}


@cache
def _compile(text: str, own: bool) -> jinja2.Template:
    return (_sandbox() if own else _environment()).from_string(text)


@cache
def rubric(name: str) -> str:
    """Return the rubric by which a judge model rates predictions."""
    return (configs() / "rubrics" / f"{name}.md").read_text("utf-8")


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True)  # noqa: S701 - Markdown


@cache
def _sandbox() -> jinja2.Environment:
    return jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True
    )
