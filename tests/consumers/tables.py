"""The page of what consumers train of shards: those that train, then RL, failures and packages."""

from collections.abc import Iterable, Iterator, Sequence

from tests.consumers.consumers import CONSUMERS, SAMPLES, Outcome
from tests.consumers.meaning import Compared
from tests.consumers.rewards import Rewarded
from trajmill.pipelines.publish.forms.stored_samples import StoredShards
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing
from trajmill.schemas import ConfigError


def given(path: str, tokenizing: Tokenizing) -> str:
    """Describe the shards and the tokenizer that consumers are given, in a sentence each."""
    counts = StoredShards(path).manifest.counts
    pools = {
        pool: sum(count for key, count in counts.items() if key.startswith(f"samples.{pool}."))
        for pool in ("cpt", "sft", "rl")
    }
    shown = ", ".join(f"{pool} {count:,}" for pool, count in pools.items())
    return (
        f"Samples of the shards: {shown}; of each domain at most {SAMPLES:,} were compared.\n"
        f"Tokenizer `{tokenizing.digest[:12]}` of {tokenizing.size:,} tokens, "
        f"chat template `{tokenizing.template_digest[:12]}` (beginnings of their sha256).\n"
    )


def tables(outcomes: Sequence[tuple[str, Outcome]]) -> str:
    """Tell what consumers train, a row a domain, and what they were made of."""
    compared, rewarded, failed = list[str](), list[str](), list[str]()
    for name, domains in outcomes:
        if isinstance(domains, ConfigError):
            failed.append(f"{name}: {' '.join(str(domains).split())[-300:]}\n")
            continue
        for domain, outcome in domains.items():
            columns = _columns(outcome)
            rows = rewarded if isinstance(outcome, Rewarded) else compared
            rows += [] if rows else _head(("consumer", "domain", *columns))
            rows.append(_row((name, domain, *(f"{count:,}" for count in columns.values()))))
    packages = [_row((name, CONSUMERS[name].form, " ".join(_pinned(name)))) for name, _ in outcomes]
    parts = (compared, rewarded, failed, [*_head(("consumer", "form", "packages")), *packages])
    return "\n".join("".join(rows) for rows in parts if rows)


def is_as_meant(name: str, outcome: Outcome) -> bool:
    """Tell if a consumer trains what was meant; of whole answers its template says what is trained around them."""
    if isinstance(outcome, ConfigError) or not outcome:
        return False
    return all(
        domain.is_read if CONSUMERS[name].whole and isinstance(domain, Compared) else domain.is_good
        for domain in outcome.values()
    )


def _pinned(name: str) -> Iterator[str]:
    consumer = CONSUMERS[name]
    return (package for package in (*consumer.packages, *consumer.loose) if "==" in package)


def _head(columns: Sequence[str]) -> list[str]:
    return [_row(columns), f"|{'---|' * len(columns)}\n"]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _columns(outcome: Compared | Rewarded) -> dict[str, int]:
    if isinstance(outcome, Rewarded):
        return {
            "rows": outcome.rows,
            "checked": outcome.checked,
            "prompt as written": outcome.prompts,
            "truth earns 1": outcome.truths,
            "empty earns 0": outcome.empties,
            "left out": outcome.left_out,
            "other rows": outcome.others,
            "longest prompt": outcome.longest,
            "answers in training": outcome.answers,
        }
    return {
        "samples": outcome.samples,
        "turns": outcome.turns,
        "meant": outcome.meant,
        "trained": outcome.trained,
        "not meant": outcome.not_meant,
        "meant, not trained": outcome.not_trained,
        "left out": outcome.left_out,
        "other text": outcome.others,
    }
