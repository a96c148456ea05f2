"""Output of the command line: tables and steps, from plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.segment import Segment, Segments

from trajmill.app.console import Printer, label_text, quantity, text
from trajmill.connectors.connector import Connector
from trajmill.connectors.registry import FORMATS, VERIFIED
from trajmill.pipelines.judge.harness_text import table_line
from trajmill.pipelines.normalize.connector_errors import Broken
from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.recipe.recipe import POOLS, Recipe
from trajmill.pipelines.run_record.summary import Summary
from trajmill.pipelines.run_record.warnings import mixture_warnings
from trajmill.schemas.manifest import Manifest

if TYPE_CHECKING:
    from trajmill.app.cli.inspection import Found
    from trajmill.pipelines.generations.append import Appended
    from trajmill.pipelines.generations.forgetting import Forgotten
    from trajmill.pipelines.mix.mixture_plan import MixturePlan
    from trajmill.pipelines.publish.dataset import RuleSet
    from trajmill.pipelines.publish.disjointness import Disjointness
    from trajmill.pipelines.storage.verification import Verification

REJECTS: Final = "rejects"
"""Title of a list of rejects, one a line."""

_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}


_UNITS: Final = {"files": "files", "inputs": "logs", "trajectories": "trajectories"}
_POOL_NAMES: Final[Mapping[str, str]] = {"cpt": "CPT", "sft": "SFT", "rl": "RL", "eval": "eval"}
_LOSSES: Final = 3
_REMEDY: Final = "`trajmill view OUT` lists them."
REMEDIES: Final = {
    "other_domain": "The recipe takes other domains; `trajmill run LOGS` takes all.",
    "no_transitions": "Their logs hold no action with an answer.",
    "no_observation": "The logs hold no answers to these actions.",
    "duplicate_trajectory": "Exact copies; one of each is kept.",
    "near_duplicate": "Copies but for a few words; one of each is kept. `judge.near_duplicates` sets how near.",
    "max_per_task": "Their tasks have better ones; `judge.max_per_task` sets how many are kept.",
    "contaminated": "They show items of a benchmark in `judge.benchmarks`.",
    "harness_share": "Unknown text of the harness stands in the answers; see `trajmill inspect OUT --harness`.",
    "excluded": "`judge.include` does not name them, or `judge.exclude` does.",
    "simulated": "A model wrote the answers; `judge.simulated` allows some.",
    "no_target": "No answer of theirs may bear the loss; the viewer names the rule of each row.",
    "few_turns": "The rule `few_turns` asks for more turns.",
    "unrecognized": "No connector reads them; `trajmill sniff` says why.",
    "bridges_pools": "They belong to groups of two pools.",
    "truncated": "The file ends within a record.",
}
"""Remedies of losses by reason."""

_SHOWN = 5
"""Number of changed inputs that are named."""


def show_summary(
    summary: Summary, recipe: Recipe, console: Printer, *, is_reported: bool, totals: Mapping[str, Any] | None = None
) -> None:
    """Print what became of the logs by domain, the largest losses, the folder, and the commands to try next.

    Args:
        is_reported: whether it left a report.
        totals: of the dataset that it added to; see `dataset_totals`.
    """
    lines = {line.unit: line for line in summary.lines}
    steps = [quantity(lines[unit].entered, name) for unit, name in _UNITS.items() if unit in lines]
    took = sum(summary.seconds.values())
    console.print_line(f"{recipe.name}: {' → '.join(steps)}, in {took:.0f} s")
    if summary.domains:
        _show_tokens(summary, console)
    if totals is not None:
        pools = ", ".join(f"{_POOL_NAMES[pool]} {totals['samples'].get(pool, 0):,}" for pool in POOLS)
        generations, kept = quantity(totals["generations"], "generations"), quantity(totals["kept"], "trajectories")
        console.print_line(f"the dataset now, of {generations}: {kept} kept; samples {pools}")
    for loss in largest_losses(summary):
        console.print_line(loss)
    for warning in summary.warnings:
        console.print_line(warning, style="yellow")
    for change in summary.changed:
        console.print_line(change)
    console.print_line(f"written: {summary.out}")
    if is_reported:
        console.print_line(f"report: {summary.out}/report.html")
    for command in _next(summary):
        console.print_line(f"next: {command}")


def _show_tokens(summary: Summary, console: Printer) -> None:
    """Print a table of trajectories by domain, those that are kept, and the size of each pool."""
    sizes = {
        pool: {
            key.removeprefix(f"{pool}."): count if pool == "eval" else summary.drawn_tokens.get(key, 0)
            for key, count in summary.samples.items()
            if count and key.startswith(f"{pool}.")
        }
        for pool in POOLS
    }
    sizes = {pool: size for pool, size in sizes.items() if size}
    rows = []
    for domain in sorted({*summary.domains, *(domain for size in sizes.values() for domain in size)}):
        judged, kept_count = summary.domains.get(domain, (0, 0))
        rows.append(
            (domain, f"{judged:,}", f"{kept_count:,}", *(f"{size.get(domain, 0):,}" for size in sizes.values()))
        )
    judged, kept_count = (sum(column) for column in zip(*summary.domains.values(), strict=True))
    unread = sum(line.entered for line in summary.lines if line.unit == "trajectories") - judged
    if unread > 0:  # a run that stops after judging has not counted them
        rows.append(("not judged", f"{unread:,}", "0", *("" for _ in sizes)))
    totals = (f"{sum(size.values()):,}" for size in sizes.values())
    rows.append(("all", f"{judged + max(0, unread):,}", f"{kept_count:,}", *totals))
    loss = {pool: sum(n for key, n in summary.loss_tokens.items() if key.startswith(f"{pool}.")) for pool in sizes}
    if any(loss.values()):
        rows.append(("under loss", "", "", *(f"{number:,}" if number else "" for number in loss.values())))
    names = [_POOL_NAMES[pool] for pool in sizes]
    title = "trajectories" + (", and tokens by pool (of eval: samples)" if sizes else "")
    dropped = ("found", *reversed(names))
    sums = 1 + any(loss.values())
    console.table(("domain", "found", "kept", *names), rows, dropped=dropped, title=title, sums=sums)


def largest_losses(summary: Summary) -> list[str]:
    """Return lines on the three largest losses of files, logs and trajectories, each with a remedy."""
    losses: dict[str, tuple[int, str]] = {}
    for line in summary.lines:
        if line.unit in _UNITS:
            losses |= {reason: (count, _UNITS[line.unit]) for reason, count in {**line.lost, **line.merged}.items()}
    largest = sorted(losses.items(), key=lambda loss: (-loss[1][0], loss[0]))[:_LOSSES]
    return [
        f"{quantity(count, unit)} lost: {reason}. {REMEDIES.get(reason, _REMEDY)}".replace("OUT", summary.out)
        for reason, (count, unit) in largest
    ]


def summary_event(summary: Summary, totals: Mapping[str, Any] | None = None) -> str:
    """Return the summary as one line of JSON."""
    from trajmill.app.cli.progress import event

    counts = {line.unit: {**asdict(line), "dropped": line.dropped} for line in summary.lines}
    return (
        event(
            "summary",
            out=summary.out,
            last_stage=summary.last,
            counts=counts,
            tokens={"all": summary.tokens, "target": summary.target_tokens},
            samples=summary.samples,
            mixture=dict(summary.mixture),
            warnings=list(summary.warnings),
            changed=list(summary.changed),
            seconds=summary.seconds,
            next=_next(summary),
            dataset=totals,
        )
        + "\n"
    )


def unchanged_event(out: str, appended: Appended) -> str:
    """An append that found nothing new, as one line of JSON."""
    from trajmill.app.cli.progress import event

    counts = {"generation": appended.generation.number, "known": appended.known, "changed": list(appended.changed)}
    return event("nothing_new", out=out, **counts) + "\n"


def show_appended(appended: Appended, recipe: Recipe, console: Printer) -> None:
    """Print the result of an append: inputs that are new, that were read before, or that have changed since."""
    generation = appended.generation
    if appended.summary is None:
        console.print_line(f"nothing is new: generation {generation.number} is the last one")
    else:
        new, is_added = len(appended.summary.plan.inputs), appended.summary.last == "mix"
        message = f"generation {generation.number}: {quantity(new, 'logs')} added"
        left = f"{quantity(new, 'new logs')} judged; the same command without --stop-after adds them"
        console.print_line(message if is_added else left)
    console.print_line(f"read before, under this name or another: {appended.known:,}")
    if appended.changed:
        shown = ", ".join(appended.changed[:_SHOWN])
        more = f" and {len(appended.changed) - _SHOWN:,} more" if len(appended.changed) > _SHOWN else ""
        setting = f"normalize.grown: {recipe.normalize.grown}"
        if recipe.extends_logs:
            what = f"read again for what is new in them ({setting})"
        elif recipe.normalize.grown == "ignore":
            what = f"left as they were read ({setting})"
        else:
            what = "left as they were read (judge.mask_duplicate_transitions: false)"
        message = f"grown or changed since, {what}: {len(appended.changed):,} ({shown}{more})"
        console.print_line(message, style="yellow")
    if appended.begun:
        message = f"begun by others, who may be at work or were killed: {', '.join(appended.begun)}"
        console.print_line(f"{message}. What stays as it is for a day goes with the next append.")


def dataset_totals(out: str) -> dict[str, Any]:
    """Count the generations of a folder, the trajectories that they keep, and the samples of each pool."""
    from trajmill.app.report.figures import balance
    from trajmill.app.report.sources import Sources

    sources = Sources(out)
    kept_count = next((line.kept for line in balance(sources.records) if line.unit == "trajectories"), 0)
    shards, samples = sources.manifest("shards"), Counter[str]()
    for key, number in (shards.counts if shards else {}).items():
        unit, _, component = key.partition(".")
        if unit == "samples":
            samples[component.partition(".")[0]] += number
    return {"generations": len(sources.leads), "kept": kept_count, "samples": dict(samples)}


def show_forgotten(forgotten: Forgotten, console: Printer) -> None:
    """Print the forgotten trajectories, where copies of them may still exist, and what to do about those."""
    of = f", all that {quantity(len(forgotten.logs), 'logs')} held" if forgotten.logs else ""
    console.print_line(f"forgotten: {quantity(forgotten.trajectories, 'trajectories')}{of}")
    console.print_line(
        f"written again: {quantity(len(forgotten.rewritten), 'files')}; looked through: {forgotten.scanned:,}"
    )
    if forgotten.older is None:
        message = "whether the store keeps older versions of its objects could not be asked: look there"
        console.print_line(message, style="yellow")
    elif forgotten.older:
        message = (
            f"older versions of {forgotten.older:,} objects are kept by the bucket, until its life cycle or somebody "
        )
        console.print_line(f"{message}removes them", style="yellow")
    for path in forgotten.raw[:_SHOWN]:
        console.print_line(f"raw log, which is not touched: {path}")
    if len(forgotten.raw) > _SHOWN:
        console.print(f"and {len(forgotten.raw) - _SHOWN:,} raw logs more")
    console.print_line(
        "What was published holds it until it is replaced there, older revisions too; so do copies, other forms of "
        "the shards (export) and models that were trained.",
        style="yellow",
    )


def show_broken(broken: Sequence[Broken], console: Printer) -> None:
    """Print the failures of connectors and ask for a report of them."""
    total = sum(failure.inputs for failure in broken)
    console.rule(style="bold red")
    console.print(f"Connectors failed on {total:,} inputs. This is a bug, and no fault of the logs.", style="bold red")
    for failure in broken:
        more = f" and {failure.inputs - len(failure.examples):,} more" if failure.inputs > len(failure.examples) else ""
        examples = ", ".join(failure.examples)
        console.print_line(f"{failure.connector}: {failure.inputs:,} inputs: {examples}{more}")
        for line in failure.raised:
            console.print_line(f"  {line}")
    console.print_line(
        "They are left out, or left to another connector; all others are done. Please report these lines to whoever "
        "gave you the connector. The same command with mended code reads them again."
    )


def _next(summary: Summary) -> list[str]:
    """Return suggestions of commands to run next."""
    if summary.last == "plan":
        return ["the same command without --stop-after plan"]
    if summary.last != "mix":
        return [f"trajmill inspect {summary.out}/transitions"]
    pools = {key.split(".")[0] for key, count in summary.samples.items() if count}
    config = next((pool for pool in ("sft", "cpt", "rl") if pool in pools), None)
    look = [f"trajmill view {summary.out}", f"trajmill verify {summary.out}"]
    return look if config is None else [f"trajmill inspect {summary.out}/shards/{config}", *look]


def show_plan(plan: Plan, recipe: Recipe, console: Printer) -> None:
    """Print what a run would do: inputs by connector, parts, files that no connector recognizes, licences."""
    rows = []
    by_name: dict[str, list[Any]] = {}
    for log in plan.inputs:
        by_name.setdefault(log.connector, []).append(log)
    for name, inputs in sorted(by_name.items()):
        size = sum(member_log.bytes for member_log in inputs) / 1e6
        files = sum(len(member_log.members) for member_log in inputs)
        rows.append((name, f"{len(inputs):,}", f"{files:,}", f"{size:,.2f}", f"{inputs[0].uri}: {inputs[0].why}"))
    console.table(("connector", "inputs", "files", "MB", "for example"), rows, texts=(0, 4))
    console.print(f"parts: {len(plan.parts):,}; domains taken in: {', '.join(recipe.domains)}")
    console.print(f"licence of the raw logs: {recipe.licence or 'not stated in the recipe'}")
    if plan.claimed:
        claimed = ", ".join(f"{name} {count:,}" for name, count in sorted(plan.claimed.items()))
        console.print_line(f"files that belong to logs and are not read themselves: {claimed}")
    console.print(f"not recognized: {len(plan.unrecognized):,}")
    for reject in plan.unrecognized[:20]:
        console.print_line(f"  {reject.uri}: {reject.detail}")
    if len(plan.unrecognized) > 20:
        console.print(f"  … and {len(plan.unrecognized) - 20:,} more")


def show_mixture(planned: MixturePlan, recipe: Recipe, console: Printer) -> None:
    """Print the mixture that would be drawn, by stage, component and domain, the tokens of each pool, and the
    shortfalls.
    """
    for note in planned.notes:
        console.print_line(note, style="yellow")
    if planned.mixture is None:
        return
    heads = ("stage", "component", "domain", "share", "there", "tokens", "under loss", "drawn", "epochs", "shortfall")
    cells = []
    for stage, rows in planned.mixture.stages.items():
        for row in rows:
            share = "" if row["share"] is None else f"{row['share']:.1%}"
            counts = [f"{row[name]:,}" for name in ("available", "tokens", "loss_tokens", "samples")]
            leading = (stage, row["component"], row["domain"], share)
            cells.append((*leading, *counts, f"{row['epochs']:.2f}", f"{row['shortfall']:,}"))
    console.table(heads, cells, texts=(0, 1, 2), dropped=("drawn", "under loss", "share", "epochs"))
    budgets = {str(stage): asked.budget for stage, asked in recipe.mix.stages.items()}
    for stage, rows in planned.mixture.stages.items():
        budget = budgets.get(stage)
        of = f" of a budget of {budget:,}" if budget is not None else ""
        tokens, loss, drawn = (sum(row[name] for row in rows) for name in ("tokens", "loss_tokens", "samples"))
        console.print_line(f"{stage}: {tokens:,} tokens{of}, {loss:,} under loss, of {drawn:,} drawn")
    for line in mixture_warnings(planned.mixture, recipe.mix):
        console.print_line(line, style="yellow")


def show_formats(connectors: Mapping[str, Connector], console: Printer) -> None:
    """Print a line for each format: its connector with version, the real logs on which it was verified, its domains."""
    width = max(map(len, connectors))
    for name, connector in connectors.items():
        logs = f"{VERIFIED[name]:,} logs" if name in VERIFIED else "unverified"
        verified = logs if name in FORMATS else ""
        line = (
            f"{name:{width}}  {connector.version:>2}  {verified:10}  {connector.title}: {', '.join(connector.domains)}"
        )
        console.print_line(line)


def show_harness_text(rows: Sequence[Mapping[str, Any]], console: Printer) -> None:
    """Print likely harness text, and the table lines with which parsers would recognize it."""
    cells = []
    for row in rows:
        agent = " ".join(filter(None, (row["agent"], row["version"])))
        counts = f"{row['answers']:,} of {row['among']:,}", f"{row['kinds']:,}"
        cells.append((agent, row["tool"] or "", row["place"], *counts, row["example"].strip()))
    heads = ("agent", "tool", "place", "answers", "kinds", "example")
    console.table(heads, cells, texts=(0, 1, 5), dropped=("kinds", "place"), title="Text of harnesses")
    if rows:
        console.print("For connectors/conversation/harness_text.tsv, where a line is a harness's indeed:")
        lines = "".join(f"{table_line(row)}\n" for row in rows)
        console.print(Segments([Segment(lines)]), soft_wrap=True, end="")  # tabs of a text would become spaces


def show_found(contents: Found, console: Printer, lines: int) -> None:
    """Print one trajectory step by step, one sample or every reject, with at most `lines` lines of each text; then
    counts.
    """
    if contents.rows:
        console.rule(contents.title)
    if contents.rows and "action" in contents.rows[0]:
        _show_trajectory(contents.rows, console, lines)
    else:
        for row in contents.rows:
            if contents.title == REJECTS:
                console.print_line(_reject_line(row))
            else:
                _show_value("", row, console, lines)
    for title, values in contents.tables.items():
        console.print(f"by {title}: " + ", ".join(f"{value} {number:,}" for value, number in values))
    console.print(f"{contents.kind}: " + ", ".join(f"{name} {number:,}" for name, number in contents.counts.items()))


def _reject_line(row: Mapping[str, Any]) -> str:
    """Format a reject as one line: its unit, position and reason."""
    location = " › ".join(filter(None, (row["uri"], row["member"])))
    step = f", step {row['step'] + 1}" if row["step"] >= 0 else ""
    byte = f" at byte {row['offset']}" if row["offset"] >= 0 else ""
    return f"{location}{byte}{step}: {row['unit']} {row['reason']}: {row['detail']}"


def _show_trajectory(rows: Sequence[Mapping[str, Any]], console: Printer, lines: int) -> None:
    first = rows[0]
    for name in ("task", "environment", "agent", "context", "outcome", "provenance"):
        for key, value in (first[name] or {}).items():
            if value not in (None, ""):
                console.print(label_text(f"{name}.{key}: ", _clip(str(value), lines)))
    for row in rows:
        console.rule(f"step {row['step'] + 1} of {row['num_steps']}, turn {row['turn'] + 1}", align="left")
        if row["step"] == 0 and row["observation"]:
            console.print(text(_clip(row["observation"]["content"] or "(no text)", lines), "dim"))
        if row["interleaved"]:
            console.print(text(_clip(row["interleaved"], lines), "magenta"))
        console.print(text(_clip(row["action"]["text"], lines), "bold yellow"))
        _show_next(row, console, lines)


def _show_next(row: Mapping[str, Any], console: Printer, lines: int) -> None:
    after = row["next_observation"]
    if after is None:
        console.print("the log does not hold what came next", style="red")
        return
    marks = [after["form"], after["origin"]]
    marks += ["error"] if after["is_error"] else []
    marks += [f"exit {row['exit_code']}"] if row["exit_code"] is not None else []
    marks += [f"cut by {after['truncation']}"] if after["truncation"] != "none" else []
    marks += [f"{len(after['attachments'])} attachments"] if after["attachments"] else []
    classes = row.get("classes") or {}
    whole = sum(classes.values())
    marks += [f"{100 * number / whole:.0f} % {name}" for name, number in classes.items()]
    console.print(f"→ {', '.join(marks)}", style="cyan")
    if after["form"] in ("screen", "state") and row["observation"]:
        from trajmill.app.cli.inspection import difference

        changed = list(difference(row["observation"], after))
        for line in changed[:lines] or ["(nothing changed)"]:
            console.print(text(line, _STYLES.get(line[:1], "")))
        if len(changed) > lines:
            console.print(f"… {len(changed) - lines} more lines")
    else:
        console.print(text(_clip(after["content"] or "(no text)", lines)))


def _show_value(path: str, value: Any, console: Printer, lines: int) -> None:
    if path == "spans" and value:
        console.print(label_text("spans: ", ", ".join(_span_words(span) for span in value)))
    elif isinstance(value, dict):
        for key, inner in value.items():
            _show_value(f"{path}.{key}" if path else str(key), inner, console, lines)
    elif isinstance(value, list) and value and isinstance(value[0], dict | str):
        for number, inner in enumerate(value):
            _show_value(f"{path}[{number}]", inner, console, lines)
    else:
        console.print(label_text(f"{path}: ", _clip(str(value), lines)))


def _span_words(span: Mapping[str, Any]) -> str:
    """Write a span of text under loss: its message, if a sample has messages, where it lies, and its class."""
    message = f"message {span['message']}: " if "message" in span else ""
    return f"{message}{span['begin']}–{span['end']}" + (f" {span['label']}" if span.get("label") else "")


def _clip(content: str, lines: int) -> str:
    rows = content.removesuffix("\n").split("\n")  # other ends of lines are shown as what they are
    cut = [row if len(row) <= 400 else f"{row[:400]}… ({len(row):,} characters)" for row in rows[:lines]]
    return "\n".join([*cut, f"… {len(rows) - lines} more lines"] if len(rows) > lines else cut)


def show_rule_sets(rule_sets: Sequence[RuleSet], console: Printer) -> None:
    """Print the recipes and connectors that made the generations of a folder, and their differences."""
    for rule_set in rule_sets:
        read_by = ", ".join(f"{name} {version}" for name, version in rule_set.connectors.items())
        readers = f"; {read_by}" if read_by else ""
        noun = "generation" if rule_set.first == rule_set.last else "generations"
        console.print_line(f"{noun} {rule_set.told}: recipe {rule_set.recipe}{readers}")
        for change in rule_set.changed:
            console.print_line(f"  {change}")


def show_verification(verification: Verification, console: Printer) -> None:
    """Print a line per stage, a line per fault, and the remedy."""
    for stage in verification.stages:
        state = "sealed" if stage.sealed else "not finished"
        console.print_line(f"{stage.name}: {state}, {quantity(stage.files, 'files')}, {stage.bytes / 1e6:,.1f} MB")
    for fault in verification.faults:
        console.print_line(f"{fault.name} {fault.what}")
    for name in verification.foreign:
        console.print_line(f"{name} is of no run; it keeps a run from going on here")
    if verification.is_whole:
        console.print_line(f"{verification.out} is as it was written.")
    else:
        console.print_line("Run the same command again: what is damaged, missing or not finished is made again.")


def show_disjointness(disjointness: Disjointness, console: Printer) -> None:
    """Print the comparisons between pools, a line for each item in two pools, and the remedy."""
    for line in (*disjointness.checked, *disjointness.leaks):
        console.print_line(line)
    if disjointness.leaks:
        console.print_line(
            "The pools are not disjoint: see docs/operations.md. Near duplicates that the recipe keeps (judge), or "
            "environments that it leaves apart (mix.group_by), come to two pools."
        )


def show_export(manifest: Manifest, console: Printer) -> None:
    """Print the contents of an export by domain, and the digests of its models."""
    from trajmill.pipelines.publish.forms.job import LEFT_OUT

    by_domain, left_out = dict[str, dict[str, int]](), Counter[str]()
    for key, count in manifest.counts.items():
        name, _, domain = key.partition(".")
        by_domain.setdefault(domain, {})[name.replace("_", " ")] = count
        if name.startswith(LEFT_OUT):
            left_out[name.removeprefix(LEFT_OUT).replace("_", " ")] += count
    for domain, counts in by_domain.items():
        shown = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        console.print_line(f"{domain or 'all'}: {shown}")
    reasons = ", ".join(f"{name} {count:,}" for name, count in sorted(left_out.items()))
    console.print_line(f"left out: {reasons or 'none'}")
    for name, digest in manifest.models.items():
        console.print(f"{name.replace('_', ' ')}: {digest[:12]}")
    size = sum(file.bytes for file in manifest.files)
    console.print_line(f"{manifest.unit}: {quantity(len(manifest.files), 'files')}, {size / 1e6:,.1f} MB")
