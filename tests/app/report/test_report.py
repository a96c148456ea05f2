"""The report of a run: its numbers, that it is one file of text, that it is small, and the same again."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from selectolax.lexbor import LexborHTMLParser
from typer.testing import CliRunner

from tests.app.pages.made_runs import RULES, made_rejects, made_run, made_shard, there
from tests.app.viewer.hostile_texts import TEXTS, hostile_run
from tests.make import trajectory
from trajmill.app.cli.cli import app
from trajmill.app.pages.loss_runs import Rendered, Run, Said
from trajmill.app.report.charts import signal_chart
from trajmill.app.report.examples import CUT, fitting, pick_rejects, reject_rows, samples, shorten
from trajmill.app.report.figures import Signal, figures, histogram, signal_edges
from trajmill.app.report.report import report, write_report
from trajmill.app.report.sources import Sources
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run as RunOf
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import REPORT
from trajmill.schemas import ConfigError, Reject, ShardError

TAGS = frozenset(
    re.findall(
        r"\S+",
        """html head meta title style body svg defs pattern rect circle line header main footer nav section h1 h2 h3 p a
        ul li b i span code pre div details summary article table caption thead tbody tr th td figure figcaption""",
    )
)
"""Of our templates."""


def planted(out):
    """A run of three trajectories: one kept, one whose last row is context, one dropped as a copy of the first."""
    trajectories = [trajectory("one", "two"), trajectory("three", "four", "five"), trajectory("six")]
    keys = made_run(out, trajectories, [None, "loop", "near_duplicate"], "web")
    first, last = (keys[number].partition("-")[0] for number in (0, 2))
    named = f"nearly equal to one of trajectory {first[:16]}…"
    copy = Reject("trajectory", "near_duplicate", named, "log", "", 7, trajectory_id=last)
    made_rejects(out, "normalize", [Reject("record", "truncated", "it ends", "log", "", 9, excerpt='{"cut": "he')])
    made_rejects(out, "judge", [copy])
    judged = out / "rejects/judge"
    (judged / "part-00000-aaaaaaaa.parquet").rename(judged / "web-part-00000-aaaaaaaa.parquet")
    span = {"message": 1, "begin": 0, "end": 2, "label": None}
    messages = [{"role": "user", "content": "do", "loss": False}, {"role": "assistant", "content": "one", "loss": True}]
    made_shard(out, "sft", "web", [{"id": "s", "trajectory_id": first, "messages": messages, "spans": [span]}])
    line = {"unit": "trajectories", "entered": 3, "kept": 2, "context": {}, "lost": {"near_duplicate": 1}, "merged": {}}
    record = {"version": "1", "recipe": {"name": "mine", "judge": {"rules": RULES}}, "counts": {"trajectories": line}}
    (out / "run.json").write_text(json.dumps(record))
    return keys


def examined(page):
    """How many elements a page has, all of which are those of our templates."""
    root = there(LexborHTMLParser(page).root)
    for element in root.css("*"):
        assert element.tag in TAGS, element.tag
        for name, value in element.attributes.items():
            assert not name.startswith("on"), name
            assert name not in ("src", "action", "style", "ping", "srcdoc"), name
            if name == "href":
                assert re.fullmatch("#[a-z]+", value or ""), value
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]", page)
    return len(root.css("*"))


def test_it_counts_what_the_folder_holds(tmp_path):
    keys = planted(tmp_path)
    sources = Sources(str(tmp_path))
    result = figures(sources, reject_rows(sources))
    assert result.uses == {"web": {"context": 1, "dropped": 1, "target": 4}}
    assert result.domains == {"web": {"trajectories": 3, "kept": 2, "transitions": 6}}
    assert (result.lines[0].kept, result.lines[0].lost) == (2, {"near_duplicate": 1})
    spread = result.spreads["web"]["turns"]
    assert (spread.total, spread.median) == (3, 2.0)
    assert dict(zip(spread.edges, spread.counts, strict=False)) == {0: 0, 1: 1, 2: 2}
    (signal,) = result.signals
    assert (signal.rule, signal.most, signal.broken, signal.only, signal.decided) == ("loop", 0.5, 1, 1, 1)
    assert signal.share is None
    assert result.copies.sizes == {1: 1}
    assert result.copies.largest == [(keys[0][:16], 1, 0)]
    assert result.classes == {"sft.web": {"answer": 2}}


def test_a_row_that_fails_two_rules_fails_neither_alone_and_flags_are_told_as_shares(tmp_path):
    planted(tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    rules = record["recipe"]["judge"]["rules"] | {"strict": {"signal": "loop", "max": 0.6}}
    (tmp_path / "run.json").write_text(json.dumps(record | {"recipe": {"judge": {"rules": rules}}}))
    sources = Sources(str(tmp_path))
    signals = {signal.rule: signal for signal in figures(sources, reject_rows(sources)).signals}
    assert {name: (signal.broken, signal.only, signal.decided) for name, signal in signals.items()} == {
        "loop": (1, 0, 1),
        "strict": (1, 0, 0),
    }
    flags = histogram(np.array([0.0, 1.0, 0.0, 0.0]), signal_edges(np.array([0.0, 1.0]), [0.0]))
    assert Signal("r", "s", None, 0.0, "", None, flags, [0, 1]).share == 0.25


def test_what_a_mixture_lacks_is_shown_in_the_words_of_the_last_run(tmp_path):
    planted(tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(record | {"warnings": ["stage sft falls short: 5 of 9"]}))
    assert "stage sft falls short: 5 of 9" in report(str(tmp_path)).decode()


def test_samples_and_rejects_stand_beside_what_caused_them(tmp_path):
    planted(tmp_path)
    sources = Sources(str(tmp_path))
    rejects = pick_rejects(sources, reject_rows(sources))
    (cut,), (copy,) = rejects["normalize", "truncated"], rejects["judge", "near_duplicate"]
    assert cut.excerpt == ('{"cut": "he', 0)
    assert (copy.action.text != "", copy.answer) == (True, ("six", 0))
    (sample,) = samples(sources)["web"]
    assert [[(run.text, run.loss) for run in message.runs] for message in sample.messages] == [
        [("do", False)],
        [("on", True), ("e", False)],
    ]
    page = report(str(tmp_path)).decode()
    assert '<span class="loss">on</span>e' in page
    for words in ("mine", "near_duplicate", "truncated", "six", "≤ 0.5", "1 rows fail it, 1 only it; it decided 1"):
        assert words in page
    assert examined(page) > 100


RECIPE = "{name: mine, source: here, domains: [mcp], judge: {rules: {few_turns: {signal: turns, min: 2}}}}"


def raw_run(out, text):
    """A run over one log whose only trajectory is dropped as too short; returns the log."""
    log = out.parent / "raw" / "chats.jsonl"
    log.parent.mkdir(parents=True)
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": text},
    ]
    log.write_text(json.dumps({"messages": messages}) + "\n")
    RunOf(parse_recipe(RECIPE, "r"), [str(log)], str(out)).run("judge")
    return log


@pytest.mark.parametrize("text", ["the door is shut", "the key is ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"])
def test_a_dropped_trajectory_stands_beside_the_bytes_of_its_log_unless_secrets_were_replaced(tmp_path, text):
    log = raw_run(tmp_path / "out", text)
    sources = Sources(str(tmp_path / "out"))
    (reject,) = pick_rejects(sources, reject_rows(sources))["judge", "few_turns"]
    if "ghp_" in text:
        assert (reject.excerpt.text, reject.why) == ("", "secrets of its trajectory were replaced")
    else:
        assert log.read_text().startswith(reject.excerpt.text)
        assert reject.excerpt.text
    assert "ghp_a1B2" not in report(str(tmp_path / "out")).decode()
    log.unlink()
    (gone,) = pick_rejects(sources, reject_rows(sources))["judge", "few_turns"]
    assert gone.excerpt.text == ""
    assert gone.action.text != ""
    assert f"Its raw bytes are not shown: {gone.why}." in report(str(tmp_path / "out")).decode()
    assert str(tmp_path) not in report(str(tmp_path / "out")).decode()


def test_a_browser_may_use_its_style_sheet_and_nothing_else(tmp_path):
    planted(tmp_path)
    page = LexborHTMLParser(report(str(tmp_path)))
    style = there(page.css_first("style")).text()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = there(page.css_first("meta[http-equiv]")).attributes["content"]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert "@import" not in style
    assert re.findall(r"url\(([^)]*)\)", style) == ["#hatch", "#dots", "#cross"]


@pytest.mark.parametrize("text", ["\n".join(TEXTS), TEXTS[1]])
def test_nothing_of_a_hostile_corpus_is_more_than_text(tmp_path, text):
    hostile_run(tmp_path, text)
    record = json.loads((tmp_path / "run.json").read_text())
    record["recipe"] |= {"name": text, "source": text, "licence": text}
    record["recipe"]["judge"]["rules"][text] = {"signal": "turns", "max": 1}
    record["counts"] = {text: {"entered": 2, "kept": 1, "context": {text: 1}, "lost": {text: 1}, "merged": {text: 1}}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    page = report(str(tmp_path)).decode()
    assert examined(page) > 100
    assert "owned" in page


def test_a_damaged_file_is_named(tmp_path):
    planted(tmp_path)
    (damaged,) = tmp_path.glob("verdicts/web/*.parquet")
    damaged.write_bytes(damaged.read_bytes()[:-20])
    with pytest.raises(ShardError, match=re.escape(str(damaged))):
        report(str(tmp_path))


def test_it_is_read_from_and_written_to_an_object_store(tmp_path):
    planted(tmp_path)
    store = Folder("memory://reported/out")
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        store.write(str(file.relative_to(tmp_path)), file.read_bytes())
    write_report(store.url)
    assert store.read(REPORT) == report(str(tmp_path))


def test_the_command_writes_it_and_tells_where(tmp_path):
    planted(tmp_path)
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert (done.exit_code, done.output.split()) == (0, ["written:", str(tmp_path / REPORT)])
    assert (tmp_path / REPORT).read_bytes() == report(str(tmp_path))
    with pytest.raises(ConfigError):
        report(str(tmp_path / "none"))


def test_long_texts_are_cut_and_it_is_said_where():
    runs = [Run("a" * 5000, loss=False), Run("b" * 5000, loss=True), Run("c", loss=False)]
    sample = Rendered("sft", "web", 0, "s", None, {}, [Said("user", runs), *[Said("user", runs[2:])] * 20])
    messages = shorten(sample).messages
    assert len(messages) == 9
    assert messages[5].runs == [Run("13 messages", loss=False, label=CUT)]
    first = messages[0].runs
    assert [(run.label, run.loss) for run in first[:2]] == [(None, False), (CUT, False)]
    assert sum(len(run.text) for run in first) < 1000
    assert len(fitting("\u202e" * 500, 500)) < 100
    assert fitting("plain", 3) == "pla"


@pytest.mark.parametrize(
    ("values", "least", "most", "beyond"),
    [([0.0, 0.0, 1.0], None, 0.0, 1), ([0.0, 0.005, 0.25], None, 0.0, 2), ([0.2, 0.9], 0.3, None, 1)],
)
def test_what_is_beyond_a_threshold_is_drawn_beyond_it(values, least, most, beyond):
    series = np.array(values)
    edges = signal_edges(series, [bound for bound in (least, most) if bound is not None])
    out = series[(series < (-9 if least is None else least)) | (series > (9 if most is None else most))]
    signal = Signal("rule", "signal", least, most, "", None, histogram(series, edges), histogram(out, edges).counts)
    chart = signal_chart(signal)
    assert signal.broken == beyond
    (line,) = chart.lines
    for box in chart.boxes:
        if box.kind == "out":
            assert (box.x + box.width / 2 > line[0]) == (most is not None)
