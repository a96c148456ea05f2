"""Mix files: the weights of the domains, by their tokens, in the form of each trainer.

Their paths are relative to their folder, in which the trainer is started.
"""

from __future__ import annotations

from typing import Final

from trajmill.pipelines.publish.forms.job import Job

SEED: Final = 0


def _of_domain(job: Job, pool: str, ending: str) -> dict[str, list[str]]:
    """Return the files of a pool with rows, by domain, without the ending unless it is `.parquet`."""
    files: dict[str, list[str]] = {}
    for name in job.out.names(ending):
        parts = name.split("/")
        if parts[0] == pool:
            files.setdefault(parts[1], []).append(name.removesuffix(ending) if ending != ".parquet" else name)
    return files


def interleave(job: Job, pool: str, weighed_as: str | None = None) -> None:
    """Write `interleave.<pool>.json`, the arguments of `datasets.interleave_datasets`, if the pool has rows.

    Args:
        weighed_as: pool whose tokens set the weights, if it is another.
    """
    files, weights = _of_domain(job, pool, ".parquet"), job.weights(weighed_as or pool)
    domains = [domain for domain in files if weights.get(domain)]
    if domains:
        total = sum(weights[domain] for domain in domains)
        job.write_json(
            f"interleave.{pool}.json",
            {
                "format": "parquet",
                "data_files": {domain: files[domain] for domain in domains},
                "probabilities": {domain: round(weights[domain] / total, 6) for domain in domains},
                "seed": SEED,
                "stopping_strategy": "all_exhausted_without_replacement",
            },
        )


def megatron(job: Job, mask: str) -> None:
    """Write `data_args.txt` for `--data-args-path`, with alternating weights and prefixes.

    A domain's weight is spread over its files by tokens.

    Args:
        mask: suffix of the names of masks, which are left out.
    """
    words = []
    for domain, names in _of_domain(job, "cpt", ".bin").items():
        prefixes = [name for name in names if not name.endswith(mask)]
        sizes = [job.out.folder.size(f"{prefix}.bin") for prefix in prefixes]
        share = job.weights("cpt").get(domain, 0.0)
        words += [f"{share * size / sum(sizes):.6f} {prefix}" for size, prefix in zip(sizes, prefixes, strict=True)]
    job.out.write("data_args.txt", " ".join(words) + "\n")


def olmo(job: Job, mask: str) -> None:
    """Write `source_mixture.yaml` of OLMo-core, which requests all tokens."""
    sources = [
        {
            "source_name": domain,
            "target_ratio": job.weights("cpt").get(domain, 0.0),
            "paths": [f"{name}.npy" for name in names if not name.endswith(mask)],
            "max_repetition_ratio": 1.0,
        }
        for domain, names in _of_domain(job, "cpt", ".npy").items()
    ]
    total = sum(count for key, count in job.out.counts.items() if key.startswith("tokens."))
    job.write_yaml(
        "source_mixture.yaml", {"sources": sources, "requested_tokens": total, "seed": SEED}, "For OLMo-core."
    )


def levanter(job: Job, pool: str, ending: str) -> None:
    """Write `levanter.yaml` with components and `train_weights`.

    Only the assistant's turns of conversations are trained.
    """
    components = {}
    for domain, names in _of_domain(job, pool, ending).items():
        form = (
            {"type": "text", "text_key": "text"}
            if pool == "cpt"
            else {"type": "chat", "messages_field": "messages", "mask_user_turns": True}
        )
        urls = [name if ending == ".parquet" else f"{name}{ending}" for name in names]
        components[domain] = {"source": {"type": "url", "train_urls": urls}, "format": form}
    job.write_yaml(
        "levanter.yaml",
        {"data": {"components": components, "train_weights": job.weights(pool)}},
        "For Levanter, which knows no spans: all of a text, and all turns of the assistant, bear the loss.",
    )
