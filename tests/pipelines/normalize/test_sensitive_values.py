"""Secrets of ordinary letters that only their place tells: no file that a run writes holds one, in whatever writing."""

import base64
import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.tables import table
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run

FIXTURES = ROOT / "tests" / "fixtures"
RECIPE = """
name: places
source: places
domains: [mcp, search, terminal, swe, web, os, android]
normalize: {max_reject_ratio: 1.0}
"""
TREE = (
    '<hierarchy rotation="0"><node class="android.widget.FrameLayout" package="org.example" '
    'enabled="true" bounds="[0,0][700,900]"><node text="{text}" class="android.widget.EditText" package="org.example" '
    'enabled="true" clickable="true" focusable="true" password="true" bounds="[0,0][700,100]"></node>'
    '<node text="{note}" class="android.widget.TextView" package="org.example" enabled="true" bounds="[0,200][70,300]">'
    "</node></node></hierarchy>"
)


def encoded(secret: str) -> str:
    """The secret as a log may repeat it elsewhere."""
    return f"{secret} {base64.b64encode(f'ada:{secret}'.encode()).decode()} {json.dumps(secret)} q={quote(secret)}"


def lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def adapted(source: str, folder: Path, *changes: tuple[str, str]) -> None:
    """A copy of a fixture with texts replaced, each of which it must hold."""
    shutil.copytree(FIXTURES / source, folder) if (FIXTURES / source).is_dir() else folder.mkdir()
    if (FIXTURES / source).is_file():
        shutil.copy(FIXTURES / source, folder)
    met = set()
    for path in (path for path in folder.rglob("*") if path.is_file()):
        text = path.read_text("utf-8-sig")
        for old, new in changes:
            met |= {old} if old in text else set()
            text = text.replace(old, new)
        path.write_text(text)
    assert met == {old for old, _ in changes}


def android_typed(folder: Path, secret: str) -> None:
    folder.mkdir()
    (folder / "a.xml").write_text(TREE.format(text="", note="Sign in"))
    (folder / "b.xml").write_text(TREE.format(text="", note=f"Welcome, {secret}"))
    (folder / "events.jsonl").write_text(
        lines(
            {"task": "Sign in.", "task_id": "sign-in", "agent": "script"},
            {"event": "tap", "x": 300, "y": 50, "before": "a.xml", "after": "a.xml"},
            {"action": f"adb shell input text {secret}", "before": "a.xml", "after": "b.xml"},
        )
    )


def android_shown(folder: Path, secret: str) -> None:
    folder.mkdir()
    (folder / "a.xml").write_text(TREE.format(text=secret, note="Sign in"))
    (folder / "b.xml").write_text(TREE.format(text="", note=encoded(secret).replace('"', "")))
    (folder / "events.jsonl").write_text(lines({"event": "tap", "x": 3, "y": 5, "before": "a.xml", "after": "b.xml"}))


def har(folder: Path, secret: str, answer: str = "", **posted: str) -> None:
    headers = [{"name": "Content-Type", "value": posted.get("kind", "application/x-www-form-urlencoded")}]
    entry = {
        "startedDateTime": "2024-05-06T08:00:00.000Z",
        "time": 12,
        "request": {
            "method": "POST",
            "url": "https://shop.example/login" + posted.get("query", ""),
            "httpVersion": "HTTP/1.1",
            "headers": headers,
            "cookies": [],
            "queryString": [],
            "headersSize": -1,
            "bodySize": -1,
            "postData": {"mimeType": headers[0]["value"], "text": posted["text"]},
        },
        "response": {
            "status": 200, "statusText": "OK", "httpVersion": "HTTP/1.1", "headers": [], "cookies": [],
            "redirectURL": "", "headersSize": -1, "bodySize": -1,
            "content": {
                "size": 9,
                "mimeType": "text/html" if answer else "text/plain",
                "text": answer or f"hello {encoded(secret)}",
            },
        },
        "cache": {},
        "timings": {"send": 1, "wait": 10, "receive": 1},
    }  # fmt: skip
    folder.mkdir()
    log = {"log": {"version": "1.2", "creator": {"name": "c", "version": "1"}, "pages": [], "entries": [entry]}}
    (folder / "log.har").write_text(json.dumps(log))


def form(folder: Path, secret: str) -> None:
    har(folder, secret, text=f"user=ada&session%5Bpassword%5D={secret}")


def query(folder: Path, secret: str) -> None:
    har(folder, secret, text="a=b", query=f"?access_token={secret}")


def json_body(folder: Path, secret: str) -> None:
    har(folder, secret, text=json.dumps({"user": {"passwd": secret}}), kind="application/json")


def multipart(folder: Path, secret: str) -> None:
    text = f'--x\r\nContent-Disposition: form-data; name="password"\r\n\r\n{secret}\r\n--x--\r\n'
    har(folder, secret, text=text, kind="multipart/form-data; boundary=x")


def html_value_after_type(folder: Path, secret: str) -> None:
    har(folder, secret, f'<p>Hi</p><input type="password" name="q" value="{secret}"><b>{secret}</b>', text="a=b")


def html_value_before_type(folder: Path, secret: str) -> None:
    har(folder, secret, f"<p>Hi</p><input value={secret} name=q type=password><b>{secret}</b>", text="a=b")


def cast(folder: Path, secret: str, prompt: str) -> None:
    folder.mkdir()
    events: list[tuple[float, str, str]] = [(0.1, "o", "$ "), (0.2, "i", "login\r"), (0.3, "o", f"login\r\n{prompt}")]
    events += [(0.5 + number / 10, "i", letter) for number, letter in enumerate(secret)]
    answer = encoded(secret).replace(" ", "\r\n") if " " not in secret else secret
    events += [(3.0, "i", "\r"), (3.1, "o", f"\r\n{answer}\r\n$ "), (4.0, "i", "exit\r"), (4.1, "o", "exit\r\n")]
    (folder / "login.cast").write_text(lines({"version": 2, "width": 80, "height": 24}, *events))


def hidden_token(folder: Path, secret: str) -> None:
    cast(folder, secret, "Paste the Token (will be hidden): ")


def several_words(folder: Path, secret: str) -> None:
    cast(folder, secret, "Enter passphrase for key: ")


def pin(folder: Path, secret: str) -> None:
    cast(folder, secret, "Enter PIN: ")


def jsonrpc(folder: Path, secret: str, tool: str, arguments: dict[str, object]) -> None:
    folder.mkdir()
    answer = {"content": [{"type": "text", "text": encoded(secret)}]}
    (folder / "log.jsonl").write_text(
        lines(
            {
                "jsonrpc": "2.0",
                "id": 0,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-03-26",
                    "capabilities": {},
                    "clientInfo": {"name": "c", "version": "1"},
                },
            },
            {
                "jsonrpc": "2.0",
                "id": 0,
                "result": {
                    "protocolVersion": "2025-03-26",
                    "capabilities": {},
                    "serverInfo": {"name": "s", "version": "1"},
                },
            },
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}},
            {"jsonrpc": "2.0", "id": 1, "result": answer},
            {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": secret}]}},
        )
    )


def mcp_argument(folder: Path, secret: str) -> None:
    jsonrpc(folder, secret, "sign_in", {"account": {"user": "ada", "dbPassword": secret}})


def mcp_header(folder: Path, secret: str) -> None:
    headers = {"Cookie": f"theme=dark; auth_token={secret}"}
    jsonrpc(folder, secret, "fetch", {"url": "https://shop.example/", "headers": headers})


def mcp_browser(folder: Path, secret: str) -> None:
    jsonrpc(folder, secret, "browser_type", {"element": "Password field", "ref": "e12", "text": secret})


def mcp_form(folder: Path, secret: str) -> None:
    fields = [{"name": "User", "value": "ada"}, {"name": "Password", "type": "textbox", "value": secret}]
    jsonrpc(folder, secret, "browser_fill_form", {"fields": fields})


MADE = {
    android_typed: "sunflower", android_shown: "marigolds", form: "buttercup", query: "honeysuckle",
    json_body: "bluebonnet", multipart: "hydrangea", hidden_token: "geranium", several_words: "purple tulip meadow",
    pin: "edelweiss", mcp_argument: "wisteria", mcp_header: "chrysanthemum", mcp_browser: "amaryllis",
    mcp_form: "gladiolus", html_value_after_type: "larkspur", html_value_before_type: "foxglove",
}  # fmt: skip
"""How a log is made → the secret in it."""

ADAPTED: dict[str, tuple[str, str, list[tuple[str, str]]]] = dict(table(__file__, "sensitive_values"))
"""Fixture, the secret, and what is replaced in the fixture."""

PLACES = {**{make.__name__: secret for make, secret in MADE.items()}, **{name: one[1] for name, one in ADAPTED.items()}}


def contents(path: Path) -> Iterator[str]:
    """What a file holds, unpacked."""
    data = path.read_bytes()
    if path.suffix == ".parquet":
        yield json.dumps(pq.read_table(path).to_pylist(), default=str, ensure_ascii=False)
    yield (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each file of a run over all of the logs holds."""
    folder = tmp_path_factory.mktemp("places")
    raw = folder / "raw"
    raw.mkdir()
    for make, secret in MADE.items():
        make(raw / make.__name__, secret)
    for name, (source, secret, changes) in ADAPTED.items():
        adapted(source, raw / name, *((old, new.replace("{secret}", secret)) for old, new in changes))
    (folder / "recipe.yaml").write_text(RECIPE)
    Run(load_recipe(str(folder / "recipe.yaml")), [str(raw)], str(folder / "out")).run()
    out = folder / "out"
    return {str(path.relative_to(out)): list(contents(path)) for path in out.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", PLACES)
def test_what_its_place_makes_a_secret_is_in_no_file_of_a_run(name, texts):
    secret = PLACES[name]
    assert any(f'"uri": "{name}' in rows for file, (rows, *_) in texts.items() if file.startswith("transitions/"))
    pair = base64.b64encode(f"ada:{secret}".encode()).decode()
    writings = (secret, quote(secret), pair, base64.b64encode(secret.encode()).decode().rstrip("="))
    leaks = {file for file, parts in texts.items() if any(writing in text for text in parts for writing in writings)}
    assert leaks == set()
