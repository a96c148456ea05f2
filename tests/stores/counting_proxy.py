"""A door before a store's local server: it counts what is asked, and fails on request as stores do.

It speaks as much HTTP as the clients of stores do. Nothing of what it passes on is
changed.
"""

import json
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

Fault = int | str
"""A status that is answered in place of the store's, `reset`, or `lost`: the store does it, and its answer is lost."""

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "server", "date"}


class CountingProxy:
    """The door, listening on loopback while it is entered.

    Args:
        port: of the store's server.
    """

    def __init__(self, port: int) -> None:
        self.asked: Counter[str] = Counter()
        self.lines: list[str] = []
        self._faults: deque[Fault] = deque()
        self._when: Callable[[str], bool] = lambda _: True
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"door": self, "port": port})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def forget(self) -> None:
        """Counts from nothing again."""
        with self._lock:
            self.asked.clear()
            self.lines.clear()

    def fail(self, faults: Iterable[Fault], when: Callable[[str], bool] = lambda _: True) -> None:
        """The next requests fail, each in its way, of those whose line (`PUT /bucket/name`) is `when`."""
        with self._lock:
            self._faults, self._when = deque(faults), when

    @property
    def left(self) -> int:
        """How many faults nobody met yet."""
        return len(self._faults)

    def fault(self, line: str) -> Fault | None:
        """Counts a request, and says how it is to fail."""
        with self._lock:
            self.asked[line.partition(" ")[0]] += 1
            self.lines.append(line)
            return self._faults.popleft() if self._faults and self._when(line) else None


class _Handler(BaseHTTPRequestHandler):
    door: CountingProxy
    port: int
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _pass(self) -> None:
        body = self._body()
        fault = self.door.fault(f"{self.command} {unquote(self.path)}")
        if isinstance(fault, int):
            self._answer(fault, [], b"")
            return
        if fault == "reset":
            self._reset()
            return
        if self._refused():
            self._answer(412, [], b'{"error": {"code": 412, "message": "conditionNotMet"}}')
            return
        upstream = HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        if body or self.command in ("PUT", "POST"):
            headers["Content-Length"] = str(len(body))
        upstream.request(self.command, self.path, body or None, headers)
        answer = upstream.getresponse()
        data = answer.read()
        upstream.close()
        if fault == "lost":
            self._reset()
            return
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self._answer(answer.status, answer.getheaders(), data, length)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _pass  # noqa: N815 - the names that the server asks for

    def _refused(self) -> bool:
        """Whether Google's condition does not hold: the emulator knows none."""
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if "ifGenerationMatch" not in query:
            return False
        bucket = url.path.partition("/b/")[2].partition("/")[0]
        upstream = HTTPConnection("127.0.0.1", self.port, timeout=60)
        upstream.request("GET", f"/storage/v1/b/{bucket}/o/{quote(query['name'][0], safe='')}")
        answer = upstream.getresponse()
        metadata = json.loads(answer.read()) if answer.status == 200 else {}
        upstream.close()
        return str(metadata.get("generation", "0")) != query["ifGenerationMatch"][0]

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def _answer(self, status: int, headers: Iterable[tuple[str, str]], data: bytes, length: str | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value.replace(f"127.0.0.1:{self.port}", self.door.url.removeprefix("http://")))
        self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _reset(self) -> None:
        """Ends the connection as a machine does that went down: with RST, and without an answer."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.rfile.close()
        self.connection.close()

    def log_message(self, *_: Any) -> None:
        pass

    def finish(self) -> None:
        with suppress(OSError, ValueError):  # it was reset
            super().finish()
