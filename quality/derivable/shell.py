"""A shell as far as it can be followed without running anything: what it puts out, and which files it leaves."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from trajmill.quality.derivable.shell_commands import OUTPUTS, PAID, Asked, Place, only_reads
from trajmill.quality.derivable.shell_syntax import Command, Pipeline, pipelines

_NOWHERE: Final = ("/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty")


def outputs(place: Place, line: str) -> list[str | None]:
    """What each pipeline of a command line puts out, in order; None where it is not known.

    That all of them run and succeed is taken for granted: what they put out is held against what was shown, and
    `Place.files` is to be forgotten where it was not so.

    Args:
        place: where they run; it is changed as they change it.
        line: the command line.
    """
    place.allowance += PAID * len(line)
    found = pipelines(line)
    if found is None:
        place.files.forget()
        place.folder = None if place.folder is not None and "cd " in line else place.folder
        return [None]
    return [_ran(place, one) for one in found]


def _ran(place: Place, pipeline: Pipeline) -> str | None:
    if place.allowance < 0:
        place.files.forget()
        return None
    if pipeline.joint == "||":
        # It runs only if what stands before failed.
        if not all(only_reads(command.words) and not command.redirects for command in pipeline.commands):
            place.files.forget()
        return None
    fed: str | None = None
    for command in pipeline.commands:
        place.allowance -= len(fed or "")
        fed = _put_out(place, command, fed)
        if len(pipeline.commands) > 1 and command.words[:1] == ("cd",):
            place.folder = None
    place.allowance -= len(fed or "")
    return fed


def _put_out(place: Place, command: Command, fed: str | None) -> str | None:
    for redirect in command.redirects:
        if redirect.operator == "<<":
            fed = redirect.target
        elif redirect.operator == "<":
            file = place.file(redirect.target) if redirect.target else None
            fed = file.text if file is not None and file.exact else None
        elif redirect.target is None:
            place.files.forget()
    told = _told(place, command, fed)
    for redirect in command.redirects:
        target = redirect.target
        if not redirect.operator.startswith(">") or target in _NOWHERE or not target:
            continue
        path = place.path(target)
        if path is None:
            place.files.forget()
            continue
        if redirect.stream == 1:
            _write(place, path, told, more=redirect.operator == ">>")
            told = ""
        else:
            place.files.change(path)
            told = "" if redirect.stream == 3 else told
    return told


def _write(place: Place, path: str, text: str | None, *, more: bool) -> None:
    before = place.files.get(path) if more else None
    if text is None or (more and (before is None or not before.exact)):
        place.files.change(path)
    else:
        place.files.put(path, (before.text if before else "") + text)


def _told(place: Place, command: Command, fed: str | None) -> str | None:
    words = command.words
    if not words:
        return ""
    given = [word for word in words[1:] if word is not None]
    name = posixpath.basename(words[0] or "")
    is_known = len(given) == len(words) - 1
    if name == "cd":
        place.folder = place.path(given[0]) if is_known and len(given) == 1 and given[0] != "-" else None
        return ""
    if name in _CHANGES:
        if not is_known or not _CHANGES[name](place, given):
            place.files.forget()
        return "" if is_known and not any(one.startswith("-v") for one in given) else None
    if name == "tee":
        return _tee(place, given if is_known else ["-"], fed)
    told = OUTPUTS[name](Asked(given, fed, place)) if name in OUTPUTS and is_known else None
    if told is None and not only_reads(words):
        place.files.forget()
    return told


def _tee(place: Place, given: Sequence[str], fed: str | None) -> str | None:
    more = list(given[:1]) == ["-a"]
    for name in given[1:] if more else given:
        path = place.path(name)
        if path is None or name.startswith("-"):
            place.files.forget()
        else:
            _write(place, path, fed, more=more)
    return fed


def _mkdir(place: Place, given: Sequence[str]) -> bool:
    for name in given:
        path = place.path(name)
        if path is None:
            return False
        if given[0] != "-p" and not name.startswith("-"):
            place.files.make_folder(path)
        elif name != "-p":
            place.files.change(path)
    return True


def _touch(place: Place, given: Sequence[str]) -> bool:
    for name in given:
        path = place.path(name)
        if path is None or name.startswith("-"):
            return False
        folder = place.files.names(posixpath.dirname(path))
        if folder is not None and posixpath.basename(path) not in folder:
            place.files.put(path, "")
        elif place.files.get(path) is None:
            place.files.change(path)
    return True


def _rm(place: Place, given: Sequence[str]) -> bool:
    for name in given:
        path = place.path(name)
        if name == "-f":
            continue
        if path is None or name.startswith("-"):
            return False
        place.files.remove(path)
    return True


def _copied(place: Place, given: Sequence[str], *, moved: bool) -> bool:
    if len(given) != 2 or given[0].startswith("-") or given[1].startswith("-"):
        return False
    source, target = place.path(given[0]), place.path(given[1])
    if source is None or target is None:
        return False
    file = place.files.get(source)
    parent = place.files.names(posixpath.dirname(target))
    is_file = place.files.get(target) is not None or (parent is not None and posixpath.basename(target) not in parent)
    if moved:
        place.files.remove(source)
    place.files.change(target)
    # Where the target may be a folder, it stands in there.
    if place.files.names(target) is not None or not is_file:
        place.files.change(posixpath.join(target, posixpath.basename(source)))
    elif file is not None:
        place.files.put(target, file.text, exact=file.exact)
    if file is not None and not moved:
        place.files.put(source, file.text, exact=file.exact)
    return True


_CHANGES: Final[Mapping[str, Callable[[Place, Sequence[str]], bool]]] = {
    "mkdir": _mkdir,
    "touch": _touch,
    "rm": _rm,
    "cp": partial(_copied, moved=False),
    "mv": partial(_copied, moved=True),
}
"""Commands that change files and put out nothing: each follows it, or says that it could not."""
