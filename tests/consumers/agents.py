"""`python -m tests.consumers.agents OUT --tokenizer FOLDER`: what TRL and verl train of agents' conversations.

TRL reads the export `agent_sft` and makes ids and mask itself, with `assistant_only_loss` and the tokenizer's chat
template. verl reads the export `agent_ids`. Both are compared with `agent_ids`: token by token up to the last message
of the agent, and the text of each stretch of trained tokens. White space at its ends does not count, since templates
differ in whether they train the line break behind a message. Ends with 1 if a trainer trains other text.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow.parquet as pq

from benchmarks.environment import environment, run_checked
from tests.conftest import ROOT
from tests.consumers.consumers import CONSUMERS, QUIET
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing

READS: Final = {"trl": "agent_sft", "verl": "agent_ids"}
COLUMNS: Final = ("conversations", "not in agent_ids", "messages", "tokens", "trained", "other ids", "other text")


def trained_texts(tokenizing: Tokenizing, ids: list[int], trained: list[int]) -> list[str]:
    """Decode each stretch of trained tokens, without white space around it."""
    stretches = groupby(zip(ids, trained, strict=True), lambda pair: bool(pair[1]))
    texts = (tokenizing.decoded([token for token, _ in pairs]).strip() for bears, pairs in stretches if bears)
    return [text for text in texts if text]


def compare(
    rows: Iterable[Mapping[str, Any]], expected: Mapping[str, Mapping[str, Any]], tokenizing: Tokenizing
) -> Counter[str]:
    """Count what a trainer trains otherwise.

    Args:
        rows: `id`, `ids` and `trained` of each conversation, as the trainer made them.
        expected: rows of the export `agent_ids`, by id.
        tokenizing: the tokenizer.
    """
    counts: Counter[str] = Counter()
    for row in rows:
        counts["conversations"] += 1
        if row["id"] not in expected:
            counts["not in agent_ids"] += 1
            continue
        ids, mask = (expected[row["id"]][name] for name in ("input_ids", "loss_mask"))
        texts = trained_texts(tokenizing, ids, mask)
        counts["messages"] += len(texts)
        counts["tokens"] += len(row["ids"])
        counts["trained"] += sum(row["trained"])
        counts["other ids"] += row["ids"][: len(ids)] != ids
        counts["other text"] += trained_texts(tokenizing, row["ids"], row["trained"]) != texts
    return counts


def main() -> int:
    """Export, have each trainer read, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="folder of a judged run")
    parser.add_argument("--tokenizer", required=True, help="folder of a tokenizer whose chat template marks answers")
    words = parser.parse_args()
    tokenizing = Tokenizing(words.tokenizer)
    table = [("trainer", *COLUMNS), ("---", *["--:"] * len(COLUMNS))]
    with tempfile.TemporaryDirectory(prefix="trajmill-agents-") as folder:
        for form, more in (("agent_sft", []), ("agent_ids", ["--tokenizer", words.tokenizer])):
            command = [sys.executable, "-m", "trajmill", "export", words.out, "--to", form, "--out", f"{folder}/{form}"]
            subprocess.run([*command, *more], check=True, stdout=sys.stderr)
        expected = {row["id"]: row for row in pq.read_table(f"{folder}/agent_ids/train.parquet").to_pylist()}
        for name, form in READS.items():
            written, script = Path(folder, f"{name}.jsonl"), Path(__file__).parent / "scripts" / f"{name}_agent.py"
            module = [str(ROOT / "pipelines/publish/forms/verl_dataset.py")] if name == "verl" else []
            with environment(CONSUMERS[name].packages) as python:
                command = [python, "-P", str(script), f"{folder}/{form}", words.tokenizer, str(written), *module]
                run_checked(command, **{**os.environ, **QUIET, "HF_HOME": f"{folder}/cache"})
            counts = compare(map(orjson.loads, written.read_bytes().splitlines()), expected, tokenizing)
            table.append((name, *(f"{counts[column]:,}" for column in COLUMNS)))
    sys.stdout.writelines(f"| {' | '.join(row)} |\n" for row in table)
    return int(any(row[-1] != "0" for row in table[2:]))


if __name__ == "__main__":
    sys.exit(main())
