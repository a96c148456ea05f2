"""The tables that commands end with fit 80 columns, with all digits of what they show."""

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from trajmill.app.cli.drift_command import show_drift
from trajmill.app.cli.model_commands import show_report
from trajmill.app.cli.tables import show_summary
from trajmill.app.cli.world_commands import count_by_domain, show_replayed
from trajmill.app.console import Printer
from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run_record.summary import Summary
from trajmill.schemas.manifest import Manifest
from trajmill.synthesis.replies import Prices, Spending
from trajmill.worlds.drift.drift import Drift, Drifted
from trajmill.worlds.drift.figures import MEASURES, Cell, Figure

LONG = "a_component_with_a_long_name_that_somebody_chose"
LARGE = 123_456_789_012


def run_table(console: Printer, size: int) -> None:
    sizes = {f"{pool}.{name}": size for pool in ("cpt", "sft", "rl", "eval") for name in ("terminal", LONG)}
    domains = {"terminal": (size, size - 1), LONG: (size, size - 1)}
    summary = Summary(
        "OUT", "mix", (), Plan("", (), ()), domains=domains, samples=sizes, drawn_tokens=sizes, loss_tokens=sizes
    )
    show_summary(summary, Recipe(name="n", source="tests"), console, is_reported=False)


def replay_table(console: Printer, size: int) -> None:
    counts = {f"{name}.{status}": size for name in ("swe", LONG) for status in ("same", "volatile", "differs")}
    show_replayed(count_by_domain({**counts, f"swe.not_run.{LONG}": size, "swe.not_run.no_base": size}), console)


def drift_table(console: Printer, size: int) -> None:
    figures = {name: Figure(0.0, 1.0, float(size), None, None) for name in MEASURES}
    cells = [Cell(match, "domain", LONG, "", 1, 1, figures) for match in ("logged", "exact", "near", "rollouts")]
    show_drift(Drift(1, 0, 0, 1.0, [Drifted("w@1", 1, {}, 1, cells, (), (), ())], None, ()), console)


def model_table(console: Printer, size: int) -> None:
    manifest = Manifest("reason", "", "", "1", (), {f"{LONG}.not_asked.terminal": size, f"made.{LONG}": size})
    models: Any = SimpleNamespace(
        writer=SimpleNamespace(prices=Prices(0, 0)), judge=SimpleNamespace(prices=Prices(0, 0))
    )
    report: Any = (manifest, Spending())
    show_report(report, models, "OUT", console, as_json=False)


TABLES = pytest.mark.parametrize("table", [run_table, replay_table, drift_table, model_table])


def lines_of(table: Callable[[Printer, int], None], size: int) -> list[str]:
    stream = io.StringIO()
    console = Printer(stream)
    console.width = 80
    table(console, size)
    return stream.getvalue().splitlines()


@TABLES
@pytest.mark.parametrize("size", [7, LARGE])
def test_a_table_of_large_numbers_and_long_names_fits_80_columns(table, size):
    lines = lines_of(table, size)
    assert max(len(line) for line in lines if set(line) & set("│┃━─")) <= 80
    assert any(f"{size:,}" in line or f"{size:.3f}" in line or f"×{size:.2f}" in line for line in lines)
    assert not any("…" in line for line in lines)


def test_a_run_leaves_out_columns_in_order_and_names_them():
    assert not any("not shown" in line for line in lines_of(run_table, 7))
    lines = lines_of(run_table, LARGE)
    assert "not shown at 80 columns: found, RL, eval (--json has all)" in lines
    (sums,) = (line for line in lines if line.startswith("│ all "))
    assert [cell.strip() for cell in sums.strip("│").split("│")] == [
        "all",
        f"{2 * LARGE - 2:,}",
        f"{2 * LARGE:,}",
        f"{2 * LARGE:,}",
    ]
