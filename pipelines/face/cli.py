"""The command line: `trajmill init | run | plan | connectors | sniff | inspect | verify | turns | diversity |
train-classifier | export | schema`, and those of `generation_commands`, `model_commands`, `pushing`, `flex_templates`,
`viewer` and `report`.

How a command ends, and with which exit code, is the matter of `account.endings`.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Sequence
from copy import copy
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from pipelines.account.endings import Code, Interrupted, ending_of
from pipelines.engine.garbage_collection import collect_rarely
from pipelines.engine.unused_imports import without_pandas
from pipelines.face import generation_commands, model_commands, pushing
from pipelines.face.flex_templates import commands as template_commands
from pipelines.face.generation_commands import PASS_ON, Config, Raw, paths_and_flags, tell_summary
from pipelines.face.interrupts import interruptible, leave
from pipelines.face.manner import MANNER, Details, Form, LogFormat, Quiet, tell_end
from pipelines.face.printing import guard, notices, results
from pipelines.face.report import command as report_command
from pipelines.face.viewer import command as view_command
from schemas import ConfigError
from schemas.manifest import PROGRAM_VERSION

if TYPE_CHECKING:
    from pipelines.account.summary import Summary
    from pipelines.append import Append
    from pipelines.engine.execution import Execution
    from pipelines.plan.plan import Plan
    from pipelines.recipe.recipe import Recipe

_EXAMPLES = """Begin with a folder of logs of any agents:
  trajmill sniff LOGS                     what each file is, and why
  trajmill init LOGS                      writes recipe.yaml for it
  trajmill run recipe.yaml --raw LOGS --out OUT
  trajmill inspect OUT                    counts, and a trajectory
  trajmill verify OUT                     is all as it was written?
  trajmill run recipe.yaml --raw LOGS --out OUT --append

A run that was stopped goes on when the same command is given again.

Exit codes: 0 done, 1 usage, 2 too many rejects, 3 a connector failed,
4 the machine, 5 damage, 70 a bug of ours."""

app = typer.Typer(
    name="trajmill",
    help="Mill raw logs of agents and environments into training shards for language world models.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


_RUN_EXAMPLES = """Examples:
  trajmill run android --raw logs/ --out out/
  trajmill run recipe.yaml --raw a/ 's3://b/*.jsonl' --out out/ --workers 8
  trajmill run recipe.yaml --raw logs/ --out out/ --stop-after judge
  trajmill run all --raw logs/ --out out/ --log-format json 2> told.jsonl"""


class Stage(StrEnum):
    """Where a run may stop."""

    PLAN = "plan"
    NORMALIZE = "normalize"
    JUDGE = "judge"
    MIX = "mix"


class HandStage(StrEnum):
    """Of which stage a share can be done by itself."""

    NORMALIZE = "normalize"


def _version(asked: bool) -> None:
    if asked:
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
    config: Config,
    raw: Raw,
    out: Annotated[str, typer.Option("--out", help="The folder that is written; a run that was killed goes on there.")],
    stop_after: Annotated[Stage, typer.Option(help="The last stage to run.")] = Stage.MIX,
    limit: Annotated[int | None, typer.Option(min=1, help="Take only so many inputs, the first by name.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that work at once.")] = 1,
    runner: Annotated[
        str,
        typer.Option(help="local, portable, prism, flink or dataflow; or a runner of Beam's by its name there."),
    ] = "local",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another run of ours in OUT; files of anybody else stay.")
    ] = False,
    append: Annotated[
        bool, typer.Option("--append", help="Add what is new in the raw logs to the finished run in OUT.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", envvar="TRAJMILL_STRICT", help="Stop at the first bug of a connector.")
    ] = False,
    part_size: Annotated[
        str | None, typer.Option(help="Raw input that one part holds, such as 64MB; by default what suits the corpus.")
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="Into how many partitions hashes are cut: a power of two."),
    ] = None,
    records: Annotated[
        int | None,
        typer.Option("--records-per-worker", min=1, help="Hashes of a partition that a worker holds."),
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
    log_format: Form = LogFormat.TEXT,
    quiet: Quiet = False,
    verbose: Details = 0,
) -> None:
    """Make shards from raw logs. Flags that are not listed here go to Beam's PipelineOptions."""
    MANNER.take(log_format, verbose, quiet=quiet)
    from pipelines.recipe.recipe_file import load_recipe

    recipe = load_recipe(config)  # before the rest is loaded, since a slip of the pen should be told at once

    from pipelines.account.run_log import RunLog
    from pipelines.engine.dataflow.cost_ceiling import Ceiling
    from pipelines.engine.engines import running
    from pipelines.engine.execution import execution_of
    from pipelines.face.progress import StageProgress
    from pipelines.run import Run

    paths, flags = paths_and_flags(raw, context.args)
    sizes = limit, part_size, partitions, records
    if append and (overwrite or stop_after is not Stage.MIX or stage is not None or part is not None):
        raise ConfigError("--append adds whole generations: it takes no --overwrite, --stop-after, --stage or --part.")
    if stage is not None or part is not None:
        share = execution_of(workers, flags, *sizes, strict=strict)
        _do_share(recipe, paths, out, part if stage is not None else None, share, overwrite=overwrite)
        return
    summary: Summary | None
    ceiling, log = Ceiling(max_hours, max_cost, price), RunLog()
    with running(runner, workers, flags, ceiling) as engine, StageProgress(MANNER.voices(log)) as progress:
        execution = execution_of(workers, (*engine, *flags), *sizes, strict=strict)
        if append:
            from pipelines.append import Append

            summary = _added(Append(recipe, paths, out, execution, progress.tell, sys.argv, log), recipe)
        else:
            made = Run(recipe, paths, out, execution, progress.tell, overwrite=overwrite, command=sys.argv, log=log)
            summary = made.run(stop_after.value)
    if summary is not None:
        report_command.leave_report(out, summary)
        tell_summary(summary, recipe)


def _added(adding: Append, recipe: Recipe) -> Summary | None:
    """Adds a generation, and tells which logs it is of; None if nothing is new."""
    from pipelines.face.summaries import show_appended

    appended = adding.run()
    if not (MANNER.quiet or MANNER.is_json):
        show_appended(appended, recipe, results())
    return appended.summary


def _do_share(
    recipe: Recipe, paths: list[str], out: str, part: str | None, execution: Execution, *, overwrite: bool
) -> None:
    """Does a share of the parts, and tells how many that were."""
    from pipelines.normalize.parts_by_hand import Share, normalize_share

    if part is None:
        raise ConfigError("--stage and --part go together: --stage normalize --part 0/16 does the first of 16 shares.")
    if overwrite or not execution.is_plain:
        raise ConfigError("A share is done in one process, beside others: it takes no --overwrite, --workers or flags.")
    done = normalize_share(recipe, paths, out, Share.of(part), execution)
    before = f", {done.before} done before" if done.before else ""
    results().print(f"normalize {part}: {done.parts} parts{before}", soft_wrap=True)


@app.command()
def init(
    raw: Annotated[list[str], typer.Argument(help="Raw logs: files, folders or globs.")],
    out: Annotated[Path, typer.Option(help="The recipe that is written.")] = Path("recipe.yaml"),
) -> None:
    """Write a recipe for what a folder holds: its formats' domains, with the rules of the built-in recipe."""
    from pipelines.engine.storage import Folder
    from pipelines.face.recipe_draft import recipe_draft

    if out.exists():
        _fail(ConfigError(f"{out} is there, and is not replaced. Choose another --out."), Code.USAGE)
    try:
        text = recipe_draft(raw, str(out))
    except ConfigError as error:
        _fail(error, Code.USAGE)
    Folder(str(out.parent)).write(out.name, text.encode())
    results().print(f"written: {out}", soft_wrap=True)


@app.command()
def plan(
    config: Config,
    raw: Annotated[
        list[str] | None, typer.Option("--raw", help="Raw logs: a file, a folder or a glob; may be given again.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", help="A run's folder: what would be drawn from what is judged there.")
    ] = None,
) -> None:
    """Print what a run would read (inputs by connector, parts, licences), and what it would draw of judged data.

    Nothing is written.
    """
    from pipelines.recipe.recipe_file import load_recipe

    if raw is None and out is None:
        _fail(ConfigError("There is nothing to plan: give --raw, what is read, or --out, a judged run."), Code.USAGE)
    try:
        recipe = load_recipe(config)
    except ConfigError as error:
        _fail(error, Code.USAGE)

    from pipelines.face.summaries import show_mixture, show_plan
    from pipelines.mix.mixture_plan import mixture_plan
    from pipelines.plan.plan import make_plan

    made = None
    try:
        if raw is not None:
            made = make_plan(recipe, raw)
            show_plan(made, recipe, results())
        if out is not None:
            show_mixture(mixture_plan(recipe, out), recipe, results())
    except ConfigError as error:
        _fail(error, Code.USAGE)
    if made is not None:
        _tell_withdrawn(made)


@app.command()
def connectors() -> None:
    """List the formats that are read."""
    from connectors.registry import connectors as known
    from pipelines.face.summaries import show_connectors

    show_connectors(known(), results())


@app.command()
def sniff(files: Annotated[list[str], typer.Argument(help="Files, folders or globs.")]) -> None:
    """Tell what each file or log is, and why."""
    from pipelines.plan.plan import make_plan
    from pipelines.recipe.recipe import Recipe

    console = results()
    try:
        found = make_plan(Recipe(name="sniff", source="sniff"), files)
    except ConfigError as error:
        _fail(error, Code.USAGE)
    for one in found.inputs:
        console.print(f"{one.uri}: {one.connector} ({one.why})", soft_wrap=True)
    for reject in found.unrecognized:
        console.print(f"{reject.uri}: {reject.reason} ({reject.detail})", soft_wrap=True)
    _tell_withdrawn(found)


@app.command()
def inspect(
    path: Annotated[str, typer.Argument(help="A raw log, a stage folder, a shard, or a run's folder.")],
    trajectory: Annotated[
        str | None, typer.Option(help="Which one to show: its id, the id's beginning or a number.")
    ] = None,
    lines: Annotated[int, typer.Option(min=1, help="Lines of each text to show.")] = 20,
) -> None:
    """Show counts and one trajectory, step by step, with what each action changed."""
    from pipelines.face.inspection import inspect as look
    from pipelines.face.summaries import show_found

    try:
        show_found(look(path, trajectory), results(), lines)
    except ConfigError as error:
        _fail(error, Code.USAGE)


@app.command()
def verify(
    out: Annotated[str, typer.Argument(help="A run's output folder.")],
    consumer: Annotated[
        list[str] | None,
        typer.Option(help="A trainer or reader that is tried on the shards in an environment of its own; or 'all'."),
    ] = None,
    tokenizer: Annotated[str | None, typer.Option(help="For consumers: the folder of a tokenizer.")] = None,
    chat_template: Annotated[
        str | None, typer.Option(help="A file with a chat template, in place of the tokenizer's own.")
    ] = None,
) -> None:
    """Read all that a run wrote, load its dataset, and tell what is not as it was written, or stands in two pools.

    It ends with 5 then.

    With consumers, tell instead what each of them trains of the shards; ends with 5 if it trains what was not meant.
    """
    from pipelines.engine.generations import chain
    from pipelines.engine.storage import Folder
    from pipelines.engine.succession import rule_sets
    from pipelines.engine.verification import verify as checked
    from pipelines.face.consumer_tables import show_compared, show_tried
    from pipelines.face.summaries import show_disjointness, show_rule_sets, show_verification
    from pipelines.publish.consumers.consumers import tokenizer_of, tried
    from pipelines.publish.disjointness import disjointness
    from pipelines.publish.loading import loaded

    try:
        if consumer:
            opened = tokenizer_of(tokenizer, chat_template)
            tried_ones = tried(out, consumer, opened)
            show_tried(out, opened, results())
            if not show_compared(tried_ones, results()):
                raise typer.Exit(Code.DAMAGE)
            return
        whole = loaded(checked(out))
        found = disjointness(out) if whole.is_whole else None
    except ConfigError as error:
        _fail(error, Code.USAGE)
    show_verification(whole, results())
    if whole.is_whole:
        show_rule_sets(rule_sets(chain(Folder(out))), results())
    if found is not None:
        show_disjointness(found, results())
    if found is None or found.leaks:
        raise typer.Exit(Code.DAMAGE)


@app.command()
def turns(
    path: Annotated[str, typer.Argument(help="A run's folder, or its transitions folder.")],
) -> None:
    """Count turns by the categories of the published loss mask, by domain, in our measure and in the paper's words."""
    from pipelines.face.summaries import show_mask
    from pipelines.face.turn_report import mask_report

    try:
        show_mask(mask_report(path), results())
    except ConfigError as error:
        _fail(error, Code.USAGE)


@app.command()
def diversity(
    path: Annotated[str, typer.Argument(help="A run's folder, or its transitions folder.")],
) -> None:
    """Tell how many different tasks, environments, places, actions and commands a run holds, as effective numbers."""
    from pipelines.face.summaries import show_variety
    from pipelines.publish.diversity import variety

    try:
        show_variety(variety(path), results())
    except ConfigError as error:
        _fail(error, Code.USAGE)


class Labels(StrEnum):
    """Where a classifier's labels come from."""

    COLUMN = "column"
    OUTCOME = "outcome"
    VERDICT = "verdict"


@app.command()
def train_classifier(
    sources: Annotated[
        list[str],
        typer.Argument(help="Tables with labels (JSONL, JSON, Parquet, Arrow); for weak labels, runs' folders."),
    ],
    out: Annotated[str, typer.Option(help="The model that is written; its metrics go beside it, as OUT.json.")],
    labels: Annotated[
        Labels, typer.Option(help="A column of the tables, or weak labels of a run: its outcomes or its verdicts.")
    ] = Labels.COLUMN,
    label: Annotated[str, typer.Option(help="The column of the label.")] = "label",
    good: Annotated[
        list[str] | None,
        typer.Option(help="A label that means good; may be given again. By default good, true, yes, 1."),
    ] = None,
    held_out: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of the groups to measure on.")] = 0.2,
    rows: Annotated[int, typer.Option(min=2, help="Use at most so many rows.")] = 200_000,
    epochs: Annotated[int, typer.Option(min=1, help="How often the rows are read.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Of every choice.")] = 0,
) -> None:
    """Train a fastText classifier of good and bad transitions, for the signal `classifier`."""
    from pipelines.face.summaries import show_classifier
    from pipelines.judge.classifier_training import Training
    from pipelines.judge.classifier_training import train_classifier as train
    from pipelines.judge.training_rows import GOOD, Source

    meaning = frozenset(one.lower() for one in good) if good else GOOD
    try:
        training = Training(held_out=held_out, rows=rows, epochs=epochs, seed=seed)
        report = train([Source(path, labels.value, label, meaning) for path in sources], out, training)
    except ConfigError as error:
        _fail(error, Code.USAGE)
    show_classifier(report, results())
    results().print(f"written: {out} and {out}.json", soft_wrap=True)


@app.command()
def schema(
    out: Annotated[Path | None, typer.Option(help="A file to write; standard output by default.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="As a table for people.")] = False,
) -> None:
    """Export the transition schema as JSON Schema."""
    from pipelines.engine.storage import Folder
    from schemas import json_schema
    from schemas.document import schema_markdown

    text = schema_markdown() if markdown else json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    if out is None:
        results().document(text)
    elif out.exists():
        _fail(ConfigError(f"{out} is there, and is not replaced. Choose another --out."), Code.USAGE)
    else:
        Folder(str(out.parent)).write(out.name, text.encode())


@app.command()
def export(
    path: Annotated[
        str, typer.Argument(help="A run's folder; for atif and agent_sft also its transitions, or a file.")
    ],
    out: Annotated[str, typer.Option(help="The folder that is written.")],
    form: Annotated[
        str,
        typer.Option(
            "--to", "--format", help="atif, agent_sft (of transitions), or a form of shards: see docs/forms.md."
        ),
    ] = "atif",
    tokenizer: Annotated[
        str | None, typer.Option(help="For forms of token ids: a tokenizer.json, or a folder with one.")
    ] = None,
    chat_template: Annotated[
        str | None, typer.Option(help="A file with a chat template, in place of the tokenizer's own.")
    ] = None,
    window: Annotated[int | None, typer.Option(min=2, help="Tokens that a conversation is cut or packed to.")] = None,
) -> None:
    """Write transitions or shards in the form of another tool."""
    from pipelines.face.export import export as write
    from pipelines.face.summaries import show_export
    from pipelines.publish.forms.forms import FORMS, export_form

    try:
        if form in FORMS:
            show_export(export_form(path, form, out, tokenizer, chat_template, window), results())
            return
        if tokenizer is not None or chat_template is not None or window is not None:
            _fail(ConfigError(f"--tokenizer, --chat-template and --window are for: {', '.join(FORMS)}."), Code.USAGE)
        count = write(path, form, out, also=tuple(FORMS))
    except ConfigError as error:
        _fail(error, Code.USAGE)
    results().print(f"{count:,} trajectories written below {out}", soft_wrap=True)


generation_commands.register(app)
model_commands.register(app)
pushing.register(app)
template_commands.register(app)
view_command.register(app)
report_command.register(app)


def _tell_withdrawn(plan: Plan) -> None:
    """Ends the command as connectors' bugs do where one failed when it was asked about a file."""
    from pipelines.face.summaries import show_broken
    from pipelines.normalize.connector_errors import broken_connectors, withdrawals

    broken = broken_connectors(withdrawals(plan))
    if broken:
        show_broken(broken, notices())
        raise typer.Exit(Code.CONNECTOR)


def _fail(error: Exception, code: int) -> NoReturn:
    tell_end(str(error), code)
    raise typer.Exit(code)


def _concerns_us(record: logging.LogRecord) -> bool:
    """Whether a log record is about more than Beam's BigQuery client, whose absence Beam warns of when imported."""
    return "bigquery client libraries" not in record.getMessage()


def _usage_ends_with(code: int) -> None:
    """Makes wrong command lines end with our code for them instead of the command line library's."""
    usage = next(kind for kind in typer.BadParameter.__mro__ if "exit_code" in vars(kind))
    vars_of: Any = usage
    vars_of.exit_code = code


def _goes_on() -> bool:
    """Whether the command that was given goes on where it stopped when it is given again."""
    return bool({run.__name__, *model_commands.ASKING, pushing.PUSHING} & set(sys.argv[1:2]))


def _nearest(option: str) -> str:
    """A sentence that names the option of the run that is most like one that nobody knows, if any is."""
    if not option:
        return ""
    command = typer.main.get_command(app)
    known = [name for one in getattr(command, "commands", {})[run.__name__].params for name in one.opts]
    close = get_close_matches(option.partition("=")[0], known, 1)
    return f" Did you mean {close[0]}?" if close else ""


def _end(error: Exception) -> NoReturn:
    """Ends the process as the error asks for, with its traceback where it is a bug."""
    ending = ending_of(error, goes_on=_goes_on())
    if ending.traceback:
        traceback.print_exception(error)
    if ending.code == Code.REJECTS and (broken := getattr(error, "broken", ())):
        from pipelines.face.summaries import show_broken

        show_broken(broken, notices())
    try:
        _fail(ValueError(f"{ending.line}{_nearest(getattr(error, 'option', ''))}"), ending.code)
    except typer.Exit as done:
        sys.exit(done.exit_code)


def _narrowed(whole: typer.Typer, words: Sequence[str]) -> typer.Typer:
    """Only the command that the words begin with, if there is one: each start would else make the parsers of all."""
    named = [one for one in whole.registered_commands if words and _name_of(one) == words[0]]
    if not named or not whole.registered_groups:  # a single command alone would take its name for an argument
        return whole
    narrowed = copy(whole)
    narrowed.registered_commands = named
    return narrowed


def _name_of(command: Any) -> str:
    return str(command.name or command.callback.__name__.replace("_", "-"))


def main() -> None:
    """Entry point of the console script."""
    guard()
    MANNER.take(LogFormat.TEXT, 0, quiet=False)
    collect_rarely()
    if {run.__name__, *report_command.NAMES} & set(sys.argv[1:2]):
        without_pandas()
    logging.getLogger().addFilter(_concerns_us)
    _usage_ends_with(Code.USAGE)
    try:
        with interruptible():
            _narrowed(app, sys.argv[1:])()
    except Interrupted as error:
        leave(ending_of(error, goes_on=_goes_on()))
    except Exception as error:  # noqa: BLE001 - each ends in its own way
        _end(error)
