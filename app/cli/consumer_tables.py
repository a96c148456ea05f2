"""What consumers train of shards, as tables in Markdown: as they come those that train, behind them RL and failures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trajmill.app.console import Printer
from trajmill.pipelines.publish.consumers.consumers import CONSUMERS, SAMPLES, Outcome
from trajmill.pipelines.publish.consumers.meaning import Compared
from trajmill.pipelines.publish.consumers.rewards import Rewarded
from trajmill.pipelines.publish.forms.stored_samples import StoredShards
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing
from trajmill.schemas import ConfigError


def show_tried(path: str, tokenizing: Tokenizing, console: Printer) -> None:
    """The shards and the tokenizer that consumers are given, in a sentence each."""
    manifest = StoredShards(path).manifest
    pools = {pool: _samples(manifest.counts, pool) for pool in ("cpt", "sft", "rl")}
    held = ", ".join(f"{pool} {count:,}" for pool, count in pools.items())
    console.document(f"Samples of the shards: {held}; of each domain at most {SAMPLES:,} were compared.\n")
    console.document(f"Tokenizer `{tokenizing.digest[:12]}` of {tokenizing.size:,} tokens, ")
    console.document(f"chat template `{tokenizing.template_digest[:12]}` (beginnings of their sha256).\n\n")


def _samples(counts: dict[str, int], pool: str) -> int:
    return sum(count for key, count in counts.items() if key.startswith(f"samples.{pool}."))


def show_compared(found: Iterable[tuple[str, Outcome]], console: Printer) -> bool:
    """Tables of what consumers train, a row a domain, and of what they were; whether all is as it was meant."""
    good, first, names = True, True, list[str]()
    rewarded, failed = list[str](), list[str]()
    for name, domains in found:
        names.append(name)
        if isinstance(domains, ConfigError):
            good = False
            failed.append(f"{name}: {' '.join(str(domains).split())[-300:]}\n")
            continue
        good = good and bool(domains) and all(_is_good(name, one) for one in domains.values())
        for domain, one in domains.items():
            columns = _columns(one)
            row = _row((name, domain, *(f"{count:,}" for count in columns.values())))
            if isinstance(one, Rewarded):
                rewarded += [row] if rewarded else [_head(columns), row]
            else:
                console.document(_head(columns) * first + row)
                first = False
    packages = [_row((name, CONSUMERS[name].form, " ".join(_pinned(name)))) for name in names]
    for rows in (rewarded, failed, [_row(("consumer", "form", "packages")), "|---|---|---|\n", *packages]):
        console.document("".join(["\n", *rows]) if rows else "")
    return good


def _is_good(name: str, one: Compared | Rewarded) -> bool:
    """Whether it is as it was meant; of whole answers a trainer's template says what is trained around them."""
    return one.is_read if CONSUMERS[name].whole and isinstance(one, Compared) else one.is_good


def _pinned(name: str) -> Sequence[str]:
    consumer = CONSUMERS[name]
    return [package for package in (*consumer.packages, *consumer.loose) if "==" in package]


def _head(columns: Iterable[str]) -> str:
    heads = ("consumer", "domain", *columns)
    return _row(heads) + f"|{'---|' * len(heads)}\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _columns(one: Compared | Rewarded) -> dict[str, int]:
    if isinstance(one, Rewarded):
        return {
            "rows": one.rows,
            "checked": one.checked,
            "prompt as written": one.prompts,
            "truth earns 1": one.truths,
            "empty earns 0": one.empties,
            "left out": one.left_out,
            "other rows": one.others,
            "longest prompt": one.longest,
        }
    return {
        "samples": one.samples,
        "turns": one.turns,
        "meant": one.meant,
        "trained": one.trained,
        "not meant": one.not_meant,
        "meant, not trained": one.not_trained,
        "left out": one.left_out,
        "other text": one.others,
    }
