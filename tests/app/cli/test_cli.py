"""The command line: runs, drafts of recipes, exports, progress, and mistakes in a line."""

import io
import json
import re
import shlex
import shutil
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from trajmill.app.cli.cli import main
from trajmill.app.cli.progress import Lines, StageProgress, Terminal, Units
from trajmill.app.cli.recipe_draft import recipe_draft
from trajmill.app.console import Printer
from trajmill.connectors.registry import FORMATS, VERIFIED
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe_file import load_recipe, parse_recipe
from trajmill.pipelines.run_record.stage_progress import StageWatch
from trajmill.pipelines.run_record.summary import OVER, StageStart
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.units import finish_unit, units_of
from trajmill.schemas import SCHEMA_VERSION, ConfigError, scan_transitions
from trajmill.schemas.manifest import Manifest

SAMPLES = ROOT / "samples" / "terminal"
LOG = sorted((SAMPLES / "claude_code").rglob("*.jsonl"))[0]


def ran(*words) -> tuple[int, str, str]:
    """(code, what it says on stdout, and on stderr) of the command, run in this process."""
    code: object = 0
    output, complained = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(complained):
        patch.setattr(sys, "argv", ["trajmill", *map(str, words)])
        try:
            main()
        except SystemExit as error:
            code = error.code or 0
    return int(str(code)), output.getvalue(), complained.getvalue()


def trajmill(*words, code: int = 0) -> str:
    ended, output, complained = ran(*words)
    assert ended == code, complained
    return output + complained


def test_sniff_says_what_a_file_is_and_why(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    output = trajmill("sniff", LOG, tmp_path / "notes.txt")
    assert f"{LOG.name}: claude_code (" in output
    assert "notes.txt: unrecognized" in output
    assert output.splitlines()[-1] == "1 log (claude_code 1), 1 other file"


def test_sniff_prints_paths_that_can_be_pasted_back_and_json(tmp_path):
    log = tmp_path / "my logs" / "it's one.jsonl"
    log.parent.mkdir()
    log.write_bytes(LOG.read_bytes())
    for path in (log, log.parent, tmp_path):
        line, *_ = trajmill("sniff", path).splitlines()
        assert shlex.split(line.rpartition(": claude_code")[0]) == [str(log)]
        (row,) = json.loads(trajmill("sniff", path, "--json"))
        assert (row["path"], row["format"]) == (str(log), "claude_code")


def test_each_reject_of_a_run_is_told_with_its_place_and_counts_come_last(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.jsonl").write_bytes(LOG.read_bytes())
    for name in ("notes.txt", "more.txt"):
        (raw / name).write_text("hello")
    trajmill("run", "terminal", "--raw", raw, "--out", tmp_path / "out", "--stop-after", "normalize")
    lines = trajmill("inspect", tmp_path / "out" / "rejects").splitlines()
    assert [line for line in lines if ": input unrecognized: " in line] == [
        f"{name} at byte 0: input unrecognized: no connector recognizes it" for name in ("more.txt", "notes.txt")
    ]
    assert lines[-1].startswith("rejects: ")
    assert trajmill("inspect", tmp_path / "out").splitlines()[-1].startswith("transitions: trajectories 1,")


def test_formats_that_met_no_real_log_are_listed_as_unverified():
    rows = [line.split() for line in trajmill("formats").splitlines()]
    assert {name for name, _, status, *_ in rows if status == "unverified"} == FORMATS.keys() - VERIFIED.keys()
    assert ["asciicast", FORMATS["asciicast"].version, str(VERIFIED["asciicast"]), "logs"] in [row[:4] for row in rows]


def test_sniff_names_the_command_that_reads_a_table_of_unknown_columns(tmp_path):
    table = tmp_path / "steps.jsonl"
    table.write_text('{"ep": 1, "obs": "a", "cmd": "go", "result": "b"}\n' * 3)
    ended, output, complained = ran("sniff", table)
    assert (ended, "steps.jsonl: unrecognized" in output) == (0, True)
    assert f"`trajmill init {table}` drafts a recipe" in complained
    assert ran("sniff", LOG)[2] == ""


def test_run_takes_several_paths_after_raw_and_prints_the_balance(tmp_path):
    logs = sorted((SAMPLES / "claude_code").rglob("*.jsonl"))[:3]
    output = trajmill("run", "terminal", "--raw", *logs, "--out", tmp_path / "out", "--stop-after", "judge")
    assert "trajmill-terminal: 3 logs" in output
    assert "next: trajmill inspect" in output


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["run", "terminal", "--raw", "nowhere"], "no raw input at 'nowhere'"),
        (["run", "terminall", "--raw", str(LOG)], "Did you mean 'terminal'?"),
        (["run", "terminal", "--raw", str(LOG), "--no_such_flag=1"], "--no_such_flag=1"),
        (["run", "terminal", "--raw", str(LOG), "--runner=Spark"], "no runner 'Spark'"),
        (["run", "terminal", "--raw", str(LOG), "--workers", "many"], "--workers"),
        (["run", "terminal", "--raw", "gopher://logs"], "Protocol not known: gopher"),
    ],
)
def test_a_mistake_is_answered_in_one_line(tmp_path, words, answer):
    output = trajmill(*words, "--out", tmp_path / "out", code=1)
    assert answer in output
    assert "Traceback" not in output
    assert not (tmp_path / "out" / "plan.json").exists()


def test_it_tells_its_version_and_the_flag_that_was_meant(tmp_path):
    assert re.fullmatch(r"trajmill \d+\.\d+\.\d+\n", trajmill("--version"))
    output = trajmill("run", "terminal", "--raw", SAMPLES, "--out", tmp_path / "out", "--worker", "2", code=1)
    assert "--worker. Did you mean --workers?" in output
    assert not (tmp_path / "out").exists()


def test_a_program_reads_how_a_run_went_and_a_quiet_one_says_nothing(tmp_path):
    words = ("run", "terminal", "--raw", SAMPLES / "claude_code", "--out", tmp_path / "out")
    code, output, complained = ran(*words, "--log-format", "json")
    assert code == 0
    events = [json.loads(line) for line in complained.splitlines()]
    assert [event["stage"] for event in events if event["event"] == "stage_ends"] == [
        "plan",
        "normalize",
        "judge",
        "mix",
    ]
    summary = json.loads(output)
    assert summary["event"] == "summary"
    assert summary["counts"]["trajectories"]["entered"] > 0
    assert "mix: done in" in (tmp_path / "out" / "run.log").read_text()
    assert ran(*words, "--quiet") == (0, "", "")
    assert json.loads(ran(*words, "--json")[1])["counts"] == summary["counts"]
    unchanged = json.loads(ran(*words, "--append", "--json")[1])
    assert (unchanged["event"], unchanged["generation"]) == ("nothing_new", 1)
    code, output, complained = ran("run", "terminall", *words[2:], "--log-format", "json")
    assert (code, output) == (1, "")
    assert json.loads(complained)["code"] == 1


def test_too_many_rejects_end_with_code_2_and_the_counts(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.bin").write_bytes(b"\0\1\2")
    output = trajmill("run", "terminal", "--raw", tmp_path / "raw", "--out", tmp_path / "out", code=2)
    assert "100.0% of 1 files were not recognized" in output
    assert "unrecognized 1" in output


def test_export_writes_conversations_of_agents_and_why_others_are_none(tmp_path):
    tool_call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    talk = [
        {"role": "user", "content": "How is it?"},
        {"role": "assistant", "content": None, "tool_calls": [tool_call]},
        {"role": "tool", "tool_call_id": "a", "content": "dry"},
        {"role": "assistant", "content": "Dry."},
    ]
    tools = [{"type": "function", "function": {"name": "look"}}]
    raw = tmp_path / "raw"
    raw.mkdir()
    undeclared = [{"role": "user", "content": "Now?"}, *talk[1:]]
    logs = [{"tools": tools, "messages": talk}, {"messages": undeclared, "success": False, "score": 0.5}]
    (raw / "talks.jsonl").write_text("".join(json.dumps(log) + "\n" for log in logs))
    shutil.copy(ROOT / "tests" / "fixtures" / "har" / "input" / "chrome.har", raw)
    trajmill("run", "all", "--raw", raw, "--out", tmp_path / "out", "--stop-after", "normalize")
    trajmill("export", tmp_path / "out", "--to", "agent_sft", "--out", tmp_path / "sft")
    rows = pq.read_table(tmp_path / "sft" / "train.parquet").to_pylist()
    row, second = sorted(rows, key=lambda sample: sample["messages"][0]["content"])
    assert [message["content"] for message in row["messages"]] == ["How is it?", None, "dry", "Dry."]
    assert [message["loss"] for message in row["messages"]] == [None, True, None, True]
    assert json.loads(row["messages"][1]["tool_calls"]) == [tool_call]
    assert json.loads(row["tools"]) == tools
    assert (second["tools"], second["fidelity"]["tools"]) == (None, "not_logged")
    assert (row["outcome"], second["outcome"]) == (None, {"resolved": False, "score": 0.5, "verifier": None})
    refused = [json.loads(line) for line in (tmp_path / "sft" / "refused.jsonl").read_text().splitlines()]
    assert {reject["reason"] for reject in refused} == {"no_conversation"}


def test_sampled_token_ids_are_exported_unless_scrubbing_changed_what_they_say(tmp_path):
    def says(text, key, *ids):
        calls = [{"tool_call_id": key, "function_name": "look", "arguments": {"bed": 2}}]
        results = [{"source_call_id": key, "content": "dry"}]
        metrics = {"completion_token_ids": ids, "logprobs": [-0.1] * len(ids)}
        return {
            "source": "agent",
            "message": text,
            "tool_calls": calls,
            "observation": {"results": results},
            "metrics": metrics,
        }

    steps = [
        {"source": "user", "message": "How is it?"},
        says("I look.", "a", 7, 9),
        says("I ask carol.jones@corp.io.", "b", 8),
    ]
    document = {"schema_version": "ATIF-v1.7", "agent": {"name": "a", "version": "1"}, "steps": steps}
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "trajectory.json").write_text(json.dumps(document))
    trajmill("run", "all", "--raw", tmp_path / "raw", "--out", tmp_path / "out", "--stop-after", "normalize")
    for form in ("atif", "agent_sft"):
        trajmill("export", tmp_path / "out", "--to", form, "--out", tmp_path / form)
    (written,) = (tmp_path / "atif").glob("*/trajectory.json")
    metrics = [step.get("metrics") for step in json.loads(written.read_text())["steps"] if step["source"] == "agent"]
    assert metrics == [{"completion_token_ids": [7, 9], "logprobs": [-0.1, -0.1]}, None]
    (row,) = pq.read_table(tmp_path / "agent_sft" / "train.parquet").to_pylist()
    assert [(turn["message"], turn["ids"], turn["token_ids"]) for turn in row["turns"]] == [
        (1, "sampled", [7, 9]),
        (3, "retokenized", None),
    ]
    template = tmp_path / "calls.jinja"
    template.write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ m.tool_calls or '' }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    encodes = ["--tokenizer", ROOT / "tests" / "fixtures" / "tokenizer", "--chat-template", template]
    output = trajmill("export", tmp_path / "out", "--to", "agent_ids", *encodes, "--out", tmp_path / "agent_ids")
    assert "1 mismatched, 1 retokenized" in output
    (row,) = pq.read_table(tmp_path / "agent_ids" / "train.parquet").to_pylist()
    assert [turn["ids"] for turn in row["turns"]] == ["mismatched", "retokenized"]


def test_the_schema_page_is_up_to_date():
    assert trajmill("formats", "--markdown") == (ROOT / "docs" / "schema.md").read_text("utf-8")


def test_the_schema_is_printed_as_json_schema():
    assert json.loads(trajmill("formats", "--schema"))["title"] == "trajmill transition"


@pytest.fixture
def logs(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "samples" / "terminal" / "claude_code", tmp_path / "logs")
    shutil.copy(next((ROOT / "samples" / "android").rglob("*.json*")), tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "logs"


def test_logs_alone_are_enough(logs):
    code, output, complained = ran("run", "logs")
    assert code == 0, complained
    assert "terminal" in output
    assert scan_transitions("logs-trajmill").collect().height > 0
    assert "domains: [" in (logs.parent / "logs-trajmill" / "recipe.yaml").read_text("utf-8")


def test_the_recipe_beside_the_logs_is_the_users(logs):
    ran("run", "logs/", "--stop-after", "plan")
    recipe = logs.parent / "logs-trajmill" / "recipe.yaml"
    recipe.write_text("name: mine\nsource: mine\ndomains: [terminal]\n", "utf-8")
    code, output, complained = ran("run", "logs", "--overwrite", "--stop-after", "judge")
    assert code == 0, complained
    assert output.startswith("mine: ")
    assert recipe.read_text("utf-8") == "name: mine\nsource: mine\ndomains: [terminal]\n"


def test_a_recipe_without_logs_asks_for_them(logs):
    code, _, complained = ran("run", "terminal")
    assert code == 1
    assert "--raw LOGS" in complained


def test_a_recipe_of_one_domain_says_what_it_left_out_and_what_takes_it(logs):
    shutil.copytree(ROOT / "samples" / "mcp" / "exchanges", logs / "exchanges")
    code, output, complained = ran("run", "terminal", "--raw", "logs", "--out", "out")
    assert code == 0, complained
    assert "other_domain" in output
    assert "trajmill run LOGS" in output


@pytest.mark.parametrize(
    ("old", "new"), [("replay", "world replay"), ("reason", "model reason"), ("schema", "formats --schema")]
)
def test_a_command_of_before_answers_with_the_new_one(old, new, monkeypatch, capsys):
    from trajmill.app.cli import cli

    monkeypatch.setattr("sys.argv", ["trajmill", old, "out"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert f"trajmill {new}" in capsys.readouterr().err


CASTS = ROOT / "samples" / "terminal" / "asciicast"


def test_a_mixed_folder_extends_all_and_names_its_formats_and_what_is_not_read(tmp_path):
    shutil.copytree(CASTS, tmp_path / "My logs" / "casts")
    shutil.copytree(ROOT / "samples" / "android" / "uiautomator", tmp_path / "My logs" / "phone")
    (tmp_path / "My logs" / "notes.txt").write_text("nothing")
    text = recipe_draft([str(tmp_path / "My logs")], "r.yaml")
    recipe = parse_recipe(text, "r.yaml")
    assert {"terminal", "android"} <= set(recipe.domains)
    assert recipe.judge == load_recipe("all").judge
    assert recipe.name == "my-logs"
    comments = [line for line in text.splitlines() if line.startswith("# ")]
    assert "extends: all\n" in text
    assert "asciicast" in comments[1]
    assert "uiautomator" in comments[1]
    assert "unrecognized 1" in comments[2]


def test_a_table_of_conversations_is_drafted_as_one(tmp_path):
    table = tmp_path / "talks.jsonl"
    table.write_text('{"conv_id": "a", "dialogue": [{"role": "user", "content": "x"}]}\n' * 2)
    output = trajmill("init", table, "--out", tmp_path / "r.yaml")
    assert "fill in there what the columns of the table hold: normalize.dataset" in output
    draft = (tmp_path / "r.yaml").read_text("utf-8")
    assert "#   layout: messages " in draft
    assert "#   columns: {id: conv_id, messages: dialogue}" in draft


def test_a_path_cannot_write_into_the_recipe(tmp_path):
    folder = tmp_path / "a\ndomains: [web]\n'#"
    shutil.copytree(CASTS, folder)
    recipe = parse_recipe(recipe_draft([str(folder)], "r.yaml"), "r.yaml")
    assert recipe.domains == ("terminal",)


def test_nothing_that_is_read_is_no_recipe(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(ConfigError):
        recipe_draft([str(tmp_path)], "r.yaml")


def test_the_command_writes_a_recipe_that_plan_takes_and_replaces_nothing(tmp_path):
    out = tmp_path / "mine.yaml"
    output = trajmill("init", CASTS, "--out", out)
    assert output == f"written: {out}\nnext: trajmill run {out} --raw {CASTS} --out out/asciicast\n"
    assert "asciicast" in trajmill("plan", out, "--raw", CASTS)
    before = out.read_text("utf-8")
    assert "is not replaced" in trajmill("init", CASTS, "--out", out, code=1)
    assert out.read_text("utf-8") == before


def test_what_a_draft_says_of_stages_in_comments_is_valid_once_it_counts():
    head, mix, lines = recipe_draft([str(CASTS)], "r.yaml").partition("\nmix:\n")
    uncommented = "\n".join(line.replace("  # ", "  ", 1) for line in lines.splitlines())
    parsed = parse_recipe(head + mix + uncommented, "r.yaml").mix
    assert parsed.group_by == {"repository": 1.0}
    assert parsed.stages["cpt"].components["manuals"].kind == parsed.passages[0].kind == "text"
    assert parsed.stages["rl"].max_per_group == 8


ROWS = [
    {"episode": f"e{n // 3}", "goal": "look", "cmd": f"ls {n}", "output": f"file {n}", "reward": 0.5} for n in range(9)
]


def made_table(folder, form):
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), folder / "rows.parquet")
    else:
        (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_table_of_unknown_columns_gets_a_section_to_fill_in_that_reads_it_without_its_marks(form, tmp_path):
    made_table(tmp_path, form)
    text = recipe_draft([str(tmp_path)], "r.yaml")
    assert f"rows.{form} has columns that no known layout has: episode, goal, cmd, output, reward." in text
    head, section, rest = re.split(r"(  # dataset:\n(?:  # .*\n)+)", text)
    recipe = parse_recipe(head + re.sub(r"(?m)^  # ", "  ", section) + rest, "r.yaml")
    assert recipe.normalize.grown == "extend"
    assert recipe.normalize.dataset.columns.model_dump(exclude_none=True) == {
        "id": "episode",
        "instruction": "goal",
        "action": "cmd",
        "next_observation": "output",
        "reward": "reward",
    }
    assert [log.connector for log in make_plan(recipe, [str(tmp_path)]).inputs] == ["table"]


def test_a_table_of_known_columns_needs_no_section(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}\n')
    pq.write_table(pa.Table.from_pylist([{"messages": [{"role": "user", "content": "a"}]}]), tmp_path / "a.parquet")
    assert "# dataset:" not in recipe_draft([str(tmp_path)], "r.yaml")


def finish(stage: Folder, unit: str, digest: str = "d", **counts: int) -> None:
    named = {key.replace("__", "."): number for key, number in counts.items()}
    finish_unit(stage, Manifest("judge", unit, digest, SCHEMA_VERSION, (), named))


def start(*stages: Folder, stage: str = "judge", done: int = 0) -> StageStart:
    domains = {"a": "d", "b": "d"}
    return StageStart(stage, 2, done, 4_000_000, tuple((units_of(stage), domains) for stage in stages))


@pytest.fixture
def out(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path))


def test_a_unit_is_as_far_as_the_steps_that_it_went_through(out: Folder):
    measures, verdicts = out / "measures", out / "verdicts"
    watch = StageWatch(start(measures, verdicts))
    assert watch.look().done == 0
    finish(measures, "a")
    finish(measures, "b")
    assert watch.look().done == 1
    finish(verdicts, "a", trajectories=5, trajectories__kept=3, trajectories__dropped__few_turns=2)
    state = watch.look()
    assert (state.done, state.kept(), state.dropped()) == (1.5, ("trajectories", 3, 5), {"few_turns": 2})
    assert list(state.finished) == ["a"]


class _Often(Lines):
    period = 0.01


def test_a_stage_tells_of_itself_while_it_works_and_when_it_is_over(out: Folder):
    output = io.StringIO()
    finish(out / "verdicts", "a", trajectories=2, trajectories__kept=2)
    with StageProgress([_Often(Printer(output)), Units(Printer(output))]) as progress:
        progress.tell(StageStart("plan"))
        progress.tell(start(out / "verdicts", done=1))
        finish(out / "verdicts", "b", trajectories=2, trajectories__kept=1, trajectories__dropped__few_turns=1)
        while "2 of 2 parts" not in output.getvalue():
            time.sleep(0.01)
        progress.tell(OVER)
    lines = output.getvalue().splitlines()
    assert lines[0] == "plan: begins"
    assert "judge: begins, 2 parts of 4.0 MB; 1 done before" in lines
    assert "judge: b is done" in lines
    assert "judge: a is done" not in lines
    assert lines[-1].endswith("3 of 4 trajectories kept, 1 dropped (few_turns 1)") or lines[-1] == "judge: b is done"


def test_a_terminal_shows_each_stage_with_its_parts(out: Folder):
    output = io.StringIO()
    console = Printer(output)
    console._force_terminal = True
    with StageProgress([Terminal(console)]) as progress:
        progress.tell(StageStart("plan"))
        progress.tell(start(out / "verdicts"))
        finish(out / "verdicts", "a")
        finish(out / "verdicts", "b")
    assert "2 of 2 parts" in output.getvalue()
    assert "plan" in output.getvalue()


def test_after_an_append_the_totals_of_the_dataset_stand_beside_the_nights(tmp_path):
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    first, second = sorted((SAMPLES / "asciicast").glob("*.cast"))[:2]
    shutil.copy(first, raw)
    trajmill("run", "terminal", "--raw", raw, "--out", out)
    shutil.copy(second, raw)
    (raw / first.name).write_bytes(first.read_bytes() + b'[99, "o", "more"]\n')
    lines = ran("run", "terminal", "--raw", raw, "--out", out, "--append")[1].splitlines()
    assert any(line.startswith("the dataset now, of 2 generations: 2 trajectories kept; samples ") for line in lines)
    assert any(line.endswith(f"(normalize.grown: extend): 1 ({first.name})") for line in lines)
