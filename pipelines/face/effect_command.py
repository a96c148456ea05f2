"""The command that proves what curation is worth: `trajmill effect`."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.face.printing import notices, results
from schemas import ConfigError


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command()(effect)


def effect(
    run: Annotated[str, typer.Argument(metavar="OUT", help="The folder of a judged run, which is only read.")],
    out: Annotated[str, typer.Option("--out", help="The folder that is written: plan, figures, tables, a picture.")],
    seeds: Annotated[int, typer.Option(min=2, help="How often all is drawn anew.")] = 5,
    folds: Annotated[int, typer.Option(min=2, help="Into how many the groups of a domain are cut.")] = 4,
    tokens: Annotated[int, typer.Option(min=1_000, help="That an arm learns of a domain, at most.")] = 200_000,
    megabytes: Annotated[float, typer.Option(min=0.1, help="Of a domain's text that is looked at, at most.")] = 24.0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that work at once.")] = 1,
    transformers: Annotated[
        bool, typer.Option("--transformers", help="Ask small transformers too; installs PyTorch apart, for the while.")
    ] = False,
    torch: Annotated[str, typer.Option(metavar="PYTHON", help="A Python that has PyTorch, in place of that.")] = "",
) -> None:
    """Measure whether what the recipe keeps teaches a small world model more than all there is, rule by rule too.

    Arms are made of the run's transitions: all of them, without exact copies, without near copies, each rule alone, the
    whole recipe, and other masks of the loss. Each learns equally many tokens, and is asked for next observations of
    groups that it never saw. What is tested is written down before; a result within noise is called that.
    """
    from pipelines.effect.effect import SHOWN, Settings, measured
    from pipelines.engine.storage import Folder
    from pipelines.face.effect_output import markdown, pictures, show_effect
    from pipelines.recipe.later_recipes import recipe_of_record
    from pipelines.recipe.recipe_file import load_recipe

    recipe = recipe_of_record(Folder.named(run).found("run.json") or b"{}", load_recipe("all"))
    if recipe is None:
        raise ConfigError(f"{run} has no run.json with a recipe that this trajmill reads.")
    settings = Settings(seeds, folds, tokens, megabytes, workers, transformers, torch)
    found = measured(recipe, run, out, settings, lambda said: notices().print(said, soft_wrap=True))
    target = Folder.named(out)
    for name, text in zip(SHOWN, (markdown(found), *pictures(found.tests)), strict=True):
        target.write(name, text.encode())
    show_effect(found, results())
    results().print(f"written: {out}/{SHOWN[0]}", soft_wrap=True)
