"""The command `trajmill cost`: what 1,000 steps cost in a real sandbox, and in a served world model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajmill.app.console import Printer, results
from trajmill.schemas import ConfigError

if TYPE_CHECKING:
    from trajmill.pipelines.recipe.recipe import Recipe


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command()(cost)


def cost(
    run: Annotated[str, typer.Argument(help="The output folder of a judged run, whose tokens are counted.")],
    prices: Annotated[str, typer.Option(help="A price table, YAML or JSON.")],
    model: Annotated[str, typer.Option(help="Whose price counts, by its name in the table.")] = "default",
    recipe: Annotated[str | None, typer.Option(help="By which the model is asked; the run's own by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as JSON.")] = False,
) -> None:
    """Tell what 1,000 steps cost and take in a real sandbox against a served world model, by domain.

    Tokens are measured on the run; prices and speeds are those of the table, and nothing is assumed beside them.
    """
    from trajmill.pipelines.storage.folders import Folder
    from trajmill.worlds.serve.price_table import read_price_table
    from trajmill.worlds.serve.serving_cost import cost_page, measured

    table = read_price_table(prices)
    if table.model(model) is None:
        raise ConfigError(f"{prices} has no price of '{model}', and no default.")
    folder = Folder.named(run)
    page = cost_page(measured(folder, _recipe(folder.path(), recipe)), table, model)
    console = results()
    if as_json:
        console.document(json.dumps(page, indent=2) + "\n")
    else:
        _show(page, console)


def _recipe(run: str, named: str | None) -> Recipe:
    from trajmill.pipelines.recipe.recipe_file import load_recipe
    from trajmill.pipelines.storage.ownership import RUN

    return load_recipe(named or f"{run}/{RUN}")


def _show(page: dict[str, Any], console: Printer) -> None:
    from rich.table import Table

    currency = page["currency"]
    title = f"{page['steps']:,} steps: {page['model']} against a real sandbox"
    table = Table("", "steps", "sent", "known", "answered", title=title, title_justify="left")
    for name in (f"{currency}, model", f"{currency}, sandbox", "times", "s, model", "s, sandbox"):
        table.add_column(name, justify="right")
    for row in page["rows"]:
        tokens = [f"{row[name]:,.0f}" for name in ("sent", "known", "answered")]
        costs = [_number(row[name], digits) for name, digits in _SHOWN]
        table.add_row(row["domain"], f"{row['steps']:,}", *tokens, *costs)
    console.print(table)
    console.print("sent, known, answered: tokens of a step in the mean; steps: measured")
    for line in page["arithmetic"]:
        console.print(line, soft_wrap=True)


_SHOWN = (("model_cost", 4), ("sandbox_cost", 4), ("ratio", 2), ("model_seconds", 0), ("sandbox_seconds", 0))


def _number(value: float | None, digits: int) -> str:
    return "not given" if value is None else f"{value:,.{digits}f}"
