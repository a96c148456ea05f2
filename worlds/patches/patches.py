"""Patches applied with git to their base commits, and the transitions made from them.

The observation before a patch is its issue and the files that it touches, at their base commit; after it, the output of
`git diff`, or the reason why `git apply` refuses it. A patch's own context lines are not used, and nothing of the
repository or the patch is executed: git works on an index of a scratch repository without files, settings, hooks or
filters.
"""

from __future__ import annotations

import json
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
from trajmill.connectors.swe.issue import issue_in
from trajmill.pipelines.render.atif_documents import OWN, UNKNOWN, VERSION
from trajmill.schemas import ConfigError
from trajmill.worlds.patches.repository import ENVIRONMENT, QUIET, Repository

_LARGEST: Final = 1 << 20
"""Largest size of a patch and of a file that it touches, in bytes."""

_SHOWN: Final = 1 << 18
"""Most characters of an observation; a longer one is not written."""

_DIFF: Final = ("diff", "--cached", "--no-ext-diff", "--no-textconv", "--no-color")
_FILES: Final = 200
_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Handed:
    """Patch with its metadata.

    Attributes:
        repo: Repository, as `owner/name`.
        commit: Base commit.
        issue: Issue that it should solve.
        model: Model that made it; None if unknown.
    """

    instance: str
    repo: str
    commit: str
    issue: str
    patch: str
    model: str | None


@dataclass(frozen=True, slots=True)
class Applied:
    """Files that a patch touches, at its base commit, and git's answer to it.

    Attributes:
        before: Contents by path.
        answer: Output of `git diff` after the patch, or the reason why `git apply` refuses it.
        is_refused: True if `git apply` refuses the patch.
    """

    before: dict[str, bytes]
    answer: str
    is_refused: bool


def parse_patches(
    values: Iterable[Mapping[str, Any]], by_instance: Mapping[str, Mapping[str, Any]]
) -> Iterator[Handed | str]:
    """Yield the patches in records of SWE-bench's form, or one word with the reason why a record has no usable patch.

    Args:
        values: Records with `instance_id` and `model_patch` or `patch`.
        by_instance: Further fields by instance: `repo`, `base_commit`, `problem_statement`.
    """
    for value in values:
        instance = value.get("instance_id")
        known = {
            **by_instance.get(str(instance), {}),
            **{key: field for key, field in value.items() if field is not None},
        }
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
    """Read the objects of a file: one per line, an array of them, or an object of them by instance.

    Raises:
        ConfigError: The file cannot be read, or is not JSON.
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
        whole = [{"instance_id": key, **entry} for key, entry in whole.items() if isinstance(entry, dict)]
    listed = whole if isinstance(whole, list) else [whole]
    return [entry for entry in listed if isinstance(entry, dict)]


def apply(repository: Repository, commit: str, patch: str) -> Applied | str:
    """Apply a patch to a commit of the repository, or return one word with the reason why it cannot be applied.

    Raises:
        ConfigError: The repository lacks some of the commit's files.
    """
    with tempfile.TemporaryDirectory(prefix="patch-") as folder:
        try:
            scratch = _Scratch(folder, repository, commit, patch)
            paths = scratch.paths()
            before = {path: data for path in paths[:_FILES] if (data := repository.file(commit, path)) is not None}
            if len(paths) > _FILES or any(len(data) > _LARGEST for data in before.values()):
                return "too_large"
            applied = scratch.git("apply", "--cached", "--whitespace=nowarn", "-")
            shown = applied.stderr if applied.returncode else scratch.done(*_DIFF, commit)
            answer = shown.decode("utf-8").rstrip("\n")
        except subprocess.TimeoutExpired:
            return "too_slow"
        except UnicodeDecodeError:
            return "no_text"
    return Applied(before, answer, applied.returncode != 0) if answer else "no_change"


class _Scratch:
    """Bare repository for one patch, with an index of the commit's files and the objects of another repository.

    Args:
        folder: Empty folder.
        repository: Repository with the objects.
        commit: Base commit of the patch.
    """

    def __init__(self, folder: str, repository: Repository, commit: str, patch: str) -> None:
        self._folder, self._patch = folder, patch.encode("utf-8", "surrogatepass")
        self.done("init", "-q", "--bare", "--template=", f"--object-format={'sha256' if len(commit) == 64 else 'sha1'}")
        Path(folder, "objects", "info", "alternates").write_bytes(bytes(repository.git / "objects") + b"\n")
        self.done("read-tree", commit)

    def done(self, *words: str) -> bytes:
        """Run git and return its output.

        Raises:
            ConfigError: git fails.
        """
        finished = self.git(*words)
        if finished.returncode:
            message = finished.stderr.decode("utf-8", "replace").strip()
            raise ConfigError(f"`git {words[0]}` fails ({message}); nothing is fetched.")
        return finished.stdout

    def git(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Run git on the index, with the patch as its input."""
        return subprocess.run(
            ["git", *QUIET, *words],
            cwd=self._folder,
            input=self._patch,
            env={**ENVIRONMENT, "GIT_DIR": self._folder},
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )

    def paths(self) -> list[str]:
        """Return the paths that the patch names, as git parses it: the new ones, then those that it removes."""
        paths = dict[str, None]()
        for way in ((), ("--reverse",)):
            listed = self.git("apply", *way, "--numstat", "-z", "-").stdout
            names = (line.split(b"\t", 2)[2] for line in listed.split(b"\0") if line)
            paths.update(dict.fromkeys(name.decode("utf-8", "surrogateescape") for name in names))
        return list(paths)


def _text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8") if b"\0" not in data else None
    except UnicodeDecodeError:
        return None


def state(issue: str, before: Mapping[str, bytes]) -> str:
    """Build the observation before a patch: the issue and the files that it touches, in SWE-bench's form."""
    texts = ((path, _text(data)) for path, data in before.items())
    files = [f"[start of {path}]\n{text}\n[end of {path}]" for path, text in texts if text is not None]
    return "\n\n".join([issue.strip(), *files])


def document(handed: Handed, commit: str, applied: Applied) -> dict[str, Any] | None:
    """Build the transition of a patch as an ATIF document; None if a text is too long."""
    before = state(handed.issue, applied.before)
    if len(applied.answer) > _SHOWN or len(before) > _SHOWN:
        return None
    observation: dict[str, Any] = {"media_type": "text/plain", "form": "response" if applied.is_refused else "state"}
    if applied.is_refused:
        observation["is_error"] = True
    call = {"tool_call_id": "patch#0", "function_name": SUBMIT, "arguments": {"patch": handed.patch}}
    own = {"call_id": None, "exit_code": int(applied.is_refused)}
    acted = {
        "step_id": 2,
        "source": "agent",
        "message": "",
        "tool_calls": [{**call, "extra": {OWN: own}}],
        "observation": {
            "results": [{"source_call_id": "patch#0", "content": applied.answer, "extra": {OWN: observation}}]
        },
        "extra": {OWN: {"observation": {"content": before, "media_type": "text/plain", "form": "state"}}},
    }
    agent = {"name": handed.model or UNKNOWN, "version": UNKNOWN}
    environment = {"id": handed.repo, "instance_id": f"{handed.repo}@{commit}", "kind": "code"}
    return {
        "schema_version": VERSION,
        "session_id": f"{handed.instance}/{handed.model or 'patch'}/applied",
        "agent": {**agent, **({"model_name": handed.model} if handed.model else {})},
        "steps": [{"step_id": 1, "source": "user", "message": handed.issue}, acted],
        "final_metrics": {"total_steps": 2},
        "extra": {OWN: {"domain": "swe", "environment": environment, "task": {"id": handed.instance}}},
    }


def apply_all(
    patches: Iterable[Handed | str], bases: Mapping[str, str], write: Callable[[str, bytes], None]
) -> Counter[str]:
    """Write the document of each patch whose repository is given, and count the outcomes.

    Args:
        patches: Patches, or reasons without one.
        bases: Paths of local repositories by `owner/name`.
        write: Function that takes a name and the bytes of a document.
    """
    repositories = {name: Repository.at(path) for name, path in bases.items()}
    counts: Counter[str] = Counter()
    for number, handed in enumerate(patches):
        if isinstance(handed, str):
            counts[handed] += 1
            continue
        if handed.repo not in repositories:
            counts["no_base"] += 1
            continue
        commit = repositories[handed.repo].commit(handed.commit)
        if commit is None:
            counts["commit_missing"] += 1
            continue
        outcome = apply(repositories[handed.repo], commit, handed.patch)
        if isinstance(outcome, str):
            counts[outcome] += 1
            continue
        applied_document = document(handed, commit, outcome)
        if applied_document is None:
            counts["too_large"] += 1
            continue
        counts["refused" if outcome.is_refused else "applied"] += 1
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", handed.instance)[:100]
        write(
            f"{name}-{number:05d}.json",
            json.dumps(applied_document, ensure_ascii=False, indent=1).encode("utf-8", "replace"),
        )
    return counts


def known(files: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read the records of instances in files, by id."""
    return {str(record["instance_id"]): record for path in files for record in records(path) if "instance_id" in record}
