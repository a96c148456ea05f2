"""Style sheets, as far as they hide elements.

Only rules are kept that set one of `PROPERTIES`, or a custom property to a possible value of these, each selector with
the conditions (`@media`, `@supports`, `@layer`) around it; nested rules are expanded. tinycss2 parses the sheets,
cssselect2 compiles the selectors. Unknown at-rules, selectors and media features are ignored, as in a browser.

States that are not in the markup are matched as attributes of the element with the name of the pseudo-class (`:hover`,
`:host`; see `STATES`).

A sheet is parsed once per process, however many pages have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias

import tinycss2
from cssselect2.compiler import CompiledSelector, compile_selector_list
from tinycss2 import ast

PROPERTIES: Final = frozenset({"display", "visibility", "content-visibility", "opacity", "pointer-events"})
"""Properties that can hide an element."""

_KEYWORDS: Final = frozenset(
    {"none", "block", "inline", "inline-block", "flex", "inline-flex", "grid", "inline-grid", "contents", "list-item"}
    | {"table", "visible", "hidden", "collapse", "auto", "initial", "0", "1"}
)
"""Values of custom properties that matter to these properties; declarations with other values are left out."""

STATES: Final = frozenset({"hover", "focus", "focus-visible", "focus-within", "host"})
"""Pseudo-classes that are matched as attributes of the same name after a colon."""

MAX_SHEET: Final = 4 << 20
"""Characters of a sheet above which it is ignored; tinycss2 reads about a million per second."""

_MAX_RULES: Final = 5_000
"""Largest number of selectors kept of a sheet.

Large frameworks have a thousand; cssselect2 compiles two thousand per second.
"""
_MAX_TOKENS: Final = 300
"""Largest number of tokens of a selector."""
_MAX_LEVELS: Final = 32
"""Largest nesting of rules; deeper ones are ignored."""

_STRING: Final = r"""(?:"(?:[^"\\\n]++|\\.)*+"|'(?:[^'\\\n]++|\\.)*+')"""
_OPAQUE: Final = re.compile(
    rf"""\\.|{_STRING}|/\*.*?(?:\*/|\Z)|url\(\s*+(?!["'])[^)]*+\)?""", re.DOTALL | re.IGNORECASE
)
"""Escapes, strings, comments and addresses, in which a brace is no brace of a rule."""

_COMMENT: Final = r"/\*[^*]*+\*/"
_PLAIN_RULE: Final = re.compile(
    rf"""(?<=[{{}}])(?:[^{{}}"'\\/@;]++|{_COMMENT})*+(?:@font-face\s*+)?+\{{"""
    rf"""(?:[^{{}}"'\\/*]++|{_STRING}|{_COMMENT}|/(?!\*)|\*(?!/))*+\}}"""
)
"""Rule behind another one, or the first in a block, without escapes outside strings and without rules in it."""

_IS_READ: Final = re.compile(
    rf"(?<![\w-])(?:{'|'.join(sorted(PROPERTIES))})(?![\w-])|\{{.*?--", re.DOTALL | re.IGNORECASE
)

Declarations: TypeAlias = tuple[tuple[str, str, bool], ...]
"""(property, value in lower case, whether it is important)."""

Layer: TypeAlias = tuple[str, ...]
"""Names of a cascade layer and the layers around it, the outermost first; empty outside layers."""


class Viewport(NamedTuple):
    """Size of a window in CSS pixels."""

    width: int
    height: int


Condition: TypeAlias = Callable[[Viewport], bool]


class Rule(NamedTuple):
    """Selector with its declarations."""

    selector: CompiledSelector
    declarations: Declarations
    conditions: tuple[Condition, ...]
    layer: Layer


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Rules of a sheet, or of one rule in it; compared by identity. `layers` are in order of first mention."""

    rules: tuple[Rule, ...]
    layers: tuple[Layer, ...]


class Sheet:
    """Style sheet whose rules can be edited one by one, as scripts do. A path is a rule's index on each level."""

    __slots__ = ("_rules", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._rules: list[tuple[str, Rules]] | None = None

    @property
    def rules(self) -> tuple[Rules, ...]:
        """All rules in order."""
        if self._rules is not None:
            return tuple([rules for _, rules in self._rules])
        return (parse_sheet(self._text),)

    def holds(self, word: str) -> bool:
        """Check whether the rules contain a word."""
        return word in self._text if self._rules is None else any(word in text for text, _ in self._rules)

    def replace(self, text: str) -> None:
        """Replace all rules."""
        self._text, self._rules = text, None

    def insert(self, path: Sequence[int], text: str) -> None:
        """Insert a rule, at the end if the path points beyond it."""
        self._edit(path, lambda texts, index: texts.insert(index, text))

    def delete(self, path: Sequence[int]) -> None:
        """Delete a rule, if there is one."""
        self._edit(path, lambda texts, index: texts.__delitem__(slice(index, index + 1)))

    def declare(self, path: Sequence[int], declaration: str) -> None:
        """Add a declaration to a rule, if there is one; it overrides earlier ones."""

        def add(texts: list[str], index: int) -> None:
            if index < len(texts) and texts[index].endswith("}"):
                texts[index] = f"{texts[index][:-1]};{declaration}}}"

        self._edit(path, add)

    def _edit(self, path: Sequence[int], change: Callable[[list[str], int], None]) -> None:
        if not 0 < len(path) <= _MAX_LEVELS or min(path) < 0:
            return
        if self._rules is None:
            self._rules = [(text, parse_sheet(text)) for text in _rule_texts(self._text)]
        known = dict(self._rules)
        texts = [text for text, _ in self._rules]
        _change(texts, path, change)
        self._rules = [(text, known.get(text) or parse_sheet(text)) for text in texts]


def _change(texts: list[str], path: Sequence[int], change: Callable[[list[str], int], None]) -> None:
    """Change a rule in the rules, or nested in one of them."""
    if len(path) == 1:
        change(texts, path[0])
    elif path[0] < len(texts):
        head, _, content = texts[path[0]].partition("{")
        inner = _rule_texts(content.removesuffix("}"))
        _change(inner, path[1:], change)
        texts[path[0]] = f"{head}{{{''.join(inner)}}}"


def _rule_texts(text: str) -> list[str]:
    if len(text) > MAX_SHEET:
        return []
    return [rule.serialize() for rule in _rules_of(text) if rule.type != "error"]


def _rules_of(text: str | Iterable[Any]) -> list[Any]:
    return tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True)


@lru_cache(maxsize=256)
def parse_sheet(text: str) -> Rules:
    """Parse the rules of a sheet; none if it is too large or nests too deeply."""
    reader = _Reader()
    if len(text) <= MAX_SHEET:
        try:
            reader.read(_rules_of(_without_idle_rules(text)), (), (), None, 0)
        except RecursionError:
            return Rules((), ())
    return Rules(tuple(reader.rules), tuple(dict.fromkeys(reader.layers)))


def _without_idle_rules(text: str) -> str:
    """Return a sheet without most of the rules that hide nothing, since tinycss2 takes a microsecond a character.

    A sheet stays as it is if one of its braces might be no brace of a rule.
    """
    bare = _OPAQUE.sub("", text)
    brackets = re.sub(r"[^(){}\[\]]++", "", bare)
    for pairs in (("()", "[]"), ("{}",)):  # no brace may be within the others
        for _ in range(_MAX_LEVELS):
            for pair in pairs:
                brackets = brackets.replace(pair, "")
    is_odd = brackets or '"' in bare or "'" in bare
    if is_odd or any("{" in part or "}" in part for part in _OPAQUE.findall(text)):
        return text
    return _PLAIN_RULE.sub(lambda rule: rule[0] if _IS_READ.search(rule[0]) else "", text)


class _Reader:
    """Reader of the rules of one sheet."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.layers: list[Layer] = []
        self._unnamed = count()

    def read(
        self,
        nodes: Iterable[Any],
        conditions: tuple[Condition, ...],
        layer: Layer,
        around: list[Any] | None,
        level: int,
    ) -> None:
        """Read rules, or the contents of a rule whose selector is `around`."""
        if level > _MAX_LEVELS:
            return
        for node in nodes:
            if len(self.rules) >= _MAX_RULES:
                return
            if node.type == "qualified-rule":
                self._style_rule(node, conditions, layer, around, level)
            elif node.type == "at-rule":
                self._at_rule(node, conditions, layer, around, level)

    def _style_rule(
        self, node: Any, conditions: tuple[Condition, ...], layer: Layer, around: list[Any] | None, level: int
    ) -> None:
        is_nesting = any(token.type == "{} block" for token in node.content)
        if is_nesting or any(token.type == "ident" and _is_read(token.lower_value) for token in node.content):
            selector = _nest_selector(node.prelude, around) if around is not None else node.prelude
            self._block(node.content, selector, conditions, layer, level)

    def _block(
        self, content: list[Any], selector: list[Any], conditions: tuple[Condition, ...], layer: Layer, level: int
    ) -> None:
        nodes = tinycss2.parse_blocks_contents(content, skip_comments=True, skip_whitespace=True)
        stated = declarations(nodes)
        if stated:
            self.rules.extend(Rule(compiled, stated, conditions, layer) for compiled in _compile_selectors(selector))
        self.read(nodes, conditions, layer, selector, level + 1)

    def _at_rule(
        self, node: Any, conditions: tuple[Condition, ...], layer: Layer, around: list[Any] | None, level: int
    ) -> None:
        name = node.lower_at_keyword
        if name == "layer":
            layers = [(*layer, *path.split(".")) for path in _words(node.prelude)] if node.prelude else []
            if node.content is not None and not layers:
                layers = [(*layer, f"unnamed {next(self._unnamed)}")]
            for named_layer in layers:
                self.layers.extend(named_layer[:end] for end in range(1, len(named_layer) + 1))
            layer = layers[0] if layers else layer
        elif name == "media":
            conditions = (*conditions, media(node.prelude))
        elif name == "supports":
            if not _holds(node.prelude, _is_supported):
                return
        else:
            return
        if node.content is None:
            return
        if around is None:
            self.read(_rules_of(node.content), conditions, layer, None, level + 1)
        else:
            self._block(node.content, around, conditions, layer, level + 1)


def declarations(nodes: Iterable[Any]) -> Declarations:
    """Return the declarations of `PROPERTIES` among the nodes, and of custom properties that may be used in them."""
    stated: list[tuple[str, str, bool]] = []
    for node in nodes:
        if node.type == "declaration" and _is_read(node.lower_name):
            value = tinycss2.serialize(node.value).strip().lower()
            if node.lower_name in PROPERTIES or value in _KEYWORDS:
                stated.append((node.lower_name, value, node.important))
    return tuple(stated)


def _is_read(name: str) -> bool:
    return name in PROPERTIES or name.startswith("--")


def _words(tokens: Iterable[Any]) -> list[str]:
    """Split at commas and remove white space."""
    return [part for part in tinycss2.serialize(tokens).replace(" ", "").split(",") if part]


# Selectors


def _compile_selectors(tokens: list[Any]) -> Iterator[CompiledSelector]:
    """Yield the compiled selectors of a list that can match an element."""
    for part in _split(_states_as_attributes(tokens), ","):
        if len(part) > _MAX_TOKENS:
            continue
        try:
            for selector in compile_selector_list(part):
                if selector.pseudo_element is None and not selector.never_matches:
                    yield selector
        except (ValueError, SyntaxError, RecursionError, MemoryError, NotImplementedError, AttributeError, TypeError):
            continue  # cssselect2 does not know it, or Python does not compile what it makes of it.


def _split(tokens: Iterable[Any], sign: str) -> list[list[Any]]:
    parts: list[list[Any]] = [[]]
    for token in tokens:
        if token == sign:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _states_as_attributes(tokens: Iterable[Any]) -> list[Any]:
    """Replace each pseudo-class of `STATES` in the tokens of a selector by an attribute."""
    output: list[Any] = []
    for token in tokens:
        is_state = output and output[-1] == ":" and not (len(output) > 1 and output[-2] == ":")
        if is_state and token.type == "ident" and token.lower_value in STATES:
            output[-1] = _attribute(token.lower_value)
        elif is_state and token.type == "function" and token.lower_name == "host":
            output[-1] = _attribute("host")
            output += _pseudo("is", _states_as_attributes(token.arguments))
        elif token.type == "function":
            output.append(ast.FunctionBlock(0, 0, token.name, _states_as_attributes(token.arguments)))
        else:
            output.append(token)
    return output


@lru_cache(maxsize=32)
def _attribute(state: str) -> Any:
    return tinycss2.parse_one_component_value(f"[\\:{state}]")


_NESTING: Final = "&"


def _pseudo(name: str, arguments: list[Any]) -> list[Any]:
    return [ast.LiteralToken(0, 0, ":"), ast.FunctionBlock(0, 0, name, arguments)]


def _nest_selector(tokens: list[Any], around: list[Any]) -> list[Any]:
    """Return the selector of a rule nested in another."""
    output: list[Any] = []
    for part in _split(tokens, ","):
        if _NESTING not in part:
            output += [*_pseudo("is", around), ast.WhitespaceToken(0, 0, " ")]
        for token in part:
            output += _pseudo("is", around) if token == _NESTING else [token]
        output.append(ast.LiteralToken(0, 0, ","))
    return output[:-1]


# Conditions


@lru_cache(maxsize=1024)
def media_of(text: str) -> Condition:
    """Return the condition of a `media` attribute."""
    return media(tinycss2.parse_component_value_list(text))


def media(tokens: Iterable[Any]) -> Condition:
    """Return the condition of a list of media queries, for a window on a desktop screen."""
    queries = [_bare(part) for part in _split(tokens, ",")]

    def holds(viewport: Viewport) -> bool:
        return queries == [[]] or any(_query_holds(query, viewport) for query in queries)

    return lru_cache(maxsize=8)(holds)


def _bare(tokens: Iterable[Any]) -> list[Any]:
    return [token for token in tokens if token.type not in ("whitespace", "comment")]


def _query_holds(tokens: list[Any], viewport: Viewport) -> bool:
    rest = tokens
    is_negated = False
    if rest and rest[0].type == "ident" and rest[0].lower_value in ("only", "not") and rest[1:2]:
        is_negated = rest[0].lower_value == "not"
        if rest[1].type != "ident":
            return _holds(rest, lambda feature: _feature_holds(feature, viewport))
        rest = rest[1:]
    holds = bool(rest)
    if rest and rest[0].type == "ident":
        holds = rest[0].lower_value in ("all", "screen")
        rest = rest[1:]
        if rest and rest[0].type == "ident" and rest[0].lower_value == "and":
            rest = rest[1:]
    if holds and rest:
        holds = _holds(rest, lambda feature: _feature_holds(feature, viewport))
    return holds is not is_negated


def _holds(tokens: Iterable[Any], is_true: Callable[[list[Any]], bool]) -> bool:
    """Evaluate a condition of terms in brackets with `not`, `and` and `or`; `is_true` decides a term."""
    result: bool | None = None
    is_negated, is_either = False, False
    for token in _bare(tokens):
        if token.type == "ident":
            is_negated = is_negated or token.lower_value == "not"
            is_either = token.lower_value == "or" or (is_either and token.lower_value != "and")
            continue
        if token.type == "() block":
            inner = _bare(token.content)
            first = inner[0] if inner else None
            is_group = first is not None and (
                first.type in ("() block", "function") or (first.type == "ident" and first.lower_value == "not")
            )
            value = _holds(inner, is_true) if is_group else is_true(inner)
        else:
            value = is_true([token])
        value = value is not is_negated
        is_negated = False
        result = value if result is None else (result or value) if is_either else (result and value)
    return bool(result)


def _is_supported(term: list[Any]) -> bool:
    """Check whether a browser supports the declaration or selector; only other vendors' prefixes are unsupported."""
    return not any(str(getattr(token, "lower_value", "")).startswith(("-moz-", "-ms-", "-o-")) for token in term)


_DISCRETE: Final = {
    "any-hover": "hover",
    "any-pointer": "fine",
    "display-mode": "browser",
    "forced-colors": "none",
    "hover": "hover",
    "inverted-colors": "none",
    "pointer": "fine",
    "prefers-color-scheme": "light",
    "prefers-contrast": "no-preference",
    "prefers-reduced-data": "no-preference",
    "prefers-reduced-motion": "no-preference",
    "prefers-reduced-transparency": "no-preference",
    "scripting": "enabled",
    "update": "fast",
}
"""Values of the media features that logs do not state."""
_UNITS: Final = {"px": 1.0, "em": 16.0, "rem": 16.0, "pt": 96 / 72, "cm": 96 / 2.54, "mm": 96 / 25.4, "in": 96.0}
_MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}


def _feature_holds(term: list[Any], viewport: Viewport) -> bool:
    """Check whether a media feature holds: `width`, `min-width: 40em`, `width >= 40em` or `20em < width <= 40em`."""
    name = term[0].lower_value if term and term[0].type == "ident" else ""
    if len(term) == 1 and name:
        return _DISCRETE.get(name, "none") not in ("none", "no-preference") or name in ("width", "height", "color")
    if name and term[1] == ":":
        value = term[2:]
        if len(value) == 1 and value[0].type == "ident":
            orientation = "portrait" if viewport.height >= viewport.width else "landscape"
            return value[0].lower_value == (orientation if name == "orientation" else _DISCRETE.get(name))
        sign = {"min": ">=", "max": "<="}.get(name.removeprefix("-webkit-").partition("-")[0], "=")
        return _compares(name.removeprefix("-webkit-").removeprefix("min-").removeprefix("max-"), sign, value, viewport)
    parts: list[Any] = [[]]
    for token in term:
        if token.type == "literal" and token.value in "<>=":
            if parts[-1] == [] and len(parts) > 1:
                parts[-2] += token.value
            else:
                parts += [token.value, []]
        elif token.type == "literal" and token.value in _MIRRORED:
            parts += [token.value, []]
        else:
            parts[-1].append(token)
    sides, signs = parts[::2], parts[1::2]
    at = next((number for number, side in enumerate(sides) if len(side) == 1 and side[0].type == "ident"), None)
    if at is None or not signs or any(sign not in _MIRRORED for sign in signs):
        return False
    feature = sides[at][0].lower_value
    return all(
        _compares(feature, signs[number] if at <= number else _MIRRORED[signs[number]], side, viewport)
        for number, side in enumerate(sides[:at] + sides[at + 1 :])
    )


def _compares(feature: str, sign: str, value: list[Any], viewport: Viewport) -> bool:
    """Check whether a comparison of a feature with a value holds."""
    is_ratio = feature in ("aspect-ratio", "device-aspect-ratio")
    numbers = [_number(token) for token in value if token.type != "literal"]
    if not numbers or None in numbers:
        return False
    wanted = float(numbers[0] or 0) / float((numbers[1] if len(numbers) > 1 else 1) or 1)
    known = {
        "width": viewport.width,
        "height": viewport.height,
        "device-width": viewport.width,
        "device-height": viewport.height,
        "resolution": 1.0,
        "device-pixel-ratio": 1.0,
        "color": 8.0,
        "color-index": 0.0,
        "monochrome": 0.0,
        "grid": 0.0,
    }
    actual = viewport.width / max(viewport.height, 1) if is_ratio else known.get(feature)
    if actual is None:
        return False
    if sign == "=":
        return abs(actual - wanted) < 1e-6
    return (
        (actual >= wanted if "=" in sign else actual > wanted)
        if sign[0] == ">"
        else (actual <= wanted if "=" in sign else actual < wanted)
    )


def _number(token: Any) -> float | None:
    """Return a length in pixels, a resolution in dots per pixel, or a number; None for any other value."""
    if token.type == "number":
        return float(token.value)
    if token.type == "dimension":
        unit = token.lower_unit
        scale = _UNITS.get(unit) or {"dppx": 1.0, "x": 1.0, "dpi": 1 / 96, "dpcm": 2.54 / 96}.get(unit)
        return float(token.value) * scale if scale is not None else None
    return None
