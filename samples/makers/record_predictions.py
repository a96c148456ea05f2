"""Records the samples of a model that answers an issue with a patch at once: predictions, and their evaluations apart.

    python -m samples.makers.record_predictions [--out FOLDER]

The form is that of SWE-bench's own inference: JSON Lines in which each prediction stands with its prompt, the issue and
files of the repository (`text`). What it predicts are patches of the runs in `swe_runs.toml`, as another agent's
predictions keep them; no model acts. Each is judged in a box (`swe_judge`), and of the folder of its evaluation only
the output of the tests and the report are kept, of every third the report alone. The last prediction is not judged. It
takes what `record_swe` takes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

from samples.makers.swe_judge import judged
from samples.makers.swe_script import Task, tasks
from samples.writing.files import write_file
from samples.writing.json_text import lines

HERE: Final = Path(__file__).parent
MODEL: Final = "holm/one-shot"
PREDICTIONS: Final = "one-shot/holm__one-shot__box__test.jsonl"
EVALUATIONS: Final = "evaluations/logs/run_evaluation/check/holm__one-shot"
SOURCE: Final = "mini-calls/preds.json"

_PROMPT: Final = """\
You will be provided with a partial code base and an issue statement explaining a problem to resolve.
<issue>
{issue}
</issue>
<code>
{files}
</code>

I need you to solve the provided issue by generating a single patch file that I can apply directly to this repository \
using git apply.

"""


def prompt(task: Task) -> str:
    """What the model is shown: the issue and the files of the repository, their lines numbered."""
    shown = []
    for path, text in task.files.items():
        if text and not path.startswith((".", "tests/")):
            numbered = "\n".join(f"{number} {line}" for number, line in enumerate(text.splitlines(), 1))
            shown.append(f"[start of {path}]\n{numbered}\n[end of {path}]")
    return _PROMPT.format(issue=task.issue.strip(), files="\n".join(shown))


def main() -> None:
    """Records all predictions and judges them."""
    parser = argparse.ArgumentParser(description="Records predictions and their evaluations.")
    parser.add_argument("--out", type=Path, default=HERE.parent / "swe")
    out: Path = parser.parse_args().out
    known = {task.instance: task for task in tasks().values()}
    rows = []
    handed = json.loads((HERE.parent / "swe" / SOURCE).read_text("utf-8"))
    for number, (instance, row) in enumerate(handed.items(), 1):
        task, patch = known[instance], row["model_patch"]
        rows.append(
            {
                "instance_id": instance,
                "model_name_or_path": MODEL,
                "text": prompt(task),
                "full_output": f"<patch>\n{patch}</patch>",
                "model_patch": patch,
            }
        )
        if number < len(handed):
            one = judged(task, patch, MODEL)
            kept = ("report.json",) if number % 3 == 0 else ("report.json", "test_output.txt")
            for name in kept:
                write_file(out / EVALUATIONS / instance / name, one.files[name])
            print(f"{instance}: {'resolved' if one.resolved else 'not resolved'}")
    write_file(out / PREDICTIONS, lines(rows, escaped=False))


if __name__ == "__main__":
    main()
