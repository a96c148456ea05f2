"""Commands that query language models: `trajmill model reason | instruct`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajmill.app.cli.output_options import AsJson
from trajmill.app.console import Printer, notices, results
from trajmill.schemas import ConfigError

if TYPE_CHECKING:
    from trajmill.synthesis.endpoint import Address
    from trajmill.synthesis.replies import Prices
    from trajmill.synthesis.session import Models, Report, Work

Run = Annotated[str, typer.Argument(help="The output folder of a finished run.")]
Out = Annotated[str, typer.Option("--out", help="The folder that is written; a command that was killed goes on there.")]
Url = Annotated[str, typer.Option("--endpoint", help="A chat endpoint, such as http://127.0.0.1:8000/v1.")]
Model = Annotated[str, typer.Option("--model", help="The model that writes, as the endpoint names it.")]
JudgeModel = Annotated[str, typer.Option("--judge-model", help="The model that judges.")]
Revision = Annotated[str, typer.Option(help="Revision of the model; what the endpoint says by default.")]
JudgeUrl = Annotated[str | None, typer.Option("--judge-endpoint", help="Where the judge is, if elsewhere.")]
Key = Annotated[str, typer.Option(help="The environment variable that holds the endpoint's key.")]
JudgeKey = Annotated[str | None, typer.Option(help="The same for the judge's endpoint.")]
Temperature = Annotated[float, typer.Option(min=0.0, help="Of the model that writes.")]
MaxTokens = Annotated[int, typer.Option(min=16, help="Of an answer, its reasoning with it.")]
JudgeMaxTokens = Annotated[int, typer.Option(min=16, help="Of a judgement.")]
Body = Annotated[str, typer.Option(help="Further values of requests to the model that writes, as a JSON object.")]
JudgeBody = Annotated[str, typer.Option(help="Further values of requests to the judge, as a JSON object.")]
Price = Annotated[str, typer.Option(metavar="IN,OUT", help="What a million tokens cost that are asked, and answered.")]
JudgePrice = Annotated[
    str | None, typer.Option(metavar="IN,OUT", help="The same at the judge; the model's by default.")
]
MaxCost = Annotated[float | None, typer.Option(min=0.0, help="Stop before more than that is spent on the result.")]
Rpm = Annotated[float | None, typer.Option(min=0.01, help="Requests a minute, repeated ones too.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Samples or trajectories at once.")]
Timeout = Annotated[float, typer.Option(min=1.0, help="Seconds for one answer.")]
Retries = Annotated[int, typer.Option(min=0, help="How often what failed for the moment is repeated.")]
Limit = Annotated[int | None, typer.Option(min=1, help="So many of each domain; all by default.")]
Cache = Annotated[str | None, typer.Option(help="The folder of answers; OUT/.replies by default.")]


class Target(StrEnum):
    """Observation in the last message of a reasoned sample."""

    ROLLOUT = "rollout"
    TRUTH = "truth"


def reason(
    run: Run,
    out: Out,
    endpoint: Url,
    model: Model,
    judge_model: JudgeModel,
    rollouts: Annotated[int, typer.Option(min=1, help="Answers of one turn.")] = 3,
    threshold: Annotated[float, typer.Option(min=0.0, max=1.0, help="Mean score that the best has to reach.")] = 0.75,
    target: Annotated[
        Target, typer.Option(help="rollout: the best answer whole; truth: its reasoning, then what was observed.")
    ] = Target.TRUTH,
    max_prompt_tokens: Annotated[int, typer.Option(min=256, help="Of turns that are asked for.")] = 1 << 17,
    seed: Annotated[int, typer.Option(min=0, help="Of the choice of turns.")] = 0,
    revision: Revision = "",
    judge_endpoint: JudgeUrl = None,
    key_variable: Key = "OPENAI_API_KEY",
    judge_key_variable: JudgeKey = None,
    temperature: Temperature = 1.0,
    max_tokens: MaxTokens = 1 << 14,
    judge_max_tokens: JudgeMaxTokens = 1 << 13,
    body: Body = "{}",
    judge_body: JudgeBody = "{}",
    price: Price = "0,0",
    judge_price: JudgePrice = None,
    max_cost: MaxCost = None,
    rpm: Rpm = None,
    concurrency: Concurrency = 8,
    timeout: Timeout = 600.0,
    retries: Retries = 8,
    limit: Limit = None,
    cache: Cache = None,
    as_json: AsJson = False,
) -> None:
    """Add reasoning to a run's SFT samples: a model predicts a turn of each, and a judge chooses the answers to use."""
    from trajmill.pipelines.storage.folders import Folder
    from trajmill.synthesis.reasoned_shards import reason as write
    from trajmill.synthesis.reasoning import Reasoning
    from trajmill.synthesis.recorded_run import RecordedRun
    from trajmill.synthesis.session import Models

    writer, judge = _addresses(
        (endpoint, judge_endpoint), (key_variable, judge_key_variable), (price, judge_price), timeout, retries
    )
    sampling = sampling_of(temperature, max_tokens, body)
    judging = sampling_of(0.0, judge_max_tokens, judge_body)
    models = Models(writer, judge, model, judge_model, sampling, judging, rpm, max_cost)
    how = Reasoning(
        model, revision, sampling, rollouts, threshold, target.value, max_prompt_tokens=max_prompt_tokens, seed=seed
    )
    with _working(concurrency, limit) as work:
        report = write(RecordedRun(Folder(run)), Folder(out), models, how, work, _folder(cache))
    show_report(report, models, out, results(), as_json=as_json)


def instruct(
    run: Run,
    out: Out,
    endpoint: Url,
    model: Model,
    judge_model: JudgeModel,
    pool: Annotated[
        list[str] | None, typer.Option(help="Whose trajectories: sft, cpt or rl; may be given again. By default sft.")
    ] = None,
    domain: Annotated[
        list[str] | None, typer.Option(help="search, terminal or mcp; may be given again. By default all three.")
    ] = None,
    share: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of the trajectories, drawn by hash.")] = 1.0,
    threshold: Annotated[float, typer.Option(min=0.0, max=1.0, help="Mean score that an instruction needs.")] = 0.75,
    attempts: Annotated[int, typer.Option(min=1, help="Drafts of a trajectory, until one passes.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw.")] = 0,
    judge_endpoint: JudgeUrl = None,
    key_variable: Key = "OPENAI_API_KEY",
    judge_key_variable: JudgeKey = None,
    temperature: Temperature = 0.7,
    max_tokens: MaxTokens = 1 << 13,
    judge_max_tokens: JudgeMaxTokens = 1 << 13,
    body: Body = "{}",
    judge_body: JudgeBody = "{}",
    price: Price = "0,0",
    judge_price: JudgePrice = None,
    max_cost: MaxCost = None,
    rpm: Rpm = None,
    concurrency: Concurrency = 8,
    timeout: Timeout = 600.0,
    retries: Retries = 8,
    limit: Limit = None,
    cache: Cache = None,
    as_json: AsJson = False,
) -> None:
    """Write simulation instructions that trajectories of a run already fulfil, checked by rules and by a judge."""
    from trajmill.pipelines.storage.folders import Folder
    from trajmill.synthesis.instruction_table import Chosen
    from trajmill.synthesis.instruction_table import instruct as write
    from trajmill.synthesis.instructions import Instructing
    from trajmill.synthesis.recorded_run import RecordedRun
    from trajmill.synthesis.session import Models

    writer, judge = _addresses(
        (endpoint, judge_endpoint), (key_variable, judge_key_variable), (price, judge_price), timeout, retries
    )
    sampling = sampling_of(temperature, max_tokens, body)
    judging = sampling_of(0.0, judge_max_tokens, judge_body)
    models = Models(writer, judge, model, judge_model, sampling, judging, rpm, max_cost)
    named = {name: tuple(value) for name, value in (("pools", pool), ("domains", domain)) if value}
    chosen = Chosen(**named, share=share, seed=seed)
    how = Instructing(model, sampling, threshold, attempts)
    with _working(concurrency, limit) as work:
        report = write(RecordedRun(Folder(run)), Folder(out), models, how, chosen, work, _folder(cache))
    show_report(report, models, out, results(), as_json=as_json)


def _folder(cache: str | None) -> Any:
    from trajmill.pipelines.storage.folders import Folder

    return None if cache is None else Folder(cache)


def _addresses(
    urls: tuple[str, str | None],
    variables: tuple[str, str | None],
    prices: tuple[str, str | None],
    timeout: float,
    retries: int,
) -> tuple[Address, Address]:
    """Return the addresses of the writer and of the judge; the judge's default to the writer's."""
    from trajmill.synthesis.endpoint import Address

    own_key = urls[1] is not None or variables[1] is not None  # a key is not sent to another endpoint unasked
    variable = variables[1] if own_key else variables[0]
    costs = prices_of(prices[0]), prices_of(prices[1] or prices[0])
    writer = Address(urls[0], _key(variables[0]), costs[0], timeout, retries)
    return writer, Address(urls[1] or urls[0], _key(variable), costs[1], timeout, retries)


def _key(variable: str | None) -> str:
    """Return the key in an environment variable; the word "none" without one, since the client requires a key."""
    return (os.environ.get(variable) if variable else None) or "none"


def prices_of(text: str) -> Prices:
    """Parse prices in the form `IN,OUT`.

    Raises:
        ConfigError: The text is not a pair of prices.
    """
    from trajmill.synthesis.replies import Prices

    try:
        asked, answered = (float(price) for price in text.split(","))
    except ValueError:
        asked = answered = -1.0
    if not (0 <= asked < float("inf") and 0 <= answered < float("inf")):
        raise ConfigError(f"'{text}' is no price; wanted are two numbers, such as 0.5,2.")
    return Prices(asked, answered)


def sampling_of(temperature: float, max_tokens: int, body: str) -> dict[str, Any]:
    """Return the values of a request's body besides model and messages; the values of `body` take precedence.

    Raises:
        ConfigError: `body` is not a JSON object of such values.
    """
    try:
        more = json.loads(body)
    except ValueError:
        more = None
    if not isinstance(more, dict) or {"model", "messages", "stream", "n"} & more.keys():
        raise ConfigError(f"'{body}' is no JSON object of further values such as {{\"top_p\": 0.95}}.")
    length = {} if "max_completion_tokens" in more else {"max_tokens": max_tokens}
    settings = {"temperature": temperature, **length, **more}
    return {name: value for name, value in settings.items() if value is not None}


@contextmanager
def _working(concurrency: int, limit: int | None) -> Iterator[Work]:
    """Show a progress line of finished work in a context manager."""
    from trajmill.synthesis.session import Work

    done: dict[str, int] = {}
    with notices().status("asking") as status:

        def tell(outcome: str) -> None:
            done[outcome] = done.get(outcome, 0) + 1
            status.update("asking: " + ", ".join(f"{name} {count:,}" for name, count in done.items()))

        yield Work(concurrency, limit, tell)


def show_report(report: Report, models: Models, out: str, console: Printer, *, as_json: bool) -> None:
    """Print what was written, the tokens and the cost."""
    manifest, spending = report
    prices_known = models.writer.prices.is_known or models.judge.prices.is_known
    if as_json:
        answers = {"asked": spending.asked, "known": spending.known, "uncounted": spending.uncounted}
        cost = {"all": spending.cost, "now": spending.fetched_cost} if prices_known else None
        values = {"out": out, "stage": manifest.stage, "counts": manifest.counts, "answers": answers}
        console.json(values | {"tokens": spending.usage, "cost": cost})
        return
    rows = []
    for name, count in manifest.counts.items():
        outcome, _, domain = name.rpartition(".")
        rows.append((outcome.replace(".", ": "), domain, f"{count:,}"))
    console.table(("outcome", "of", "number"), rows, texts=(0, 1), title=manifest.stage)
    console.print(
        f"answers: {spending.asked:,} asked for now, {spending.known:,} known before; tokens: "
        f"{spending.usage.prompt:,} asked, {spending.usage.completion:,} answered"
    )
    if spending.uncounted:
        console.print(f"{spending.uncounted:,} answers came without a count of their tokens", style="yellow")
    if prices_known:
        console.print(f"cost: {spending.cost:,.4f} in all, {spending.fetched_cost:,.4f} of it now")
    else:
        console.print("cost: not known, since no --price is given")
    if any(".not_asked." in name for name in manifest.counts):
        console.print("--max-cost was reached: the same command with a larger one goes on", style="yellow")
    console.print_line(f"written: {out}")
