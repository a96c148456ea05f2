"""Reading one input of a plan: its connector over its bytes. Knows nothing of Beam nor of where the rows go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trajmill.connectors.conversation.harness_text import strip_forms
from trajmill.connectors.registry import connector
from trajmill.pipelines.normalize.connector_errors import noted
from trajmill.pipelines.plan.plan import Input
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.schemas import Origin, ParseError, Reject, Trajectory

REJECTS: Final = 100_000
"""Rejects of an input after which it is not read on: each takes up to some kilobytes in memory."""

_SHOWN: Final = frozenset({"android", "os", "web"})
"""Domains in which an action without any screen is nothing that a loss could ever stand on; a patch has its issue."""


def origin_of(one: Input, blob: StoredBlob, recipe: Recipe) -> Origin:
    """Where an input's trajectories come from."""
    return Origin(one.uri, recipe.source, one.connector, one.version, blob.digest, recipe.licence or one.licence)


def read_input(one: Input, recipe: Recipe) -> Iterator[tuple[Trajectory | Reject, Origin]]:
    """The input's trajectories and rejects; reading that cannot go on ends in a reject.

    Raises:
        Exception: a bug of the connector, with a note that says which input it was reading; see `connector_errors`.
        ShardError: the input cannot be opened.
    """
    choices = recipe.normalize.choices(recipe.domains)
    with StoredBlob(
        one.uri, one.members, recipe.normalize.max_member_bytes, choices, one.file_slice, one.sha256
    ) as blob:
        origin = origin_of(one, blob, recipe)
        try:
            for found in _few_rejects(connector(one.connector).parse(blob), one.uri):
                yield (found if isinstance(found, Reject) else _with_a_screen(strip_forms(found), one)), origin
        except ParseError as error:
            yield Reject.of(error, connector=one.connector), origin
        except Exception as error:
            noted(error, one)
            raise


def _few_rejects(made: Iterator[Trajectory | Reject], uri: str) -> Iterator[Trajectory | Reject]:
    """The same, as long as no more than `REJECTS` are among it.

    Raises:
        ParseError: one more is.
    """
    rejects = 0
    for found in made:
        rejects += isinstance(found, Reject)
        if isinstance(found, Reject) and rejects > REJECTS:
            detail = f"{REJECTS} rejects stand before this one, {found.reason}; the rest was not read"
            raise ParseError(uri, found.offset, "too_many_rejects", detail, found.member)
        yield found


def _with_a_screen(found: Trajectory, one: Input) -> Trajectory | Reject:
    """The trajectory, or its reject where its domain is of screens, and none of its observations shows any."""
    if found.domain not in _SHOWN or not found.steps:
        return found
    for step in found.steps:
        for side in (step.observation, step.next_observation):
            if side is not None and (side.content or side.attachments):
                return found
    first, count = found.steps[0], len(found.steps)
    detail = f"{count} actions, and neither text nor attachment in any observation"
    where = (one.uri, first.member, first.offset, one.connector)
    return Reject("trajectory", "no_observation", detail, *where, transitions=count)
