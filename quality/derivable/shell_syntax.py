"""Command lines of a POSIX shell as pipelines of simple commands, as far as they can be read without running anything.

What is beyond that (substitutions of commands, loops, functions, subshells, jobs in the background) is not read: then
the whole text has no reading, since it could do anything. A word with a variable or a pattern in it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from trajmill.quality.derivable.arithmetic import integer

LONGEST: Final = 1 << 18
"""Characters of a command line beyond which it is not read."""

_RESERVED: Final = frozenset(
    """
    if then elif else fi for while until do done case esac function select time coproc { } [[ ! eval source . exec trap
    alias unalias
    """.split()  # noqa: SIM905 - read as words
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_REDIRECT: Final = re.compile(r"(\d*)(<<<|<<-|<<|>>|>\||&>>|&>|<|>)(&[\d-]+)?")
_NAME: Final = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-]|\{[^`$(){}]*\})")
_PLAIN: Final = re.compile(r"[\w./:=,+@%^-]+")
_ARITHMETIC: Final = re.compile(r"\$\(\(([-+*/% 0-9()]*)\)\)")


class UnreadError(ValueError):
    """The text cannot be read."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where output goes or input comes from.

    Attributes:
        operator: `>`, `>>`, `<`, or `<<` for input that stands in the command line.
        stream: 0, 1 or 2; 3 is output and errors together.
        target: the path, or for `<<` the text; None: unknown.
    """

    operator: str
    stream: int
    target: str | None


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: its words, None where one is not known, and its redirections."""

    words: tuple[str | None, ...]
    redirects: tuple[Redirect, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands joined by pipes, and what stands before them: `;` (or nothing, or a line feed), `&&` or `||`."""

    joint: str
    commands: tuple[Command, ...]


@dataclass(slots=True)
class _Open:
    """A command that is being read; documents that are still to come are (its redirect's place, end, kind)."""

    words: list[str | None] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


def pipelines(text: str) -> tuple[Pipeline, ...] | None:
    """The pipelines of a command line, in order; None if it cannot be read."""
    if len(text) > LONGEST:
        return None
    try:
        return tuple(_Reader(text).pipelines())
    except UnreadError:
        return None


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._documents: list[tuple[_Open, int, str, str]] = []

    def pipelines(self) -> Iterator[Pipeline]:
        joint, done, now = ";", list[_Open](), _Open()
        found: list[tuple[str, list[_Open]]] = []
        while True:
            operator = self._operator()
            if operator is None:
                self._piece(now)
                continue
            if operator == "|":
                if not now.words:
                    raise UnreadError
                done, now = [*done, now], _Open()
                continue
            if now.words or now.redirects or done:
                found.append((joint, [*done, now]))
            elif operator in ("&&", "||") or joint != ";":
                if operator != "\n":
                    raise UnreadError
                continue
            joint, done, now = ("&&" if operator == "&&" else "||" if operator == "||" else ";"), [], _Open()
            if operator == "":
                break
        if self._documents:
            raise UnreadError
        for joint, commands in found:
            yield Pipeline(joint, tuple(_closed(one) for one in commands))

    def _operator(self) -> str | None:
        """The operator that stands next, "" at the end, None if a word or redirection does; blanks are passed."""
        text = self._text
        while self._at < len(text) and (text[self._at] in " \t\r" or text.startswith("\\\n", self._at)):
            self._at += 2 if text[self._at] == "\\" else 1
        if text.startswith("#", self._at):
            end = text.find("\n", self._at)
            self._at = len(text) if end < 0 else end
        if self._at >= len(text):
            return ""
        for operator in ("&&", "||", ";;", "|&", "&>", "\n", ";", "|", "&", "(", ")"):
            if text.startswith(operator, self._at):
                if operator == "&>":
                    return None
                if operator in (";;", "|&", "&", "(", ")"):
                    raise UnreadError
                self._at += len(operator)
                if operator == "\n":
                    self._read_documents()
                return operator
        return None

    def _piece(self, command: _Open) -> None:
        match = _REDIRECT.match(self._text, self._at)
        if match is None:
            quoted = self._text[self._at] in "'\"\\"
            word = self._word()
            if not quoted and not any(command.words) and word in _RESERVED:
                raise UnreadError
            command.words.append(word)
            return
        self._at = match.end()
        stream, operator, joined = match.groups()
        if joined:
            return
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        begin = self._at
        word = self._word()
        if operator.startswith("&"):
            command.redirects.append(Redirect(operator[1:], 3, word))
        elif operator in ("<<", "<<-"):
            raw = self._text[begin : self._at]
            kind = ("q" if re.search(r"['\"\\]", raw) else "") + ("-" if operator == "<<-" else "")
            if word is None:
                raise UnreadError
            self._documents.append((command, len(command.redirects), word, kind))
            command.redirects.append(Redirect("<<", 0, None))
        elif operator == "<<<":
            command.redirects.append(Redirect("<<", 0, None if word is None else word + "\n"))
        else:
            number = int(stream) if stream else 0 if operator == "<" else 1
            command.redirects.append(Redirect(operator.rstrip("|"), min(number, 2), word))

    def _read_documents(self) -> None:
        for command, place, end, kind in self._documents:
            lines = []
            while True:
                if self._at >= len(self._text):
                    raise UnreadError
                stop = self._text.find("\n", self._at)
                stop = len(self._text) if stop < 0 else stop
                line = self._text[self._at : stop]
                self._at = min(stop + 1, len(self._text))
                line = line.lstrip("\t") if "-" in kind else line
                if line == end:
                    break
                lines.append(line)
            body = "".join(f"{line}\n" for line in lines)
            told = body if "q" in kind or not re.search(r"[$`\\]", body) else None
            if told is None and re.search(r"`|\$\(", body):
                raise UnreadError
            command.redirects[place] = Redirect("<<", 0, told)
        self._documents.clear()

    def _word(self) -> str | None:
        """The word that stands next, without its quotes; None if a shell would put something else in its place."""
        text, begin, parts, known = self._text, self._at, list[str](), True
        while self._at < len(text) and text[self._at] not in " \t\r\n;|&<>()":
            plain = _PLAIN.match(text, self._at)
            char = text[self._at]
            if plain:
                parts.append(plain.group())
                self._at = plain.end()
            elif char == "'":
                end = text.find("'", self._at + 1)
                if end < 0:
                    raise UnreadError
                parts.append(text[self._at + 1 : end])
                self._at = end + 1
            elif char == '"':
                known &= self._quoted(parts)
            elif char == "\\":
                parts.append(text[self._at + 1 : self._at + 2].replace("\n", ""))
                self._at += 2
            elif char == "$":
                known &= self._dollar(parts)
            elif char == "`":
                raise UnreadError
            else:
                known &= not (char in "*?[" or (char == "~" and self._at == begin) or char == "{")
                parts.append(char)
                self._at += 1
        if self._at == begin:
            raise UnreadError
        word = "".join(parts)
        if word in ("{", "}") and self._at - begin == 1:
            return word
        return word if known else None

    def _quoted(self, parts: list[str]) -> bool:
        text, known = self._text, True
        self._at += 1
        while text[self._at : self._at + 1] != '"':
            if self._at >= len(text) or text[self._at] == "`":
                raise UnreadError
            if text[self._at] == "\\":
                following = text[self._at + 1 : self._at + 2]
                parts.append("" if following == "\n" else following if following in '"\\$`' else "\\" + following)
                self._at += 2
            elif text[self._at] == "$":
                known &= self._dollar(parts)
            else:
                parts.append(text[self._at])
                self._at += 1
        self._at += 1
        return known

    def _dollar(self, parts: list[str]) -> bool:
        sum_ = _ARITHMETIC.match(self._text, self._at)
        if sum_:
            value = integer(sum_.group(1))
            parts.append("" if value is None else str(value))
            self._at = sum_.end()
            return value is not None
        name = _NAME.match(self._text, self._at)
        if name:
            self._at = name.end()
            return False
        if self._text[self._at + 1 : self._at + 2] in ("(", "{", "'", '"', "["):
            raise UnreadError
        parts.append("$")
        self._at += 1
        return True


def _closed(command: _Open) -> Command:
    words = list(command.words)
    while words and (words[0] is None or _ASSIGNMENT.match(words[0])):
        if words[0] is None:
            # A variable in the place of the command: it could be any.
            raise UnreadError
        words.pop(0)
    return Command(tuple(words), tuple(command.redirects))
