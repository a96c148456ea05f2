"""The command that proves what curation is worth: `trajmill effect`."""

from __future__ import annotations

from typing import Annotated

import typer

from trajmill.app.console import notices, results
from trajmill.schemas import ConfigError


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command()(effect)


def effect(
    run: Annotated[str, typer.Argument(metavar="OUT", help="The folder of a judged run, which is only read.")],
    out: Annotated[str, typer.Option("--out", help="The folder that is written: plan, figures, tables, a picture.")],
    seeds: Annotated[int, typer.Option(min=2, help="How often all is drawn anew.")] = 10,
    folds: Annotated[int, typer.Option(min=2, help="Into how many the groups of a domain are cut.")] = 4,
    tokens: Annotated[int, typer.Option(min=1_000, help="That an arm learns of a domain, at most.")] = 1_000_000,
    megabytes: Annotated[float, typer.Option(min=0.1, help="Of a domain's text that is looked at, at most.")] = 24.0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that work at once.")] = 1,
    transformers: Annotated[
        bool, typer.Option("--transformers", help="Ask small transformers too; installs PyTorch apart, for the while.")
    ] = False,
    attribute: Annotated[
        bool,
        typer.Option("--attribute", help="Measure instead what each group of the run gains, as values of a mixture."),
    ] = False,
    torch: Annotated[str, typer.Option(metavar="PYTHON", help="A Python that has PyTorch, in place of that.")] = "",
) -> None:
    """Measure whether what the recipe keeps teaches a small world model more than all there is, rule by rule too.

    Arms are made of the run's transitions: all of them, without exact copies, without near copies, each rule alone, the
    whole recipe, and other masks of the loss. Each learns equally many tokens, and is asked for next observations of
    groups that it never saw. What is tested is written down before; a result within noise is called that.

    With `--attribute` each group's gain for held-out answers is measured in place of this, and whether a choice by
    gains teaches more; `gains.parquet` tells them by trajectory, for `mix.values`.
    """
    from trajmill.app.cli import attribution_output
    from trajmill.app.cli.effect_output import markdown, pictures, show_effect
    from trajmill.pipelines.effect.attribution import GAINS, PAGE, attributed
    from trajmill.pipelines.effect.effect import SHOWN, Settings, measured
    from trajmill.pipelines.recipe.later_recipes import recipe_of_record
    from trajmill.pipelines.recipe.recipe_file import load_recipe
    from trajmill.pipelines.storage.folders import Folder

    recipe = recipe_of_record(Folder.named(run).found("run.json") or b"{}", load_recipe("all"))
    if recipe is None:
        raise ConfigError(f"{run} has no run.json with a recipe that this trajmill reads.")
    settings = Settings(seeds, folds, tokens, megabytes, workers, transformers, torch)
    target = Folder.named(out)

    def tell(said: str) -> None:
        notices().print(said, soft_wrap=True)

    if attribute:
        if transformers:
            raise ConfigError(
                "Gains are measured with models that count: --attribute and --transformers exclude each other."
            )
        made = attributed(recipe, run, out, settings, tell)
        target.write(PAGE, attribution_output.markdown(made).encode())
        attribution_output.show_attribution(made, results())
        results().print(f"written: {out}/{PAGE}, {out}/{GAINS}", soft_wrap=True)
        return
    found = measured(recipe, run, out, settings, tell)
    for name, text in zip(SHOWN, (markdown(found), *pictures(found.tests)), strict=True):
        target.write(name, text.encode())
    show_effect(found, results())
    results().print(f"written: {out}/{SHOWN[0]}", soft_wrap=True)
