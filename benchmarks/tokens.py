"""`python -m benchmarks.tokens --raw FOLDER_OF_LOGS --tokenizer tokenizer.json`: how far estimated counts are off.

Over the distinct texts of actions and next observations of more than `SHORTEST` tokens: by domain, the estimate over
the exact count under that tokenizer, and beside it bytes over the corpus's own bytes a token, which is what one
constant could do at best. *In sum* is of all texts of a domain together, as a budget sees them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.signals import normalize_logs
from trajmill.quality.fingerprint import struct_text
from trajmill.quality.tokens import Counts, TokenCounter, text_bytes

SHORTEST = 50
"""Texts of so many tokens or fewer are left out: one token more or less is much of them, and little of a corpus."""

QUANTILES = (0.05, 0.5, 0.95)


def texts_of(batches: Sequence[pa.RecordBatch]) -> pa.Array:
    """The distinct texts of actions and next observations."""
    columns = [
        struct_text(batch, *path) for batch in batches for path in (("action", "text"), ("next_observation", "content"))
    ]
    texts = [
        pc.cast(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column, pa.string())
        for column in columns
    ]
    return pc.unique(pa.chunked_array(texts, pa.string()).combine_chunks()).drop_null()


def table(texts: Mapping[str, pa.Array], exact: TokenCounter) -> Iterator[str]:
    """The table as Markdown."""
    sizes = {name: text_bytes(of) for name, of in texts.items()}
    counts: dict[str, Counts] = {}
    estimates: dict[str, Counts] = {}
    spent = []
    for counted, counter in ((counts, exact), (estimates, TokenCounter())):
        begin = time.process_time()
        for name, of in texts.items():
            counted[name] = counter.count(of)
        spent.append(time.process_time() - begin)
    whole = {name: np.concatenate(list(of.values())) for name, of in (("s", sizes), ("c", counts), ("e", estimates))}
    constant = whole["s"].sum() / whole["c"].sum()
    yield "| domain | texts | MB | bytes a token | in sum | 5 % | median | 95 % | one constant: in sum | 5 % | 95 % |"
    yield "|---|" + "---:|" * 10
    for name in texts:
        yield _row(name, sizes[name], counts[name], estimates[name], constant)
    yield _row("all", whole["s"], whole["c"], whole["e"], constant)
    yield ""
    rates = " and ".join(f"{whole['s'].sum() / 1e6 / seconds:.1f}" for seconds in spent)
    yield f"MB a CPU-second, exact and estimated: {rates}"


def _row(name: str, sizes: Counts, counts: Counts, estimates: Counts, constant: float) -> str:
    long = counts > SHORTEST
    cells = [name, f"{long.sum():,}", f"{sizes[long].sum() / 1e6:.2f}"]
    if not long.any():
        return "| " + " | ".join([*cells, *[""] * 8]) + " |"
    ratios = estimates[long] / counts[long]
    flat = sizes[long] / constant / counts[long]
    cells += [f"{sizes[long].sum() / counts[long].sum():.2f}", f"{estimates[long].sum() / counts[long].sum():.2f}"]
    cells += [f"{value:.2f}" for value in np.quantile(ratios, QUANTILES)]
    cells += [f"{sizes[long].sum() / constant / counts[long].sum():.2f}"]
    cells += [f"{value:.2f}" for value in np.quantile(flat, (QUANTILES[0], QUANTILES[-1]))]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Entry point."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--raw", nargs="+", required=True, help="logs to count")
    asked.add_argument("--tokenizer", required=True, help="a tokenizer.json file")
    options = asked.parse_args()
    exact = TokenCounter(options.tokenizer)
    texts = {domain: texts_of(batches) for domain, batches in sorted(normalize_logs(options.raw).items())}
    print(*table({name: of for name, of in texts.items() if len(of)}, exact), sep="\n")


if __name__ == "__main__":
    main()
