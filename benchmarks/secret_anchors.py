"""`python -m benchmarks.secret_anchors`: scrubbing beside two scanners that others wrote, gitleaks and detect-secrets.

    python -m benchmarks.secret_anchors               # gitleaks' own samples; both over the planted secrets, scrubbed
    python -m benchmarks.secret_anchors --out OUT     # and both over everything that a run wrote, decoded
    python -m benchmarks.secret_anchors --show        # each sample that is missed, and each finding

gitleaks checks each of its rules on samples, most with a secret that is drawn from the rule's own pattern. Its module
is compiled here with two files laid over it that print them (`benchmarks/gitleaks`), so none is kept here. A sample
counts as caught if nothing of what the rule takes for the secret is left as it was.

A placeholder has the form of what it stands for, so the scanners find these too. A finding is one if it overlaps with
what our own detection claims in the scrubbed text, which scrubbing again leaves as it is, or if it certifies itself;
any other is a miss or a false alarm of theirs. detect-secrets runs without its rules of entropy, which flag every hash.

Both are kept in `.venv/anchors`, apart from what the project locks; remove it to get a newer gitleaks. It takes `go`
(1.23 or later) and access to the Go module proxy and to PyPI once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import venv
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from tests.quality.planted import EMBEDDINGS, plants
from trajmill.quality.scrub import KINDS, scrub_text
from trajmill.quality.scrubbing.detection import Detection
from trajmill.quality.scrubbing.kinds import Finds
from trajmill.quality.scrubbing.placeholders import core_of, is_certified

GITLEAKS: Final = "github.com/zricethezav/gitleaks/v8"
DETECT_SECRETS: Final = "detect-secrets==1.5.0"
TOOLS: Final = Path(".venv/anchors")
_LAID_OVER: Final = {"validate.go": "cmd/generate/config/utils", "regen.go": "cmd/generate/secrets"}
_FRAGMENT: Final = 20
"""Characters up to which what a rule calls the secret is a group of its pattern; then the match counts."""

_PLANTS: Final = 24
_LINE: Final = 4000
"""Characters of a line that is written for the scanners; detect-secrets is slow on longer ones."""

_PREFIX: Final = 14
"""Characters before a placeholder that a scanner may take in with it, such as a beginning that stays."""
_FRAME: Final = 32
"""Characters between the first line of a private key, which stays and is what detect-secrets finds, and the next."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of a scanner: its rule, the file and line, and the secret."""

    tool: str
    rule: str
    file: Path
    line: int
    secret: str


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder that a run wrote")
    parser.add_argument("--show", action="store_true", help="print each miss and each finding")
    parser.add_argument("--tools", type=Path, default=TOOLS, help="where the scanners are kept")
    options = parser.parse_args()
    anchors(Console(width=140), options.tools.resolve(), options.out, show=options.show)


def anchors(console: Console, tools: Path, out: Path | None, *, show: bool) -> None:
    """Prints the tables, after getting the scanners where they are not there yet."""
    get_tools(tools)
    of_gitleaks(console, tools, show=show)
    planted = tools / "planted"
    write_planted(planted)
    findings(
        console, "planted secrets, scrubbed", [*gitleaks(tools, planted), *detect_secrets(tools, planted)], show=show
    )
    if out:
        decoded = tools / "decoded"
        decode(out, decoded)
        findings(console, f"all of {out}", [*gitleaks(tools, decoded), *detect_secrets(tools, decoded)], show=show)


def get_tools(tools: Path) -> None:
    """Builds gitleaks and its printer of samples, and installs detect-secrets, where they are not in `tools`."""
    if not shutil.which("go") and not (tools / "gitleaks").exists():
        sys.exit("Go is needed to build gitleaks: see https://go.dev/doc/install, then run this again.")
    tools.mkdir(parents=True, exist_ok=True)
    if not (tools / "gitleaks").exists():
        source = _module(tools)
        _run(["go", "build", "-o", str(tools / "samples"), "./cmd/generate/config"], source)
        _run(["go", "build", "-o", str(tools / "gitleaks"), "."], source)
    if not (tools / "python").exists():
        venv.create(tools / "python", with_pip=True)
        _run([str(tools / "python/bin/python"), "-m", "pip", "install", "--quiet", DETECT_SECRETS], tools)


def _module(tools: Path) -> Path:
    """A copy of gitleaks' module, with the files that print its samples laid over it."""
    download = json.loads(_run(["go", "mod", "download", "-json", f"{GITLEAKS}@latest"], tools))
    (tools / "version").write_text(download["Version"])
    source = tools / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(download["Dir"], source)
    for path in (source, *source.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for name, folder in _LAID_OVER.items():
        shutil.copyfile(Path(__file__).parent / "gitleaks" / name, source / folder / name)
    return source


def _run(command: Sequence[str], folder: Path, stdin_text: str = "") -> str:
    """Run a command and return its output."""
    done = subprocess.run(command, cwd=folder, input=stdin_text, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)[:200]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def _version(tools: Path) -> str:
    return (tools / "version").read_text()


def samples(tools: Path) -> list[dict[str, Any]]:
    """gitleaks' samples: the rule, the text, and what the rule finds in it (`secrets`, `matches`)."""
    output = _run([str(tools / "samples"), os.devnull], tools / "source/cmd/generate/config")
    return [json.loads(line) for line in output.splitlines()]


def is_caught(sample: dict[str, Any]) -> bool:
    """Check that scrubbing leaves nothing of what the rule takes for the secret."""
    scrubbed = scrub_text(sample["text"], "anchor")
    wholes = (m if len(s) <= _FRAGMENT else s for s, m in zip(sample["secrets"], sample["matches"], strict=True))
    return not any(whole in scrubbed for whole in wholes)


def of_gitleaks(console: Console, tools: Path, *, show: bool) -> None:
    """Prints how many samples are caught, and by which rules any are missed."""
    every = samples(tools)
    missed = [sample for sample in every if not is_caught(sample)]
    of_rule, left = (Counter(sample["rule"] for sample in some) for some in (every, missed))
    whole = sum(rule not in left for rule in of_rule)
    console.print(
        f"gitleaks {_version(tools)}: {len(every) - len(missed)} of {len(every)} samples are caught "
        f"({1 - len(missed) / len(every):.2%}), all of {whole} of {len(of_rule)} rules"
    )
    table = Table("rule", "missed", "of")
    for rule, count in left.most_common():
        table.add_row(rule, str(count), str(of_rule[rule]))
    console.print(table)
    for sample in missed if show else ():
        console.print(f"{sample['rule']}: {sample['text']!r}", markup=False, highlight=False, soft_wrap=True)


def write_planted(folder: Path) -> None:
    """Writes the planted secrets of every kind, scrubbed, each kind and embedding a file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for kind in KINDS:
        for name, (embedded, _) in EMBEDDINGS.items():
            texts = [scrub_text(embedded(plant.text), "anchor") for plant in plants(kind, _PLANTS, seed=11)]
            (folder / f"{kind}-{name.replace(' ', '-')}.txt").write_text("\n".join(texts))


def decode(out: Path, folder: Path) -> None:
    """Writes all that a run wrote as text: each distinct text of a Parquet file once, other files as they are."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        target = folder / f"{path.relative_to(out)}.txt"
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            target.write_text("\n".join(_cut(text) for text in _texts(path)), errors="replace")
        else:
            target.write_text(_cut(path.read_bytes().decode(errors="replace")), errors="replace")


def _texts(path: Path) -> Iterator[str]:
    seen: set[str] = set()
    for batch in pq.ParquetFile(path).iter_batches():
        for column in batch.columns:
            for text in _strings(column):
                if text not in seen:
                    seen.add(text)
                    yield text


def _strings(array: pa.Array) -> Iterator[str]:
    """The texts of an array of any type."""
    if pa.types.is_dictionary(array.type):
        yield from _strings(array.dictionary)
    elif pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from _strings(child)
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield from _strings(array.flatten())
    elif pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        yield from (text for text in array.drop_null().to_pylist())


def _cut(text: str) -> str:
    """The text with longer lines cut in several, the last 200 characters of one also at the beginning of the next."""
    lines = []
    for line in text.splitlines():
        lines += [line[max(0, at - 200) : at + _LINE] for at in range(0, max(1, len(line)), _LINE)]
    return "\n".join(lines)


def gitleaks(tools: Path, folder: Path) -> list[Finding]:
    """Run gitleaks on the files of a folder."""
    report = tools / "gitleaks.json"
    _run([str(tools / "gitleaks"), "dir", str(folder), "--no-banner", "-r", str(report), "--exit-code", "0"], tools)
    return [
        Finding("gitleaks", entry["RuleID"], Path(entry["File"]), entry["StartLine"], entry["Secret"])
        for entry in json.loads(report.read_text())
    ]


_SCAN: Final = """
import json, sys
from detect_secrets import SecretsCollection
from detect_secrets.settings import default_settings
with default_settings() as settings:
    settings.disable_plugins("Base64HighEntropyString", "HexHighEntropyString")
    for name in sys.stdin.read().splitlines():
        found = SecretsCollection()
        found.scan_file(name)
        for _, one in found:
            print(json.dumps([one.type, name, one.line_number, one.secret_value]))
"""


def detect_secrets(tools: Path, folder: Path) -> list[Finding]:
    """Run detect-secrets on the files of a folder, without its rules of entropy."""
    names = "\n".join(str(path) for path in sorted(folder.rglob("*")) if path.is_file())
    output = _run([str(tools / "python/bin/python"), "-c", _SCAN], tools, stdin_text=names)
    entries = (json.loads(line) for line in output.splitlines())
    return [Finding("detect-secrets", rule, Path(name), line, secret) for rule, name, line, secret in entries]


class Claims:
    """Claims of our own detection in scrubbed files, and in the base64 bodies in them."""

    def __init__(self) -> None:
        self._files: dict[Path, list[tuple[bytes, list[tuple[int, int]]]]] = {}

    def hold(self, finding: Finding) -> bool:
        """Check that the first occurrence of a scanner's finding is claimed, or that its text certifies itself."""
        if finding.file not in self._files:
            data = finding.file.read_bytes()
            self._files[finding.file] = [*_find_claimed(data, Detection.of(KINDS).finds(data))]
        secret = max(finding.secret.encode(errors="replace").splitlines(), key=len)  # gitleaks decodes line by line
        if any(is_certified(core_of(secret[at:])) for at in range(min(_PREFIX, len(secret)))):
            return True
        within = _FRAME if finding.rule == "Private Key" else 0
        return any(
            (start := data.find(secret)) >= 0
            and any(begin < start + len(secret) + within and start < end for begin, end in claimed)
            for data, claimed in self._files[finding.file]
        )


def _find_claimed(data: bytes, finds: Finds) -> Iterator[tuple[bytes, list[tuple[int, int]]]]:
    """A text with what is claimed in it, and each text in its base64 bodies likewise."""
    loose = [
        (pattern.start, pattern.end) for pattern in finds.loose if pattern.accepts(data[pattern.start : pattern.end])
    ]
    bodies = [(body_text.start, body_text.end) for body_text in finds.encoded if body_text.finds]
    yield data, [*((span.start, span.end) for span in finds.spans), *loose, *bodies]
    for body in finds.encoded:
        yield from _find_claimed(body.data, body.finds)


def findings(console: Console, title: str, all_findings: Sequence[Finding], *, show: bool) -> None:
    """Prints what was found by rule: how often, how often a placeholder, and what is left."""
    left: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    counts: Counter[tuple[str, str]] = Counter()
    claims = Claims()
    for finding in all_findings:
        key = finding.tool, finding.rule
        counts[key] += 1
        if not claims.hold(finding):
            left[key].append(finding)
    table = Table("scanner", "rule", "found", "no placeholder", title=title)
    for (tool, rule), count in sorted(counts.items()):
        table.add_row(tool, rule, str(count), str(len(left[tool, rule])))
    console.print(table)
    for finding in (finding for some in left.values() for finding in some) if show else ():
        console.print(
            f"{finding.tool} {finding.rule} {finding.file.name}:{finding.line} {finding.secret[:300]!r}",
            markup=False,
            soft_wrap=True,
        )


if __name__ == "__main__":
    main()
