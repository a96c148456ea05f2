"""A server on this machine that answers as a chat endpoint does, and fails as one does where a test asks for it."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], Any]
"""Of a request's body: the answer's text, a whole body (dict), raw bytes, or a status to fail with."""

USAGE = {"prompt_tokens": 100, "completion_tokens": 200, "total_tokens": 300}


def completion(content: str | None, reasoning: str | None = None, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    choice = {"index": 0, "message": message, "finish_reason": more.pop("finish", "stop")}
    body = {"id": "chat-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return {**body, "usage": USAGE, "system_fingerprint": "fp-7", **more}


@dataclass
class ChatServer:
    """What was asked, and what is answered.

    Attributes:
        answer: of each request that is not failed.
        faults: of the next requests, in order: a status, `reset`, or raw bytes that stand for a body.
        asked: bodies of all requests that were answered.
        met: how many requests came, failed ones too.
        keys: what was said under `Authorization`.
    """

    answer: Answer
    faults: list[int | str | bytes] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    met: int = 0
    keys: set[str] = field(default_factory=set)
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self) -> int | str | bytes | None:
        with self.lock:
            self.met += 1
            return self.faults.pop(0) if self.faults else None

    def words(self, model: str | None = None) -> list[str]:
        """All that was sent in each answered request, as one text."""
        bodies = [body for body in self.asked if model in (None, body["model"])]
        return ["\n".join(message["content"] for message in body["messages"]) for body in bodies]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    chat: ChatServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fault = self.chat.fault()
        if fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        answer: Any = fault
        if answer is None:
            self.chat.keys.add(self.headers["Authorization"])
            answer = self.chat.answer(body)
            with self.chat.lock:
                self.chat.asked.append(body)
        if isinstance(answer, str):
            answer = completion(answer)
        if isinstance(answer, dict):
            self._send(200, json.dumps(answer).encode())
        elif isinstance(answer, bytes):
            self._send(200, answer)
        else:
            assert isinstance(answer, int)
            self._send(answer, json.dumps({"error": {"message": f"status {answer}"}}).encode())

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        if status in (429, 503):
            self.send_header("Retry-After-Ms", "1")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        pass


@contextmanager
def chat_server(answer: Answer) -> Iterator[ChatServer]:
    chat = ChatServer(answer)
    handler = type("Handler", (_Handler,), {"chat": chat})
    server = _Server(("127.0.0.1", 0), handler)
    chat.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
