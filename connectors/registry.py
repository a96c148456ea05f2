"""Registry of the connectors: built-in ones by module, users' ones by the entry-point group `trajmill.connectors`.

A built-in module defines exactly one class derived from `Connector`. An entry point names such a class as
`package.module:Class`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Final, NamedTuple

from trajmill.connectors.connector import HEAD_BYTES, Connector, Sniff
from trajmill.connectors.marks import ruled_out
from trajmill.connectors.reading.head_outline import binary_outline, later_rows, make_outline
from trajmill.connectors.reading.values import BOM
from trajmill.schemas import ConfigError, ContractError
from trajmill.schemas.plugins import plugins

GROUP: Final = "trajmill.connectors"


class Format(NamedTuple):
    """Facts of a built-in format that are known before its code is loaded.

    Attributes:
        ends: Endings of file names, in lower case, one of which every log of several files contains; empty if the
            format joins no files. The list may cover too many names, but never too few.
    """

    module: str
    version: str
    ends: tuple[str, ...] = ()


FORMATS: Final[Mapping[str, Format]] = {
    "agentworldbench": Format("trajmill.connectors.published.agentworldbench", "2"),
    "adp": Format("trajmill.connectors.published.adp", "6"),
    "agent_traces": Format("trajmill.connectors.published.agent_traces", "1"),
    "step_rows": Format("trajmill.connectors.published.step_rows", "1"),
    "turn_rows": Format("trajmill.connectors.published.turn_rows", "3"),
    "asciicast": Format("trajmill.connectors.recordings.asciicast", "5"),
    "qwen_code": Format("trajmill.connectors.agents.qwen_code", "3"),
    "claude_code": Format("trajmill.connectors.agents.claude_code", "16", (".jsonl",)),
    "codex": Format("trajmill.connectors.agents.codex", "14", (".jsonl",)),
    "codex_exec": Format("trajmill.connectors.agents.codex_exec", "5"),
    "gemini_cli": Format("trajmill.connectors.agents.gemini_cli", "8", (".jsonl",)),
    "gemini_stream": Format("trajmill.connectors.agents.gemini_stream", "4"),
    "managed_agent": Format("trajmill.connectors.agents.managed_agent", "7"),
    "copilot_cli": Format("trajmill.connectors.agents.copilot_cli", "5"),
    "opencode": Format("trajmill.connectors.agents.opencode", "3", (".json",)),
    "pi_agent": Format("trajmill.connectors.agents.pi_agent", "6"),
    "hub_session": Format("trajmill.connectors.agents.hub_session", "1"),
    "kimi_cli": Format("trajmill.connectors.agents.kimi_cli", "5", ("wire.jsonl",)),
    "antigravity": Format("trajmill.connectors.agents.antigravity", "4"),
    "droid": Format("trajmill.connectors.agents.droid", "3"),
    "amp": Format("trajmill.connectors.agents.amp", "2"),
    "specstory": Format("trajmill.connectors.agents.specstory", "3"),
    "cline": Format("trajmill.connectors.agents.cline", "4"),
    "harbor": Format("trajmill.connectors.agents.harbor", "6", ("agent/trajectory.json",)),
    "atif": Format("trajmill.connectors.agents.atif", "11", ("trajectory.json",)),
    "droidbot": Format("trajmill.connectors.android.droidbot", "10", (".json",)),
    "autodroid": Format("trajmill.connectors.android.autodroid", "1"),
    "appagent": Format("trajmill.connectors.android.appagent", "6", (".xml",)),
    "uiautomator": Format("trajmill.connectors.android.uiautomator", "7", (".xml", ".uix")),
    "android_control": Format("trajmill.connectors.android.android_control", "4"),
    "android_control_jsonl": Format("trajmill.connectors.android.android_control_jsonl", "4"),
    "aitw": Format("trajmill.connectors.android.aitw", "2"),
    "aitz": Format("trajmill.connectors.android.aitz", "3", (".png",)),
    "android_world": Format("trajmill.connectors.android.android_world", "6"),
    "rico": Format("trajmill.connectors.android.rico", "5", ("gestures.json",)),
    "mcp_jsonrpc": Format(
        "trajmill.connectors.mcp.mcp_jsonrpc",
        "9",
        (".jsonl", ".json", ".log", ".txt", "stdin", "in", "requests", "client"),
    ),
    "mcp_recorder": Format("trajmill.connectors.mcp.mcp_recorder", "8"),
    "agent_vcr": Format("trajmill.connectors.mcp.agent_vcr", "7"),
    "mcp_desktop_log": Format("trajmill.connectors.mcp.mcp_desktop_log", "6"),
    "mcp_inspector": Format("trajmill.connectors.mcp.mcp_inspector", "7"),
    "vcr_cassette": Format("trajmill.connectors.mcp.vcr_cassette", "19"),
    "otel_genai": Format("trajmill.connectors.apis.otel_genai", "16"),
    "webdancer": Format("trajmill.connectors.search.webdancer", "8"),
    "search_r1": Format("trajmill.connectors.search.search_r1", "3"),
    "react_log": Format("trajmill.connectors.search.react_log", "5"),
    "react_notebook": Format("trajmill.connectors.search.react_notebook", "5"),
    "inspect": Format("trajmill.connectors.benches.inspect_log", "7"),
    "tau_bench": Format("trajmill.connectors.benches.tau_bench", "6"),
    "tau2": Format("trajmill.connectors.benches.tau2", "5", ("results.json",)),
    "toolbench": Format("trajmill.connectors.benches.toolbench", "5"),
    "awm": Format("trajmill.connectors.benches.awm", "4", ("trajectory.json",)),
    "chat_tools": Format("trajmill.connectors.apis.chat_tools", "18"),
    "sweagent": Format("trajmill.connectors.swe.sweagent", "11", (".traj",)),
    "mini_swe_agent": Format("trajmill.connectors.swe.mini_swe_agent", "12", (".traj.json",)),
    "openhands": Format("trajmill.connectors.swe.openhands", "12", (".json",)),
    "swebench_eval": Format(
        "trajmill.connectors.swe.swebench_eval", "6", ("report.json", "test_output.txt", ".eval.log")
    ),
    "swebench_predictions": Format("trajmill.connectors.swe.swebench_predictions", "6"),
    "aider": Format("trajmill.connectors.swe.aider", "7"),
    "swe_rows": Format("trajmill.connectors.swe.swe_rows", "13"),
    "script": Format(
        "trajmill.connectors.recordings.script", "5", ("timing", "timing.log", "timing.txt", "tm", "timingfile")
    ),
    "ttyrec": Format("trajmill.connectors.recordings.ttyrec", "4"),
    "terminal_bench": Format("trajmill.connectors.recordings.terminal_bench", "10", ("results.json",)),
    "terminus": Format("trajmill.connectors.recordings.terminus", "5", ("prompt.txt",)),
    "terminus_rows": Format("trajmill.connectors.recordings.terminus_rows", "4"),
    "table": Format("trajmill.connectors.published.table", "14"),
    "har": Format("trajmill.connectors.web.har", "12", (".har",)),
    "cdp": Format("trajmill.connectors.web.cdp", "13"),
    "browser_use_history": Format("trajmill.connectors.web.browser_use_history", "4"),
    "browser_use_messages": Format("trajmill.connectors.web.browser_use_messages", "2"),
    "webvoyager": Format("trajmill.connectors.web.webvoyager", "3", ("interact_messages.json",)),
    "miniwob": Format("trajmill.connectors.web.miniwob", "7"),
    "browsergym": Format("trajmill.connectors.web.browsergym", "3", ("summary_info.json",)),
    "rrweb": Format("trajmill.connectors.web.rrweb", "12"),
    "mind2web": Format("trajmill.connectors.web.mind2web", "5"),
    "osworld": Format("trajmill.connectors.desktop.osworld", "8", ("traj.jsonl",)),
    "agentnet": Format("trajmill.connectors.desktop.agentnet", "6", (".png",)),
    "agentnet_recording": Format(
        "trajmill.connectors.desktop.agentnet_recording", "2", ("reduced_events_complete.jsonl",)
    ),
    "steps_recorder": Format("trajmill.connectors.desktop.steps_recorder", "1"),
    "terminator": Format("trajmill.connectors.desktop.workflow", "6"),
    "ufo": Format("trajmill.connectors.desktop.ufo", "5", ("response.log",)),
    "playwright_trace": Format("trajmill.connectors.web.playwright_trace", "10", (".trace",)),
    "refused": Format("trajmill.connectors.refused", "1"),
}
"""Built-in formats by name.

The order matters only between equal sniff scores, and between formats that name themselves: the earlier wins.
"""

VERIFIED: Final[Mapping[str, int]] = {
    "asciicast": 31,
    "claude_code": 91,
    "codex": 8,
    "codex_exec": 7,
    "gemini_cli": 6,
    "gemini_stream": 3,
    "pi_agent": 5,
    "managed_agent": 5,
    "kimi_cli": 2,
    "antigravity": 1,
    "opencode": 1,
    "cline": 1,
    "webdancer": 2,
    "search_r1": 1,
    "react_log": 5,
    "inspect": 2,
    "appagent": 6,
    "droidbot": 3,
    "tau_bench": 1,
    "tau2": 18,
    "toolbench": 6,
    "mcp_recorder": 1,
    "mcp_jsonrpc": 1,
    "agent_vcr": 3,
    "vcr_cassette": 482,
    "otel_genai": 15,
    "sweagent": 22,
    "swebench_eval": 1134,
    "mini_swe_agent": 16,
    "openhands": 5,
    "aider": 6,
    "script": 237,
    "ttyrec": 1,
    "har": 27,
    "cdp": 42,
    "browser_use_history": 2,
    "playwright_trace": 11,
    "webvoyager": 6,
    "mind2web": 1,
    "harbor": 3,
    "atif": 19,
    "terminal_bench": 104,
    "mcp_desktop_log": 2,
    "swe_rows": 5,
    "adp": 24,
    "miniwob": 102,
    "aitz": 1,
    "react_notebook": 2,
    "terminus": 3,
    "terminus_rows": 3,
    "chat_tools": 26,
    "refused": 22,
    "agentnet": 5,
    "agentnet_recording": 1,
    "autodroid": 14,
    "steps_recorder": 1,
    "specstory": 165,
}
"""Number of real logs by format whose transitions were compared with the log.

A missing format is unverified: it is read according to its documentation.
"""

NAMED: Final = 0.9
"""Score from which a format names itself."""


def _connector_in(module: str) -> Connector:
    names = vars(import_module(module)).values()
    kinds = [
        kind for kind in names if isinstance(kind, type) and issubclass(kind, Connector) and kind.__module__ == module
    ]
    if len(kinds) != 1:
        raise ContractError(f"{module} should define exactly one connector, it defines {len(kinds)}")
    return kinds[0]()


class Connectors(Mapping[str, Connector]):
    """Every connector by name: built-in ones in the order of the registry, then users' ones by name.

    A built-in connector is loaded on first access, since loading all of them takes longer than reading a small log.

    Args:
        users: Connectors of users.
    """

    def __init__(self, users: Mapping[str, Connector]) -> None:
        self._users = users
        self._loaded: dict[str, Connector] = {}

    def __getitem__(self, name: str) -> Connector:
        if name in self._users:
            return self._users[name]
        if name not in self._loaded:
            self._loaded[name] = _connector_in(FORMATS[name].module)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from FORMATS
        yield from self._users

    def __len__(self) -> int:
        return len(FORMATS) + len(self._users)

    def __contains__(self, name: object) -> bool:
        return name in FORMATS or name in self._users

    def __reduce__(self) -> tuple[Callable[[], Connectors], tuple[()]]:
        return connectors, ()

    def is_loaded(self, name: str) -> bool:
        """Check whether the code of a connector was loaded."""
        return name in self._users or name in self._loaded


@cache
def connectors() -> Connectors:
    """Return every connector.

    Raises:
        ConfigError: Two connectors have the same name, or an entry point is no connector.
    """
    users: dict[str, Connector] = {}
    for point, kind in plugins(GROUP, Connector):  # type: ignore[type-abstract]
        if kind.name in {*FORMATS, *users}:
            raise ConfigError(f"Entry point '{point.name}' of {GROUP} takes the name '{kind.name}', which is taken.")
        users[kind.name] = kind()
    return Connectors(users)


def version_of(name: str, known: Mapping[str, Connector]) -> str:
    """Return the version of a connector without loading it."""
    is_far = isinstance(known, Connectors) and not known.is_loaded(name)
    return FORMATS[name].version if is_far else known[name].version


def joining(among: Mapping[str, Connector], paths: Iterable[str]) -> Iterator[Connector]:
    """Yield the connectors that may join files to logs, or answer records by them.

    Args:
        among: Connectors; excluded ones are not loaded.
    """
    names = "".join(f"{path}\n" for path in paths).lower()
    for name in among:
        if name not in FORMATS or any(f"{end}\n" in names for end in FORMATS[name].ends):
            yield among[name]


def connector(name: str) -> Connector:
    """Return the connector of a name.

    Raises:
        ConfigError: The name is unknown; the error suggests the nearest one.
    """
    known = connectors()
    if name not in known:
        nearest = get_close_matches(name, known, 1)
        raise ConfigError(f"There is no connector '{name}'.", nearest[0] if nearest else None)
    return known[name]


Withdraw = Callable[[Connector, Exception], None]
"""Callback for an exception in a connector's sniffing; the connector is then skipped for the file."""


Longer = Callable[[], bytes]
"""Function that returns a longer beginning of the file, at most `OUTLINED_BYTES`, if the first bytes do not suffice."""


def sniff_one(
    candidate: Connector, head: bytes, uri: str, withdraw: Withdraw | None = None, longer: Longer | None = None
) -> Sniff | None:
    """Ask one connector about the file; arguments and errors as in `sniff`."""
    result = _answer(candidate, _seen(head), uri, withdraw)
    if (result is not None and result.score >= NAMED) or longer is None or len(head) < HEAD_BYTES:
        return result
    outline = _outline(head, longer())
    return result if outline is None else _answer(candidate, outline, uri, withdraw) or result


def _seen(head: bytes) -> bytes:
    """Return the head as connectors see it: without its byte order mark and binary content."""
    return binary_outline(head.removeprefix(BOM))


def _outline(head: bytes, beginning: bytes) -> bytes | None:
    """Return the outline of a file that is longer than its head; None if it adds nothing to the head."""
    plain = head.removeprefix(BOM)
    outline = make_outline(beginning)
    return None if plain.lstrip().startswith(outline[: len(plain.lstrip())]) else outline


def _answer(candidate: Connector, head: bytes, uri: str, withdraw: Withdraw | None) -> Sniff | None:
    try:
        return candidate.sniff(head, uri)
    except (OSError, MemoryError, ConfigError, ContractError):
        raise
    except Exception as error:
        if withdraw is None:
            error.add_note(f"while connector '{candidate.name}' was asked about {uri}")
            raise
        withdraw(candidate, error)
        return None


def sniff(
    head: bytes,
    uri: str,
    among: Mapping[str, Connector] | None = None,
    withdraw: Withdraw | None = None,
    longer: Longer | None = None,
) -> list[tuple[Connector, Sniff]]:
    """Return the connectors that accept the file, best first; empty if none recognizes it.

    If a format names itself (a score of `NAMED` or more), no further connector is asked. Otherwise, if the head does
    not contain the whole first record, the file's outline is sniffed, and its results take precedence over those of the
    head. If neither gives a result, later rows that may contain a call are sniffed.

    Args:
        head: First `HEAD_BYTES` of the file, or the whole of a shorter one.
        among: Connectors to ask; all if None. Those that `marks` rules out are not loaded.
        withdraw: Callback for exceptions of connectors, which are then not raised.
        longer: Returns a longer beginning; without it, only the head is used.

    Raises:
        Exception: An exception of a connector, without `withdraw`; errors of I/O, memory, configuration or contract in
            any case.
    """
    asked = connectors() if among is None else among
    takers = _takers(_seen(head), uri, asked, withdraw)
    if takers and takers[0][1].score >= NAMED:
        return takers
    if longer is None or len(head) < HEAD_BYTES:
        return takers
    beginning = longer()
    outline = _outline(head, beginning)
    takers = (_takers(outline, uri, asked, withdraw) if outline is not None else []) or takers
    later = (_takers(rows, uri, asked, withdraw) for rows in (() if takers else later_rows(beginning)))
    return takers or next(filter(None, later), [])


def _takers(
    head: bytes, uri: str, asked: Mapping[str, Connector], withdraw: Withdraw | None
) -> list[tuple[Connector, Sniff]]:
    takers: list[tuple[Connector, Sniff]] = []
    refusing = ruled_out(head, uri)
    for name in asked:
        result = None if name in refusing else _answer(asked[name], head, uri, withdraw)
        if result is not None:
            takers.append((asked[name], result))
            if result.score >= NAMED:
                break
    return sorted(takers, key=lambda pair: -pair[1].score)
