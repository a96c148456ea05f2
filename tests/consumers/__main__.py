"""`python -m tests.consumers OUT --tokenizer FOLDER`: what trainers train of the shards of a run, as a page.

Each consumer runs in an environment of pinned packages, some GB each, which is made with `uv` and removed afterwards.
Ends with 1 if one of them cannot read the shards or trains what was not meant.
"""

import argparse
import sys
from pathlib import Path

from tests.consumers.consumers import CONSUMERS, Outcome, tried
from tests.consumers.tables import given, is_as_meant, tables
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing


def main() -> int:
    """Try consumers and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="folder of a finished run")
    parser.add_argument("--tokenizer", required=True, help="folder of the tokenizer that consumers are given")
    parser.add_argument("--chat-template", help="file with a chat template, in place of the tokenizer's own")
    parser.add_argument("--consumer", nargs="+", default=[*CONSUMERS], choices=[*CONSUMERS], metavar="NAME")
    parser.add_argument("--page", type=Path, default=Path("docs/consumers.md"), help="page that is written")
    words = parser.parse_args()
    tokenizing = Tokenizing(words.tokenizer, words.chat_template)
    outcomes: list[tuple[str, Outcome]] = []
    for name, outcome in tried(words.out, words.consumer, tokenizing):
        outcomes.append((name, outcome))
        print(f"{name}: {'as meant' if is_as_meant(name, outcome) else 'not as meant'}", file=sys.stderr)
    introduction = Path(__file__).with_name("introduction.md").read_text("utf-8")
    words.page.write_text(f"{introduction}\n{given(words.out, tokenizing)}\n{tables(outcomes)}", "utf-8")
    return 0 if all(is_as_meant(*outcome) for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
