"""What a plan tells besides its inputs: connectors that failed, why files are no inputs; and all of it scrubbed."""

import gzip
import json
from typing import ClassVar
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from tests.pipelines.hostile import GOOD, zipped
from trajmill.app.cli.cli import app
from trajmill.connectors import registry
from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.pipelines.plan.plan import UNRECOGNIZED_REASONS, Plan, make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import ConfigError, ContractError, ParseError

RECIPE = Recipe(name="t", source="t")
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


class Fails(Connector):
    """A connector that fails where it is told to."""

    name = "fails"
    version = "1"
    domains = ("terminal",)
    title = "a test"
    error: ClassVar[Exception] = TypeError(f"unhashable: {SECRET}")
    joins: ClassVar[bool] = False

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        raise self.error

    def join(self, paths):
        if self.joins:
            raise self.error
        if "log.jsonl" in paths:
            yield Log("both", {"log.jsonl": "log.jsonl"}, "log.jsonl")

    def parse(self, blob: Blob):
        raise AssertionError("nothing is recognized as this")


@pytest.fixture
def failing(monkeypatch, tmp_path):
    known = {"fails": Fails(), **registry.connectors()}
    for module in (
        "trajmill.connectors.registry",
        "trajmill.pipelines.plan.plan",
        "trajmill.pipelines.plan.recognition",
    ):
        monkeypatch.setattr(f"{module}.connectors", lambda: known)
    (tmp_path / "log.jsonl").write_bytes(GOOD)
    (tmp_path / "notes.txt").write_text("no log")
    return tmp_path


def test_a_connector_that_fails_at_a_file_is_withdrawn_there_and_the_file_is_read_by_another(failing):
    plan = make_plan(RECIPE, [str(failing)])
    assert [(log.uri, log.connector) for log in plan.inputs] == [("log.jsonl", "claude_code")]
    assert [reject.uri for reject in plan.unrecognized] == ["notes.txt"]
    assert {(withdrawal.connector, withdrawal.uri, withdrawal.error) for withdrawal in plan.withdrawn} == {
        ("fails", "log.jsonl", "TypeError"),
        ("fails", "notes.txt", "TypeError"),
    }
    assert all(":sniff:" in withdrawal.raised_at for withdrawal in plan.withdrawn)
    assert SECRET.encode() not in plan.to_json()
    assert Plan.from_json(plan.to_json()) == plan


def test_a_strict_plan_stops_at_the_exception_and_names_connector_and_file(failing, monkeypatch):
    monkeypatch.setattr(Fails, "error", TypeError())
    with pytest.raises(TypeError) as caught:
        make_plan(RECIPE, [str(failing)], strict=True)
    assert caught.value.__notes__ == ["while connector 'fails' was asked about log.jsonl"]


@pytest.mark.parametrize("error", [OSError(5, "I/O"), MemoryError(), ConfigError("no"), ContractError("bug")])
def test_errors_of_io_memory_configuration_and_contract_withdraw_nothing(failing, monkeypatch, error):
    monkeypatch.setattr(Fails, "error", error)
    with pytest.raises(type(error)):
        make_plan(RECIPE, [str(failing)])


@pytest.mark.parametrize("error", [ParseError("x", 0, "r", "d"), RecursionError(), KeyError("x"), AssertionError()])
def test_any_other_exception_withdraws(failing, monkeypatch, error):
    monkeypatch.setattr(Fails, "error", error)
    assert {withdrawal.error for withdrawal in make_plan(RECIPE, [str(failing)]).withdrawn} == {type(error).__name__}


def test_an_exception_in_joining_stops_the_plan(failing, monkeypatch):
    monkeypatch.setattr(Fails, "joins", True)
    monkeypatch.setattr(Fails, "error", TypeError())
    with pytest.raises(TypeError) as caught:
        make_plan(RECIPE, [str(failing)])
    assert caught.value.__notes__ == ["while connector 'fails' was joining files to logs"]


def test_the_line_that_ended_a_plan_is_one_that_nothing_recognizes(tmp_path):
    (tmp_path / "a").write_bytes(b'{"type": {"a": 1}}\n')
    plan = make_plan(RECIPE, [str(tmp_path)], strict=True)
    assert [reject.reason for reject in plan.unrecognized] == ["unrecognized"]


def test_a_log_whose_first_record_is_longer_than_the_head_is_an_input_however_it_is_packed(tmp_path):
    row = {"messages": [{"role": "user", "content": "word " * 40_000}], "instance_id": "a__b-1"}
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(json.dumps(row).encode() + b"\n"))
    with ZipFile(tmp_path / "logs.zip", "w") as archive:
        archive.writestr("a/log.jsonl", GOOD)
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert {log.uri: log.connector for log in plan.inputs} == {
        "logs.zip/a/log.jsonl": "claude_code",
        "rows.jsonl.gz": "swe_rows",
    }


def test_what_no_connector_knows_is_told_from_what_could_not_be_read(tmp_path):
    files = {
        "a.txt": b"notes", "b": b"", "d.log": "text".encode("utf-16"),
        "e.gz": b"\x1f\x8b\x08\0broken", "f.zip": zipped({"a": b"x"})[:-30],
    }  # fmt: skip
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "g").symlink_to("nowhere")
    (tmp_path / "h").symlink_to("/etc/passwd")
    reasons = {reject.uri: reject.reason for reject in make_plan(RECIPE, [str(tmp_path)]).unrecognized}
    assert {name for name, reason in reasons.items() if reason not in UNRECOGNIZED_REASONS} == {"e.gz", "f.zip"}
    assert set(reasons) == {*files, "g", "h"}


def secrets(folder) -> None:
    (folder / "notes.txt").write_text(f"token {SECRET} in a file that nothing knows")
    (folder / "typescript").write_text(
        f'Script started on 2024-05-06 08:00:00+00:00 [COMMAND="login {SECRET}"]\n$ ls\n'
    )
    (folder / "log.jsonl").write_bytes(GOOD.replace(b'"content":"', f'"content":"{SECRET} '.encode()))


def test_nothing_of_a_plan_holds_a_secret(tmp_path):
    secrets(tmp_path)
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert SECRET.encode() not in plan.to_json()
    assert [reject.excerpt for reject in plan.unrecognized if "token ghp_" in reject.excerpt]
    assert any("Script started" in log.why for log in plan.inputs)


def test_excerpts_of_a_plan_hang_on_the_salt(tmp_path):
    secrets(tmp_path)
    salted = Recipe.model_validate({"name": "t", "source": "t", "normalize": {"scrub_salt": "a salt of many letters"}})
    excerpts = {make_plan(recipe, [str(tmp_path)]).unrecognized[0].excerpt for recipe in (RECIPE, salted)}
    assert len(excerpts) == 2


@pytest.mark.parametrize("command", ["sniff", "inspect", "plan"])
def test_no_command_that_looks_at_raw_logs_shows_a_secret(tmp_path, command):
    (tmp_path / "raw").mkdir()
    secrets(tmp_path / "raw")
    (tmp_path / "r.yaml").write_text(json.dumps({"name": "r", "source": "r"}))
    words = {
        "sniff": ["sniff", str(tmp_path / "raw")],
        "inspect": ["inspect", str(tmp_path / "raw" / "log.jsonl"), "--lines", "400"],
        "plan": ["plan", str(tmp_path / "r.yaml"), "--raw", str(tmp_path / "raw")],
    }
    done = CliRunner().invoke(app, words[command], env={"COLUMNS": "400"})
    assert done.exit_code == 0
    assert SECRET not in done.output
    assert SECRET[:20] not in done.output


def test_workers_find_files_to_be_what_one_process_does_and_raise_what_it_raises(tmp_path, monkeypatch):
    for number in range(45):
        (tmp_path / f"{number:03d}.jsonl").write_bytes(GOOD if number % 3 else b"no log")
    plan = make_plan(RECIPE, [str(tmp_path)])
    monkeypatch.setattr("trajmill.pipelines.plan.recognition.LEAST", 1)
    assert make_plan(RECIPE, [str(tmp_path)], workers=2) == plan
    assert len(plan.inputs) == 30
    (tmp_path / "mapped.jsonl").write_text('{"a": 1}\n')
    dataset = {"layout": "messages", "domain": "terminal", "columns": {"messages": "missing"}}
    mapping = Recipe.model_validate({"name": "t", "source": "t", "normalize": {"dataset": dataset}})
    with pytest.raises(ConfigError, match="missing"):
        make_plan(mapping, [str(tmp_path)], workers=2)
