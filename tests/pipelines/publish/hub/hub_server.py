"""A server on this machine that answers `huggingface_hub` and `datasets` as the Hub does, to a push and to a load.

Parquet files are large files: they go to an address of their own, with a signature in it, and are refused where their
bytes are not those of their sha256. Whatever is written needs the token.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN: Final = "hf_" + "k3Yx9QwErTzUiOpLmNbVcXsAdFgHjKqWeR"
SIGNATURE: Final = "d41d8cd98f00b204e980"


@dataclass(slots=True)
class Repo:
    """A repository: its commits, each all files by path, and what branches and tags point at."""

    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def add(self, branch: str, files: dict[str, bytes], message: str) -> str:
        content = json.dumps([len(self.commits), message, sorted(files)])
        commit = hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()
        self.commits[commit], self.branches[branch] = files, commit
        self.messages.append(message)
        return commit

    def commit_of(self, revision: str) -> str | None:
        return (
            self.branches.get(revision) or self.tags.get(revision) or (revision if revision in self.commits else None)
        )

    def head(self, branch: str = "main") -> dict[str, bytes]:
        return self.commits[self.branches[branch]]


@dataclass(slots=True)
class Hub:
    """What the server has, and what it was asked.

    Attributes:
        url: where it is.
        repos: by name.
        large: large files by sha256, whether a commit has them or not.
        uploads: sha256 of each large file that was sent, in order.
        asked: method and path of every request.
        breaks_after: uploads after which every further one fails.
    """

    url: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    uploads: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    breaks_after: int | None = None

    def wrote(self) -> list[str]:
        """What was asked that changes anything."""
        return [
            request for request in self.asked if request.startswith(("POST /api/repos", "PUT", "POST /api/datasets/"))
        ]


@contextmanager
def serving() -> Iterator[Hub]:
    """The Hub while it answers."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def is_large(path: str) -> bool:
    return path.endswith(".parquet")


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _told(path: str, data: bytes) -> dict[str, Any]:
    large = {"lfs": {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}}
    return {"type": "file", "path": path, "size": len(data), "oid": _blob(data), **(large if is_large(path) else {})}


class _RefusedError(Exception):
    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.said = status, code, message


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - the library's names

    def _answer(self) -> None:
        split = urlsplit(self.path)
        path = unquote(split.path)
        self.hub.asked.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            data, headers = self._found(f"{self.command} {path}", body)
            self._send(206 if "Content-Range" in headers else 200, data, headers)
        except _RefusedError as no:
            headers = {"X-Error-Code": no.code, "X-Error-Message": no.said}
            self._send(no.status, json.dumps({"error": no.said}).encode(), headers)

    def _found(self, path: str, body: bytes) -> tuple[bytes, dict[str, str]]:
        for pattern, answer in _ANSWERS:
            match = re.fullmatch(pattern, path)
            if match:
                return answer(self, body, *match.groups())
        raise _RefusedError(404, "", "no such address")

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _may_write(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise _RefusedError(401, "", "Invalid credentials in Authorization header")

    def _repo(self, name: str) -> Repo:
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and self.headers.get("Authorization") != f"Bearer {TOKEN}"):
            raise _RefusedError(404, "RepoNotFound", "Repository not found")
        return repo

    def _files(self, name: str, revision: str) -> tuple[str, dict[str, bytes]]:
        repo = self._repo(name)
        commit = repo.commit_of(revision)
        if commit is None:
            raise _RefusedError(404, "RevisionNotFound", "Invalid rev id")
        return commit, repo.commits[commit]

    def _make(self, body: bytes) -> Any:
        self._may_write()
        request = json.loads(body)
        name = f"{request['organization']}/{request['name']}"
        if name in self.hub.repos:
            raise _RefusedError(409, "", "You already created this dataset repo")
        repo = self.hub.repos[name] = Repo(request.get("visibility") == "private")
        repo.add("main", {".gitattributes": b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"}, "initial commit")
        return _json({"url": f"{self.hub.url}/datasets/{name}", "name": name, "id": name})

    def _refs(self, _: bytes, name: str) -> Any:
        repo = self._repo(name)
        refs = {"branches": ("heads", repo.branches), "tags": ("tags", repo.tags)}
        branches = {
            kind: [{"name": ref, "ref": f"refs/{at}/{ref}", "targetCommit": commit} for ref, commit in commits.items()]
            for kind, (at, commits) in refs.items()
        }
        return _json({**branches, "converts": []})

    def _tree(self, _: bytes, name: str, revision: str, below: str | None) -> Any:
        files = self._files(name, revision)[1]
        inside = f"{below.strip('/')}/" if below else ""
        names = [path for path in files if path.startswith(inside)]
        folders = {str(parent) for path in names for parent in PurePosixPath(path).parents} - {".", inside.rstrip("/")}
        entries: list[dict[str, Any]] = [
            {"type": "directory", "path": folder, "oid": "0" * 40, "size": 0} for folder in sorted(folders)
        ]
        entries += [_told(path, files[path]) for path in names]
        if "recursive=true" not in self.path.lower():
            entries = [entry for entry in entries if "/" not in entry["path"][len(inside) :]]
        return _json(entries)

    def _info(self, _: bytes, name: str, revision: str | None = None) -> Any:
        commit, files = self._files(name, revision or "main")
        siblings = [{"rfilename": path} for path in files]
        info = {"id": name, "_id": "0", "sha": commit, "private": False, "siblings": siblings, "tags": [], "likes": 0}
        return _json({**info, "downloads": 0, "gated": False, "disabled": False})

    def _paths(self, body: bytes, name: str, revision: str) -> Any:
        files = self._files(name, revision)[1]
        try:
            paths = json.loads(body)["paths"]
        except ValueError:
            paths = parse_qs(body.decode())["paths"]
        entries = [_told(path, files[path]) for path in paths if path in files]
        folders = [path for path in paths if any(file.startswith(f"{path}/") for file in files)]
        return _json(
            [*entries, *({"type": "directory", "path": folder, "oid": "0" * 40, "size": 0} for folder in folders)]
        )

    def _branch(self, body: bytes, name: str, branch: str) -> Any:
        self._may_write()
        repo = self._repo(name)
        repo.branches.setdefault(branch, repo.branches["main"])
        return _json({})

    def _tag(self, body: bytes, name: str, revision: str) -> Any:
        self._may_write()
        repo = self._repo(name)
        repo.tags[json.loads(body)["tag"]] = repo.commit_of(revision) or ""
        return _json({})

    def _yaml(self, body: bytes) -> Any:
        text = json.loads(body)["content"]
        if not text.startswith("---\n"):
            raise _RefusedError(400, "", "Invalid metadata in README.md")
        return _json({"errors": [], "warnings": []})

    def _preupload(self, body: bytes, name: str, revision: str) -> Any:
        self._may_write()
        files = self._files(name, revision)[1]
        uploads = []
        for file in json.loads(body)["files"]:
            mode, stored = "lfs" if is_large(file["path"]) else "regular", files.get(file["path"])
            oid = None if stored is None else hashlib.sha256(stored).hexdigest() if mode == "lfs" else _blob(stored)
            uploads.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return _json({"files": uploads})

    def _batch(self, body: bytes, _: str) -> Any:
        self._may_write()
        objects = []
        for item in json.loads(body)["objects"]:
            target = {"href": f"{self.hub.url}/large/{item['oid']}?X-Amz-Signature={SIGNATURE}"}
            objects.append({**item, **({} if item["oid"] in self.hub.large else {"actions": {"upload": target}})})
        return _json({"transfer": "basic", "objects": objects})

    def _store(self, body: bytes, oid: str) -> Any:
        if self.hub.breaks_after is not None and len(self.hub.uploads) >= self.hub.breaks_after:
            raise _RefusedError(400, "", "the line is cut")
        if hashlib.sha256(body).hexdigest() != oid:
            raise _RefusedError(400, "", "other bytes than were told")
        self.hub.uploads.append(oid)
        self.hub.large[oid] = body
        return b"", {}

    def _commit(self, body: bytes, name: str, revision: str) -> Any:
        self._may_write()
        repo = self._repo(name)
        files = dict(self._files(name, revision)[1])
        header: dict[str, Any] = {}
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "header":
                header = value
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
            else:
                del files[value["path"]]
        if header.get("parentCommit") not in (None, repo.branches[revision]):
            raise _RefusedError(412, "", "A commit has happened since")
        commit = repo.add(revision, files, header["summary"])
        return _json({"commitUrl": f"{self.hub.url}/datasets/{name}/commit/{commit}", "commitOid": commit})

    def _resolve(self, _: bytes, name: str, revision: str, path: str) -> Any:
        commit, files = self._files(name, revision)
        if path not in files:
            raise _RefusedError(404, "EntryNotFound", "Entry not found")
        data = files[path]
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        requested = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if requested:
            first, last = int(requested[1]), min(int(requested[2] or len(data) - 1), len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            data = data[first : last + 1]
        return data, headers | {"Content-Length": str(len(data))}


def _json(value: Any) -> tuple[bytes, dict[str, str]]:
    return json.dumps(value).encode(), {"Content-Type": "application/json"}


_NAME: Final = r"([^/]+/[^/]+)"
_ANSWERS: Final = (
    (r"POST /api/repos/create", _Handler._make),
    (rf"GET /api/datasets/{_NAME}/refs", _Handler._refs),
    (rf"GET /api/datasets/{_NAME}/tree/([^/]+)(/.*)?", _Handler._tree),
    (rf"GET /api/datasets/{_NAME}", _Handler._info),
    (rf"GET /api/datasets/{_NAME}/revision/(.+)", _Handler._info),
    (rf"POST /api/datasets/{_NAME}/paths-info/(.+)", _Handler._paths),
    (rf"POST /api/datasets/{_NAME}/branch/(.+)", _Handler._branch),
    (rf"POST /api/datasets/{_NAME}/tag/(.+)", _Handler._tag),
    (r"POST /api/validate-yaml", _Handler._yaml),
    (rf"POST /api/datasets/{_NAME}/preupload/(.+)", _Handler._preupload),
    (rf"POST /datasets/{_NAME}\.git/info/lfs/objects/batch", _Handler._batch),
    (r"PUT /large/([0-9a-f]{64})", _Handler._store),
    (rf"POST /api/datasets/{_NAME}/commit/(.+)", _Handler._commit),
    (rf"(?:GET|HEAD) /datasets/{_NAME}/resolve/([^/]+)/(.+)", _Handler._resolve),
)
