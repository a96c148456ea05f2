"""Command `trajmill world drift`, which compares simulated rows with real ones."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trajmill.app.cli.output_options import AsJson
from trajmill.app.console import Printer, results
from trajmill.schemas import ConfigError

if TYPE_CHECKING:
    from trajmill.worlds.drift.drift import Drift, Drifted

FILES: Final = ("drift.html", "drift.json")
"""Files that the command writes."""


def drift(
    real: Annotated[str, typer.Argument(metavar="REAL", help="A run's folder, normalized at least: the world.")],
    sim: Annotated[str, typer.Argument(metavar="SIM", help="A run's folder with rows that world models answered.")],
    out: Annotated[str, typer.Option("--out", help="The folder that drift.html and drift.json are written to.")],
    rewards: Annotated[
        str | None, typer.Option(help="A table (CSV, JSON Lines) of step, simulated and real: reward and outcome.")
    ] = None,
    fail_over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="End with exit code 6 where a figure is larger or not measured; may be given again.",
        ),
    ] = None,
    fewest: Annotated[int, typer.Option(min=1, help="Simulated rows of a domain that a threshold needs.")] = 30,
    compared: Annotated[int, typer.Option(min=1, help="Pairs of a domain whose words are compared.")] = 400,
    rows: Annotated[int, typer.Option(min=1_000, help="Rows of a side above which a share of tasks is taken.")] = (
        1_000_000
    ),
    as_json: AsJson = False,
) -> None:
    """Measure where answers of world models differ from the real ones, and whether their reward still predicts the
    outcome.

    For example:  trajmill world drift out/real out/simulated --out out/drift --fail-over novelty=0.2
    """
    from trajmill.app.report.drift_page import drift_page, to_strict_json
    from trajmill.pipelines.run_record.endings import Code
    from trajmill.pipelines.storage.folders import Folder
    from trajmill.worlds.drift.drift import Settings
    from trajmill.worlds.drift.drift import drift as found_between

    bounds = dict(_bound(text) for text in fail_over or ())
    report = found_between(real, sim, Settings(rows, compared, fewest, rewards), bounds)
    encoded = json.dumps(to_strict_json(report.json()), indent=1, ensure_ascii=False, allow_nan=False)
    folder = Folder.named(out)
    for name, data in zip(FILES, (drift_page(report, (real, sim)), f"{encoded}\n".encode()), strict=True):
        folder.write(name, data)
    if as_json:
        results().document(f"{encoded}\n")
    else:
        show_drift(report, results())
        results().print_line(f"written: {folder.path(FILES[0])} and {FILES[1]}")
    if not all(threshold.is_met for threshold in report.thresholds):
        raise typer.Exit(Code.DRIFT)


def _bound(text: str) -> tuple[str, float]:
    from trajmill.worlds.drift.drift import NAMES

    name, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not equals or not math.isfinite(number):
        raise ConfigError(f"--fail-over {text}: wanted NAME=VALUE, such as error=0.1.")
    if name not in NAMES:
        raise ConfigError(f"--fail-over {text}: there is no figure '{name}'; there are {', '.join(NAMES)}.")
    return name, number


def show_drift(report: Drift, console: Printer) -> None:
    """Print a comparison: differences by domain, signs of Goodhart's law, thresholds."""
    for model in report.models:
        counts = ", ".join(f"{kind} {number:,}" for kind, number in model.pairs.items())
        line = f"{model.world_model}: {model.rows:,} rows ({counts}), {model.shared_tasks:,} shared tasks"
        console.print_line(line)
        _show_differences(model, console)
    signs = report.goodhart
    if signs is not None:
        where = "do not part beyond chance" if signs.parts_at is None else f"part from step {signs.parts_at[0]:g} on"
        ranks = f"rank correlation {signs.rank_correlation[0]:.2f}"
        console.print_line(f"reward and outcome {where}; {ranks}; {signs.gap[0]:.2f} gained on the outcome")
    for bound in report.thresholds:
        if bound.found is None:
            line = f"{bound.name}: not measured, {bound.allowed:g} allowed"
        else:
            word = "within" if bound.is_met else "over"
            line = f"{bound.name}: {bound.found:.4g}, {word} {bound.allowed:g} {bound.where}"
        console.print_line(line, style="" if bound.is_met else "red")


def _show_differences(model: Drifted, console: Printer) -> None:
    """Print a line for each domain and measure: by how much the model differs from the world, in all that is
    compared.
    """
    from trajmill.worlds.drift.figures import DISAGREEMENT, MEASURES

    matches = ("logged", "exact", "near", "rollouts")
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for cell in (cell for cell in model.cells if cell.by == "domain"):
        for name, figure in cell.figures.items():
            text = f"×{figure.difference:.2f}" if name == "length" else f"{figure.difference:+.3f}"
            cells.setdefault((cell.domain, name), {})[cell.match] = text
    rows = [
        (domain, name, *(cells[domain, name].get(match, "") for match in matches))
        for domain in dict.fromkeys(domain for domain, _ in cells)
        for name in (*MEASURES, DISAGREEMENT)
        if (domain, name) in cells
    ]
    heads = ("domain", "measure", *matches)
    console.table(heads, rows, texts=(0, 1), dropped=("rollouts", "near"), title="difference from the world")
