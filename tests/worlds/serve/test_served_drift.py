"""Worlds served from logs are held against these logs, row by row: a perfect one does not drift, one that errs does."""

import asyncio

import pytest

from tests.conftest import ROOT
from tests.synthesis.chat_server import chat_server
from tests.worlds.serve.conftest import RAW, recipe
from tests.worlds.serve.logged_world import Stub, logged
from tests.worlds.serve.test_served_samples import all_lived
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.run import Run
from trajmill.worlds.drift.drift import Settings, drift

LIES = {
    "perfect": lambda _, text: text,
    "20 % wrong": lambda step, text: text if step % 5 else "Nothing that was there before.",
}


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The output folder of a run over samples of three domains, all in the pool sft, and what clients live through."""
    out = tmp_path_factory.mktemp("real") / "out"
    mix = Mix(pools={"sft": 1.0}, prompt_share=1)
    Run(recipe().model_copy(update={"mix": mix}), [str(ROOT / "samples" / name) for name in RAW[2:6]], str(out)).run()
    return out, logged(out, mix, "sft")


def drifted(real, serve, tmp_path, name):
    """What drift tells of the world model of a stub that is served, and how many steps were taken."""
    out, known = real
    with chat_server(Stub([log.messages for log in known], LIES[name])) as chat:
        answers = asyncio.run(all_lived(serve(chat.url, log=name), known))
    simulated = tmp_path / f"{name} read"
    Run(recipe(), [str(tmp_path / name / "trajectories")], str(simulated)).run("normalize")
    (model,) = drift(str(out), str(simulated), Settings(), {}).models
    return model, sum(map(len, answers))


def whole(model, measure):
    """A measure of the logged pairs of all domains: (of the world, of the model), each the mean over rows."""
    cells = [cell for cell in model.cells if (cell.match, cell.by) == ("logged", "domain") and measure in cell.figures]
    rows = sum(cell.rows for cell in cells)
    return tuple(
        sum(cell.rows * getattr(cell.figures[measure], side) for cell in cells) / rows for side in ("real", "sim")
    )


def test_a_perfect_stub_pairs_all_rows_and_one_that_errs_disagrees_as_often(real, serve, tmp_path):
    drifts = {name: drifted(real, serve, tmp_path, name) for name in LIES}
    for model, steps in drifts.values():
        assert model.rows == steps > 30
        assert model.pairs == {"logged": steps, "exact": 0, "near": 0, "alone": 0}
    perfect = drifts["perfect"][0]
    assert {cell.domain for cell in perfect.cells if cell.match == "logged"} == {log.scenario.domain for log in real[1]}
    apart = [
        (cell.match, cell.by, cell.domain, cell.value, name, figure)
        for cell in perfect.cells
        for name, figure in cell.figures.items()
        if figure.difference != (name == "length")
    ]
    assert not apart
    wrong = [whole(model, "disagreement")[1] for model, _ in drifts.values()]
    assert wrong[0] == 0 < wrong[1]
    assert wrong[1] == pytest.approx(0.2, abs=0.05)
    real_errors, errors = whole(perfect, "error")
    assert real_errors == errors > 0.02
