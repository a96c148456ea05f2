"""Values of a trajectory that are secret by their place, whatever their letters, such as passwords in fields.

Connectors express these places in the forms of the schema, so one reader serves all of them. It reads the arguments of
actions by name, including forms, cookies and addresses in them; HTTP bodies; password fields of element trees and the
text typed into them; and the text typed where a program waits for hidden input. The values are never written to a
table. Scrubbing hides them throughout their trajectory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from html import unescape
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import orjson
import re2

from trajmill.quality.scrubbing.sensitive_names import Sensitivity, sensitivity
from trajmill.quality.scrubbing.values import is_secret, is_typed
from trajmill.schemas.action import Action
from trajmill.schemas.observation import Observation
from trajmill.schemas.trajectory import Step, Trajectory

SHORTEST: Final = 4
"""Bytes of a value below which hiding it would also hide much unrelated text."""

_LONGEST: Final = 1024
_DEPTH: Final = 12
"""Largest depth of nested values."""

_NESTED: Final = frozenset({dict, list})
"""Types of JSON values that hold others."""

_OPENINGS: Final = frozenset({"{", "[", "<"})
"""First characters of JSON and of markup."""

_NAME_HINT: Final = r"(?i)pass|pwd|\bpw|secret|token|auth|key|cred|cookie|jwt|csrf|xsrf|\bpin|otp|cv[vc]|psk|sig"
"""Pattern that every text with a sensitive name matches."""

_PRINT_HINT: Final = r"pass|secret|vault|op |bw |get-parameter|echo |printenv |git config"
"""Pattern that every text with a command of `_PRINTS` matches."""


_NOTHING: Final = re.compile(rb"(?:~|\.{1,2})?/.*|[A-Za-z][A-Za-z0-9+.-]*://.*|[\d.:TZ+-]+|true|false|null", re.DOTALL)
_HANDLE: Final = re.compile(r"(?i).*(?:sess(?:ion)?[_-]?id|sid)")
"""Names of handles as often as of secrets."""

_FORM: Final = re.compile(r"[\w.%\[\]-]{1,200}=[^\s=]*(?:&[\w.%\[\]-]{1,200}=[^\s=]*)*")
_COOKIES: Final = re.compile(r"(?:\A|;)\s*([^=;\s]{1,200})=\"?([^;\"\s]+)")
_PART: Final = re.compile(
    r"form-data; name=\"([^\"\r\n]{1,200})\"[^\r\n]*(?:\r?\n[\w-]+:[^\r\n]*)*\r?\n\r?\n([^\r\n]+)"
)
_ELEMENT: Final = re.compile(r"<(?:\w{1,32}:)?([\w.-]{1,64})(?:\s[^<>]{0,300})?>([^<>]{4,256})</")
_SCHEME: Final = re.compile(r"(?i)(?:bearer|token|apikey|basic|digest) +(?=\S+\Z)")
_DESCRIBES: Final = (
    "name",
    "element",
    "target",
    "selector",
    "field",
    "label",
    "id",
    "placeholder",
    "locator",
    "description",
    "resource_id",
    "css",
    "xpath",
    "key",
    "field_name",
    "Name",
)
_HOLDS: Final = frozenset(
    {"value", "new_value", "text", "content", "keys", "input", "input_text", "data", "chars", "Value"}
)

_STRING: Final = r'"(?:[^"\\\n]|\\.)*"'
_FIELD: Final = re.compile(
    rf" *#(?P<id>\d+) (?P<role>[a-z0-9_.-]+)(?P<name> {_STRING})?(?: value=(?P<value>{_STRING}))?"
    rf"(?P<description> description={_STRING})?(?P<states>(?: [a-z_]+)*?)(?P<ident> id=(?:{_STRING}|\S+))?"
    r"(?: \[(-?\d+),(-?\d+)\]\[(-?\d+),(-?\d+)\])?"
)
"""Line of the dialect `uitree/1`."""

_SECRET_FIELD: Final = re.compile(r"[Pp]ass(?:word|phrase|code)(?![a-z])|PASSWORD|\b(?:PIN|CVV|CVC)\b")

_OWN_ROLE: Final = re.compile(r"(?i)\b(?:textbox|input|entry|edit|text ?field)\b")
"""Role in the line of such a field, in an agent's own dialect."""

_NEAR: Final = 1024
"""Largest number of characters on either side that belong to a line."""

_OWN_NEAR: Final = 200
"""Largest number of characters on either side in an agent's own dialect."""

_OWN_VALUE: Final = re.compile(r"(?:\bvalue=[\"']([^\"'\n]+)[\"']|\]: *\"?([^\s\"]+)\"?$)")
_REFERENCE: Final = re.compile(r"\[(?:ref=)?(\w+)[\]:<]|bid=[\"'](\w+)[\"']|\A\s*(?:\*?\[)?(\w+)\]")
_INPUT: Final = re.compile(r"(?i)<input\b[^<>]{0,1000}>")
_IS_PASSWORD: Final = re.compile(r"(?i)\btype\s?=\s?\\{0,8}[\"']?password\b")
_INPUT_VALUE: Final = re.compile(r"(?i)\bvalue\s?=\s?(?:\\{0,8}\"([^\"\\<>]+)|\\{0,8}'([^'\\<>]+)|([^\s\"'<>\\]+))")

_TYPES: Final = re.compile(r"(?i)(?:fill|type|write|input|send_?keys|set_?(?:edit_)?(?:text|value)|press_sequentially)")
_CLICKS: Final = re.compile(r"(?i).*(?:click|tap|focus).*")
_LITERAL: Final = r"(?P<q>[\"'])(?P<typed>(?:(?!(?P=q))[^\\\n]|\\.){1,1024})(?P=q)"
_CODE_TYPES: Final = re.compile(
    r"\.(?:send_keys|fill|type|press_sequentially|write|typewrite|input_text|set_text|setValue)\("
    r"(?:[^()\n]{0,200}?, ?)??(?:text=|message=)?" + _LITERAL + r"(?=\s*(?:\)|,\s*(?:\w+\s*=|[\d{])))"
)
_STATEMENT: Final = re.compile(r"[\n;]")
_CODE_CLICKS: Final = re.compile(r"(?:click|moveTo)\(\s*(?:x=)?(\d+)(?:\.\d+)?\s*,\s*(?:y=)?(\d+)")
_CODE_NAMES: Final = re.compile(
    r"\b(\w{1,64})\s?=\s?([^\n]{0,200}?(?:find_element|locator|get_by_|query_selector)[^\n]{0,200})"
)

_GETS: Final = re.compile(r"(?i)(?:\w+_)?(?:get|read|fetch|reveal|show|retrieve|generate)[_A-Z]")
_PRINTS: Final = re.compile(
    r"(?:\A|[\n;&|\"'])\s*pass (?:show )?[\w.@-]+/[\w./@-]+(?=[\n\"'\\|]|\Z)|\bgcloud secrets versions access\b"
    r"|\bsecurity find-\w+-password\b[^|\n]{0,200} -w|\bvault (?:kv get|read)\b[^|\n]{0,200}-field"
    r"|\bop read\b|\bop item get\b[^|\n]{0,200}--(?:reveal|fields)|\b(?:bw get|lpass show --)(?:password|totp)\b"
    r"|\baws \w+ get-(?:secret-value|parameter)\b[^|\n]{0,200}--output text"
    r"|\bkubectl get secret\b[^\n]{0,200}\bbase64 -"
    r"|\.(?:querySelector|getElementById)\([^()\n]{0,80}pass[^()\n]{0,80}\)\.value"
    r"|\b(?:echo|printenv|git config(?: --get)?) [\"'\\]{0,2}\$?\{?(?P<name>[A-Za-z_][\w.]{2,64})\}?[\"'\\]{0,2}"
    r"(?=[\n\"\\]|\Z)"
)
"""Commands and scripts that print a secret."""

_NO_ANSWER: Final = re.compile(r"\s|[$#%>:]\Z")
_ECHOED: Final = 4
"""Leading lines of an answer in which the secret is looked for, including lines that repeat the command."""

_WAITS: Final = re.compile(
    r"(?i)(?:(?:password|passwd|passphrase|pass phrase|passcode|\bpin|token|secret|api key|access key|private key"
    r"|verification code|one-time code|otp)\b(?:'[^'\n\r]{1,100}'|[^'\n\r:>?]){0,80}"
    r"|\((?:will be|input is|typing) hidden\))"
    r"[:>?](?:\x1b\[[0-9;?]*[A-Za-z]|[\s\x07])*\Z"
)
_WAITS_WORDS: Final = ("pass", "pin", "token", "secret", "key", "code", "otp", "hidden")
"""Parts of words, of which every such prompt contains at least one."""

_PROMPT_BYTES: Final = 320
_ENTER: Final = re.compile(r"(?:[\r\n]|<(?:enter|return|cr)>|\b(?:Enter|C-m)\b|\\n)+\s*\Z", re.IGNORECASE)
_COMMAND: Final = re.compile(r"[|;<>`]|&&|\$\(|\s-{1,2}\w|\x1b|\A\W*\Z|\A(?:C|M|\^)-?\w\Z|[\x00-\x08]")
_WORDS: Final = 8
"""Largest number of words of a passphrase."""


def sensitive_values(trajectory: Trajectory) -> tuple[str, ...]:
    """Return every value of the trajectory that its place makes a secret, each once, in order of occurrence."""
    reader = _Reader()
    for step in trajectory.steps:
        reader.take(step)
    return tuple(reader.values)


class _Reader:
    """Reader of a trajectory, step by step."""

    def __init__(self) -> None:
        self.values: dict[str, None] = {}
        self._screen: str | None = None
        self._fields: dict[str, tuple[int, ...]] = {}
        self._is_focused = False

    def take(self, step: Step) -> None:
        """Note the secrets that a step reveals."""
        self._see(step.observation)
        action = step.action
        arguments = _parse(action.arguments)
        names, prints = _hints(action.text)
        if arguments is None or action.text != f'{{"name": "{action.name}", "arguments": {action.arguments}}}':
            call = _call(action.text)
            names, _ = _hints(action.arguments or "")
        else:
            call = {"name": action.name, "arguments": arguments}
        if arguments is not None and names:
            self._take_named("", arguments)
        self._take_typed(action, arguments, call)
        seen = step.next_observation
        self._see(seen)
        if seen and seen.content:
            is_http = seen.media_type == "message/http"
            body = seen.content.partition("\n\n")[2] if is_http else seen.content
            if body[:1] in _OPENINGS and _hints(body)[0]:
                for key, inner in _pairs("", body):
                    self._take_named(key, inner, sent=is_http)
            if prints or _gets_secret(action.name):
                self._take_printed(action, seen.content)

    def _note(self, value: str, kind: Sensitivity, *, blanks: bool = False) -> None:
        data = value.strip().encode("utf-8", "surrogatepass")
        if not SHORTEST <= len(data) <= _LONGEST or not is_typed(data) or (b" " in data and not blanks):
            return
        is_long = kind == "secret" and len(data) >= 2 * SHORTEST and not _NOTHING.fullmatch(data)
        if kind == "password" or is_long or is_secret(data, sensitivity=kind, quoted=True):
            self.values[value.strip()] = None

    def _take_named(self, name: str, value: Any, depth: int = 0, *, sent: bool = True) -> None:
        """Note the values under sensitive names in a JSON value, and in its texts.

        Args:
            name: Name of the value.
            value: JSON value.
            depth: Depth of the value.
            sent: True for sent values, which are secrets if named so; shown values may belong to any other system.
        """
        if depth > _DEPTH:
            return
        if type(value) is dict:
            for key, inner in value.items():
                if type(inner) in _NESTED or (
                    type(inner) is str and ("=" in inner or inner[:1] in _OPENINGS or _sensitivity(key))
                ):
                    self._take_named(key, inner, depth + 1, sent=sent)
            texts_held = () if _HOLDS.isdisjoint(value) else tuple(_texts(value))
            if texts_held and (kind := _kind_by_description(value)):
                for held_text in texts_held:
                    self._note(held_text, kind, blanks=True)
        elif type(value) is list:
            option = ""
            for inner in value:
                if type(inner) is str:
                    self._take_named(option or name, inner, depth + 1, sent=sent)
                    option = inner if inner.startswith("-") else ""
                else:
                    option = ""
                    if type(inner) in _NESTED:
                        self._take_named(name, inner, depth + 1, sent=sent)
        elif type(value) is str:
            self._take_text(name, value, depth, sent=sent)

    def _take_text(self, name: str, text: str, depth: int, *, sent: bool) -> None:
        """Note a text under a sensitive name, and the values under sensitive names in it."""
        if kind := _sensitivity(name):
            is_any = kind == "secret" and (not sent or _HANDLE.fullmatch(name))
            self._note(_SCHEME.sub("", text), "key" if is_any else kind)
        if "=" in text or text[:1] in _OPENINGS:
            for key, inner in _pairs(name, text):
                self._take_named(key, inner, depth + 1, sent=sent)

    def _take_printed(self, action: Action, shown: str) -> None:
        """Note the answer to an action that asks for a secret, if it is one word."""
        lines = [line.strip() for line in shown[:_LONGEST].splitlines() if line.strip()]
        answer = next((line for line in lines[:_ECHOED] if not _NO_ANSWER.search(line)), None)
        if answer is None:
            return
        is_asked = _gets_secret(action.name)
        command = None if is_asked else _PRINTS.search(action.text)  # a search that takes long in long scripts
        if is_asked or (command is not None and (not command["name"] or _sensitivity(command["name"]))):
            self._note(answer.strip("\"'"), "password")

    def _see(self, seen: Observation | None) -> None:
        """Record the password fields of a screen or page and note their contents."""
        content = seen.content if seen else None
        if seen is None or content is None or content is self._screen:
            return
        for value in seen.sensitive:
            self._note(value, "password", blanks=True)
        self._screen = content
        self._fields = {}
        for line in _lines_of_fields(content):
            if field := _FIELD.fullmatch(line):
                self._see_field(field)
            elif _OWN_ROLE.search(line):
                if shown := _OWN_VALUE.search(line):
                    self._note(shown[1] or shown[2], "password", blanks=True)
                for reference in _REFERENCE.finditer(line):
                    self._fields[next(filter(None, reference.groups()))] = ()
        for tag in _INPUT.findall(content) if "password" in content else ():
            if _IS_PASSWORD.search(tag) and (shown := _INPUT_VALUE.search(tag)):
                self._note(unescape(next(filter(None, shown.groups()))), "password", blanks=True)

    def _see_field(self, field: re.Match[str]) -> None:
        """Record a line of `uitree/1` if it is a password field."""
        labels = " ".join(field[part] or "" for part in ("name", "description", "ident"))
        if "password" in field["states"].split() or (field["role"] == "textbox" and _SECRET_FIELD.search(labels)):
            if field["value"]:
                self._note(json.loads(field["value"], strict=False), "password", blanks=True)
            self._fields["#" + field["id"]] = tuple(map(int, filter(None, field.groups()[-4:])))
            self._is_focused = self._is_focused or " focused" in field["states"]

    def _take_typed(self, action: Action, arguments: Any, call: Mapping[str, Any]) -> None:
        """Note the text that an action types into a password field, or where a program waits for hidden input."""
        for value in action.sensitive:
            self._note(value, "password", blanks=True)
        call_arguments = _dict(call.get("arguments"))
        if call.get("name") == "sequence" and isinstance(call_arguments.get("calls"), list):
            for inner_call in map(_dict, call_arguments["calls"]):
                self._take_call(str(inner_call.get("name")), _dict(inner_call.get("arguments")), {})
        else:
            self._take_call(action.name, call_arguments, _dict(arguments))
        for code in (call_arguments.get("code"), _dict(arguments).get("command"), "" if call else action.text):
            if isinstance(code, str) and "(" in code:
                self._take_code(code)
        if self._screen is not None and _is_prompt(self._screen[-_PROMPT_BYTES:]):
            for value in _keystrokes(action, arguments):
                typed = _ENTER.sub("", value[: 2 * _LONGEST]).strip()
                if not _COMMAND.search(typed) and len(typed.split()) <= _WORDS:
                    self._note(typed, "password", blanks=True)

    def _take_call(self, name: str, call_arguments: Mapping[str, Any], original: Mapping[str, Any]) -> None:
        """Note the text that a call types into a password field, or record that the call focuses one."""
        is_click = _is_click(name)
        if not is_click and not _is_typing(name):
            return
        elements = [
            str(arguments_of_call[key])
            for arguments_of_call in (call_arguments, original)
            for key in _TARGETS
            if key in arguments_of_call
        ]
        if is_click:
            self._is_focused = self._is_password(elements, call_arguments)
        elif self._is_password(elements, call_arguments) if elements else self._is_focused:
            for value in (*_texts(call_arguments), *_texts(original)):
                self._note(value, "password", blanks=True)

    def _is_password(self, elements: list[str], call_arguments: Mapping[str, Any]) -> bool:
        if any(element in self._fields or _kind_of(element) for element in elements):
            return True
        x, y = call_arguments.get("x"), call_arguments.get("y")
        return isinstance(x, int | float) and isinstance(y, int | float) and self._is_at(x, y)

    def _is_at(self, x: float, y: float) -> bool:
        return any(box and box[0] <= x < box[2] and box[1] <= y < box[3] for box in self._fields.values())

    def _take_code(self, code: str) -> None:
        """Note the literals that a script types into a password field, which it names or has clicked."""
        names = {name for name, rest in _CODE_NAMES.findall(code) if _kind_of(rest)}
        clicks = [(click.start(), click) for click in _CODE_CLICKS.finditer(code)]
        for call in _CODE_TYPES.finditer(code):
            while clicks and clicks[0][0] < call.start("typed"):
                _, click = clicks.pop(0)
                self._is_focused = self._is_at(int(click[1]), int(click[2]))
            before = _STATEMENT.split(code[max(0, call.start() - _OWN_NEAR) : call.start("typed")])[-1]
            is_blind = "pyautogui" in before or "keyboard" in before
            variable = before.strip().partition(".")[0]
            if variable in names or _kind_of(before) or (is_blind and self._is_focused):
                self._note(call["typed"], "password", blanks=True)
        for _, click in clicks:
            self._is_focused = self._is_at(int(click[1]), int(click[2]))


def _lines_of_fields(content: str) -> Iterator[str]:
    """Yield the lines of a screen that may be password fields."""
    end = 0
    for word in _SECRET_FIELD.finditer(content) if _may_show_fields(content) else ():
        if word.start() >= end:
            begin = max(content.rfind("\n", end, word.start()) + 1, word.start() - _NEAR, end)
            line = content[begin : word.end() + _NEAR].partition("\n")[0]
            if not line.lstrip(" ").startswith("#"):
                begin = max(begin, word.start() - _OWN_NEAR)
                line = content[begin : word.end() + _OWN_NEAR].partition("\n")[0]
            end = begin + len(line)
            yield line


def _may_show_fields(content: str) -> bool:
    """Check whether a screen may name a secret field; a single letter is found much faster than a word."""
    return (
        ("ass" in content and any(map(content.__contains__, ("assword", "assphrase", "asscode"))))
        or ("W" in content and "ASSWORD" in content)
        or ("P" in content and "PIN" in content)
        or ("V" in content and "CV" in content)
    )


def _is_prompt(end: str) -> bool:
    """Check whether a screen ends in a prompt for hidden input."""
    if "\x1b" not in end and end.rstrip()[-1:] not in (":", ">", "?", "\x07"):
        return False
    return any(map(end.casefold().__contains__, _WAITS_WORDS)) and _WAITS.search(end) is not None


_TARGETS: Final = ("element", "target", "selector", "ref", "index", "id", "bid", "label", "element_id", "locator")


def _hints(text: str) -> tuple[bool, bool]:
    """Check whether a text may contain a sensitive name, and a command that prints a secret."""
    matches = _hint_search().Match(text.encode("utf-8", "surrogatepass")) or ()
    return 0 in matches, 1 in matches


@cache
def _hint_search() -> re2.Set:
    search = re2.Set.SearchSet()
    for pattern in (_NAME_HINT, _PRINT_HINT):
        search.Add(pattern)
    search.Compile()
    return search


@lru_cache(1 << 12)
def _is_click(name: str) -> bool:
    """Check whether an action of this name focuses an element."""
    return _CLICKS.fullmatch(name) is not None


@lru_cache(1 << 12)
def _is_typing(name: str) -> bool:
    """Check whether an action of this name types text."""
    return _TYPES.search(name) is not None


@lru_cache(1 << 12)
def _gets_secret(name: str) -> bool:
    """Check whether an action of this name asks for a secret."""
    return _GETS.match(name) is not None and _sensitivity(name) in ("password", "secret")


@lru_cache(1 << 12)
def _sensitivity(name: str) -> Sensitivity | None:
    return sensitivity(name.encode("utf-8", "surrogatepass"))


def _texts(members: Mapping[str, Any]) -> Iterator[str]:
    for key, value in members.items():
        if key in _HOLDS and isinstance(value, str):
            yield value


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _parse(text: str | None) -> Any:
    """Parse a JSON object or list; None if the text is neither."""
    if text is None or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _call(text: str) -> dict[str, Any]:
    """Return the call in an action's text; empty if there is none."""
    return _dict(_parse(text)) if text.startswith('{"name":') else {}


def _pairs(name: str, text: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and values in a form, an address, cookies, JSON, elements of markup or a multipart body.

    A text that holds any contains `=` or begins with `{`, `[` or `<`.
    """
    if (parsed := _parse(text)) is not None:
        yield "", parsed
    elif name.lower() in ("cookie", "set-cookie"):
        yield from _COOKIES.findall(text)
    elif "form-data; name=" in text:
        yield from _PART.findall(text)
    elif "</" in text:
        yield from _ELEMENT.findall(text)
    elif "://" in text[:16]:
        try:
            yield from parse_qsl(urlsplit(text).query)
        except ValueError:
            return
    elif _FORM.fullmatch(text):
        yield from parse_qsl(text)


def _kind_by_description(value: Mapping[str, Any]) -> Sensitivity | None:
    """Return the kind of secret that the describing members of a field announce for its value."""
    descriptions = (value[key] for key in _DESCRIBES if isinstance(value.get(key), str))
    return next((kind for kind in map(_kind_of, descriptions) if kind), None)


def _kind_of(description: str) -> Sensitivity | None:
    """Return `password` if a word of a field's description announces a password or code; otherwise None."""
    kinds = map(_sensitivity, re.findall(r"[\w-]+", description[:500]))
    return "password" if any(kind in ("password", "code") for kind in kinds) else None


def _keystrokes(action: Action, arguments: Any) -> Iterator[str]:
    """Yield the texts that an action types in a terminal."""
    stack = [_parse(action.text), arguments]
    if stack[0] is None:
        yield action.text
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(inner, dict | list):
                    stack.append(inner)
                elif isinstance(inner, str) and key in _TYPED:
                    yield inner


_TYPED: Final = frozenset(
    {"keystrokes", "keys", "text", "input", "data", "chars", "content", "command", "cmd", "value", "string"}
)
