"""Small corpora, and preparing them in this process, for the tests of passages."""

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.pipelines.execution.dispatch import run_over
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.execution.flow import Map, Step
from trajmill.pipelines.judge.evaluation_index import write_index
from trajmill.pipelines.mix.passages.preparation import Preparation
from trajmill.pipelines.mix.passages.preparing import Over, prepare
from trajmill.pipelines.recipe.passages import Passages
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas.manifest import Manifest

VOCABULARY = [f"word{number}" for number in range(3000)]
SALT = "a salt of at least sixteen"
RECIPE = Recipe.model_validate({"name": "mixed", "source": "mixed", "normalize": {"scrub_salt": SALT}})


def prose(words: int, seed: int) -> str:
    """So many words by chance, always the same of one seed."""
    return " ".join(random.Random(seed).choices(VOCABULARY, k=words))


def component(path: Path, **values: Any) -> Passages:
    """A component of texts in that place, under a licence."""
    return Passages.model_validate(
        {"name": "corpus", "kind": "text", "path": str(path), "licence": "CC-BY-4.0", **values}
    )


def written(path: Path, rows: Iterable[Any]) -> Path:
    """JSON Lines of the rows; a text is a row of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": row} if isinstance(row, str) else row) + "\n" for row in rows))
    return path


def here(preparing: Preparation) -> Over:
    """Does the work one after the other, without Beam."""

    def over(work: Sequence[Any], transform: Step) -> None:
        assert isinstance(transform, Map)
        for item in work:
            transform.function(item, preparing)

    return over


def prepared(
    out: Path, *components: Passages, recipe: Recipe = RECIPE, beam: bool = False
) -> tuple[Manifest, dict[str, pa.Table], list[dict[str, Any]]]:
    """(manifest, rows by component, rejects) of preparing the components into a folder.

    Args:
        out: the output folder.
        components: in the recipe's order.
        recipe: by which they are judged.
        beam: whether Beam does it, in this process.
    """
    folder = Folder(str(out))
    digest = write_index(recipe.judge.benchmarks, folder / "measures")
    preparing = Preparation(recipe, components, folder, digest)

    def beamed(work: Sequence[Any], transform: Step) -> None:
        run_over(work, transform, Execution(beam=("--runner=FnApiRunner",)))

    manifest = prepare(preparing, beamed if beam else here(preparing))
    tables = {
        section.name: pa.concat_tables(
            pq.read_table(out / "passages" / file.name)
            for file in manifest.files
            if file.name.startswith(f"{section.name}/")
        )
        for section in components
    }
    rejects = [
        row
        for path in sorted((out / "rejects" / "passages").glob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]
    return manifest, tables, rejects
