"""Patches that were handed in, applied to the commit that they are for: what they lead to is worked out, not guessed.

A patch alone is no transition: what stood before it and what came of it stand elsewhere. With a local repository both
are known: before it stand the issue and the files that it touches, at their base commit; after it, how the resulting
files differ, or why it cannot be applied. Nothing is told from a patch's own context lines, and nothing of the
repository or the patch is run: files are read from git's objects (see `repository`), laid into an empty folder that is
no repository, and `git apply` changes them there, which refuses paths that lead out of it.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trajmill.connectors.reading.values import json_value
from trajmill.connectors.swe.actions import SUBMIT
from trajmill.connectors.swe.instance import checkout, repository
from trajmill.connectors.swe.issue import issue_in, touched
from trajmill.pipelines.render.atif_documents import OWN, UNKNOWN, VERSION
from trajmill.schemas import ConfigError
from trajmill.worlds.patches.repository import ENVIRONMENT, QUIET, Repository, is_within

_LARGEST: Final = 1 << 20
"""Bytes of a patch, and of a file that it touches."""

_SHOWN: Final = 1 << 18
"""Characters of a state or of a difference that are told."""

_FILES: Final = 200
_SECONDS: Final = 30.0
_MOVED: Final = re.compile(r"^(?:rename|copy) (?:from|to) ([^\r\n]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Handed:
    """A patch with what is said of it.

    Attributes:
        instance: the id of its task.
        repo: `owner/name`.
        commit: that it is for.
        issue: that it is to solve.
        patch: its text.
        model: who made it.
    """

    instance: str
    repo: str
    commit: str
    issue: str
    patch: str
    model: str | None


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a patch: the files before and after, by path, or why it cannot be applied."""

    before: dict[str, bytes]
    after: dict[str, bytes]
    error: str = ""


def handed_in(values: Iterable[Mapping[str, Any]], told: Mapping[str, Mapping[str, Any]]) -> Iterator[Handed | str]:
    """The patches among records as SWE-bench has them, or in one word why a record holds none that can be applied.

    Args:
        values: with `instance_id` and `model_patch` or `patch`.
        told: by instance, what else is known of it: `repo`, `base_commit`, `problem_statement`.
    """
    for value in values:
        instance = value.get("instance_id")
        known = {**told.get(str(instance), {}), **{key: one for key, one in value.items() if one is not None}}
        patch = value.get("model_patch", value.get("patch"))
        prompt = known.get("text")
        issue = known.get("problem_statement") or (issue_in(prompt) if isinstance(prompt, str) else None)
        repo, commit = known.get("repo") or repository(str(instance)), known.get("base_commit")
        if not isinstance(instance, str) or not isinstance(patch, str) or not patch.strip():
            yield "no_patch"
        elif len(patch) > _LARGEST:
            yield "too_large"
        elif not isinstance(repo, str) or not isinstance(commit, str) or checkout(instance, repo, commit) is None:
            yield "no_base_commit"
        elif not isinstance(issue, str) or not issue.strip():
            yield "no_issue"
        else:
            model = known.get("model_name_or_path")
            yield Handed(instance, repo, commit, issue, patch, model if isinstance(model, str) else None)


def records(path: str | Path) -> list[dict[str, Any]]:
    """The objects of a file: one a line, an array of them, or an object of them by instance.

    Raises:
        ConfigError: it is not there, or no JSON.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        whole = json_value(data)
    except ValueError:
        try:
            whole = [json_value(line) for line in data.splitlines() if line.strip()]
        except ValueError as error:
            raise ConfigError(f"{path} is no JSON, and none a line.") from error
    if isinstance(whole, dict) and "instance_id" not in whole:
        whole = [{"instance_id": key, **one} for key, one in whole.items() if isinstance(one, dict)]
    listed = whole if isinstance(whole, list) else [whole]
    return [one for one in listed if isinstance(one, dict)]


def applied(held: Repository, commit: str, patch: str) -> Applied:
    """What a patch makes of the files that it touches, at a commit that the repository holds."""
    paths = list(dict.fromkeys([*touched(patch), *_MOVED.findall(patch)]))
    if len(paths) > _FILES or not all(map(is_within, paths)):
        return Applied({}, {}, "error: the patch names files that no repository can have, or too many of them")
    before = {path: data for path in paths if (data := held.file(commit, path)) is not None}
    if any(len(data) > _LARGEST for data in before.values()):
        return Applied({}, {}, "error: the patch touches a file that is too large")
    with tempfile.TemporaryDirectory(prefix="patch-") as name:
        folder = Path(os.path.realpath(name)) / "files"
        for path, data in before.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        folder.mkdir(exist_ok=True)
        error = _apply(folder, patch)
        after = {} if error else {path: data for path in paths if (data := _plain_file(folder, path)) is not None}
    return Applied(before, before if error else after, error)


def _apply(folder: Path, patch: str) -> str:
    """Why a patch cannot be applied to the files of a folder; empty if it was."""
    try:
        done = subprocess.run(
            ["git", *QUIET, "apply", "--whitespace=nowarn", "-"],
            cwd=folder,
            input=patch.encode("utf-8", "surrogatepass"),
            env={**ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(folder.parent)},
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "error: the patch takes too long to apply"
    told = done.stderr.decode("utf-8", "replace").replace(f"{folder}/", "").strip()
    return "" if done.returncode == 0 else told[:4000] or "error: the patch cannot be applied"


def _plain_file(folder: Path, path: str) -> bytes | None:
    """What a file holds, if it is one and no link leads to it."""
    whole = folder / path
    plain = whole.is_file() and not whole.is_symlink() and os.path.realpath(whole) == str(whole)
    return whole.read_bytes() if plain and whole.stat().st_size <= 4 * _LARGEST else None


def difference(found: Applied) -> str:
    """How the files after a patch differ from those before, as a unified difference."""
    parts = []
    for path in dict.fromkeys([*found.before, *found.after]):
        sides = found.before.get(path), found.after.get(path)
        if sides[0] == sides[1]:
            continue
        texts = [None if side is None else _text(side) for side in sides]
        names = ["/dev/null" if side is None else f"{mark}/{path}" for mark, side in zip("ab", sides, strict=True)]
        parts.append(f"diff --git a/{path} b/{path}")
        if any(side is not None and text is None for side, text in zip(sides, texts, strict=True)):
            parts.append(f"Binary files {names[0]} and {names[1]} differ")
            continue
        old, new = ((text or "").split("\n") for text in texts)
        parts += difflib.unified_diff(old, new, names[0], names[1], lineterm="")
    return "\n".join(parts)


def _text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8") if b"\0" not in data else None
    except UnicodeDecodeError:
        return None


def state(issue: str, before: Mapping[str, bytes]) -> str:
    """What stands before a patch: the issue, and the files that it touches, as prompts of SWE-bench show them."""
    told = ((path, _text(data)) for path, data in before.items())
    files = [f"[start of {path}]\n{text}\n[end of {path}]" for path, text in told if text is not None]
    return "\n\n".join([issue.strip(), *files])


def document(one: Handed, commit: str, found: Applied) -> dict[str, Any] | None:
    """The transition of a patch as a document of ATIF; None where what is to be shown is too long."""
    shown = found.error or difference(found)
    before = state(one.issue, found.before)
    if len(shown) > _SHOWN or len(before) > _SHOWN or not shown:
        return None
    told: dict[str, Any] = {"media_type": "text/plain", "form": "response" if found.error else "state"}
    if found.error:
        told["is_error"] = True
    call = {"tool_call_id": "patch#0", "function_name": SUBMIT, "arguments": {"patch": one.patch}}
    own = {"call_id": None, "exit_code": 1 if found.error else 0}
    acted = {
        "step_id": 2,
        "source": "agent",
        "message": "",
        "tool_calls": [{**call, "extra": {OWN: own}}],
        "observation": {"results": [{"source_call_id": "patch#0", "content": shown, "extra": {OWN: told}}]},
        "extra": {OWN: {"observation": {"content": before, "media_type": "text/plain", "form": "state"}}},
    }
    agent = {"name": one.model or UNKNOWN, "version": UNKNOWN}
    environment = {"id": one.repo, "instance_id": f"{one.repo}@{commit}", "kind": "code"}
    return {
        "schema_version": VERSION,
        "session_id": f"{one.instance}/{one.model or 'patch'}/applied",
        "agent": {**agent, **({"model_name": one.model} if one.model else {})},
        "steps": [{"step_id": 1, "source": "user", "message": one.issue}, acted],
        "final_metrics": {"total_steps": 2},
        "extra": {OWN: {"domain": "swe", "environment": environment, "task": {"id": one.instance}}},
    }


def apply_all(
    found: Iterable[Handed | str], bases: Mapping[str, str], write: Callable[[str, bytes], None]
) -> Counter[str]:
    """Writes the document of each patch whose repository is given, and counts what became of all.

    Args:
        found: the patches.
        bases: paths of local repositories by `owner/name`.
        write: takes a name and the bytes of a document.
    """
    held = {name: Repository.at(path) for name, path in bases.items()}
    counts: Counter[str] = Counter()
    for number, one in enumerate(found):
        if isinstance(one, str):
            counts[one] += 1
            continue
        if one.repo not in held:
            counts["no_base"] += 1
            continue
        commit = held[one.repo].commit(one.commit)
        if commit is None:
            counts["commit_missing"] += 1
            continue
        outcome = applied(held[one.repo], commit, one.patch)
        made = document(one, commit, outcome)
        if made is None:
            counts["too_large"] += 1
            continue
        counts["refused" if outcome.error else "applied"] += 1
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", one.instance)[:100]
        write(f"{name}-{number:05d}.json", json.dumps(made, ensure_ascii=False, indent=1).encode("utf-8", "replace"))
    return counts


def known(files: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What files of instances say of each, by its id."""
    return {str(one["instance_id"]): one for path in files for one in records(path) if "instance_id" in one}
