"""What single shell commands put out, worked out from their words, their input and the files that are known.

A closed list, each a small function that gives the text or None where it is not certain. `READING` are commands that
change no file whatever they put out. Everything else may have changed any file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from trajmill.quality.derivable.arithmetic import decimals, integer
from trajmill.quality.derivable.known_files import KnownFile, KnownFiles, joined_path

READING: Final = frozenset(
    """
    : [ ag arch basename bc cat cd chmod cmp column comm cut date df diff dirname du echo egrep env exit export expr
    false fgrep file find fold free git grep groups head history hexdump hostname id jq ldd less locale ls lsblk lscpu
    man md5sum more nl nm nproc objdump od paste printf ps pwd read readlink realpath return rev rg sed seq set
    sha1sum sha256sum sleep sort stat strings tac tail test tr tree true tty type uname uniq uptime wc which whoami xxd
    """.split()  # noqa: SIM905 - read as words
)
_GIT_READING: Final = frozenset(
    ("status", "log", "diff", "show", "blame", "rev-parse", "ls-files", "grep", "describe", "shortlog", "cat-file")
)
_WRITING: Final[Mapping[str, re.Pattern[str]]] = {
    "sed": re.compile(r"^(?:-[a-zA-Z]*i|--in-place)|(?:^|[;/0-9}$ ])w +\S"),
    "find": re.compile(r"^-(?:delete|exec|execdir|ok|okdir|fprint|fprintf|fls)$"),
    "sort": re.compile(r"^(?:-[a-zA-Z]*o|--output)"),
    "git": re.compile(r"^(?:--output|--ext-diff)"),
    "tree": re.compile(r"^-o"),
    "rg": re.compile(r"^--pre"),
    "xxd": re.compile(r"^-[a-z]*r"),
    "date": re.compile(r"^(?:-s|--set)"),
}
_LONGEST: Final = 1 << 20

ALLOWANCE: Final = 1 << 24
"""Characters that commands of a trajectory may read and put out before they have paid for it."""

PAID: Final = 64
"""Characters more for each one that a command line or an answer holds, so that time is linear in what is read."""

_COUNT: Final = re.compile(r"-n?([0-9]{1,9})|--lines=([0-9]{1,9})")
_ADDRESS: Final = re.compile(r"([0-9]{1,9})(?:,([0-9]{1,9}|\$))?p")
_ESCAPE: Final = re.compile(r"\\([\\nt])")
_LETTERS: Final = re.compile(r"[\w \-/=\"'@%&,;:!<>#]*")
"""A pattern that stands for itself in every dialect of grep."""


class Place:
    """Where commands run.

    Attributes:
        files: those that are known.
        folder: None if it is not known.
        allowance: characters that commands may still read and put out.
    """

    def __init__(self) -> None:
        self.files = KnownFiles()
        self.folder: str | None = ""
        self.allowance = ALLOWANCE

    def path(self, name: str) -> str | None:
        """The path of a file as the shell would find it."""
        return joined_path(self.folder, name)

    def file(self, name: str) -> KnownFile | None:
        """The file, if its text is known."""
        path = self.path(name)
        found = None if path is None else self.files.get(path)
        self.allowance -= len(found.text) if found is not None else 0
        return found


class Asked(NamedTuple):
    """What a command is given: its words, its input (None: not known) and where it runs."""

    words: Sequence[str]
    fed: str | None
    place: Place


def only_reads(words: Sequence[str | None]) -> bool:
    """Whether a command changes no file, whatever it puts out."""
    name = words[0] or ""
    if name not in READING:
        return False
    if name == "git":
        return len(words) > 1 and words[1] in _GIT_READING and not _writes(name, words)
    return not _writes(name, words)


def _writes(name: str, words: Sequence[str | None]) -> bool:
    pattern = _WRITING.get(name)
    return pattern is not None and any(word is None or pattern.search(word) for word in words[1:])


def _echo(asked: Asked) -> str | None:
    words, end, escaped = list(asked.words), "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flags = words.pop(0)
        end = "" if "n" in flags else end
        escaped = "e" in flags
    text = " ".join(words)
    if escaped:
        if re.search(r"\\[^\\nt]", text):
            return None
        text = _unescaped(text)
    return text + end


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: {"n": "\n", "t": "\t"}.get(match.group(1), "\\"), text)


def _printf(asked: Asked) -> str | None:
    if not asked.words or asked.words[0].startswith("-"):
        return None
    text, rest = asked.words[0], list(asked.words[1:])
    holes = re.findall(r"%(.)", text)
    if any(hole not in "sd%" for hole in holes) or text.endswith("%") or re.search(r"\\[^\\nt]", text):
        return None
    taken = sum(hole != "%" for hole in holes)
    if rest and (not taken or len(rest) % taken):
        return None
    if "d" in holes and (not rest or any(not re.fullmatch(r"-?[1-9][0-9]*|0", one) for one in rest)):
        return None
    rounds = len(rest) // taken if taken and rest else 1

    def put(match: re.Match[str]) -> str:
        return "%" if match.group(1) == "%" else rest.pop(0) if rest else ""

    return "".join(re.sub(r"%(.)", put, _unescaped(text)) for _ in range(rounds))


def _texts(names: Sequence[str], asked: Asked) -> list[KnownFile] | None:
    """The files, or what is fed where none is named."""
    if not names or list(names) == ["-"]:
        return None if asked.fed is None else [KnownFile(asked.fed, exact=True)]
    found = [asked.place.file(name) for name in names if not name.startswith("-")]
    if len(found) < len(names):
        return None
    told = [one for one in found if one is not None]
    return told if len(told) == len(found) else None


def _cat(asked: Asked) -> str | None:
    numbered = bool(asked.words) and asked.words[0] in ("-n", "--number")
    files = _texts(asked.words[1:] if numbered else asked.words, asked)
    if files is None or not all(one.exact for one in files[:-1]):
        return None
    if sum(len(one.text) for one in files) > _LONGEST:
        return None
    text = "".join(one.text for one in files)
    return _numbered(text) if numbered else text


def _numbered(text: str) -> str:
    return "".join(f"{number:6}\t{line}" for number, line in enumerate(_lines(text), 1))


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _nl(asked: Asked) -> str | None:
    if not asked.words or asked.words[0] not in ("-ba", "-b"):
        return None
    if asked.words[0] == "-b" and asked.words[1:2] != ["a"]:
        return None
    files = _texts(asked.words[1 if asked.words[0] == "-ba" else 2 :], asked)
    return _numbered(files[0].text) if files and len(files) == 1 else None


def _ends(asked: Asked) -> tuple[int, KnownFile] | None:
    """How many lines `head` or `tail` shows, and of what."""
    words, number = list(asked.words), 10
    if words and words[0] == "-n" and len(words) > 1 and re.fullmatch("[0-9]{1,9}", words[1]):
        number, words = int(words[1]), words[2:]
    elif words and (match := _COUNT.fullmatch(words[0])):
        number, words = int(match.group(1) or match.group(2)), words[1:]
    files = _texts(words, asked)
    return (number, files[0]) if files and len(files) == 1 else None


def _head(asked: Asked) -> str | None:
    found = _ends(asked)
    return None if found is None else "".join(_lines(found[1].text)[: found[0]])


def _tail(asked: Asked) -> str | None:
    found = _ends(asked)
    if found is None or not found[1].exact:
        return None
    lines = _lines(found[1].text)
    return "".join(lines[len(lines) - min(found[0], len(lines)) :])


def _sed(asked: Asked) -> str | None:
    if len(asked.words) < 2 or asked.words[0] != "-n" or not (match := _ADDRESS.fullmatch(asked.words[1])):
        return None
    files = _texts(asked.words[2:], asked)
    if not files or len(files) > 1:
        return None
    first, last = int(match.group(1)), match.group(2) or match.group(1)
    lines = _lines(files[0].text)
    if first < 1 or (last != "$" and int(last) < first):
        return None
    return "".join(lines[first - 1 : None if last == "$" else int(last)])


def _wc(asked: Asked) -> str | None:
    if not asked.words or asked.words[0] not in ("-l", "-c", "-w") or len(asked.words) > 2:
        return None
    files = _texts(asked.words[1:], asked)
    if not files or not files[0].exact:
        return None
    text = files[0].text
    number = {"-l": text.count("\n"), "-c": len(text.encode("utf-8", "replace"))}.get(asked.words[0], len(text.split()))
    return f"{number} {asked.words[1]}\n" if len(asked.words) > 1 else f"{number}\n"


def _grep(asked: Asked) -> str | None:
    words, flags = list(asked.words), ""
    while words and re.fullmatch(r"-[cnFEi]+", words[0]):
        flags += words.pop(0)[1:]
    if not words or words[0].startswith("-") or not words[0] or not _LETTERS.fullmatch(words[0]):
        return None
    files = _texts(words[1:], asked)
    if not files or len(files) > 1 or ("i" in flags and not files[0].text.isascii()):
        return None
    sought = words[0].lower() if "i" in flags else words[0]
    found = [
        (number, line if line.endswith("\n") else line + "\n")
        for number, line in enumerate(_lines(files[0].text), 1)
        if sought in (line.lower() if "i" in flags else line)
    ]
    if "c" in flags:
        return f"{len(found)}\n"
    return "".join(f"{number}:{line}" if "n" in flags else line for number, line in found)


def _seq(asked: Asked) -> str | None:
    if not 1 <= len(asked.words) <= 3 or any(not re.fullmatch(r"-?(?:0|[1-9][0-9]{0,8})", one) for one in asked.words):
        return None
    numbers = [int(one) for one in asked.words]
    first, step, last = {1: (1, 1, numbers[-1]), 2: (numbers[0], 1, numbers[-1])}.get(
        len(numbers), (numbers[0], numbers[len(numbers) // 2], numbers[-1])
    )
    if not step or abs(last - first) // abs(step) > _LONGEST // 8:
        return None
    return "".join(f"{one}\n" for one in range(first, last + (1 if step > 0 else -1), step))


def _expr(asked: Asked) -> str | None:
    value = integer(" ".join(asked.words)) if len(asked.words) == 3 else None
    return None if value is None else f"{value}\n"


def _bc(asked: Asked) -> str | None:
    if asked.words or asked.fed is None or not (lines := asked.fed.splitlines()):
        return None
    values = [integer(line) for line in lines]
    return None if None in values else "".join(f"{value}\n" for value in values)


def _pwd(asked: Asked) -> str | None:
    return (
        f"{asked.place.folder}\n"
        if not asked.words and asked.place.folder and asked.place.folder.startswith("/")
        else None
    )


def _ls(asked: Asked) -> str | None:
    words = [one for one in asked.words if one != "-1"]
    if len(words) > 1 or any(one.startswith("-") for one in words):
        return None
    path = asked.place.path(words[0] if words else ".")
    names = None if path is None else asked.place.files.names(path)
    return None if names is None else "".join(f"{one}\n" for one in sorted(names) if not one.startswith("."))


def _basename(asked: Asked) -> str | None:
    return (
        f"{posixpath.basename(asked.words[0])}\n"
        if len(asked.words) == 1 and re.fullmatch(r"\.?/?\w.*\w", asked.words[0])
        else None
    )


def _dirname(asked: Asked) -> str | None:
    found = (
        posixpath.dirname(asked.words[0])
        if len(asked.words) == 1 and re.fullmatch(r"/?\w[^/]*(/\w[^/]*)+", asked.words[0])
        else ""
    )
    return f"{found}\n" if found else None


def _python(asked: Asked) -> str | None:
    match = (
        re.fullmatch(r"print\(([-+*() 0-9]+)\)", asked.words[1].strip())
        if len(asked.words) == 2 and asked.words[0] == "-c"
        else None
    )
    value = decimals(match.group(1)) if match else ()
    return f"{value[0]}\n" if value else None


OUTPUTS: Final[Mapping[str, Callable[[Asked], str | None]]] = {
    "echo": _echo,
    "printf": _printf,
    "cat": _cat,
    "nl": _nl,
    "head": _head,
    "tail": _tail,
    "sed": _sed,
    "wc": _wc,
    "grep": _grep,
    "seq": _seq,
    "expr": _expr,
    "bc": _bc,
    "pwd": _pwd,
    "ls": _ls,
    "basename": _basename,
    "dirname": _dirname,
    "python": _python,
    "python3": _python,
    "true": lambda _: "",
    ":": lambda _: "",
    "sleep": lambda _: "",
    "export": lambda _: "",
}
