"""The viewer: who may ask it, what it answers, and that nothing of a hostile log is more than text."""

import json
import re
import threading
from dataclasses import replace

import pytest
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient
from typer.testing import CliRunner

from tests.app.pages.made_runs import made_rejects, made_run, there
from tests.app.viewer.hostile_texts import TEXTS, hostile_run, pages_of
from tests.make import trajectory
from trajmill.app.cli.cli import app as command_line
from trajmill.app.pages.contents import RunContents
from trajmill.app.pages.index import file_index
from trajmill.app.viewer.app import viewer
from trajmill.app.viewer.steps import image_type
from trajmill.schemas import Attachment, Observation, Reject

PORT = 8765
TOKEN = "the-token"
TAGS = frozenset(
    re.findall(
        r"\S+",
        """html head meta title link script body header main nav aside section div form input a span kbd b i em strong
        mark code pre p h1 h2 ul ol li dl dt dd details summary table thead tbody tr th td svg g rect text""",
    )
)
"""Of our templates."""

ATTRIBUTES = frozenset(
    re.findall(
        r"\S+",
        """lang charset name content href rel type src defer class id action method role aria-current aria-label title
        value autocomplete placeholder aria-sort tabindex open viewBox x y width height font-size text-anchor""",
    )
)


def client_of(out, host=f"127.0.0.1:{PORT}", enter=True):
    app = viewer(RunContents(str(out)), TOKEN, PORT)
    client = TestClient(app, base_url=f"http://{host}", follow_redirects=False)
    if enter:
        assert client.get("/", params={"token": TOKEN}).status_code == 200
    return client


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("viewed") / "out"
    keys = made_run(out, [trajectory("one", "two", "three")], ["loop"], "terminal")
    return out, keys[0]


def test_only_who_has_the_token_is_answered(made):
    client = client_of(made[0], enter=False)
    for path in ("/", f"/t/{made[1]}", "/static/viewer.js", "/?token=wrong", "/?token=", "/nothing"):
        assert client.get(path).status_code == 403
    entered = client.get("/", params={"token": TOKEN})
    cookie = entered.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert cookie.startswith(f"trajmill_{PORT}={TOKEN};")
    assert TOKEN not in entered.text
    assert client.get("/").status_code == 200
    assert TOKEN not in client.get("/").text


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", "[::1]"])
def test_another_name_of_this_machine_is_refused_even_with_the_token(made, host):
    client = client_of(made[0], enter=False)
    assert client.get("/", params={"token": TOKEN}, headers={"host": host}).status_code == 421


def test_nothing_is_changed_by_asking(made):
    client = client_of(made[0])
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, "/").status_code == 405


def test_every_answer_forbids_what_is_not_from_here(made):
    client = client_of(made[0])
    for path in ("/", "/nothing", "/static/viewer.js", f"/t/{made[1]}", "/?token=wrong"):
        headers = client.get(path).headers
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["img-src"] == policy["form-action"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
    assert client_of(made[0], enter=False).get("/").headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    "path",
    ["/static/..%2fapp.py", "/static/../app.py", "/static//etc/passwd", "/t/..%2f..%2fetc", "/t/x/0", "/samples/../x/0",
     "/samples/..%2f..%2frun.json/x/0", "/rejects/99", "/rejects/-1", "/copies/x", "/t/x/0/after/0"],
)  # fmt: skip
def test_a_path_reaches_nothing_but_pages(made, path):
    answer = client_of(made[0]).get(path)
    assert answer.status_code == 404
    assert "root:" not in answer.text


def test_a_step_says_what_was_done_what_changed_and_why_it_is_used_so(made):
    client = client_of(made[0])
    page = client.get(f"/t/{made[1]}/2").text
    for words in ("do", "three", "context: loop", "0.75", "≤ 0.5", "said thrice"):
        assert words in page
    assert f'rel="prev" href="/t/{made[1]}/1"' in page
    assert 'rel="next"' not in page
    assert client.get(f"/t/{made[1]}/3").status_code == 404


def test_a_list_is_ordered_by_its_address_and_saved_as_it_is_chosen(tmp_path):
    seen = [("a",), ("a", "b", "c"), ("x", "y")]
    trajectories = [trajectory(*texts, native_id=f"t{number}") for number, texts in enumerate(seen)]
    keys = made_run(tmp_path, trajectories, [None, None, "near_duplicate"], "terminal")
    client = client_of(tmp_path)

    def listed(query):
        page = there(LexborHTMLParser(client.get(f"/{query}").text).root)
        return [keys.index(there(link.attributes["href"]).removeprefix("/t/")) for link in page.css("a.entry")]

    assert (listed(""), listed("?sort=steps"), listed("?sort=-steps")) == ([0, 1, 2], [0, 2, 1], [1, 2, 0])
    assert listed("?sort=-steps&fate=kept") == [1, 0]
    assert listed("?sort=nothing&q=t1") == [1]
    saved = client.get("/download/trajectories.jsonl?sort=-steps&fate=kept")
    rows = [json.loads(line) for line in saved.text.splitlines()]
    assert [(row["native_id"], row["steps"]) for row in rows] == [("t1", 3), ("t0", 1)]
    assert saved.headers["content-disposition"] == 'attachment; filename="trajectories.jsonl"'
    ids = client.get("/download/trajectories.txt?fate=kept").text.split()
    assert ids == [key.partition("-")[0] for key in keys[:2]]
    for missing in ("other.jsonl", "trajectories.csv", "trajectories"):
        assert client.get(f"/download/{missing}").status_code == 404


def test_each_number_of_the_report_in_the_viewer_leads_to_its_trajectories(tmp_path):
    trajectories = [trajectory(*seen, domain="web") for seen in (("one", "two"), ("three", "four"), ("six",))]
    made_run(tmp_path, trajectories, [None, "loop", "near_duplicate"], "web")
    client = client_of(tmp_path)
    answer = client.get("/report")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    page = there(LexborHTMLParser(answer.text).root)
    links = {there(link.attributes["href"]): link.text() for link in page.css("td a, .fails a")}
    assert links["/?domain=web"] == "3"
    assert links["/?domain=web&fate=kept"] == "2"
    for address, number in links.items():
        rows = there(LexborHTMLParser(client.get(address).text).root).css("table.list tbody tr")
        assert len(rows) == int(number), address
    assert 'href="/report"' in client.get("/").text


def test_a_transcript_shows_every_step_in_order_and_goes_on_where_a_page_ends(made, tmp_path):
    page = there(LexborHTMLParser(client_of(made[0]).get(f"/t/{made[1]}").text).root)
    steps = page.css("details.step")
    assert [step.attributes["id"] for step in steps] == ["step-0", "step-1", "step-2"]
    for step, seen, use in zip(steps, ("one", "two", "three"), ("target", "target", "context: loop"), strict=True):
        assert seen in step.text()
        assert there(step.css_first("summary .chip")).text() == use
    assert not page.css("nav.pager")

    (long,) = made_run(tmp_path, [trajectory(*(f"seen {number}" for number in range(60)))], [None], "terminal")
    client = client_of(tmp_path)
    first, last = (there(LexborHTMLParser(client.get(path).text).root) for path in (f"/t/{long}", f"/t/{long}?from=50"))
    assert len(first.css("details.step")) == 50
    assert {link.attributes["href"] for link in first.css("a[rel=next]")} == {f"/t/{long}?from=50"}
    assert [step.attributes["id"] for step in last.css("details.step")] == [f"step-{n}" for n in range(50, 60)]


def test_a_transcript_leads_to_the_copy_that_is_kept_and_to_the_trajectory_it_came_out_of(tmp_path):
    main = trajectory("a", "b", native_id="main")
    part = trajectory("c", native_id="part", parent="main", relation="subagent", parent_step=1)
    keeper, dropped = made_run(tmp_path, [main, part], [None, "near_duplicate"], "terminal")
    ids = [key.partition("-")[0] for key in (keeper, dropped)]
    text = f"nearly equal to one of trajectory {ids[0][:16]}…"
    made_rejects(tmp_path, "judge", [Reject("trajectory", "near_duplicate", text, "log", trajectory_id=ids[1])])
    client = client_of(tmp_path)
    page = there(LexborHTMLParser(client.get(f"/t/{dropped}").text).root)
    addresses = [link.attributes["href"] for link in page.css("main > .note a")]
    assert addresses == [f"/t/{keeper}", f"/copies/{keeper}", f"/?q={ids[0]}"]
    assert f'href="/t/{keeper}"' in client.get(f"/?q={ids[0]}").text
    assert not there(LexborHTMLParser(client.get(f"/t/{keeper}").text).root).css("main > .note a")


def test_a_transcript_shows_what_changed_from_a_screen_to_the_next_in_place(tmp_path):
    seen = [Observation(text, form="screen") for text in ("first\nsame", "second\nsame")]
    log = trajectory("a", domain="web")
    step = replace(log.steps[0], observation=seen[0], next_observation=seen[1])
    (key,) = made_run(tmp_path, [replace(log, steps=[step])], [None], "web")
    shown = there(LexborHTMLParser(client_of(tmp_path).get(f"/t/{key}").text).root)
    lines = [line.text() for line in shown.css("details.step .diff .line")]
    assert lines == ["−first", "+second", " same"]


@pytest.mark.parametrize("text", ["\n".join(TEXTS), "javascript:document.title='owned'//", "//127.0.0.1:9/x"])
def test_nothing_of_a_hostile_log_is_more_than_text(tmp_path, text):
    keys = hostile_run(tmp_path, text)
    client = client_of(tmp_path)
    seen = 0
    for path in pages_of(keys):
        answer = client.get(path)
        assert answer.status_code == 200, path
        seen += examined(answer.text)
    for address in ("/", "/search", "/rejects"):
        answer = client.get(address, params={"q": text, "domain": text, "reason": text, "unit": text, "file": text})
        seen += examined(answer.text)
    assert seen > 500
    assert client.get(f"/t/{keys[0]}/0/after/0").status_code == 404


def examined(page):
    """How many elements a page has, all of which are those of our templates."""
    elements = there(LexborHTMLParser(page).root).css("*")
    for element in elements:
        assert element.tag in TAGS
        for name, value in element.attributes.items():
            assert name in ATTRIBUTES, (element.tag, name)
            if name in ("href", "src", "action"):
                assert re.match(r"/(?!/)|#[a-z0-9-]+$", value or ""), (element.tag, value)
        if element.tag == "script":
            assert element.attributes == {"src": "/static/viewer.js", "defer": None}
            assert not element.text()
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0041]", page
    )
    return len(elements)


def test_only_what_begins_as_an_image_is_one():
    assert image_type(b"\x89PNG\r\n\x1a\n...") == "image/png"
    assert image_type(b"RIFF....WEBPVP8 ") == "image/webp"
    for data in (b"", b"<svg xmlns='http://www.w3.org/2000/svg'>", b"<html>", b"%PDF-", b" \x89PNG\r\n\x1a\n"):
        assert image_type(data) is None


def test_an_attachment_is_served_as_the_image_that_it_is(tmp_path):
    png, html = b"\x89PNG\r\n\x1a\nrest", b"<script>document.title='owned'</script>"
    attachments = []
    for number, data in enumerate((png, html)):
        digest = f"{number:064x}"
        (tmp_path / "blobs").mkdir(exist_ok=True)
        (tmp_path / "blobs" / digest).write_bytes(data)
        attachments.append(Attachment(digest, "image/png", "screenshot"))
    log = trajectory("seen", domain="web")
    step = replace(log.steps[0], next_observation=Observation("seen", form="screen", attachments=tuple(attachments)))
    (key,) = made_run(tmp_path, [replace(log, steps=[step])], [None], "web")
    client = client_of(tmp_path)
    assert f'src="/t/{key}/0/after/0"' in client.get(f"/t/{key}/0").text
    assert f'src="/t/{key}/0/after/1"' not in client.get(f"/t/{key}/0").text
    answer = client.get(f"/t/{key}/0/after/0")
    assert (answer.status_code, answer.headers["content-type"], answer.content) == (200, "image/png", png)
    assert client.get(f"/t/{key}/0/after/1").status_code == 415
    for path in ("after/2", "before/0", "elsewhere/0"):
        assert client.get(f"/t/{key}/0/{path}").status_code == 404


def test_what_cannot_be_shown_is_told_in_one_line(tmp_path):
    done = CliRunner().invoke(command_line, ["view", str(tmp_path / "missing")])
    assert str(done.exception) == f"There is nothing at '{tmp_path}/missing'."
    made_run(tmp_path / "out", [trajectory("one")], [None], "terminal")
    file = next((tmp_path / "out" / "transitions").glob("*/*.parquet"))
    file.write_bytes(file.read_bytes()[:-20])
    damaged = CliRunner().invoke(command_line, ["view", str(tmp_path / "out")])
    assert str(damaged.exception).startswith(f"{file} cannot be read: ")


def test_a_large_run_is_shown_while_it_is_read_and_then_whole(tmp_path, monkeypatch):
    for domain in ("mcp", "terminal"):
        made_run(tmp_path, [trajectory("one", native_id=domain)], [None], domain)
    event = threading.Event()

    def slow(number, file):
        assert number == 0 or event.wait(10)
        return file_index(number, file)

    monkeypatch.setattr("trajmill.app.pages.index.file_index", slow)
    client = client_of(tmp_path)
    first = there(LexborHTMLParser(client.get("/").text).root)
    assert [node.text() for node in first.css("main h1")] == ["1 trajectory · 1 step"]
    assert first.css_first("main .note").text().startswith("Of 1 files; 1 more are being read")
    assert first.css_first("meta[http-equiv=refresh]").attributes["content"] == "1"
    event.set()
    assert client.get("/copies").status_code == 200  # which waits for all of it
    whole = there(LexborHTMLParser(client.get("/").text).root)
    assert [node.text() for node in whole.css("main h1")] == ["2 trajectories · 2 steps"]
    assert not whole.css("main .note, meta[http-equiv=refresh]")
