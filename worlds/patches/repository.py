"""A local git repository, read as untrusted input: its files at a commit. Nothing of it is executed, and nothing is
fetched.

Only plumbing commands are used (`rev-parse`, `ls-tree`, `cat-file`), which have no filters, hooks or submodules. System
and user configuration is off, and no protocol is allowed, so that a partial clone fetches nothing.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from trajmill.schemas import ConfigError

ENVIRONMENT: Final = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
"""Complete environment of git. An inherited variable such as GIT_DIR could point to another repository."""

_SETTINGS: Final = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat", "core.symlinks=false")
QUIET: Final = tuple(word for setting in _SETTINGS for word in ("-c", setting))
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")
_FILE, _EXECUTABLE, _LINK = "100644", "100755", "120000"


@dataclass(frozen=True, slots=True)
class Repository:
    """Repository on this machine.

    Attributes:
        git: Its git directory.
    """

    git: Path

    @classmethod
    def at(cls, path: str | Path) -> Repository:
        """Open the repository whose working folder or git directory is at a path.

        Raises:
            ConfigError: There is none.
        """
        for folder in (Path(path) / ".git", Path(path)):
            if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
                return cls(folder.resolve())
        raise ConfigError(f"{path} is no git repository: wanted a local folder with one, since nothing is fetched.")

    def commit(self, name: str | None) -> str | None:
        """Return the full id of a commit, or of HEAD without a name; None if the repository lacks it."""
        if name is not None and not _COMMIT.fullmatch(name):
            return None
        done = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name or 'HEAD'}^{{commit}}")
        return done.decode("ascii", "replace").strip() or None

    def files(self, commit: str, most: int) -> Iterator[tuple[str, str, bytes]]:
        """Yield (mode, path, content) of files and links at a commit by path, but no submodules or paths outside.

        Raises:
            ConfigError: The files hold more than `most` bytes.
        """
        listed = self._git("ls-tree", "-r", "-z", "-l", "--full-tree", "--end-of-options", commit)
        entries, total = list[tuple[str, str, str]](), 0
        for line in filter(None, listed.split(b"\0")):
            header, _, name = line.partition(b"\t")
            mode, _, object_id, size = header.decode("ascii", "replace").split()
            path = name.decode("utf-8", "surrogateescape")
            if mode not in (_FILE, _EXECUTABLE, _LINK) or not is_within(path):
                continue
            total += int(size)
            if total > most:
                raise ConfigError(f"{self.git} holds more than {most:,} bytes at {commit[:12]}.")
            entries.append((mode, path, object_id))
        contents = self._contents([entry_id for _, _, entry_id in entries])
        for (mode, path, _), content in zip(entries, contents, strict=True):
            yield mode, path, content

    def file(self, commit: str, path: str) -> bytes | None:
        """Return the content of one file at a commit; None if it does not exist."""
        if not is_within(path):
            return None
        listed = self._git("ls-tree", "-z", "--full-tree", "--end-of-options", commit, f":(literal){path}")
        header, _, _ = listed.partition(b"\t")
        words = header.decode("ascii", "replace").split()
        return next(iter(self._contents([words[2]]))) if len(words) == 3 and words[1] == "blob" else None

    def archive(self, commit: str, most: int, *, history: bool = False) -> IO[bytes]:
        """Return a tar archive of the files at a commit; with `history`, also a `.git` folder without settings."""
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as packed:
            for mode, path, content in self.files(commit, most):
                _pack(packed, path, content, mode)
            if history:
                for path, content in self._history(commit, most):
                    _pack(packed, f".git/{path}", content, _FILE)
        return stream

    def _history(self, commit: str, most: int) -> Iterator[tuple[str, bytes]]:
        objects = subprocess.run(
            ["git", *QUIET, f"--git-dir={self.git}", "pack-objects", "--revs", "--stdout", "-q", "--threads=1"],
            input=commit.encode(),
            env=ENVIRONMENT,
            capture_output=True,
            check=False,
        ).stdout
        if len(objects) > most:
            raise ConfigError(f"The history of {self.git} up to {commit[:12]} holds more than {most:,} bytes.")
        yield "HEAD", b"ref: refs/heads/main\n"
        yield "config", b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
        yield "refs/heads/main", f"{commit}\n".encode()
        yield "objects/packed", objects

    def _contents(self, ids: Sequence[str]) -> Iterator[bytes]:
        """Yield the contents of objects, in their order."""
        process = subprocess.Popen(
            ["git", *QUIET, f"--git-dir={self.git}", "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
        )
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            for object_id in ids:
                process.stdin.write(object_id.encode() + b"\n")
                process.stdin.flush()
                header = process.stdout.readline().split()
                if len(header) != 3:
                    raise ConfigError(f"{self.git} lacks the object {object_id}; nothing is fetched.")
                yield process.stdout.read(int(header[2]))
                process.stdout.read(1)

    def _git(self, *words: str) -> bytes:
        return subprocess.run(
            ["git", *QUIET, f"--git-dir={self.git}", *words], env=ENVIRONMENT, capture_output=True, check=False
        ).stdout


def is_within(path: str) -> bool:
    """Return True if a path of a tree stays in the folder where it is unpacked, and outside of `.git`."""
    parts = path.split("/")
    return not path.startswith("/") and not any(part in ("", ".", "..") or part.lower() == ".git" for part in parts)


def _pack(packed: tarfile.TarFile, path: str, content: bytes, mode: str) -> None:
    member = tarfile.TarInfo(path)
    member.mode = 0o755 if mode == _EXECUTABLE else 0o644
    if mode == _LINK:
        member.type, member.linkname = tarfile.SYMTYPE, content.decode("utf-8", "surrogateescape")
        packed.addfile(member)
    else:
        member.size = len(content)
        packed.addfile(member, io.BytesIO(content))
