"""`python -m benchmarks.effect.sweep LOGS`: the worth of the built-in recipe on real logs and recorded worlds.

    python -m benchmarks.effect.sweep LOGS --out out/effect --transformers --workers 2

Measured are the logs of a folder, and worlds that are recorded for it: shells, services, repositories and sites of our
own, and the terminal samples, each into a folder of OUT. All are normalized and judged by the recipe `all`, spans
included, then measured by `benchmarks.effect`; its arm of loss on spans leaves the loss on a fifth of what was copied.
Transformers are asked about the logs alone. `--only` names what is measured. Other options (`--seeds`, `--folds`,
`--tokens`, …) go to `benchmarks.effect`.
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
LOGS: Final = "logs"
WORLDS: Final = ("shells", "services", "repositories", "sites")
"""The modules of this package that record one."""

SAMPLES: Final = "recordings"


def prepare_logs(name: str, logs: Path, base: Path) -> Path:
    """The folder of the logs that are measured under a name; worlds are recorded."""
    if name == LOGS:
        return logs
    if name == SAMPLES:
        return Path("samples/terminal")
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}", str(base / name)], check=True)
    return base / name


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
    parser.add_argument("logs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[LOGS, *WORLDS, SAMPLES], choices=[LOGS, *WORLDS, SAMPLES])
    parser.add_argument("--transformers", action="store_true")
    options_given, rest = parser.parse_known_args()
    began = time.monotonic()
    for name in options_given.only:
        with tempfile.TemporaryDirectory(prefix="trajmill-effect-") as temporary:
            raw = prepare_logs(name, options_given.logs, Path(temporary))
            options = [*rest, "--transformers"] if name == LOGS and options_given.transformers else rest
            measure_folder(raw, Path(temporary), options_given.out / name, options)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
