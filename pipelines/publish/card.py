"""The dataset card, README.md of the shards folder, with its YAML head and example rows.

Texts of logs, example rows and names of licences come from others. They are put in fenced blocks that they cannot
leave, or have their markup escaped. Texts of the recipe are shown unchanged, except for markup in tables.

An example row of each configuration is shortened and fenced as JSON. Each line of the JSON begins with a bracket, a
blank or a quotation mark, so that no text can end the fence; invisible characters are escaped.

`datasets` and the Hub read the YAML head. Each configuration names the digest of the mix there: `datasets` caches a
local folder under its name and the configurations of its card, and would otherwise take the shards of another run for
the cached ones.

Sources: the Hub's documentation of dataset cards, and `datasets.Features`, whose YAML form `features` writes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import yaml

from trajmill.pipelines.mix.sample_columns import IMAGE, images_in, sample_schema
from trajmill.pipelines.mix.simulated import shares
from trajmill.pipelines.publish.croissant import CROISSANT, croissant
from trajmill.pipelines.publish.dataset import Config, Dataset, RuleSet, measure_variety, samples_in, variety_values
from trajmill.pipelines.publish.licences import COUNTED, OTHER, UNKNOWN, licences_of, on_hub
from trajmill.pipelines.recipe.judgement import RuleValues
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.templates import template
from trajmill.pipelines.run_record.conservation import Line
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches
from trajmill.pipelines.storage.units import finish_stage, finish_unit
from trajmill.quality.settings import ESTIMATE
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.manifest import PROGRAM_VERSION, FileEntry, Manifest, sum_counts

_SIZES: Final = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
_LARGER: Final = ((10**8, "10M<n<100M"), (10**9, "100M<n<1B"))
_LARGEST: Final = "n>1B"
_TASKS: Final = {"cpt": "text-generation", "sft": "text-generation", "rl": "reinforcement-learning"}
_WIDE: Final = 10_000


def card_head(dataset: Dataset) -> str:
    """Format the head with its two rulers."""
    configs = dataset.configs()
    card = dataset.recipe.card
    stated = {"license": card.license} if card.license != OTHER else on_hub(dataset.licences)
    tasks = dict.fromkeys(_TASKS[config.name] for config in configs if config.name in _TASKS)
    values: dict[str, Any] = {
        "pretty_name": card.pretty_name,
        **stated,
        "language": [language.strip() for language in card.language.split(",")],
        "tags": list(card.tags),
        "task_categories": list(tasks),
        "size_categories": [size_category(dataset.samples)],
        "dataset_info": [_info(config, images=dataset.recipe.mix.images is not None) for config in configs],
        "configs": [_config(config, dataset.digest, is_first=not number) for number, config in enumerate(configs)],
    }
    return f"---\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=_WIDE)}---\n"


def size_category(samples: int) -> str:
    """Return the size category of a number of samples, in the Hub's words."""
    return next((word for bound, word in (*_SIZES, *_LARGER) if samples < bound), _LARGEST)


def _info(config: Config, *, images: bool) -> dict[str, Any]:
    size = sum(file.bytes for file in config.files)  # as stored: how large rows are in memory is for readers to say
    return {
        "config_name": config.name,
        "features": features(sample_schema(config.name, images=images)),
        "splits": [{"name": config.split, "num_bytes": size, "num_examples": config.samples}],
        "download_size": size,
        "dataset_size": size,
    }


def _config(config: Config, digest: str, *, is_first: bool) -> dict[str, Any]:
    return {
        "config_name": config.name,
        "description": f"mix {digest[:16]}",
        **({"default": True} if is_first else {}),
        "data_files": [{"split": config.split, "path": config.path}],
    }


def features(schema: pa.Schema) -> list[dict[str, Any]]:
    """Describe columns in the form of a card."""
    return [{"name": field.name, **_type_of(field.type)} for field in schema]


def _type_of(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_list(kind):
        item = kind.value_type
        if item == IMAGE:
            return {"list": "image"}
        return {"list": features(pa.schema(list(item))) if pa.types.is_struct(item) else str(item)}
    if pa.types.is_struct(kind):
        return {"struct": features(pa.schema(list(kind)))}
    return {"dtype": "float64" if pa.types.is_float64(kind) else str(kind)}


_CHARACTERS: Final = 160
_ITEMS: Final = 2
_WORD: Final = 80
_NAME: Final = re.compile(r"[A-Za-z0-9_.:+-]{1,80}")
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>()#|~!&])")


def example_rows(shards: Folder, configs: Iterable[Config]) -> dict[str, str]:
    """Format the first row of each configuration as JSON of several lines, with long values cut."""
    examples = {}
    for config in configs:
        row = _first(shards, config)
        if row is not None:
            examples[config.name] = visible(json.dumps(shorten(row), indent=1, ensure_ascii=False))
    return examples


def _first(shards: Folder, config: Config) -> dict[str, Any] | None:
    for file in config.files:
        for batch in read_batches(shards, file.name) if file.rows else ():
            rows: list[dict[str, Any]] = batch.slice(0, 1).to_pylist()
            return rows[0]
    return None


def shorten(value: Any) -> Any:
    """Cut long texts and lists in a value, with the omitted number in their place."""
    if isinstance(value, str):
        rest = len(value) - _CHARACTERS
        return value if rest <= 0 else f"{value[:_CHARACTERS]}… ({rest:,} more characters)"
    if isinstance(value, bytes):
        return f"({len(value):,} bytes)"
    if isinstance(value, dict):
        return {name: shorten(member) for name, member in value.items()}
    if isinstance(value, list):
        rest = len(value) - _ITEMS
        return [*map(shorten, value[:_ITEMS]), *([f"… ({rest:,} more)"] if rest > 0 else [])]
    return value


def visible(text: str) -> str:
    """Escape each character in JSON text that is invisible or changes the direction of text."""
    return "".join(
        character if character == "\n" or character.isprintable() else json.dumps(character)[1:-1] for character in text
    )


def inline(text: str) -> str:
    """Escape a foreign text for a line or a table of Markdown, so that it has no markup."""
    line = visible(" ".join(text.split()))
    return _MARKUP.sub(r"\\\1", line if len(line) <= _WORD else f"{line[:_WORD]}…")


def format_name(name: str) -> str:
    """Format a name for a line of Markdown: a single plain word as code, anything else with `inline`."""
    return f"`{name}`" if _NAME.fullmatch(name) else inline(name)


CARD: Final = "README.md"
"""Name of the card in the dataset folder."""

CARD_UNIT: Final = "card"
"""Name of the card and the Croissant description as a unit."""

DESCRIBED_IN: Final = (CARD, CROISSANT)
"""Names of the files that describe a dataset."""

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
    "excluded": "the recipe includes other trajectories, or excludes it",
    "max_per_task": "better ones of its task stay",
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
"""Explanations of the most common reasons, besides those of rules."""


@dataclass(frozen=True, slots=True)
class _Dropped:
    """Number of a unit's records that were dropped, with their use and the reason."""

    unit: str
    reason: str
    count: int
    became: str
    why: str


def write_card(dataset: Dataset) -> Manifest:
    """Write the card and the Croissant description of a dataset; return the manifest of both.

    The manifest counts samples by licence.
    """
    entries = []
    for name, data in {CARD: card(dataset).encode(), CROISSANT: croissant(dataset)}.items():
        dataset.shards.write(name, data)
        entries.append(FileEntry(name, 0, len(data), hashlib.sha256(data).hexdigest()))
    counts = {f"{COUNTED}{name or UNKNOWN}": count for name, count in sorted(dataset.licences.items())}
    manifest = Manifest("mix", CARD_UNIT, dataset.digest, SCHEMA_VERSION, tuple(entries), counts)
    return finish_unit(dataset.shards, manifest)


def count_eval_kinds_by_domain(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Count the samples of eval by domain, and by the familiarity of their environment and the time of their turn.

    Args:
        counts: counts such as `environment_seen.eval.<domain>` and `time_after.eval.<domain>`, summed over shards.
    """
    domains = sorted(key.rpartition(".")[2] for key in counts if key.startswith("samples.eval."))
    return {domain: {kind: counts.get(f"{kind}.eval.{domain}", 0) for kind in _APART} for domain in domains}


def count_control_strings(pool: str, counts: Mapping[str, int]) -> tuple[int, int]:
    """Count the samples of a pool that show control strings, and the turns of samples that do."""
    names = (f"{counted}.{pool}." for counted in ("control_samples", "control_turns"))
    samples, turns = (sum(count for key, count in counts.items() if key.startswith(name)) for name in names)
    return samples, turns


def card(dataset: Dataset) -> str:
    """Render the card of a dataset, as Markdown with a YAML head."""
    recipe, counts, configs = dataset.recipe, dataset.counts, dataset.configs()
    domains = {config.name: dataset.domains(config.name) for config in configs}
    every = sorted({domain for domains_of in domains.values() for domain in domains_of})
    body = template("card.md.j2").render(
        title=inline(recipe.card.pretty_name),
        recipe=recipe,
        source=inline(recipe.source),
        configs=configs,
        trains={config.name for config in configs},
        figures=[
            (config.name, domain, *(dataset.figure(figure, config.name, domain) for figure in _FIGURES))
            for config in configs
            for domain in domains[config.name]
        ],
        domains=", ".join(f"{domain} {_samples_of(dataset, domain):,}" for domain in every),
        licences=[(format_name(name or UNKNOWN), count) for name, count in sorted(dataset.licences.items())],
        tokens_note=" (estimated)" if recipe.judge.tokenizer == ESTIMATE else "",
        flow=dataset.flow,
        dropped=list(_list_dropped(dataset)),
        examples=example_rows(dataset.shards, configs),
        digest=dataset.digest,
        recipe_digest=recipe.digest(),
        version=PROGRAM_VERSION,
        generations=dataset.generations,
        rules=dataset.rules,
        diversity=[
            (domain, kind, variety)
            for domain, kinds in dataset.kept.items()
            for kind, variety in kinds.items()
            if variety.kinds
        ],
        pools_given=dataset.mixture["pools"],
        stages=dataset.mixture["stages"],
        simulated=[{**share, "world_model": format_name(share["world_model"])} for share in shares(dataset.mixture)],
        budgets={pool: stage.budget for pool, stage in recipe.mix.stages.items()},
        max_share=recipe.judge.max_share,
        benchmarks=", ".join(sorted(benchmark.name for benchmark in recipe.judge.benchmarks)),
        images=images_in(counts),
        images_lost=sum(count for key, count in counts.items() if key.startswith("images_lost.")),
        control={config.name: count_control_strings(config.name, counts) for config in configs},
        apart={
            domain: kinds_of_apart
            for domain, kinds_of_apart in count_eval_kinds_by_domain(counts).items()
            if any(kinds_of_apart.values())
        },
        schema_version=SCHEMA_VERSION,
        pools=", ".join(f"{pool} {share:g}" for pool, share in recipe.mix.pools.items()),
        scrubbed=", ".join(recipe.normalize.scrub) or "none",
    )
    return f"{card_head(dataset)}\n{body}"


_IN_CONTEXT: Final = " (context)"
"""Suffix in a balance of the reason of a row that stays as context."""

_FIGURES: Final = ("samples", "trajectories", "tokens", "loss_tokens")


def _samples_of(dataset: Dataset, domain: str) -> int:
    return sum(
        count for key, count in dataset.counts.items() if key.startswith("samples.") and key.split(".", 2)[2] == domain
    )


def _list_dropped(dataset: Dataset) -> Iterator[_Dropped]:
    """Yield everything that was dropped, by unit and reason, the largest count first."""
    for line in dataset.flow:
        kinds = (("left out", line.lost), ("merged into another", line.merged), ("shown without loss", line.context))
        reasons = [
            (count, reason, became) for became, counts_by_reason in kinds for reason, count in counts_by_reason.items()
        ]
        for count, reason, became in sorted(reasons, key=lambda entry: (-entry[0], entry[1])):
            name = reason.removesuffix(_IN_CONTEXT)
            yield _Dropped(line.unit, format_name(name), count, became, _why(name, dataset.recipe))


def _why(reason: str, recipe: Recipe) -> str:
    rule = recipe.judge.rules.get(reason)
    if isinstance(rule, RuleValues):
        bounds = [f"{word} {bound:g}" for word, bound in (("under", rule.min), ("over", rule.max)) if bound is not None]
        return f"`{rule.signal}` {' or '.join(bounds)}"
    return _WHY.get(reason, "")


def content_digest(recipe: Recipe, units: Sequence[Manifest]) -> str:
    """Digest the content of a dataset."""
    files = sorted((file.name, file.sha256) for unit in units for file in unit.files)
    return hashlib.sha256(json.dumps([recipe.digest(), files]).encode()).hexdigest()


def finish_dataset(
    recipe: Recipe,
    shards: Folder,
    stages: Sequence[Folder],
    units: Sequence[Manifest],
    flow: Sequence[Line],
    mixture: Mapping[str, Any],
    models: Mapping[str, str],
    rules: Sequence[RuleSet] = (),
) -> None:
    """Write card and manifest.

    Args:
        recipe: recipe of the last of the shards.
        stages: folders of the runs whose shards it holds.
        flow: balance of inputs and outputs, by unit.
        mixture: draws of its pools and stages.
        models: digests of the files that the recipe names.
        rules: rules of the runs, if there are several.
    """
    digest, counts = content_digest(recipe, units), sum_counts(list(units))
    files = tuple(file for unit in units for file in unit.files)
    varieties = measure_variety(stages)
    licences = licences_of(stages, shards, files, samples_in(counts))
    write_card(Dataset(recipe, shards, files, counts, flow, digest, varieties, mixture, licences, len(stages), rules))
    more = {
        "mixture": {**mixture, "eval": count_eval_kinds_by_domain(counts)},
        "diversity": variety_values(varieties),
        "models": dict(models),
    }
    finish_stage(shards, "mix", digest, [*(unit.unit for unit in units), CARD_UNIT], **more)
