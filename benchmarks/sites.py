"""`python -m benchmarks.sites FOLDER`: a scripted visitor on sites of our own, recorded as HTTP archives.

    python -m benchmarks.sites out/sites --sites 120

A site tells of modules of Python's library that no other site has: pages of modules and functions, a search, a service
in JSON, notes that visitors leave. It is really served, on loopback, and a visitor that draws where to go asks it over
HTTP. What the site says is true; what goes on beside it is drawn, as in recordings of browsers: pages load style sheets
and, one in three, ask a counter or an exchange of advertisements on other hosts, and are handed signed tokens; the
recorder leaves bodies out; an eighth of the sites are in German, and an eighth are down behind their gateway; of ten
recordings one is there twice, and two were gone on with and saved anew. What is drawn comes from the seed; times are of
the day.
"""

from __future__ import annotations

import argparse
import ast
import base64
import hashlib
import json
import random
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs, urlsplit

from benchmarks.services import library
from samples.writing.files import write_file

LEFT_OUT: Final = 0.05
"""The share of bodies that the recorder leaves out."""

ASIDE: Final = 1 / 3
"""The share of pages that ask a counter, and of those that ask for advertisements: a quarter of the requests that are
carried on are on the side then, as in the real logs at hand."""

MOST: Final = 14
"""Functions on a page."""

_GERMAN: Final = (
    "Diese Funktion gehört zum Modul und wird dort an mehreren Stellen verwendet.",
    "Wer sie aufruft, muss alle Angaben in der richtigen Reihenfolge machen.",
    "Fehlt eine Angabe, so wird eine Ausnahme ausgelöst, die der Aufrufer behandeln soll.",
    "Das Ergebnis ist ein neues Objekt, das ursprüngliche bleibt unverändert.",
    "In älteren Fassungen verhielt sich die Funktion anders als heute beschrieben.",
    "Weitere Hinweise stehen in der Beschreibung des ganzen Moduls.",
    "Die Rückgabe kann leer sein, wenn nichts Passendes gefunden wurde.",
    "Man beachte, dass die Reihenfolge der Einträge nicht festgelegt ist.",
)
_DOWN: Final = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1><hr>edge</body></html>"


@dataclass(frozen=True, slots=True)
class Entry:
    """A function that a site tells of."""

    name: str
    line: int
    arguments: str
    doc: str


@dataclass(slots=True)
class Site:
    """Web site of a host.

    Attributes:
        title: of the site.
        modules: its functions by module.
        is_german: whether its prose is.
        is_down: whether only its gateway answers.
        notes: that visitors left.
    """

    title: str
    modules: Mapping[str, list[Entry]]
    is_german: bool = False
    is_down: bool = False
    notes: list[str] = field(default_factory=list)

    def answer(self, method: str, target: str, body: str) -> tuple[int, str, str]:
        """(status, media type or where to go on, body)."""
        if self.is_down:
            return 502, "text/html", _DOWN
        path, asked = urlsplit(target).path, parse_qs(urlsplit(target).query)
        parts = path.strip("/").split("/")
        if path == "/":
            names = "".join(
                f'<li><a href="/module/{name}">{name}</a> ({len(entries)})</li>'
                for name, entries in self.modules.items()
            )
            return 200, "text/html", self._page(self.title, f"<p>{self._prose(self.title)}</p><ul>{names}</ul>")
        if path == "/latest":
            return 302, f"/module/{min(self.modules)}", ""
        if parts[0] == "module" and parts[1] in self.modules:
            return self._module(parts[1], parts[2] if len(parts) > 2 else "")
        if path == "/search":
            return self._searched(asked.get("q", [""])[0])
        if parts[0] == "api":
            return self._told(method, parts[1], asked, body)
        return 404, "text/html", self._page("Not found", f"<p>Nothing is at {escape(path)}.</p>")

    def _module(self, module: str, name: str) -> tuple[int, str, str]:
        entries = self.modules[module]
        if not name:
            rows = "".join(
                f'<tr><td><a href="/module/{module}/{entry.name}">{entry.name}</a></td><td>{entry.line}</td>'
                f"<td>{self._prose(entry.name, entry.doc.partition(chr(10))[0])}</td></tr>"
                for entry in entries[:MOST]
            )
            return 200, "text/html", self._page(module, f"<p>{len(entries)} functions</p><table>{rows}</table>")
        for entry in entries:
            if entry.name == name:
                text = f"<p><code>{escape(f'{entry.name}({entry.arguments})')}</code>, line {entry.line}</p>"
                return 200, "text/html", self._page(name, f"{text}<p>{self._prose(name, entry.doc)}</p>")
        return 404, "text/html", self._page("Not found", f"<p>{module} has no function {escape(name)}.</p>")

    def _searched(self, word: str) -> tuple[int, str, str]:
        hits = [
            (module, entry)
            for module, some in self.modules.items()
            for entry in some
            if word in entry.name or word in entry.doc
        ]
        rows = "".join(
            f'<li><a href="/module/{module}/{entry.name}">{entry.name}</a> in {module}</li>'
            for module, entry in hits[:MOST]
        )
        return 200, "text/html", self._page(f"Search: {escape(word)}", f"<p>{len(hits)} found</p><ul>{rows}</ul>")

    def _told(self, method: str, service: str, asked: Mapping[str, list[str]], body: str) -> tuple[int, str, str]:
        kind = "application/json"
        if service == "functions":
            module, page = asked.get("module", [""])[0], int(asked.get("page", ["1"])[0])
            entries = self.modules.get(module, [])
            part = entries[(page - 1) * 6 : page * 6]
            rows = [{"name": entry.name, "line": entry.line, "arguments": entry.arguments} for entry in part]
            return 200, kind, json.dumps({"module": module, "page": page, "of": len(entries), "functions": rows})
        if service == "notes" and method == "POST":
            self.notes.append(json.loads(body)["text"])
            return 201, kind, json.dumps({"id": len(self.notes), "text": self.notes[-1]})
        if service == "notes":
            return 200, kind, json.dumps({"notes": self.notes})
        if service == "session":
            parts = [hashlib.sha256(f"{self.title}:{len(self.notes)}:{at}".encode()).digest() for at in range(9)]
            return 200, kind, json.dumps({"signed": base64.b64encode(b"".join(parts)).decode()})
        return 404, kind, json.dumps({"error": f"no service {service}"})

    def _page(self, title: str, body: str) -> str:
        head = f'<head><title>{title}</title><link rel="stylesheet" href="/style.css"></head>'
        nav = '<nav><a href="/">Start</a> <a href="/search">Search</a> <a href="/latest">Latest</a></nav>'
        language = "de" if self.is_german else "en"
        return f'<!doctype html><html lang="{language}">{head}<body>{nav}<h1>{title}</h1>{body}</body></html>'

    def _prose(self, key: str, text: str = "") -> str:
        if self.is_german:
            return " ".join(random.Random(key).sample(_GERMAN, 3))
        return escape(text) or f"What {escape(key)} holds."


def aside(host: str, number: int) -> tuple[int, str, str]:
    """Answers of hosts beside a site: counters, advertisements."""
    if host.startswith("ads."):
        draws = random.Random(number)
        offers = [{"id": f"{draws.getrandbits(48):012x}", "bid": draws.randrange(9_999)} for _ in range(6)]
        return 200, "application/json", json.dumps({"request": f"{draws.getrandbits(96):024x}", "offers": offers})
    return (200, "text/css", "body { margin: 0 auto }") if host == "" else (204, "text/plain", "")


class Handler(BaseHTTPRequestHandler):
    """Hands requests to the site of their host."""

    sites: ClassVar[dict[str, Site]] = {}
    asides: ClassVar[int] = 0
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        host = self.headers["Host"]
        if host not in self.sites or self.path == "/style.css":
            Handler.asides += 1
            status, kind, text = aside("" if host in self.sites else host, self.asides)
        else:
            try:
                status, kind, text = self.sites[host].answer(self.command, self.path, body)
            except (ValueError, KeyError) as error:
                status, kind, text = 500, "text/plain", f"{type(error).__name__}: {error}"
        self.send_response(status)
        self.send_header("Location" if status == 302 else "Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_POST = _answer  # noqa: N815 — the names that the server calls

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Recording:
    """A HTTP archive that is written while requests are made.

    Args:
        address: where the sites are served.
        host: of the site that is visited.
        rng: which bodies are left out.
    """

    def __init__(self, address: tuple[str, int], host: str, rng: random.Random) -> None:
        self.entries: list[dict[str, Any]] = []
        self._place, self.host, self._rng = address, host, rng

    def asks(self, kind: str, method: str, target: str, body: str = "", host: str = "") -> tuple[int, str]:
        """A request; where it is sent on, the browser follows. (status, body)"""
        host = host or self.host
        began, clock = datetime.now(UTC), time.monotonic()
        connection = HTTPConnection(*self._place)
        sent = {"Host": host, "Accept": "text/html" if kind == "document" else "*/*"}
        sent |= {"Content-Type": "application/json"} if body else {}
        connection.request(method, target, body.encode() or None, sent)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        took = (time.monotonic() - clock) * 1_000
        response_headers = response.getheaders()
        media = response.getheader("Content-Type", "")
        content: dict[str, Any] = {"size": len(data), "mimeType": media, "text": data.decode()}
        if data and self._rng.random() < LEFT_OUT:
            del content["text"]
        request: dict[str, Any] = {"method": method, "url": f"http://{host}{target}", "httpVersion": "HTTP/1.1"}
        request |= {"headers": _named_pairs(sent.items()), "queryString": [], "cookies": [], "headersSize": -1}
        request |= (
            {"bodySize": len(body), "postData": {"mimeType": "application/json", "text": body}}
            if body
            else {"bodySize": 0}
        )
        answer = {"status": response.status, "statusText": response.reason, "httpVersion": "HTTP/1.1", "cookies": []}
        answer |= {
            "headers": _named_pairs(response_headers),
            "content": content,
            "redirectURL": response.getheader("Location", ""),
        }
        at = began.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = {"pageref": "page_1", "startedDateTime": at, "time": took, "_resourceType": kind}
        self.entries.append({**entry, "request": request, "response": answer, "cache": {}, "timings": {"wait": took}})
        if response.status == 302:
            return self.asks(kind, "GET", response.getheader("Location", "/"))
        return response.status, data.decode()

    def written(self) -> bytes:
        """The archive."""
        page = {
            "startedDateTime": self.entries[0]["startedDateTime"],
            "id": "page_1",
            "title": self.host,
            "pageTimings": {},
        }
        log = {
            "version": "1.2",
            "creator": {"name": "scripted", "version": "1"},
            "pages": [page],
            "entries": self.entries,
        }
        return json.dumps({"log": log}, ensure_ascii=False).encode()


def _named_pairs(pairs: Any) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in pairs]


def visits(recording: Recording, site: Site, rng: random.Random, steps: int) -> None:
    """Goes about a site, as pages and their scripts ask."""
    for _ in range(steps):
        module, kind = rng.choice(sorted(site.modules)), rng.random()
        name = rng.choice([entry.name for entry in site.modules[module]])
        if kind < 0.5:
            word = rng.choice(("get", "set", "read", "name", "file", "error", "zebra"))
            targets = ("/", f"/module/{module}", f"/module/{module}/{name}", f"/module/{module}/{name}", "/latest")
            recording.asks(
                "document", "GET", rng.choice((*targets, f"/search?q={word}", f"/module/{module}/{word}", f"/{word}"))
            )
            recording.asks("stylesheet", "GET", "/style.css")
            if rng.random() < ASIDE:
                seen = json.dumps({"seen": rng.getrandbits(40)})
                recording.asks("ping", "POST", "/collect", seen, "stats.counter.example")
            if rng.random() < ASIDE:
                recording.asks("fetch", "GET", f"/bid?slot={rng.randrange(9)}", host="ads.exchange.example")
        elif kind < 0.75:
            page = rng.choice(("1", "1", "2", "3", "none"))
            recording.asks("fetch", "GET", f"/api/functions?module={module}&page={page}")
        elif kind < 0.9:
            recording.asks("fetch", "POST", "/api/notes", json.dumps({"text": f"{name} was read"}))
            recording.asks("fetch", "GET", "/api/notes")
        else:
            recording.asks("fetch", "GET", rng.choice(("/api/session", "/api/session", "/api/sessions")))


def sites(count: int, seed: int) -> Iterator[Site]:
    """The sites."""
    sources = library(seed)
    each = len(sources) // count
    for number in range(count):
        rng = random.Random(f"sites:{seed}:{number}")
        modules = {}
        for name, text in sources[number * each : (number + 1) * each]:
            nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
            entries = [Entry(n.name, n.lineno, ast.unparse(n.args), ast.get_docstring(n) or "") for n in nodes]
            if entries:
                modules[re.sub(r"\W", ".", name.removesuffix(".py"))] = entries
        if modules:
            kind = rng.random()
            yield Site(f"Notes on {', '.join(modules)}", modules, is_german=kind < 0.12, is_down=0.12 <= kind < 0.24)


@contextmanager
def serving() -> Iterator[tuple[tuple[str, int], dict[str, Site]]]:
    """Serve sites until the block ends; yield the address and the sites by host, to be added to."""
    Handler.sites, Handler.asides = {}, 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield ("127.0.0.1", server.server_address[1]), Handler.sites
        server.shutdown()


def recordings(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """The names and bytes of the archives."""
    with serving() as (place, known):
        for number, site in enumerate(sites(count, seed)):
            host = f"notes{number}.example"
            known[host] = site
            rng = random.Random(f"visits:{seed}:{number}")
            recording = Recording(place, host, rng)
            if recording.asks("document", "GET", "/")[0] == 502:
                for _ in range(rng.randrange(3)):
                    recording.asks("document", "GET", "/")
            else:
                visits(recording, site, rng, rng.randrange(6, 18))
            yield f"{host}-0.har", recording.written()
            chance = rng.random()
            if 0.1 <= chance < 0.3 and not site.is_down:
                visits(recording, site, rng, 3)
            if chance < 0.3:
                yield f"{host}-1.har", recording.written()


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sites", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, data in recordings(options.sites, options.seed):
        write_file(options.folder / name, data)


if __name__ == "__main__":
    main()
