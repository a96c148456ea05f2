"""`python -m benchmarks.effect OUT --out FOLDER`: measure if what a recipe keeps teaches more than all there is.

OUT is the folder of a judged run, which is only read. Arms are made of its transitions: all of them, without exact
copies, without near copies, each rule alone, the whole recipe, and other masks of the loss. Each learns equally many
tokens and is asked for next observations of groups that it never saw. The folder gets the plan, which is written
before anything is tested, and then the figures and a page.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.effect.measurement import PAGE, Settings, measure_effect
from benchmarks.effect.output import markdown
from trajmill.pipelines.generations.compatibility import recipe_of_record
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    settings = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="OUT", help="folder of a judged run")
    parser.add_argument("--out", required=True, help="folder that is written")
    parser.add_argument("--seeds", type=int, default=settings.seeds, help="times that everything is drawn anew")
    parser.add_argument("--folds", type=int, default=settings.folds, help="folds of the groups of a domain")
    parser.add_argument("--tokens", type=int, default=settings.tokens, help="most tokens an arm learns of a domain")
    parser.add_argument("--megabytes", type=float, default=settings.megabytes, help="most text read of a domain")
    parser.add_argument("--workers", type=int, default=settings.workers, help="processes")
    return parser.parse_args(words)


def main() -> None:
    """Measure one run and write what was found."""
    options = parse_arguments()
    recipe = recipe_of_record(Folder.named(options.run).found("run.json") or b"{}", load_recipe("all"))
    if recipe is None:
        raise ConfigError(f"{options.run} has no run.json with a recipe that this trajmill reads.")
    settings = Settings(options.seeds, options.folds, options.tokens, options.megabytes, options.workers)
    effect = measure_effect(recipe, options.run, options.out, settings, lambda line: print(line, file=sys.stderr))
    page = markdown(effect)
    Folder.named(options.out).write(PAGE, page.encode())
    print(page)


if __name__ == "__main__":
    main()
