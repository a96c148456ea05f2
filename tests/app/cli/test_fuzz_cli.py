"""Whatever lies in a folder of raw logs, under whatever name: no command ends badly, nothing is passed over in silence,
and the good logs are read."""

import random
import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.conftest import FUZZ
from tests.pipelines.hostile_folders import HostileFile, folder_of, good, tag, write
from trajmill.app.cli.cli import app
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run_record.endings import ending_of
from trajmill.schemas import scan_transitions

FILES = 78
SEEDS = [0] if FUZZ == 1 else [random.SystemRandom().randrange(1 << 32) for _ in range(FUZZ)]
RECIPE = "name: fuzz\nsource: fuzz\nnormalize: {max_reject_ratio: 1.0}\n"
CODES = {"sniff": (0,), "plan": (0,), "run": (0,), "inspect": (0, 1)}
"""Commands and the codes that they may end with: no code for a bug of a connector, and no reject is one too many."""

NESTED = HostileFile(f"plain/{tag(FILES - 1)}".encode(), b'{"x": ' + b"[" * 900 + b"]" * 900 + b"}\n")
"""A value nested deeper than what Python's own writer takes."""

BESIDE = HostileFile(f"beside{tag(FILES)}.jsonl".encode(), *good(FILES))
"""A good log that stands beside each file which is looked at alone."""


def said_by(words: list[str]) -> list[str]:
    """Complaints about a command line: a traceback, an exit code that is none of its own, a control that is sent."""
    done = CliRunner().invoke(app, words)
    faults = []
    error = done.exception if isinstance(done.exception, Exception) else None
    if (done.exit_code if error is None else ending_of(error).code) not in CODES[words[0]]:
        faults.append(f"{words[0]} ended with {error!r}, code {done.exit_code}: {done.output[-300:]}")
    if "Traceback" in done.output:
        faults.append(f"{words[0]} shows a traceback")
    if any(character in done.output for character in "\x1b\x9b\x07\r\u202e"):
        faults.append(f"{words[0]} sends controls")
    return faults


def complaints(files: list[HostileFile], base: Path) -> list[str]:
    """What is wrong with how the commands take a folder of the files."""
    shutil.rmtree(base, ignore_errors=True)
    raw, out, recipe = base / "raw", base / "out", base / "recipe.yaml"
    raw.mkdir(parents=True)
    write(files, raw)
    recipe.write_text(RECIPE)
    words = {
        "sniff": ["sniff", str(raw)],
        "plan": ["plan", str(recipe), "--raw", str(raw)],
        "run": ["run", str(recipe), "--raw", str(raw), "--out", str(out), "--stop-after", "normalize"],
        "inspect": ["inspect", str(raw), "--lines", "2"],
    }
    faults = [fault for name in CODES for fault in said_by(words[name])]
    return faults or [*passed_over(files, raw, recipe, out), *not_read(files, out)]


def passed_over(files: list[HostileFile], raw: Path, recipe: Path, out: Path) -> list[str]:
    """Complaints about files that are neither an input nor a reject, in the plan or in the run."""
    plan = make_plan(load_recipe(str(recipe)), [str(raw)])
    planned = [name for log in plan.inputs for member in log.members.values() for name in member.to_json()] + [
        reject.uri for reject in plan.unrecognized
    ]
    rejects = [pl.read_parquet(file) for file in (out / "rejects").rglob("*.parquet")]
    rows = pl.concat(rejects).select(pl.col("uri") + "#" + pl.col("member")).to_series().to_list()
    origin = pl.col("provenance").struct
    rows += (
        scan_transitions(out)
        .select(origin.field("uri") + "#" + origin.field("member"))
        .unique()
        .collect()["uri"]
        .to_list()
    )
    return [
        f"{file.path!r} is not in {target}"
        for target, names in (("the plan", "\n".join(planned)), ("transitions nor rejects", "\n".join(rows)))
        for file in files
        if _tag(file) not in names
    ]


def not_read(files: list[HostileFile], out: Path) -> list[str]:
    """Complaints about good logs of which there are no transitions."""
    text = "\n".join(
        filter(
            None,
            scan_transitions(out).select(pl.col("task").struct.field("instruction")).collect()["instruction"].unique(),
        )
    )
    return [f"{file.path!r} was not read" for file in files if file.words and file.words not in text]


def _tag(file: HostileFile) -> str:
    return next(tag(number) for number in range(FILES + 1) if tag(number).encode() in file.path)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_folder_ends_a_command_or_hides_a_log(seed, tmp_path):
    files = [*folder_of(seed, FILES - 1), NESTED]
    if complaints(files, tmp_path / "all"):
        by_file = {file: complaints([BESIDE, file], tmp_path / "one") for file in files}
        reports = [f"{file.path!r} {file.data[:120]!r}: {faults}" for file, faults in by_file.items() if faults]
        together = [] if reports else complaints(files, tmp_path / "all")
        pytest.fail(f"seed {seed}:\n" + "\n".join(reports + together))
