"""`python -m benchmarks.mixing`: how fast shards are made again from verdicts, and how large the process grows.

    python -m benchmarks.mixing --megabytes 150 450

Rollouts of five domains (`benchmarks.logs.rollouts`) are written as transitions and judged once; then the mix stage
alone runs over them in a process of its own, as it does when only the recipe's section `mix` was changed: one worker,
pools by their default shares. Payload is what the transitions' files hold before compression, in MB of 10^6 bytes;
texts are its actions and next observations that were kept, each counted once, whatever a pool takes of it. CPU seconds
are user and system of that process less those until all code is loaded. Two sizes tell apart what a run costs anyway
and what a megabyte costs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq

from benchmarks.judge_memory import save_units, saved_units, write_unit
from benchmarks.logs.rollouts import DOMAINS
from benchmarks.processes import Task, load_ours, measure_task, print_table, work
from trajmill.pipelines.execution.dispatch import run_over
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.mix.candidates import candidates
from trajmill.pipelines.mix.mix import UnitsToShards
from trajmill.pipelines.mix.mixing import Mixing, lay_out_shards, mixing_digest
from trajmill.pipelines.mix.mixture import Judged, write_draws
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas.manifest import Manifest

MODULE: Final = "benchmarks.mixing"
PLACES: Final = ("shards", "draws", "rejects", "spill", "_units/shards", "_units/draws", "_units/rejects")
"""What mixing writes below the folder of the run."""


def recipe(pools: dict[str, float]) -> Recipe:
    """The recipe: what judging asks for by default, and these pools."""
    values: dict[str, Any] = {"name": "mixing", "source": "made", "mix": {"pools": pools} if pools else {}}
    return parse_recipe(json.dumps(values), "mixing")


def mixing_of(base: Path) -> Mixing:
    """Build the mixing of a folder's units, with the mixture drawn and every shard open."""
    chosen = recipe(json.loads((base / "pools.json").read_text()))
    out = Folder(str(base))
    verdicts = Manifest.from_json(out.read("verdicts/manifest.json"))
    digest = mixing_digest(chosen, verdicts)
    mixing = Mixing(chosen, out, digest)
    judged = Judged(saved_units(base), out)
    shards = lay_out_shards(write_draws(chosen, judged, out / "draws", digest).counts, chosen.mix)
    return replace(mixing, shards=shards, open=frozenset(shard.number for shard in shards))


def mix_units(base: Path) -> Iterator[str]:
    """Makes all shards."""
    (base / "spill").mkdir(exist_ok=True)
    mixing = mixing_of(base)
    run_over(saved_units(base), UnitsToShards(mixing, Folder(str(base / "spill"))), Execution())
    yield "mix"


def judge_units(base: Path) -> Iterator[str]:
    """Judges the units."""
    Run(recipe({}), [], str(base)).judge(saved_units(base))
    yield "judge"


TASKS: Final[dict[str, Task]] = {"mix": (load_ours, mix_units), "judge": (load_ours, judge_units)}


class Sizes(NamedTuple):
    """MB of what is mixed: what the transitions' files hold, and the kept texts of it, each once."""

    payload: float
    texts: float


class Figure(NamedTuple):
    """Cost of mixing into some pools: MB, CPU seconds and the largest resident size in MB."""

    pools: str
    sizes: Sizes
    seconds: float
    peak: float


def prepare_units(base: Path, megabytes: float, seed: int) -> Sizes:
    """Writes and judges the units, one a domain, and returns how much they are."""
    write_units(base, megabytes, seed)
    measure_task(MODULE, "judge", base)
    candidate_sets = (candidates(unit, Folder(str(base))) for unit in saved_units(base))
    texts = sum(int(unit_candidates.text_bytes.sum()) for unit_candidates in candidate_sets)
    return Sizes(sum(map(_uncompressed_bytes, (base / "transitions").rglob("*.parquet"))) / 1e6, texts / 1e6)


def _uncompressed_bytes(path: Path) -> int:
    """Bytes of a file's columns before compression."""
    metadata = pq.read_metadata(path)
    return sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))


def write_units(base: Path, megabytes: float, seed: int) -> None:
    """Writes units of transitions, one a domain."""
    folder = Folder(str(base / "transitions"))
    size = int(megabytes * 1e6 / len(DOMAINS))
    units = [write_unit(folder, number, 0, seed, size)[0] for number in range(len(DOMAINS))]
    save_units(base, units)


def figures(base: Path, megabytes: float, rounds: int, seed: int) -> Iterator[Figure]:
    """Those of all pools together and of each alone; the fastest of the rounds counts."""
    sizes = prepare_units(base, megabytes, seed)
    for name in ("all", "cpt", "sft", "rl"):
        (base / "pools.json").write_text(json.dumps({} if name == "all" else {name: 1}))
        costs = []
        for _ in range(rounds):
            for output_name in PLACES:
                shutil.rmtree(base / output_name, ignore_errors=True)
            costs.append(measure_task(MODULE, "mix", base)[:2])
        yield Figure(name, sizes, *min(costs))


def rows(by_size: Sequence[Sequence[Figure]]) -> Iterator[tuple[str, ...]]:
    """A row of the table for each size and pool, then what each pool costs beside and by the megabyte."""
    for name, sizes, seconds, peak in (figure for of in by_size for figure in of):
        sized = (f"{size:.0f}" for size in sizes)
        yield name, *sized, f"{seconds:.2f}", *(f"{size / seconds:.1f}" for size in sizes), f"{peak:,.0f}"
    for small, large in zip(by_size[0], by_size[-1], strict=True):
        if large.sizes.texts > small.sizes.texts:
            more = large.seconds - small.seconds
            rates = [(most - least) / more for least, most in zip(small.sizes, large.sizes, strict=True)]
            fixed = small.seconds - small.sizes.texts / rates[1]
            yield small.pools, "each more", "", f"{fixed:.2f} fixed", *(f"{rate:.1f}" for rate in rates), ""


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[100])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where the transitions are made; removed when done")
    for name in ("task", "place"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        work(TASKS, options.task, Path(options.place))
        return
    names = ("pools", "MB of payload", "of texts", "CPU s", "payload per CPU-s", "texts per CPU-s", "peak MB")
    by_size = []
    for megabytes in sorted(options.megabytes):
        with tempfile.TemporaryDirectory(prefix="trajmill-mixing-", dir=options.folder) as temporary:
            by_size.append(list(figures(Path(temporary), megabytes, options.rounds, options.seed)))
    print_table(names, rows(by_size))


if __name__ == "__main__":
    main()
