"""The samples as a run reads them."""

from pathlib import Path

from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import Reject, Trajectory

Found = list[tuple[str, Trajectory]]


def read_samples(domain: str, folder: Path) -> tuple[Found, dict[str, str], list[Reject]]:
    """(file and trajectory in the order of reading, connector by input, rejects and what nothing recognizes)."""
    recipe = Recipe(name=domain, source=domain)
    plan = make_plan(recipe, [str(folder)])
    results: Found = []
    rejects = list(plan.unrecognized)
    for log in plan.inputs:
        for result, _ in read_input(log, recipe):
            if isinstance(result, Reject):
                rejects.append(result)
            else:
                results.append((log.uri, result))
    return results, {log.uri: log.connector for log in plan.inputs}, rejects
