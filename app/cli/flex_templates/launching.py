"""What a launcher of a Flex Template does: the work between jobs, then one job, which it leaves to itself.

A run is jobs with work between: what is done of it lies in the output folder, so a launcher does as a run that is given
again does, and stops at the first job that is open. Where none is open, it submits one that does nothing, since a
launcher has to submit one. The job's label tells which template is launched after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import yaml

from trajmill.app.cli.flex_templates.parameters import IMAGE, LEAD, STAGES, changes_of, parameters, taken
from trajmill.pipelines.execution.dataflow.cost_ceiling import Ceiling
from trajmill.pipelines.execution.dataflow.job_options import job_flags
from trajmill.pipelines.execution.dataflow.jobs import METER, JobLeftError, leaving
from trajmill.pipelines.execution.execution import Execution, execution_of
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import load_recipe, parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.endings import Code
from trajmill.pipelines.run_record.summary import OVER, StageStart
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.paths import url_of
from trajmill.schemas import ConfigError, ShardError

NEXT: Final = "trajmill_next"
"""The label that tells which template is launched after a job."""

NOTHING: Final = "nothing"
"""Where the run is finished."""

_AFTER: Final = {"plan": "normalize", "normalize": "judge", "judge": "mix", "mix": "finish"}
"""The last stage that began → the template after its job. Passages, which have no beginning, are mixing's."""

_SECRET: Final = ("normalize__scrub_salt",)
_FALSE: Final = frozenset(("", "false", "no", "0"))


@dataclass(slots=True)
class Launched:
    """What a launcher did.

    Attributes:
        stage: the last one that began.
        next: the template that is launched after the job, or `NOTHING`.
        submitted: whether the job does work; else it is there because a launcher has to submit one.
        ignored: words that nobody knows.
    """

    stage: str = "plan"
    next: str = NOTHING
    submitted: bool = False
    ignored: tuple[str, ...] = ()

    def label(self, options: Any) -> None:
        """Writes on a job what follows it."""
        from apache_beam.options.pipeline_options import GoogleCloudOptions

        self.next = _AFTER[self.stage] if self.submitted else self.next
        view = options.view_as(GoogleCloudOptions)
        view.labels = [*(view.labels or ()), f"{NEXT}={self.next}"]


def launch(words: Sequence[str]) -> Launched:
    """Does a stage's work up to its first open job, and submits that.

    Args:
        words: `--name=value` of parameters (see `parameters`), and Beam's flags.

    Raises:
        ConfigError: a parameter or option is missing or wrong; nothing was written.
        ShardError: nothing can be read or written, or connectors failed.
    """
    found, given = taken(words)
    flags, ignored = _known(given)
    recipe, workers = recipe_of(found), workers_of(found)
    if found.get(IMAGE):
        flags.append(f"--{IMAGE}={found[IMAGE]}")
    mine = job_flags(flags, workers, ceiling_of(found))
    limit, partitions, records = (_number(found, name, None) for name in ("limit", "partitions", "records"))
    sizes = limit, found.get("part_size"), partitions, records
    execution = execution_of(workers, (*mine, *flags), *sizes, strict=_is_true(found, "strict"))
    METER.reset(_number(found, "spent_hours", 0.0, float) * 3600)
    done = Launched(submitted=True, ignored=ignored)

    def began(start: StageStart) -> None:
        if start is not OVER:
            done.stage = start.stage

    overwrite, command = (
        _is_true(found, "overwrite"),
        [f"{name}={value}" for name, value in found.items() if name not in _SECRET],
    )
    last = "mix" if found["stage"] == "finish" else found["stage"]
    left = leaving.set(done.label)
    try:
        run = Run(recipe, _raws(found["raw"]), found["out"], execution, began, overwrite=overwrite, command=command)
        summary = run.run(last)
        done.submitted, done.next = False, _AFTER[last] if last != "mix" else NOTHING
        if summary.broken:
            raise ShardError(f"Connectors failed, which ends a run with code {Code.CONNECTOR}; its shards are written")
        _submit_nothing(execution)
    except JobLeftError:
        return done
    finally:
        leaving.reset(left)
    raise AssertionError("a job that is submitted and left ends the run")


def ceiling_of(found: Mapping[str, str]) -> Ceiling:
    """What the run may cost, as parameters say."""
    return Ceiling(*(_number(found, name, None, float) for name in ("max_hours", "max_cost", "price")))


def workers_of(found: Mapping[str, str]) -> int:
    """How many processes work at once, as parameters say."""
    return int(_number(found, "workers", 1))


def recipe_of(found: Mapping[str, str]) -> Recipe:
    """The recipe that parameters name, with the values that they change.

    Raises:
        ConfigError: there is none, or it is not valid.
    """
    config, changes = found["config"], changes_of(found)
    if url_of(config) is None:
        return load_recipe(config, changes)
    folder, _, name = config.rpartition("/")
    text = Folder(folder).found(name)
    if text is None:
        raise ConfigError(f"There is no recipe at {config}.")
    return parse_recipe(text.decode("utf-8", "replace"), config, changes)


def _known(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Beam's flags among the words, and what nobody knows: the service may add words of its own.

    Raises:
        ConfigError: one looks like a parameter.
    """
    from trajmill.pipelines.execution.runner import parsed

    unknown = tuple(parsed(words)[1])
    names = [one.name for one in parameters(STAGES[0])]
    for word in unknown:
        name = word.removeprefix("--").partition("=")[0]
        near = get_close_matches(name, names, 1)
        if near or LEAD in name:
            raise ConfigError(f"There is no parameter '{name}'.", near[0] if near else None)
    return [word for word in words if word not in unknown], unknown


def _submit_nothing(execution: Execution) -> None:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import WorkerOptions

    from trajmill.pipelines.execution.dataflow.jobs import finished

    pipeline = execution.pipeline()
    machines = pipeline.options.view_as(WorkerOptions)
    machines.num_workers = machines.max_num_workers = 1
    _ = pipeline | "Nothing" >> beam.Create([0])
    finished(pipeline, "nothing")


def _raws(text: str) -> list[str]:
    """The roots that a parameter names: one, or a list of them."""
    if not re.match(r"\s*\[", text):
        return [text.strip()]
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--raw is no list: {' '.join(str(error).split())}") from error
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found) or not found:
        raise ConfigError(f"--raw is no list of paths or URLs: {text}")
    return found


def _number(found: Mapping[str, str], name: str, default: Any, kind: type = int) -> Any:
    if not found.get(name):
        return default
    try:
        value = kind(found[name])
    except ValueError:
        value = -1
    if value < 0 or (kind is int and value < 1):
        raise ConfigError(f"--{name} takes a number, not '{found[name]}'.")
    return value


def _is_true(found: Mapping[str, str], name: str) -> bool:
    return found.get(name, "").lower() not in _FALSE
