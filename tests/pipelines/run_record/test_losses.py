"""A run of which nothing is left says so, and why, and leaves a report that says the same."""

from tests.app.cli.test_cli import ran

RECIPE = "name: none\nsource: none\nnormalize: {max_reject_ratio: 1.0}\n"
NO_ANSWER = """{"type": "user", "sessionId": "a", "uuid": "1", "parentUuid": null, "version": "2.0.0", "cwd": "/",
"timestamp": "2025-01-01T00:00:00Z", "message": {"role": "user", "content": "Look."}}""".replace("\n", " ")


def test_a_run_that_keeps_nothing_tells_why_and_reports_it(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "log.jsonl").write_text(NO_ANSWER)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    out = tmp_path / "out"
    code, said, complained = ran("run", tmp_path / "recipe.yaml", "--raw", tmp_path / "raw", "--out", out)
    told = "nothing is kept: of 1 inputs, no_transitions 1"
    assert code == 0
    assert told in said.splitlines()
    assert "not written" not in complained
    assert told in (out / "report.html").read_text()
    assert "is empty" not in said


def test_a_report_that_was_not_written_is_not_named(tmp_path, monkeypatch):
    def failing(_: str) -> str:
        raise OSError("no room")

    monkeypatch.setattr("trajmill.app.report.report.write_report", failing)
    (tmp_path / "log.jsonl").write_text(NO_ANSWER)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    words = ("run", tmp_path / "recipe.yaml", "--raw", tmp_path / "log.jsonl", "--out", tmp_path / "out")
    code, said, complained = ran(*words)
    assert code == 0
    assert "no room" in complained
    assert "report.html" not in said
