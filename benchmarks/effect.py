"""`python -m benchmarks.effect CORPORA`: the effect of the built-in recipe on a folder of logs, in one command.

    python -m benchmarks.effect LOGS --out effect --transformers --workers 2

The logs are normalized and judged by the recipe `all`, spans included, then `trajmill effect` measures; its arm of loss
on spans leaves the loss on a fifth of what was copied. What this program does not know (`--seeds`, `--folds`,
`--tokens`, …) is given on to it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

RECIPE: Final = """extends: all
name: effect
source: corpora
judge: {spans: true}
mix: {loss_weights: {copied: 0.2}}
"""


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--out", required=True)
    given, rest = parser.parse_known_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trajmill-effect-") as place:
        recipe = Path(place) / "effect.yaml"
        recipe.write_text(RECIPE)
        trajmill = [sys.executable, "-m", "pipelines"]
        run = [*trajmill, "run", str(recipe), "--raw", str(given.corpora), "--out", f"{place}/out"]
        subprocess.run([*run, "--stop-after", "judge", "--quiet"], check=True)
        subprocess.run([*trajmill, "effect", f"{place}/out", "--out", given.out, *rest], check=True)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
