"""A dataset repository on the Hub, through `huggingface_hub`: its content, and commits of files.

The library handles the token (`HF_TOKEN`, or that of `hf auth login`); it is never read here. Error messages of the Hub
are shown without the queries of URLs, which hold signatures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from trajmill.schemas import ConfigError, ShardError

MAIN: Final = "main"
_KIND: Final = "dataset"
_QUERY: Final = re.compile(r"\?[^\s'\"<>)]*")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_BATCH: Final = 16
"""Number of uploaded files between two reports of progress."""

_LINK: Final = "A token that may write is needed: set HF_TOKEN, or log in with `hf auth login`."


@dataclass(frozen=True, slots=True)
class Stored:
    """A file on the Hub: its bytes, and its sha256 if it is stored as a large file, else git's id of the blob."""

    bytes: int
    sha256: str
    blob: str


@dataclass(frozen=True, slots=True)
class Head:
    """State of a branch of a repository.

    Attributes:
        exists: whether the repository exists.
        has_branch: whether it has the branch; otherwise the state is that from which the branch would start.
        commit: the last commit; empty if there is no repository.
    """

    exists: bool
    has_branch: bool
    commit: str
    files: Mapping[str, Stored]
    tags: Mapping[str, str]


NOTHING: Final = Head(exists=False, has_branch=False, commit="", files={}, tags={})


class Repository:
    """A dataset repository.

    Args:
        name: `owner/name`.

    Raises:
        ConfigError: the name is not valid.
    """

    def __init__(self, name: str, branch: str = MAIN) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigError(f"'{name}' names no data set on the Hub: wanted owner/name.")
        from huggingface_hub import HfApi
        from huggingface_hub.utils import disable_progress_bars, logging

        disable_progress_bars()
        logging.set_verbosity_error()  # its warnings tell addresses with their signatures
        self.name, self.branch = name, branch
        self._api: Any = HfApi(library_name="trajmill")

    @property
    def url(self) -> str:
        """URL of the dataset's page."""
        return f"{self._api.endpoint}/datasets/{self.name}"

    def head(self) -> Head:
        """Return the state of the branch.

        Raises:
            ConfigError: the Hub refuses access.
            ShardError: the Hub does not answer.
        """
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
        from huggingface_hub.hf_api import RepoFile

        with _answers(f"look at {self.name}"):
            try:
                refs = self._api.list_repo_refs(self.name, repo_type=_KIND)
            except RepositoryNotFoundError:
                return NOTHING
            branches = {branch.name: branch.target_commit for branch in refs.branches}
            has_branch = self.branch in branches
            commit = branches.get(self.branch) or branches.get(MAIN, "")
            tags = {tag.name: tag.target_commit for tag in refs.tags}
            try:
                listed = self._api.list_repo_tree(self.name, recursive=True, revision=commit, repo_type=_KIND)
                files = {
                    entry.path: Stored(entry.size, entry.lfs.sha256 if entry.lfs is not None else "", entry.blob_id)
                    for entry in (listed if commit else ())
                    if isinstance(entry, RepoFile)
                }
            except RevisionNotFoundError:
                files = {}
        return Head(True, has_branch, commit, files, tags)

    def read(self, path: str, commit: str) -> bytes:
        """Read a file of a commit.

        Raises:
            ConfigError: the Hub refuses access.
            ShardError: the Hub does not answer.
        """
        from huggingface_hub import get_session, hf_hub_url
        from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

        with _answers(f"read {path} of {self.name}"):
            url = hf_hub_url(self.name, path, repo_type=_KIND, revision=commit, endpoint=self._api.endpoint)
            answer = get_session().get(url, headers=build_hf_headers())
            hf_raise_for_status(answer)
            data: bytes = answer.content
        return data

    def make(self, head: Head, *, private: bool | None) -> None:
        """Create the repository and the branch if they are missing."""
        with _answers(f"make {self.name}"):
            if not head.exists:
                self._api.create_repo(self.name, repo_type=_KIND, private=private, exist_ok=True)
            if not head.has_branch and self.branch != MAIN:
                self._api.create_branch(self.name, branch=self.branch, repo_type=_KIND, exist_ok=True)

    def commit(
        self,
        parent: str,
        files: Mapping[str, tuple[str, str]],
        removed: Sequence[str],
        message: str,
        tell: Callable[[int], None],
    ) -> str:
        """Upload files and commit them together with the removals; return the id of the commit.

        Files that were uploaded for a failed commit are not uploaded again.

        Args:
            parent: the parent commit; the commit fails if another one came between.
            files: (local file, its sha256) by path.
            tell: function that is called with the number of uploaded files.

        Raises:
            ConfigError: the Hub refuses the commit.
            ShardError: the Hub does not answer, or somebody else committed.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        with _answers(f"upload to {self.name}"):
            added = []
            for path, (local, sha256) in sorted(files.items()):
                addition = CommitOperationAdd(path_in_repo=path, path_or_fileobj=local)
                addition.upload_info.sha256 = bytes.fromhex(sha256)  # known: it is not computed again
                added.append(addition)
            for first in range(0, len(added), _BATCH):
                some = added[first : first + _BATCH]
                self._api.preupload_lfs_files(self.name, some, repo_type=_KIND, revision=self.branch, free_memory=False)
                tell(first + len(some))
            gone = [CommitOperationDelete(path_in_repo=path, is_folder=False) for path in sorted(removed)]
            commit_info = self._api.create_commit(
                self.name,
                [*added, *gone],
                commit_message=message,
                repo_type=_KIND,
                revision=self.branch,
                parent_commit=parent,
            )
        return str(commit_info.oid)

    def tag(self, name: str, commit: str) -> None:
        """Tag a commit.

        Raises:
            ConfigError: the Hub refuses it.
            ShardError: the Hub does not answer.
        """
        with _answers(f"tag {self.name}"):
            self._api.create_tag(self.name, tag=name, revision=commit, repo_type=_KIND)


@contextmanager
def _answers(action: str) -> Iterator[None]:
    """Translate errors of the Hub, of the network and of the library to ours."""
    from huggingface_hub.errors import (
        BadRequestError,
        HfHubHTTPError,
        HFValidationError,
        LocalTokenNotFoundError,
        RepositoryNotFoundError,
    )

    try:
        yield
    except (LocalTokenNotFoundError, RepositoryNotFoundError) as error:
        raise ConfigError(f"The Hub does not let you {action}: {_first_line(error)} {_LINK}") from None
    except HFValidationError as error:
        raise ConfigError(f"The Hub has no such name: {_first_line(error)}") from None
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        if status in (401, 403):
            raise ConfigError(f"The Hub does not let you {action} ({status}). {_LINK}") from None
        if status in (409, 412):
            raise ShardError(f"Somebody else changed it while this was to {action} ({status}).") from None
        if isinstance(error, BadRequestError) and "metadata" in str(error).lower():
            raise ConfigError(f"The Hub does not take the card: {_first_line(error)}") from None
        raise ShardError(f"The Hub did not let this {action}: {_first_line(error)}") from None
    except (OSError, RuntimeError, ValueError) as error:
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error
        raise ShardError(f"The Hub cannot be asked to {action}: {_first_line(cause)}") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("httpx", "httpx2", "httpcore", "requests"):
            raise
        raise ShardError(f"The Hub does not answer ({action}): {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without queries of URLs."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {_QUERY.sub('?…', lines[0].strip()) if lines else 'no more is said'}"
