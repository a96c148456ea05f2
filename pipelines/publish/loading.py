"""Check that a dataset folder loads with `datasets` as its card says.

Checksums show that the files are unchanged; only loading shows that the card finds them. Every sample is read once by
streaming, so that nothing is copied. `datasets` is imported on demand, since that takes a second, and runs offline.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import has_magic
from typing import Any, Final

from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS
from trajmill.pipelines.publish.card import CARD
from trajmill.pipelines.recipe.recipe import POOLS
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.paths import url_of
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.pipelines.storage.verification import Fault, Verification
from trajmill.schemas.manifest import Manifest

STAGE: Final = "shards"

_ALONE: Final[Mapping[str, str]] = {
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
}
_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Pool:
    """The manifest's statement on a pool: its files, relative to the dataset folder, and their number of samples.

    Attributes:
        lines: whether these are the JSON Lines files of eval.
        images: whether its samples have a column of pictures.
    """

    name: str
    files: tuple[str, ...]
    samples: int
    lines: bool = False
    images: bool = False


def verify_loading(verification: Verification) -> Verification:
    """Add the faults of loading a sealed dataset folder with intact samples.

    It is checked if the folder is local and its path holds no glob character, since `datasets` would take it for a
    pattern.
    """
    folder = Folder(verification.out) / STAGE
    untried = url_of(verification.out) is not None or has_magic(folder.path())
    manifest = None if untried else read_manifest(folder, MANIFEST)
    broken = {fault.name for fault in verification.faults if fault.name.startswith(f"{STAGE}/")} - {f"{STAGE}/{CARD}"}
    if manifest is None or broken:
        return verification
    return replace(verification, faults=(*verification.faults, *_unloadable(folder, manifest)))


def _unloadable(folder: Folder, manifest: Manifest) -> Iterator[Fault]:
    """Yield a fault for each pool that `datasets` does not load as the manifest says."""
    pools = [pool for pool in _pools(manifest) if pool.samples]
    if not pools:
        return
    with _alone() as cache:
        for pool in pools:
            wrong = _wrong(pool, folder.path(), cache)
            name = pool.name if pool.lines else CARD
            yield from [Fault(f"{STAGE}/{name}", f"does not load with datasets: {wrong}")] if wrong else []
        more = sorted(_configs(folder.path(), cache) - {pool.name for pool in pools})
    yield from (
        Fault(f"{STAGE}/{CARD}", f"names a config '{config_name}', of which there is no sample") for config_name in more
    )


def _pools(manifest: Manifest) -> Iterator[_Pool]:
    for pool in POOLS:
        files = sorted(file.name for file in manifest.files if file.name.startswith(f"{pool}/"))
        samples = sum(count for name, count in manifest.counts.items() if name.startswith(f"samples.{pool}."))
        rows = tuple(name for name in files if name.endswith(".parquet"))
        lines = tuple(name for name in files if name not in rows)
        if rows or not lines:
            images = any(name.startswith(f"images.{pool}.") for name in manifest.counts)
            yield _Pool(pool, rows, samples, images=images)
        if lines:
            yield _Pool(pool, lines, samples, lines=True)


@contextmanager
def _alone() -> Iterator[str]:
    """Provide a folder for the cache, with `datasets` set offline."""
    before = {name: os.environ.get(name) for name in _ALONE}
    os.environ.update(_ALONE)
    try:
        with tempfile.TemporaryDirectory(prefix="trajmill-datasets-") as cache:
            yield cache
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _wrong(pool: _Pool, folder: str, cache: str) -> str:
    """Explain what is wrong with a pool as it loads; empty if nothing is."""
    import datasets

    split = "test" if pool.name == "eval" else "train"
    try:
        builder = _builder(pool, folder, cache)
        paths = (builder.config.data_files or {}).get(split, ())
        taken = sorted(os.path.relpath(os.path.realpath(path), os.path.realpath(folder)) for path in paths)
        if taken != list(pool.files):
            return f"'{pool.name}' takes {len(taken)} files, and not the {len(pool.files)} of the manifest"
        rows = builder.as_streaming_dataset(split=split)
        wanted = datasets.Features.from_arrow_schema(SAMPLE_SCHEMAS[pool.name])
        if pool.images:
            wanted["images"] = datasets.List(datasets.Image())
        same = list(rows.features) == list(wanted) if pool.lines else rows.features == wanted
        if not same:  # lines of JSON hold no types, only names
            return f"'{pool.name}' has other columns than its samples"
        samples = sum(batch.num_rows for batch in rows.with_format("arrow").iter(_BATCH))
    except Exception as error:  # noqa: BLE001 - whatever it is, whoever trains on the folder would meet it
        lines = str(error).strip().splitlines()
        return f"'{pool.name}': {type(error).__name__}: {lines[0] if lines else 'no more is said'}"
    return "" if samples == pool.samples else f"'{pool.name}' has {samples:,} samples, {pool.samples:,} were written"


def _builder(pool: _Pool, folder: str, cache: str) -> Any:
    """Build the pool as `load_dataset` does, from the card's config or from the JSON Lines files of evaluation."""
    import datasets

    if pool.lines:
        lines = {"test": "eval/*_test.jsonl"}
        return datasets.load_dataset_builder("json", data_dir=folder, data_files=lines, cache_dir=cache)
    return datasets.load_dataset_builder(folder, pool.name, cache_dir=cache)


def _configs(folder: str, cache: str) -> set[str]:
    """Return the configs that the card names; empty if `datasets` fails, which loading each pool reports."""
    import datasets

    try:
        return set(datasets.get_dataset_config_names(folder, cache_dir=cache))
    except Exception:  # noqa: BLE001 - told of each pool
        return set()
