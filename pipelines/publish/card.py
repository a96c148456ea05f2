"""The dataset card: README.md of the shards folder, with the YAML head by which `datasets` and the Hub find files.

Each configuration names the digest of the mix: `datasets` keeps what it has read of a local folder under the folder's
own name and the configurations of its card, and would take the shards of another run for those that it knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipelines.account.conservation import Line
from pipelines.engine.succession import RuleSet
from pipelines.mix.mix import Shard
from pipelines.publish.diversity import Varieties
from pipelines.recipe.recipe import POOLS, Recipe
from pipelines.recipe.templates import template
from quality.tokens import ESTIMATE
from schemas import SCHEMA_VERSION

CARD: Final = "README.md"
"""Its name in the dataset folder."""

_ROWS: Final[Mapping[str, str]] = {
    "cpt": "a whole trajectory as text",
    "sft": "a conversation: user turn = action, assistant turn = observation, `loss` per message",
    "rl": "one turn of a trajectory as prompt, its observation as ground truth (`exact` is false where scrubbing "
    "touched the turn)",
    "eval": "one turn of a held-out trajectory, in AgentWorldBench's form",
}
_APART: Final = tuple(
    f"{name}_{value}"
    for name, values in (("environment", ("seen", "unseen", "unknown")), ("time", ("before", "after", "unknown")))
    for value in values
)
_SIZES: Final = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))


@dataclass(frozen=True, slots=True)
class Config:
    """One loadable configuration of the dataset."""

    name: str
    split: str
    path: str
    samples: int
    tokens: int
    row: str


def configs_of(shards: Sequence[Shard], counts: Mapping[str, int]) -> list[Config]:
    """The pools that hold a sample, as configurations; `sft` comes first, since it is the default."""
    found = []
    for pool in sorted(POOLS, key=lambda pool: pool != "sft"):
        domains = sorted({shard.domain for shard in shards if shard.pool == pool})
        samples = sum(counts.get(f"samples.{pool}.{domain}", 0) for domain in domains)
        tokens = sum(counts.get(f"tokens.{pool}.{domain}", 0) for domain in domains)
        path, split = ("eval/*_test.jsonl", "test") if pool == "eval" else (f"{pool}/*/train-*.parquet", "train")
        if samples:
            found.append(Config(pool, split, path, samples, tokens, _ROWS[pool]))
    return found


def told_apart(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Of each domain, the samples of eval by what training shows of their environment, and by when they began.

    Args:
        counts: `environment_seen.eval.<domain>` and so on, and `time_after.eval.<domain>`, summed over shards.
    """
    domains = sorted(key.rpartition(".")[2] for key in counts if key.startswith("samples.eval."))
    return {domain: {kind: counts.get(f"{kind}.eval.{domain}", 0) for kind in _APART} for domain in domains}


def held_in(pool: str, counts: Mapping[str, int]) -> tuple[int, int]:
    """Samples of a pool that show control strings, and the turns of samples that do."""
    names = (f"{what}.{pool}." for what in ("control_samples", "control_turns"))
    samples, turns = (sum(count for key, count in counts.items() if key.startswith(name)) for name in names)
    return samples, turns


def card(
    recipe: Recipe,
    shards: Sequence[Shard],
    counts: Mapping[str, int],
    flow: Sequence[Line],
    digest: str,
    kept: Varieties,
    mixture: Mapping[str, Any],
    rules: Sequence[RuleSet] = (),
) -> str:
    """The card of a finished run, as Markdown with a YAML head.

    Args:
        recipe: the run's.
        shards: every shard written.
        counts: `samples.<pool>.<domain>`, `tokens.…`, `control_samples.…` and `control_turns.…`, summed over shards.
        flow: what went in and came out, by unit.
        digest: of the mix.
        kept: the diversity of what was kept.
        mixture: what its pools and stages were given (`Mixture.told`).
        rules: by which the generations of the dataset were made; empty where nothing was added.
    """
    configs = configs_of(shards, counts)
    total = sum(config.samples for config in configs)
    by_domain = {
        domain: sum(count for key, count in counts.items() if key.startswith("samples.") and key.endswith(f".{domain}"))
        for domain in sorted({shard.domain for shard in shards})
    }
    return template("card.md.j2").render(
        card=recipe.card,
        recipe=recipe,
        configs=configs,
        size_category=next((word for bound, word in _SIZES if total < bound), "n>10M"),
        tokens_note=" (estimated)" if recipe.judge.tokenizer == ESTIMATE else "",
        flow=flow,
        domains=", ".join(f"{domain} {count:,}" for domain, count in by_domain.items()),
        digest=digest,
        generations=rules[-1].last if rules else 1,
        rules=rules,
        diversity=[(domain, kind, one) for domain, of in kept.items() for kind, one in of.items() if one.kinds],
        pools_given=mixture["pools"],
        stages=mixture["stages"],
        budgets={pool: stage.budget for pool, stage in recipe.mix.stages.items()},
        max_share=recipe.judge.max_share,
        control={config.name: held_in(config.name, counts) for config in configs},
        apart={domain: of for domain, of in told_apart(counts).items() if any(of.values())},
        schema_version=SCHEMA_VERSION,
        pools=", ".join(f"{pool} {share:g}" for pool, share in recipe.mix.pools.items()),
        scrubbed=", ".join(recipe.normalize.scrub) or "none",
    )
