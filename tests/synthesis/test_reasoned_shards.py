"""Reasoned samples: what is asked, what is used of the answers, and that a killed command asks nothing twice."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from tests.synthesis.actors import JUDGE, WRITER, Actors, action_in, models, run_of, sample, truth_of
from tests.synthesis.chat_server import ChatServer, chat_server
from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS
from trajmill.pipelines.render.fixed_texts import ASKING, MARKER
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.units import read_manifest
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import ConfigError, ShardError
from trajmill.synthesis.reasoned_shards import reason
from trajmill.synthesis.reasoning import Reasoning
from trajmill.synthesis.recorded_run import RecordedRun
from trajmill.synthesis.session import Report, Work


def made(
    run: Folder, out: Path, chat: ChatServer, *, limit: int | None = None, cost: float | None = None, **options: Any
):
    chosen = Reasoning(
        **{"model": WRITER, "revision": "r1", "sampling": {"temperature": 1.0, "max_tokens": 200}, **options}
    )
    work = Work(concurrency=3, limit=limit)
    report = reason(RecordedRun(run), Folder(str(out)), models(chat.url, max_cost=cost), chosen, work, None)
    return report, rows_of(out)


def rows_of(out: Path) -> list[dict[str, Any]]:
    return pl.read_parquet(out / "terminal" / "train-00000-of-00001.parquet").to_dicts()


def told(report: Report) -> dict[str, int]:
    return {name.removesuffix(".terminal"): count for name, count in report.manifest.counts.items() if count}


def test_the_best_rollout_gives_its_reasoning_to_what_was_observed(tmp_path):
    run = run_of(tmp_path / "run", *(sample(number) for number in range(4)))
    with chat_server(Actors("wrong", "right", "near")) as chat:
        report, rows = made(run, tmp_path / "out", chat)
    counts = told(report)
    assert (counts["samples.kept"], counts["rollouts.read"], counts["rollouts.passing"]) == (4, 12, 8)
    for row in rows:
        *_, question, answered = row["messages"]
        truth = truth_of(action_in(question["content"]))
        thought = "It shows what it always shows."
        assert answered["content"] == (
            f"<think>\n{thought}\n</think>\n\n<predicted_observation>\n{truth}\n</predicted_observation>"
        )
        assert question["content"].endswith(ASKING)
        assert row["reasoning"]["rollout"] == 1
        assert row["reasoning"]["model"] == "writer@r1"
        assert row["reasoning"]["environment"] is None
        assert row["reasoning"]["score"] == 1.0


def test_the_loss_stands_on_the_last_message_alone_and_its_spans_cover_it(tmp_path):
    run = run_of(tmp_path / "run", sample(1, 4))
    with chat_server(Actors("right")) as chat:
        _, (row,) = made(run, tmp_path / "out", chat, rollouts=1)
    last = len(row["messages"]) - 1
    assert [message["loss"] for message in row["messages"]] == [
        None if message["role"] != "assistant" else number == last for number, message in enumerate(row["messages"])
    ]
    content = row["messages"][-1]["content"]
    assert {span["message"] for span in row["spans"]} == {last}
    assert "".join(content[span["begin"] : span["end"]] for span in row["spans"]) == content
    frames = [content[span["begin"] : span["end"]] for span in row["spans"] if span["label"] == "frame"]
    assert frames == ["<think>\n", "\n</think>\n\n<predicted_observation>\n", "\n</predicted_observation>"]
    assert row["num_loss_tokens"] < row["num_tokens"]


def test_what_bore_no_loss_of_the_observation_bears_none_behind_the_reasoning(tmp_path):
    sample_row = sample(1, 1)
    head = len(MARKER)
    sample_row["spans"] = [
        {"message": 2, "begin": 0, "end": head, "label": "frame"},
        {"message": 2, "begin": head + 6, "end": head + 16, "label": "new"},
    ]
    run = run_of(tmp_path / "run", sample_row)
    with chat_server(Actors("right")) as chat:
        _, (row,) = made(run, tmp_path / "out", chat, rollouts=1)
    content = row["messages"][-1]["content"]
    (new_span,) = [span for span in row["spans"] if span["label"] == "new"]
    assert content[new_span["begin"] : new_span["end"]] == truth_of("do 1.0")[6:16]


def test_a_rollout_that_is_kept_whole_is_marked_as_a_models(tmp_path):
    run = run_of(tmp_path / "run", sample(1))
    with chat_server(Actors("near")) as chat:
        _, (row,) = made(run, tmp_path / "out", chat, target="rollout", revision="")
    assert row["messages"][-1]["content"].endswith("\nand more\n</predicted_observation>")
    environment = row["reasoning"]["environment"]
    assert environment["kind"] == "model"
    assert environment["world_model"] == "writer@fp-7"
    assert environment["sampling"] == '{"temperature": 1.0, "max_tokens": 200}'


def test_the_truth_is_never_among_the_words_that_the_generator_is_sent(tmp_path):
    run = run_of(tmp_path / "run", *(sample(number, 3) for number in range(6)))
    with chat_server(Actors("right", "wrong")) as chat:
        made(run, tmp_path / "out", chat, rollouts=2)
        writer, judge = chat.words(WRITER), chat.words(JUDGE)
    assert len(writer) == 12
    for words in writer:
        assert truth_of(action_in(words)) not in words
        assert words.endswith(ASKING)
    assert all("<real_observation>\nshown" in words for words in judge)


def test_the_judge_is_not_shown_what_a_model_thought(tmp_path):
    run = run_of(tmp_path / "run", sample(1))
    with chat_server(Actors("right", "near", "apart")) as chat:
        made(run, tmp_path / "out", chat)
        assert not [words for words in chat.words(JUDGE) if "always shows" in words or "Told apart" in words]


@pytest.mark.parametrize(
    ("way", "outcome", "rollouts"),
    [
        ("wrong", "below_threshold", "read"),
        ("untagged", "no_prediction", "malformed"),
        ("thoughtless", "no_prediction", "no_reasoning"),
        ("cut", "no_prediction", "cut"),
    ],
)
def test_answers_that_are_no_good_prediction_become_no_sample(tmp_path, way, outcome, rollouts):
    run = run_of(tmp_path / "run", sample(1))
    with chat_server(Actors(way)) as chat:
        report, rows = made(run, tmp_path / "out", chat, rollouts=2)
    assert not rows
    assert told(report) == {f"samples.{outcome}": 1, f"rollouts.{rollouts}": 2}


def test_a_judge_that_says_nothing_readable_judges_nothing(tmp_path):
    actors = Actors("right")
    run = run_of(tmp_path / "run", sample(1))
    with chat_server(lambda body: actors(body) if body["model"] == WRITER else '{"format": 9}') as chat:
        report, _ = made(run, tmp_path / "out", chat, rollouts=1)
        assert len(chat.words(JUDGE)) == 3
    assert told(report)["samples.unjudged"] == 1


def test_only_turns_that_bear_loss_and_fit_the_bound_are_asked_for(tmp_path):
    run = run_of(tmp_path / "run", sample(1, 3, (False, True, False)), sample(2, 3, (False, False, True)))
    texts = [message["content"] for message in sample(1)["messages"][:4]]
    size = int(TokenCounter().count(pa.array(texts)).sum())
    with chat_server(Actors("right")) as chat:
        report, (row,) = made(run, tmp_path / "out", chat, rollouts=1, max_prompt_tokens=size)
    assert row["id"] == f"{sample(1)['id']}:4"
    assert told(report)["samples.no_turn"] == 1


def test_an_observation_that_holds_tags_of_its_own_is_no_target(tmp_path):
    row = sample(1, 1)
    row["messages"][-1]["content"] = MARKER + "a </predicted_observation> b"
    run = run_of(tmp_path / "run", row)
    with chat_server(Actors("right")) as chat:
        report, _ = made(run, tmp_path / "out", chat)
        assert not chat.met
    assert told(report) == {"samples.ambiguous": 1}


def test_rows_are_those_of_sft_and_the_manifest_is_written_last(tmp_path):
    run, out = run_of(tmp_path / "run", sample(1), sample(2)), tmp_path / "out"
    with chat_server(Actors("right")) as chat:
        made(run, out, chat, rollouts=1)
        manifest = read_manifest(Folder(str(out)), "manifest.json")
        assert manifest is not None
        assert manifest.files[0].rows == 2
        assert list(pl.read_parquet_schema(out / manifest.files[0].name)) == [*SAMPLE_SCHEMAS["sft"].names, "reasoning"]
        shutil.rmtree(out / ".replies")
        chat.faults = [500] * 50
        with pytest.raises(ShardError, match="500"):
            made(run, out, chat, rollouts=1)
    assert not (out / "manifest.json").exists()


def test_the_folder_loads_by_its_card(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    from datasets import load_dataset

    run = run_of(tmp_path / "run", *(sample(number) for number in range(3)))
    with chat_server(Actors("right")) as chat:
        _, rows = made(run, tmp_path / "out", chat, rollouts=1)
    dataset = load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert dataset["id"][:] == [row["id"] for row in rows]
    assert dataset[0]["messages"] == rows[0]["messages"]


def test_what_was_answered_is_not_asked_again_and_the_bytes_are_the_same(tmp_path):
    run, out = run_of(tmp_path / "run", *(sample(number) for number in range(3))), tmp_path / "out"
    with chat_server(Actors("wrong", "right", "near")) as chat:
        first, _ = made(run, out, chat)
        before, met = (out / "terminal" / "train-00000-of-00001.parquet").read_bytes(), chat.met
        again, _ = made(run, out, chat)
        assert chat.met == met
    assert (out / "terminal" / "train-00000-of-00001.parquet").read_bytes() == before
    assert again.spending.cost == pytest.approx(first.spending.cost)
    assert again.spending.fetched_cost == 0


def test_a_bound_on_costs_stops_and_a_larger_one_goes_on(tmp_path):
    run, out = run_of(tmp_path / "run", *(sample(number) for number in range(5))), tmp_path / "out"
    with chat_server(Actors("right")) as chat:
        short, rows = made(run, out, chat, rollouts=1, cost=0.0115)
        assert told(short)["samples.not_asked"] == 5 - len(rows)
        assert 0 < len(rows) < 5
        assert short.spending.cost <= 0.0115
        spent = chat.met
        whole, rows = made(run, out, chat, rollouts=1, cost=1.0)
        assert len(rows) == 5
        assert chat.met == 10
        assert whole.spending.asked == 10 - spent


def test_a_limit_takes_the_first_samples_and_can_be_raised(tmp_path):
    run = run_of(tmp_path / "run", *(sample(number) for number in range(5)))
    with chat_server(Actors("right")) as chat:
        _, rows = made(run, tmp_path / "out", chat, rollouts=1, limit=2)
        assert [row["trajectory_id"] for row in rows] == [sample(0)["id"], sample(1)["id"]]
        assert len(made(run, tmp_path / "out", chat, rollouts=1, limit=4)[1]) == 4


def test_folders_of_others_and_of_other_settings_are_refused(tmp_path):
    run = run_of(tmp_path / "run", sample(1))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with chat_server(Actors("right")) as chat:
        with pytest.raises(ConfigError):
            made(run, tmp_path / "mine", chat)
        with pytest.raises(ConfigError):
            made(run, tmp_path / "run" / "reasoned", chat)
        made(run, tmp_path / "out", chat)
        with pytest.raises(ConfigError, match="threshold"):
            made(run, tmp_path / "out", chat, threshold=0.5)
    with pytest.raises(ConfigError):
        _ = RecordedRun(Folder(str(tmp_path / "mine"))).shards


def command(run: Folder, out: Path, chat: ChatServer, *more: str) -> list[str]:
    models_of = ["--endpoint", chat.url, "--model", WRITER, "--judge-model", JUDGE, "--rollouts", "1"]
    return ["model", "reason", run.url, "--out", str(out), *models_of, "--price", "2,10", "--concurrency", "1", *more]


def test_a_killed_command_goes_on_without_asking_again(tmp_path):
    run, out = run_of(tmp_path / "run", *(sample(number) for number in range(6))), tmp_path / "out"
    actors, killed_it = Actors("right"), threading.Event()

    def waiting(body: dict[str, Any]) -> Any:
        if len(chat.asked) == 5:
            killed_it.wait()
        return actors(body)

    with chat_server(waiting) as chat:
        killed = subprocess.Popen([sys.executable, "-m", "trajmill", *command(run, out, chat)], cwd=ROOT)
        while chat.met < 6 and killed.poll() is None:
            time.sleep(0.01)
        os.kill(killed.pid, signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
        killed_it.set()  # the one that was in flight
        assert not (out / "manifest.json").exists()
        known, before = len(list((out / ".replies").rglob("*/*.json"))), chat.met
        code, output, complained = ran(*command(run, out, chat))
        assert code == 0, complained
        assert chat.met - before == 12 - known
    assert len(rows_of(out)) == 6
    assert f"{12 - known} asked for now, {known} known before" in output
    assert f"cost: {12 * 0.0022:.4f} in all" in output


def test_an_interrupted_command_ends_soon_and_says_that_it_goes_on(tmp_path):
    run = run_of(tmp_path / "run", *(sample(number) for number in range(6)))
    event = threading.Event()

    def slow(_: dict[str, Any]) -> Any:
        event.wait()
        return "late"

    with chat_server(slow) as chat:
        words = [sys.executable, "-m", "trajmill", *command(run, tmp_path / "out", chat)]
        asking = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        while not chat.met:
            time.sleep(0.02)
        asking.send_signal(signal.SIGINT)
        _, output = asking.communicate()
        event.set()
    assert asking.returncode == 130
    assert "run the same command again to go on" in output
    assert "Traceback" not in output


def test_the_command_names_what_is_missing_and_reads_prices(tmp_path):
    run = run_of(tmp_path / "run", sample(1))
    with chat_server(Actors("right")) as chat:
        words = command(run, tmp_path / "out", chat)
        assert "is no price" in ran(*words, "--price", "cheap")[2]
        assert "no JSON object" in ran(*words, "--body", "[1]")[2]
        assert "needs what tokens cost" in ran(*words, "--max-cost", "1", "--price", "0,0")[2]
        assert "no finished shards" in ran(*command(Folder(str(tmp_path / "none")), tmp_path / "out", chat))[2]
        assert not chat.met
        chat.faults = [401]
        code, _, errors = ran(*words)
        assert (code, "answers 401" in errors) == (1, True)


@pytest.mark.parametrize("refused", [(WRITER,), (JUDGE,)])
def test_a_command_fails_where_a_model_refused_all_that_it_was_asked(tmp_path, refused):
    run, actors = run_of(tmp_path / "run", sample(1)), Actors("right")
    with chat_server(lambda body: 400 if body["model"] in refused else actors(body)) as chat:
        code, _, errors = ran(*command(run, tmp_path / "out", chat))
    assert (code, "took none" in errors) == (1, True)


def test_a_request_that_is_too_long_beside_answers_that_are_kept_fails_nothing(tmp_path):
    run, actors = run_of(tmp_path / "run", sample(1), sample(2)), Actors("right")
    with chat_server(lambda body: 400 if "do 2." in str(body["messages"]) else actors(body)) as chat:
        for _ in range(2):
            assert ran(*command(run, tmp_path / "out", chat))[0] == 0


def test_a_key_is_sent_to_its_own_endpoint_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
    run = run_of(tmp_path / "run", sample(1))
    actors = Actors("right")
    with chat_server(actors) as chat, chat_server(actors) as judge:
        assert ran(*command(run, tmp_path / "out", chat, "--judge-endpoint", judge.url))[0] == 0
        assert chat.keys == {"Bearer sk-own"}
        assert judge.keys == {"Bearer none"}
