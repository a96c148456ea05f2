"""Writes golden files anew: `python -m tests.golden.make corpora`, `… fixtures [NAME…]`, `… versions`, `… tables` or
`… libghostty`.

Run it after a change that is meant to change transitions, and read the difference before committing it. A connector
whose output changes raises its version first: `versions` refuses it otherwise.
"""

import json
import sys
from collections.abc import Iterable
from io import StringIO
from pathlib import Path

from cffi import FFI

from tests.conftest import GOLDEN, INDEX, NAMED, ROOT, corpora_folder, named_files
from tests.golden.digests import VERSIONS, digest_of
from tests.golden.shown import SHOWN_PAGE, shown_page
from tests.golden.tables import DATA_SETS_PAGE, FORMATS_PAGE, SIGNALS_PAGE, data_sets_page, formats_page, signals_page
from tests.rows import blob_at, golden_line, parsed, recognized, summary
from trajmill.connectors.recordings.emulator import DECLARED
from trajmill.connectors.registry import connectors

LIBGHOSTTY = ROOT / "connectors" / "recordings" / "libghostty.py"

FOLDERS = {
    "asciicast": ["terminal/asciicast_v2", "terminal/asciicast_v3"],
    "claude_code": [
        "terminal/claude_code_jsonl",
        "search/claude_code_jsonl",
        "terminal/claude_web_export",
    ],
    "codex": ["terminal/codex_rollout_jsonl"],
    "codex_exec": ["terminal/codex_exec_json_stream"],
    "gemini_cli": ["terminal/gemini_cli_session"],
    "webdancer": ["search/webdancer_chatml_jsonl"],
    "search_r1": ["search/search_r1_text"],
    "react_log": ["search/react_hotpotqa_txt"],
    "inspect": ["search/inspect_eval_log"],
    "appagent": ["android/appagent_task"],
    "droidbot": ["android/droidbot_output"],
    "android_control_jsonl": ["android/android_control_jsonl"],
    "tau_bench": ["mcp/tau_bench_results"],
    "tau2": ["mcp/tau2_results"],
    "toolbench": ["mcp/toolbench_answer"],
    "mcp_jsonrpc": ["mcp/jsonrpc_spec_examples"],
    "mcp_recorder": ["mcp/jsonrpc_wire/firecrawl__firecrawl-mcp-server"],
    "agent_vcr": ["mcp/jsonrpc_wire/Jarvis2021__agent-vcr"],
    "vcr_cassette": ["mcp/jsonrpc_wire/pydantic__pydantic-ai", "mcp/vcr_llm_toolcalls", "mcp/vcr_cassette"],
    "sweagent": ["swe/sweagent_traj"],
    "mini_swe_agent": ["swe/mini_swe_agent_traj"],
    "openhands": ["swe/openhands_events"],
    "swebench_eval": ["swe/swebench_eval_logs"],
    "swebench_predictions": ["swe/swebench_predictions"],
    "aider": ["swe/aider_chat_history"],
    "script": ["terminal/script_typescript"],
    "ttyrec": ["terminal/ttyrec"],
    "har": ["web/har"],
    "cdp": ["web/cdp_perflog"],
    "browser_use_history": ["web/browser_use_history"],
    "browser_use_messages": ["web/browser_use_messages"],
    "browsergym": ["web/browsergym_result"],
    "playwright_trace": ["web/playwright_trace", "web/playwright_blob"],
    "webvoyager": ["web/webvoyager_messages"],
    "rrweb": ["web/rrweb_events"],
    "mind2web": ["web/mind2web_json"],
    "terminator": ["os/terminator_recording"],
    "refused": ["android/getevent", "android/logcat", "swe/patch", "web/mhtml", "web/selenium_side"],
}
"""Where the corpora hold each connector's real files."""


def taken_by(files: Iterable[Path], root: Path) -> dict[str, str | None]:
    """The connector that takes each file below a folder, by its name there; None: none takes it."""
    inputs, unrecognized = recognized(files, root)
    takers: dict[str, str | None] = {reject.uri: None for reject in unrecognized}
    for log in inputs:
        for file in log.members.values():
            takers[file.path.removeprefix(f"{root}/")] = log.connector
    return takers


def write_corpora(root: Path) -> None:
    """Writes which files the real corpora hold, `corpora.tsv`, and what connectors make of them, `corpora.json`."""
    files = [path for path in root.rglob("*") if path.is_file() and path.name != INDEX]
    takers = taken_by(files, root)
    NAMED.write_text("".join(f"{name}\t{takers[name] or ''}\n" for name in sorted(takers)), "utf-8")
    golden = {}
    for name, folders in FOLDERS.items():
        named = named_files(*(f"{folder}/" for folder in folders))
        golden[name] = {"folders": folders, **summary([root / name for name in named], root)}
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")


def write_fixtures(names: list[str]) -> None:
    """Writes the expected rows of the connectors' fixtures."""
    for name in names or list(connectors()):
        folder = ROOT / "tests" / "fixtures" / name
        (folder / "expected").mkdir(exist_ok=True)
        for path in sorted((folder / "input").iterdir()):
            rows, _ = parsed(connectors()[name], blob_at(path))
            text = "".join(golden_line(row) + "\n" for row in rows)
            (folder / "expected" / f"{path.name}.jsonl").write_text(text, "utf-8")


def write_versions() -> None:
    """Writes the version of each connector with the digest that it stands for.

    Raises:
        SystemExit: the output of a connector changed, and its version did not.
    """
    known: dict[str, list[str]] = json.loads(VERSIONS.read_text("utf-8")) if VERSIONS.is_file() else {}
    digests = {name: [connector.version, digest_of(connector)] for name, connector in sorted(connectors().items())}
    same = [name for name, (version, digest) in digests.items() if known.get(name, [""])[0] == version]
    if changed := [name for name in same if known[name] != digests[name]]:
        raise SystemExit(f"their output changed, so raise the version of {', '.join(changed)}")
    lines = (f'"{name}": {json.dumps(stamp)}' for name, stamp in digests.items())
    VERSIONS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def write_tables() -> None:
    """Writes the tables of signals, formats and data sets into their pages of the documentation, and the examples."""
    DATA_SETS_PAGE.write_text(data_sets_page(), "utf-8")
    SIGNALS_PAGE.write_text(signals_page(), "utf-8")
    FORMATS_PAGE.write_text(formats_page(), "utf-8")
    SHOWN_PAGE.write_text(shown_page(), "utf-8")


def libghostty() -> str:
    """The module that cffi makes of what is declared of the terminal emulator."""
    ffi = FFI()
    ffi.cdef(DECLARED)
    ffi.set_source("trajmill.connectors.recordings.libghostty", None)
    written = StringIO()
    ffi.emit_python_code(written)
    return written.getvalue()


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "corpora":
        found = corpora_folder()
        assert found is not None, "the corpora are not here"
        write_corpora(found)
    elif what == "fixtures":
        write_fixtures(words)
    elif what == "versions":
        write_versions()
    elif what == "tables":
        write_tables()
    elif what == "libghostty":
        LIBGHOSTTY.write_text(libghostty(), "utf-8")
    else:
        raise SystemExit(__doc__)
