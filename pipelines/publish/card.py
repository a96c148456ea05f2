"""The dataset card, README.md of the shards folder, and what stands beside it: what a dataset tells of itself.

What comes of logs, example rows and names of licences, is text of others: it stands in blocks that it cannot leave, or
with its markup taken away. What the recipe says stands as it is written there, but for its markup in tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from trajmill.pipelines.mix.simulated import shares
from trajmill.pipelines.publish.card_head import card_head
from trajmill.pipelines.publish.croissant import CROISSANT, croissant
from trajmill.pipelines.publish.dataset import Dataset
from trajmill.pipelines.publish.example_rows import example_rows, inline, named
from trajmill.pipelines.publish.licences import COUNTED, UNKNOWN
from trajmill.pipelines.recipe.judgement import RuleValues
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.templates import template
from trajmill.pipelines.storage.units import finish_unit
from trajmill.quality.settings import ESTIMATE
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.manifest import PROGRAM_VERSION, FileEntry, Manifest

CARD: Final = "README.md"
"""Its name in the dataset folder."""

CARD_UNIT: Final = "card"
"""The unit that card and Croissant description are."""

DESCRIBED_IN: Final = (CARD, CROISSANT)
"""Names of the files that tell of a dataset."""

_APART: Final = tuple(
    f"{name}_{value}"
    for name, values in (("environment", ("seen", "unseen", "unknown")), ("time", ("before", "after", "unknown")))
    for value in values
)
_WHY: Final[Mapping[str, str]] = {
    "bridges_pools": "it is of groups that stand in two pools already",
    "contaminated": "it shows an item of a benchmark",
    "control_tokens": "it shows strings that tokenizers take for control tokens",
    "duplicate_trajectory": "the same as another, which stays",
    "duplicate_transition": "shown and learnt in another trajectory before",
    "near_duplicate": "hardly anything of it is absent from another, which stays",
    "no_observation": "its log tells no answer to it",
    "no_target": "nothing of it can be learnt",
    "no_text": "nothing of it is text",
    "not_drawn": "the mixture has no place for it",
    "over_window": "longer than a sample may be",
    "recorder_cut": "the recorder cut the answer, not the environment",
    "simulated": "a world model answered it, and the recipe refuses that",
    "replicate": "the same was asked in the same history more often than the recipe takes",
    "truncated": "its log ends in the middle of it",
}
"""What the commonest reasons say, besides those of rules."""


@dataclass(frozen=True, slots=True)
class _Dropped:
    """So many of a unit that were not kept, what became of them, and why."""

    unit: str
    reason: str
    count: int
    became: str
    why: str


def write_card(dataset: Dataset) -> Manifest:
    """Write the card and the Croissant description of a dataset; return the manifest of both.

    The manifest counts samples by licence.

    Raises:
        ShardError: a file cannot be read or written.
    """
    entries = []
    for name, data in {CARD: card(dataset).encode(), CROISSANT: croissant(dataset)}.items():
        dataset.shards.write(name, data)
        entries.append(FileEntry(name, 0, len(data), hashlib.sha256(data).hexdigest()))
    counts = {f"{COUNTED}{name or UNKNOWN}": count for name, count in sorted(dataset.licences.items())}
    made = Manifest("mix", CARD_UNIT, dataset.digest, SCHEMA_VERSION, tuple(entries), counts)
    return finish_unit(dataset.shards, made)


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


def card(dataset: Dataset) -> str:
    """The card of a dataset, as Markdown with a YAML head.

    Raises:
        ShardError: a shard, of which a row is shown, cannot be read.
    """
    recipe, counts, configs = dataset.recipe, dataset.counts, dataset.configs()
    domains = {config.name: dataset.domains(config.name) for config in configs}
    every = sorted({domain for of in domains.values() for domain in of})
    body = template("card.md.j2").render(
        title=inline(recipe.card.pretty_name),
        recipe=recipe,
        source=inline(recipe.source),
        configs=configs,
        trains={config.name for config in configs},
        figures=[
            (config.name, domain, *(dataset.figure(what, config.name, domain) for what in _FIGURES))
            for config in configs
            for domain in domains[config.name]
        ],
        domains=", ".join(f"{domain} {_samples_of(dataset, domain):,}" for domain in every),
        licences=[(named(name or UNKNOWN), count) for name, count in sorted(dataset.licences.items())],
        tokens_note=" (estimated)" if recipe.judge.tokenizer == ESTIMATE else "",
        flow=dataset.flow,
        dropped=list(_dropped(dataset)),
        examples=example_rows(dataset.shards, configs),
        digest=dataset.digest,
        recipe_digest=recipe.digest(),
        version=PROGRAM_VERSION,
        generations=dataset.generations,
        rules=dataset.rules,
        diversity=[(domain, kind, one) for domain, of in dataset.kept.items() for kind, one in of.items() if one.kinds],
        pools_given=dataset.mixture["pools"],
        stages=dataset.mixture["stages"],
        simulated=[{**one, "world_model": named(one["world_model"])} for one in shares(dataset.mixture)],
        budgets={pool: stage.budget for pool, stage in recipe.mix.stages.items()},
        max_share=recipe.judge.max_share,
        benchmarks=", ".join(sorted(one.name for one in recipe.judge.benchmarks)),
        control={config.name: held_in(config.name, counts) for config in configs},
        apart={domain: of for domain, of in told_apart(counts).items() if any(of.values())},
        schema_version=SCHEMA_VERSION,
        pools=", ".join(f"{pool} {share:g}" for pool, share in recipe.mix.pools.items()),
        scrubbed=", ".join(recipe.normalize.scrub) or "none",
    )
    return f"{card_head(dataset)}\n{body}"


_IN_CONTEXT: Final = " (context)"
"""How a balance marks the reason of a row that stays as context."""

_FIGURES: Final = ("samples", "trajectories", "tokens", "loss_tokens")


def _samples_of(dataset: Dataset, domain: str) -> int:
    return sum(
        count for key, count in dataset.counts.items() if key.startswith("samples.") and key.split(".", 2)[2] == domain
    )


def _dropped(dataset: Dataset) -> Iterator[_Dropped]:
    """Everything that was not kept, by unit and reason, the largest first."""
    for line in dataset.flow:
        kinds = (("left out", line.lost), ("merged into another", line.merged), ("shown without loss", line.context))
        found = [(count, reason, became) for became, of in kinds for reason, count in of.items()]
        for count, reason, became in sorted(found, key=lambda one: (-one[0], one[1])):
            name = reason.removesuffix(_IN_CONTEXT)
            yield _Dropped(line.unit, named(name), count, became, _why(name, dataset.recipe))


def _why(reason: str, recipe: Recipe) -> str:
    rule = recipe.judge.rules.get(reason)
    if isinstance(rule, RuleValues):
        bounds = [f"{word} {bound:g}" for word, bound in (("under", rule.min), ("over", rule.max)) if bound is not None]
        return f"`{rule.signal}` {' or '.join(bounds)}"
    return _WHY.get(reason, "")
