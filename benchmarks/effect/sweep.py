"""`python -m benchmarks.effect.sweep LOGS… --out OUT`: the effect of the built-in recipe on folders of logs.

    python -m benchmarks.effect.sweep LOGS samples/terminal --out out/effect --workers 2

The logs of each folder are normalized and judged by the recipe `all`, spans included, and measured by
`benchmarks.effect` into a folder of OUT of the same name; its arm of loss on spans leaves the loss on a fifth of what
was copied. Other options (`--seeds`, `--folds`, `--tokens`, …) go to `benchmarks.effect`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

RECIPE: Final = """extends: all
name: effect
source: corpora
judge: {spans: true}
mix: {loss_weights: {copied: 0.2}}
"""


def measure_folder(raw: Path, base: Path, out: Path, options: Sequence[str]) -> None:
    """Normalizes, judges and measures what a folder holds."""
    recipe = base / "effect.yaml"
    recipe.write_text(RECIPE)
    run = [sys.executable, "-m", "trajmill", "run", str(recipe), "--raw", str(raw), "--out", f"{base}/out"]
    subprocess.run([*run, "--stop-after", "judge", "--quiet"], check=True)
    measure = [sys.executable, "-m", "benchmarks.effect", f"{base}/out", "--out", str(out)]
    subprocess.run([*measure, *options], check=True)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options, rest = parser.parse_known_args()
    began = time.monotonic()
    for folder in options.logs:
        with tempfile.TemporaryDirectory(prefix="trajmill-effect-") as temporary:
            measure_folder(folder, Path(temporary), options.out / folder.name, rest)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
