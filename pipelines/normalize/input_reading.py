"""Reading one input of a plan: its connector over its bytes. Knows nothing of Beam nor of where the rows go."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.registry import connector
from pipelines.engine.stored_blob import StoredBlob
from pipelines.normalize.connector_errors import noted
from pipelines.plan.plan import Input
from pipelines.recipe.recipe import Recipe
from schemas import Origin, ParseError, Reject, Trajectory


def origin_of(one: Input, blob: StoredBlob, recipe: Recipe) -> Origin:
    """Where an input's trajectories come from."""
    return Origin(one.uri, recipe.source, one.connector, one.version, blob.digest, recipe.licence or one.licence)


def read_input(one: Input, recipe: Recipe) -> Iterator[tuple[Trajectory | Reject, Origin]]:
    """The input's trajectories and rejects; reading that cannot go on ends in a reject.

    Raises:
        Exception: a bug of the connector, with a note that says which input it was reading; see `connector_errors`.
        ShardError: the input cannot be opened.
    """
    with StoredBlob(
        one.uri, one.members, recipe.normalize.max_member_bytes, recipe.normalize.choices(recipe.domains)
    ) as blob:
        origin = origin_of(one, blob, recipe)
        try:
            for found in connector(one.connector).parse(blob):
                yield found, origin
        except ParseError as error:
            yield Reject.of(error, connector=one.connector), origin
        except Exception as error:
            noted(error, one)
            raise
