"""What a recipe names that workers read, wherever they are."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from trajmill.pipelines.recipe.recipe import Recipe


def read_by_workers(recipe: Recipe) -> list[str]:
    """Paths and URLs of models, templates and passages; what comes with trajmill is on every worker already."""
    own = Path(str(files("trajmill.quality")))
    models = [path for path in recipe.judge.files().values() if not Path(path).is_relative_to(own)]
    templates = [recipe.mix.templates] if recipe.mix.templates is not None else []
    return [*models, *templates, *(one.path for one in recipe.mix.passages)]
