"""A connector's bug costs the input that it failed on, and nothing else."""

import polars as pl
import pytest

import trajmill.connectors.registry
from tests.make import trajectory
from tests.pipelines.brittle import SECRET, Brittle, logs, register
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.normalize import connector_errors
from trajmill.pipelines.normalize import normalizer as normalize
from trajmill.pipelines.normalize.connector_errors import CONNECTOR_ERROR, is_connectors, is_noted
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.quality.scrub import scrub
from trajmill.schemas import scan_transitions

RECIPE = Recipe.model_validate({"name": "t", "source": "t", "normalize": {"max_reject_ratio": 0.9}})
WAYS = ("raises", "rows", "types", "steps", "recursion")
LENIENT = Execution(strict=False)


@pytest.fixture(autouse=True)
def brittle(tmp_path, monkeypatch):
    """Makes the brittle connector known to this process."""
    monkeypatch.syspath_prepend(str(register(tmp_path / "entry")))
    trajmill.connectors.registry.connectors.cache_clear()
    yield
    trajmill.connectors.registry.connectors.cache_clear()


def rejects_of(out):
    return pl.read_parquet(f"{out}/rejects/normalize/*.parquet")


def rows_of(out):
    return scan_transitions(out).drop("provenance").collect()


def test_inputs_that_a_connector_fails_on_are_rejected_and_all_others_come_out_as_without_them(tmp_path):
    mixed = logs(tmp_path / "mixed", "good", *WAYS, "good")
    alone = logs(tmp_path / "alone", "good", *WAYS, "good")
    for path in alone.iterdir():
        if "good" not in path.name:
            path.unlink()
    summary = Run(RECIPE, [str(mixed)], str(tmp_path / "out"), LENIENT).run("normalize")
    Run(RECIPE, [str(alone)], str(tmp_path / "clean"), LENIENT).run("normalize")
    rejects = rejects_of(tmp_path / "out")
    assert rejects.select("unit", "reason", "connector").unique().rows() == [("input", CONNECTOR_ERROR, "brittle")]
    assert rejects["uri"].to_list() == [f"{number:03d}-{way}.log" for number, way in enumerate(WAYS, 1)]
    (output,), (clean,) = ((tmp_path / name / "transitions/terminal").iterdir() for name in ("out", "clean"))
    assert output.read_bytes() == clean.read_bytes()
    inputs = summary.line("inputs")
    assert (inputs.entered, inputs.kept, inputs.lost) == (7, 2, {CONNECTOR_ERROR: 5})
    (broken,) = summary.broken
    assert (broken.connector, broken.inputs, len(broken.examples)) == ("brittle", 5, 3)


def test_the_reject_names_the_exception_and_the_place_and_shows_no_secret(tmp_path):
    Run(RECIPE, [str(logs(tmp_path / "raw", "good", "raises"))], str(tmp_path / "out"), LENIENT).run("normalize")
    (detail,) = rejects_of(tmp_path / "out")["detail"]
    assert detail.startswith("KeyError: ")
    assert "tests.pipelines.brittle:parse:" in detail
    assert "\n" not in detail
    assert SECRET not in detail


def test_what_a_failing_input_had_written_before_is_written_again_without_it(tmp_path, monkeypatch):
    monkeypatch.setattr(normalize, "ROW_GROUP_BYTES", 1)
    mixed = logs(tmp_path / "mixed", "good", "raises", "good", "rows", "good")
    Run(RECIPE, [str(mixed)], str(tmp_path / "out"), LENIENT).run("normalize")
    assert rows_of(tmp_path / "out")["native_id"].unique(maintain_order=True).to_list() == ["name0", "name2", "name4"]
    assert not list((tmp_path / "out").rglob(".unfinished-*"))


def test_a_bug_that_no_input_shows_alone_ends_the_run(tmp_path, monkeypatch):
    def failing(batch, *rest, **more):
        if batch["native_id"].to_pylist()[0] != batch["native_id"].to_pylist()[-1]:
            raise ValueError("only together")
        return scrub(batch, *rest, **more)

    monkeypatch.setattr(normalize, "scrub", failing)
    with pytest.raises(ValueError):
        Run(RECIPE, [str(logs(tmp_path / "raw", "good", "good"))], str(tmp_path / "out"), LENIENT).run("normalize")


@pytest.mark.parametrize(("way", "kind"), [("disk", OSError), ("memory", MemoryError)])
def test_what_the_machine_does_not_give_is_no_reject(tmp_path, way, kind):
    with pytest.raises(kind):
        Run(RECIPE, [str(logs(tmp_path / "raw", "good", way))], str(tmp_path / "out"), LENIENT).run("normalize")


@pytest.mark.parametrize("way", WAYS)
def test_a_strict_run_stops_with_the_exception_and_the_input(tmp_path, way):
    kinds = {"raises": KeyError, "recursion": RecursionError}
    with pytest.raises(kinds.get(way, Exception)) as caught:
        Run(RECIPE, [str(logs(tmp_path / "raw", "good", way))], str(tmp_path / "out"), Execution(strict=True)).run()
    assert f"while connector 'brittle' was reading 001-{way}.log" in caught.value.__notes__


def test_other_code_and_a_strict_run_read_a_part_again_in_which_connectors_failed(tmp_path, monkeypatch):
    raw, out = logs(tmp_path / "raw", "good", "raises"), tmp_path / "out"

    def run(execution=LENIENT):
        summary = Run(RECIPE, [str(raw)], str(out), execution).run("normalize")
        (file,) = (out / "transitions/terminal").iterdir()
        return summary, file.stat().st_mtime_ns

    first, written = run()
    again, same = run()
    assert same == written
    assert first.broken == again.broken
    with pytest.raises(KeyError):
        run(Execution(strict=True))
    monkeypatch.setattr(Brittle, "parse", lambda _, blob: iter([trajectory("mended")]))
    monkeypatch.setattr(connector_errors, "program_digest", lambda: "0" * 64)
    mended, later = run()
    assert later > written
    assert mended.broken == ()


@pytest.mark.parametrize(
    ("error", "own"),
    [
        (OSError(28, "No space left on device"), False),
        (FileNotFoundError("gone"), False),
        (TimeoutError(), False),
        (OSError("Invalid data stream"), True),
        (MemoryError(), False),
        (RecursionError(), True),
        (AssertionError(), True),
        (KeyboardInterrupt(), False),
    ],
)
def test_storage_and_memory_are_no_connectors_fault(error, own):
    assert is_connectors(error) is own


def test_a_connector_that_fails_when_it_is_asked_about_a_file_is_told_and_stops_a_strict_run(tmp_path):
    raw = logs(tmp_path / "raw", "good")
    (raw / "other.txt").write_text("ask me nothing")
    for stage in ("plan", "normalize"):
        (broken,) = Run(RECIPE, [str(raw)], str(tmp_path / "out"), LENIENT).run(stage).broken
        assert (broken.connector, broken.examples) == ("brittle", ("other.txt",))
        assert broken.raised[0].startswith("KeyError (at ")
    with pytest.raises(KeyError) as caught:
        Run(RECIPE, [str(raw)], str(tmp_path / "strict"), Execution(strict=True)).run("plan")
    assert is_noted(caught.value)
