"""The command line: `trajmill run | init | plan`, and the commands of other modules, which are registered here.

`run_record.endings` defines how a command ends, and its exit code.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from trajmill.app.cli.drift_command import drift
from trajmill.app.cli.generation_commands import PASS_ON, Config, forget, paths_and_flags, tell_summary
from trajmill.app.cli.inspection_commands import Format, formats, inspect, sniff, tell_withdrawn, verify
from trajmill.app.cli.model_commands import instruct, reason
from trajmill.app.cli.output_options import MANNER, AsJson, Details, Form, LogFormat, Quiet, fail, interruptible, leave
from trajmill.app.cli.pushing import push
from trajmill.app.cli.serving_commands import serve, view
from trajmill.app.cli.world_commands import patches, replay
from trajmill.app.cli.writing_commands import compare, export, leave_report, report
from trajmill.app.console import guard, notices, results
from trajmill.pipelines.execution.memory import tune_memory
from trajmill.pipelines.run_record.endings import Code, Interrupted, ending_of
from trajmill.schemas import ConfigError

if TYPE_CHECKING:
    from trajmill.pipelines.execution.execution import Execution
    from trajmill.pipelines.generations.append import Append
    from trajmill.pipelines.recipe.recipe import Recipe
    from trajmill.pipelines.run_record.summary import Summary

_EXAMPLES = """Begin with a folder of logs of any agents:
  trajmill run LOGS                       makes LOGS-trajmill beside it
  trajmill view LOGS-trajmill             look at it in a browser
  trajmill run LOGS --append              add what is new in LOGS
The recipe is LOGS-trajmill/recipe.yaml: edit it, and run again.

A run that was stopped goes on when the same command is given again.

Exit codes: 0 done, 1 usage, 2 too many rejects, 3 a connector failed,
4 the machine, 5 damage, 6 drift, 70 a bug."""

app = typer.Typer(
    name="trajmill",
    help="Mill raw logs of agents and environments into training shards for language world models.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_RUN_EXAMPLES = """Examples:
  trajmill run logs/
  trajmill run android --raw logs/ --out out/
  trajmill run recipe.yaml --raw a/ 's3://b/*.jsonl' --out out/ --workers 8
  trajmill run recipe.yaml --raw logs/ --out out/ --stop-after judge
  trajmill run all --raw logs/ --out out/ --log-format json 2> told.jsonl"""


class Stage(StrEnum):
    """Stage after which a run stops."""

    PLAN = "plan"
    NORMALIZE = "normalize"
    JUDGE = "judge"
    DRAW = "draw"
    MIX = "mix"


class HandStage(StrEnum):
    """Stage of which a share can be done by itself."""

    NORMALIZE = "normalize"
    JUDGE = "judge"
    MIX = "mix"


def _version(asked: bool) -> None:
    if asked:
        from trajmill.schemas.manifest import PROGRAM_VERSION

        results().print(f"trajmill {PROGRAM_VERSION}")
        raise typer.Exit


@app.callback()
def trajmill(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version  # its callback has told it


@app.command(context_settings=PASS_ON, epilog=_RUN_EXAMPLES)
def run(
    context: typer.Context,
    config: Annotated[
        str, typer.Argument(metavar="LOGS|RECIPE", help="Raw logs; or a recipe file, or a built-in recipe's name.")
    ],
    raw: Annotated[
        list[str] | None,
        typer.Option("--raw", help="With a recipe: raw logs, a file, a folder or a glob; may be given again."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", help="The folder that is written, where a killed run goes on. [default: LOGS-trajmill]"),
    ] = None,
    stop_after: Annotated[Stage, typer.Option(help="The last stage to run.")] = Stage.MIX,
    limit: Annotated[int | None, typer.Option(min=1, help="Take only so many inputs, the first by name.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that work at once.")] = 1,
    runner: Annotated[
        str, typer.Option(help="local, flink or dataflow; or a runner of Beam's by its name there.")
    ] = "local",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another run of ours in OUT; files of anybody else stay.")
    ] = False,
    append: Annotated[
        bool, typer.Option("--append", help="Add what is new in the raw logs to the finished run in OUT.")
    ] = False,
    pools_from: Annotated[
        str | None, typer.Option(help="The folder of an old run, whose groups keep their pools in this one.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", envvar="TRAJMILL_STRICT", help="Stop at the first bug of a connector.")
    ] = False,
    read_as: Format = None,
    part_size: Annotated[
        str | None, typer.Option(help="Raw input that one part holds, such as 64MB; by default what suits the corpus.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Into how many partitions hashes are cut: a power of two.")
    ] = None,
    records: Annotated[
        int | None, typer.Option("--records-per-worker", min=1, help="Hashes of a partition that a worker holds.")
    ] = None,
    stage: Annotated[HandStage | None, typer.Option(help="With --part: do only a share of this stage.")] = None,
    part: Annotated[
        str | None, typer.Option(help="With --stage: which share, such as 0/16; a run without it does the rest.")
    ] = None,
    max_cost: Annotated[float | None, typer.Option(min=0.0, help="Of dataflow: what the run may cost.")] = None,
    max_hours: Annotated[
        float | None, typer.Option(min=0.0, help="Of dataflow: how long its jobs may take together.")
    ] = None,
    price: Annotated[
        float | None, typer.Option(min=0.0, help="Of dataflow: what one machine costs an hour, with disk and fee.")
    ] = None,
    as_json: AsJson = False,
    log_format: Form = LogFormat.TEXT,
    quiet: Quiet = False,
    verbose: Details = 0,
) -> None:
    """Make shards from raw logs. Flags that are not listed here go to Beam's PipelineOptions."""
    MANNER.take(log_format, verbose, quiet=quiet, as_json=as_json)
    from trajmill.app.cli.recipe_draft import parse_run_arguments
    from trajmill.pipelines.recipe.recipe_file import load_recipe

    # validated before the heavy imports, so that a typing error is reported at once
    config, raw, out = parse_run_arguments(config, raw or [], out)
    recipe = load_recipe(config)
    recipe = recipe if read_as is None else recipe.with_format(read_as)
    if workers > 1 and runner == "local":
        from trajmill.pipelines.execution.pool import start_fork_server

        start_fork_server()  # it loads code while this process loads it too

    from trajmill.app.cli.progress import StageProgress
    from trajmill.pipelines.execution.dataflow.job_options import Ceiling
    from trajmill.pipelines.execution.engines import running
    from trajmill.pipelines.execution.execution import execution_of
    from trajmill.pipelines.run import Run
    from trajmill.pipelines.run_record.run_log import RunLog

    paths, flags = paths_and_flags(raw, context.args)
    sizes = limit, part_size, partitions, records
    if append and (overwrite or stop_after not in (Stage.JUDGE, Stage.MIX) or stage is not None or part is not None):
        raise ConfigError(
            "--append adds whole generations: it takes no --overwrite, --stage or --part, and --stop-after judge alone."
        )
    if pools_from is not None and (append or overwrite or stop_after is not Stage.MIX or part is not None):
        raise ConfigError(
            "--pools-from makes all anew in another folder: it takes no --append, --overwrite, --stop-after or --part."
        )
    if stage is not None or part is not None:
        share = execution_of(workers, flags, *sizes, strict=strict)
        _do_share(recipe, paths, out, stage, part, share, overwrite=overwrite)
        return
    summary: Summary | None
    ceiling, log = Ceiling(max_hours, max_cost, price), RunLog()
    with running(runner, workers, flags, ceiling) as engine, StageProgress(MANNER.voices(log)) as progress:
        execution = execution_of(workers, (*engine, *flags), *sizes, strict=strict)
        if append:
            from trajmill.pipelines.generations.append import Append

            adding = Append(recipe, paths, out, execution, progress.tell, sys.argv, log)
            summary = _add_generation(adding, recipe, stop_after.value)
        elif pools_from is not None:
            from trajmill.pipelines.generations.append import run_with_pools_of

            summary = run_with_pools_of(pools_from, recipe, paths, out, execution, progress.tell, sys.argv, log)
        else:
            pipeline_run = Run(
                recipe, paths, out, execution, progress.tell, overwrite=overwrite, command=sys.argv, log=log
            )
            summary = pipeline_run.run(stop_after.value)
    if summary is not None:
        tell_summary(summary, recipe, is_reported=leave_report(out, summary), is_appended=append)


def _add_generation(adding: Append, recipe: Recipe, last: str) -> Summary | None:
    """Add a generation and print its logs; return None if nothing is new."""
    from trajmill.app.cli.tables import show_appended, unchanged_event

    appended = adding.run(last)
    if MANNER.as_json and appended.summary is None:
        results().document(unchanged_event(adding.out.path(), appended))
    elif not (MANNER.quiet or MANNER.as_json):
        show_appended(appended, recipe, results())
    return appended.summary


def _do_share(
    recipe: Recipe,
    paths: list[str],
    out: str,
    stage: HandStage | None,
    part: str | None,
    execution: Execution,
    *,
    overwrite: bool,
) -> None:
    """Do a share of a stage's parts or units, and print their number."""
    from trajmill.pipelines.judge.units_by_hand import measure_share
    from trajmill.pipelines.mix.samples_by_hand import mix_share
    from trajmill.pipelines.normalize.parts_by_hand import Share, normalize_share

    if stage is None or part is None:
        raise ConfigError("--stage and --part go together: --stage normalize --part 0/16 does the first of 16 shares.")
    if overwrite or execution.workers > 1 or execution.beam:
        raise ConfigError("A share is done in one process, beside others: it takes no --overwrite, --workers or flags.")
    does = {HandStage.NORMALIZE: normalize_share, HandStage.JUDGE: measure_share, HandStage.MIX: mix_share}[stage]
    done = does(recipe, paths, out, Share.of(part), execution)
    before = f", {done.before} done before" if done.before else ""
    results().print_line(f"{stage.value} {part}: {done.parts} parts{before}")


@app.command()
def init(
    raw: Annotated[list[str], typer.Argument(help="Raw logs: files, folders or globs.")],
    out: Annotated[Path, typer.Option(help="The recipe that is written.")] = Path("recipe.yaml"),
) -> None:
    """Write a recipe for a folder of logs: the domains of its formats, and options as comments."""
    from trajmill.app.cli.recipe_draft import SECTION, recipe_draft
    from trajmill.pipelines.storage.folders import Folder

    if out.exists():
        raise ConfigError(f"{out} is there, and is not replaced. Choose another --out.")
    text = recipe_draft(raw, str(out))
    Folder(str(out.parent)).write(out.name, text.encode())
    results().print_line(f"written: {out}")
    if SECTION in text.splitlines():
        results().print_line("fill in there what the columns of the table hold: normalize.dataset")
    results().print_line(f"next: {text.splitlines()[0].removeprefix('# ')}")


@app.command()
def plan(
    config: Config,
    raw: Annotated[
        list[str] | None, typer.Option("--raw", help="Raw logs: a file, a folder or a glob; may be given again.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", help="A run's folder: what would be drawn from what is judged there.")
    ] = None,
    read_as: Format = None,
    as_json: AsJson = False,
) -> None:
    """Print what a run would read (inputs by connector, parts, licences), and what it would draw from judged data.

    Nothing is written.
    """
    from trajmill.pipelines.recipe.recipe_file import load_recipe

    if raw is None and out is None:
        raise ConfigError("There is nothing to plan: give --raw, what is read, or --out, a judged run.")
    recipe = load_recipe(config)  # before the rest is loaded, since a slip of the pen should be told at once
    recipe = recipe if read_as is None else recipe.with_format(read_as)

    from trajmill.app.cli.tables import show_mixture, show_plan
    from trajmill.pipelines.mix.mixture_plan import mixture_plan
    from trajmill.pipelines.plan.plan import make_plan

    inputs_plan = make_plan(recipe, raw) if raw is not None else None
    mixture = mixture_plan(recipe, out) if out is not None else None
    if as_json:
        results().json(
            {"plan": json.loads(inputs_plan.to_json()) if inputs_plan is not None else None, "mixture": mixture}
        )
    else:
        if inputs_plan is not None:
            show_plan(inputs_plan, recipe, results())
        if mixture is not None:
            show_mixture(mixture, recipe, results())
    if inputs_plan is not None:
        tell_withdrawn(inputs_plan)


_GROUPS: Final[Mapping[str, tuple[str, Sequence[Callable[..., None]]]]] = {
    "world": ("World models and the worlds they learn.", (replay, serve, drift, patches)),
    "model": ("Additions that a model writes.", (reason, instruct)),
}
for command in (formats, sniff, inspect, verify, export, forget, push, view, report, compare):
    app.command()(command)
for group, (purpose, commands) in _GROUPS.items():
    grouped = typer.Typer(name=group, help=purpose, no_args_is_help=True, pretty_exceptions_enable=False)
    for command in commands:
        grouped.command()(command)
    app.add_typer(grouped, name=group)

_MOVED: Final = {
    "rebuild": "trajmill run RECIPE --raw LOGS --pools-from OLD --out OUT",
    "append": "trajmill run RECIPE --raw LOGS --out OUT --append",
    "diversity": "trajmill report OUT, which has the figures",
    "schema": "trajmill formats --schema",
    "connectors": "trajmill formats",
    **{
        command.__name__: f"trajmill {group} {command.__name__}"
        for group, (_, commands) in _GROUPS.items()
        for command in commands
    },
}
"""Commands of earlier versions, and their replacements."""


def _concerns_us(record: logging.LogRecord) -> bool:
    """Return False for the warning that Beam logs on import about its missing BigQuery client."""
    return "bigquery client libraries" not in record.getMessage()


def _usage_ends_with(code: int) -> None:
    """Make usage errors end with trajmill's exit code instead of the command line library's."""
    usage = next(kind for kind in typer.BadParameter.__mro__ if "exit_code" in vars(kind))
    vars_of: Any = usage
    vars_of.exit_code = code


def _goes_on() -> bool:
    """Return True if repeating the command continues where it stopped."""
    return sys.argv[1:2] in (["run"], ["model"], ["push"])


def _nearest(option: str) -> str:
    """Suggest the option of `run` closest to an unknown one in a sentence; empty if none is close."""
    if not option:
        return ""
    command = typer.main.get_command(app)
    known = [name for parameter in getattr(command, "commands", {})[run.__name__].params for name in parameter.opts]
    close = get_close_matches(option.partition("=")[0], known, 1)
    return f" Did you mean {close[0]}?" if close else ""


def _end(error: Exception) -> NoReturn:
    """End the process as the error requires, with its traceback if it is a bug."""
    ending = ending_of(error, goes_on=_goes_on())
    if ending.traceback:
        traceback.print_exception(error)
    if ending.code == Code.REJECTS and (broken := getattr(error, "broken", ())):
        from trajmill.app.cli.tables import show_broken

        show_broken(broken, notices())
    try:
        fail(ValueError(f"{ending.line}{_nearest(getattr(error, 'option', ''))}"), ending.code)
    except typer.Exit as done:
        sys.exit(done.exit_code)


def _narrow_to_command(whole: typer.Typer, words: Sequence[str]) -> typer.Typer:
    """Return the app with only the command that the words begin with, if there is one, since building all parsers slows
    each start.
    """
    named = [command for command in whole.registered_commands if words and _name_of(command) == words[0]]
    groups = [group for group in whole.registered_groups if words and group.name == words[0]]
    if not named and not groups:
        return whole
    narrowed = copy(whole)
    narrowed.registered_commands, narrowed.registered_groups = named, groups
    return narrowed


def _name_of(command: Any) -> str:
    return str(command.name or command.callback.__name__.replace("_", "-"))


def main() -> None:
    """Entry point of the console script."""
    guard()
    MANNER.take(LogFormat.TEXT, 0, quiet=False)
    if sys.argv[1:2] and sys.argv[1] in _MOVED:
        _end(ConfigError(f"`trajmill {sys.argv[1]}` is now: {_MOVED[sys.argv[1]]}"))
    tune_memory()
    logging.getLogger().addFilter(_concerns_us)
    _usage_ends_with(Code.USAGE)
    try:
        with interruptible():
            _narrow_to_command(app, sys.argv[1:])()
    except Interrupted as error:
        leave(ending_of(error, goes_on=_goes_on()))
    except Exception as error:  # noqa: BLE001 - each ends in its own way
        _end(error)
