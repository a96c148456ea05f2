"""Reading of one input of a plan: its connector over its bytes. It is independent of Beam and of the output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trajmill.connectors.conversation.harness_text import strip_forms
from trajmill.connectors.registry import connector
from trajmill.pipelines.normalize.connector_errors import add_note
from trajmill.pipelines.plan.plan import Input
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.schemas import Origin, ParseError, Reject, Trajectory

REJECTS: Final = 100_000
"""Number of rejects after which an input is not read further. Each takes up to some kilobytes of memory."""

_SHOWN: Final = frozenset({"android", "os", "web"})
"""Domains in which trajectories without any screen are useless for training; a patch has its issue."""


def origin_of(source: Input, blob: StoredBlob, recipe: Recipe) -> Origin:
    """Return the origin of an input's trajectories."""
    return Origin(
        source.uri, recipe.source, source.connector, source.version, blob.digest, recipe.licence or source.licence
    )


def read_input(source: Input, recipe: Recipe) -> Iterator[tuple[Trajectory | Reject, Origin]]:
    """Read the input's trajectories and rejects. If reading cannot continue, it ends with a reject.

    Raises:
        Exception: a bug of the connector, with a note that names the input; see `connector_errors`.
    """
    choices = recipe.normalize.choices(recipe.domains)
    with StoredBlob(
        source.uri, source.members, recipe.normalize.max_member_bytes, choices, source.file_slice, source.sha256
    ) as blob:
        origin = origin_of(source, blob, recipe)
        try:
            for item in _few_rejects(connector(source.connector).parse(blob), source.uri):
                yield (item if isinstance(item, Reject) else _with_a_screen(strip_forms(item), source)), origin
        except ParseError as error:
            yield Reject.of(error, connector=source.connector), origin
        except Exception as error:
            add_note(error, source)
            raise


def _few_rejects(items: Iterator[Trajectory | Reject], uri: str) -> Iterator[Trajectory | Reject]:
    """Pass the items on, up to `REJECTS` rejects.

    Raises:
        ParseError: there are more rejects.
    """
    rejects = 0
    for item in items:
        rejects += isinstance(item, Reject)
        if isinstance(item, Reject) and rejects > REJECTS:
            detail = f"{REJECTS} rejects stand before this one, {item.reason}; the rest was not read"
            raise ParseError(uri, item.offset, "too_many_rejects", detail, item.member)
        yield item


def _with_a_screen(trajectory: Trajectory, source: Input) -> Trajectory | Reject:
    """Return the trajectory, or a reject if its domain has screens and none of its observations shows one."""
    if trajectory.domain not in _SHOWN or not trajectory.steps:
        return trajectory
    for step in trajectory.steps:
        for side in (step.observation, step.next_observation):
            if side is not None and (side.content or side.attachments):
                return trajectory
    first, count = trajectory.steps[0], len(trajectory.steps)
    detail = f"{count} actions, and neither text nor attachment in any observation"
    where = (source.uri, first.member, first.offset, source.connector)
    return Reject("trajectory", "no_observation", detail, *where, transitions=count)
