"""Which connectors there are: ours by module, users' by the entry-point group `trajmill.connectors`.

A module of ours holds exactly one class derived from `Connector`. An entry point names such a class as
`package.module:Class`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final

from connectors.connector import HEAD_BYTES, Connector, Sniff
from connectors.reading.head_outline import outlined, zip_outline
from connectors.reading.values import BOM
from schemas import ConfigError, ContractError

GROUP: Final = "trajmill.connectors"

MODULES: Final = (
    "connectors.published.agentworldbench",
    "connectors.published.adp",
    "connectors.recordings.asciicast",
    "connectors.agents.claude_code",
    "connectors.agents.codex",
    "connectors.agents.codex_exec",
    "connectors.agents.gemini_cli",
    "connectors.agents.gemini_stream",
    "connectors.agents.managed_agent",
    "connectors.agents.harbor",
    "connectors.agents.atif",
    "connectors.android.droidbot",
    "connectors.android.appagent",
    "connectors.android.appium_log",
    "connectors.android.uiautomator",
    "connectors.android.android_control",
    "connectors.android.android_control_jsonl",
    "connectors.android.aitw",
    "connectors.android.aitz",
    "connectors.android.android_world",
    "connectors.android.rico",
    "connectors.android.getevent",
    "connectors.android.logcat",
    "connectors.mcp.mcp_jsonrpc",
    "connectors.mcp.mcp_recorder",
    "connectors.mcp.agent_vcr",
    "connectors.mcp.mcp_interceptor",
    "connectors.mcp.mcp_desktop_log",
    "connectors.mcp.mcp_inspector",
    "connectors.mcp.vcr_cassette",
    "connectors.apis.otel_genai",
    "connectors.search.webdancer",
    "connectors.search.search_r1",
    "connectors.search.react_log",
    "connectors.search.react_notebook",
    "connectors.benches.inspect_log",
    "connectors.benches.tau_bench",
    "connectors.benches.tau2",
    "connectors.benches.toolbench",
    "connectors.benches.awm",
    "connectors.apis.chat_tools",
    "connectors.swe.sweagent",
    "connectors.swe.mini_swe_agent",
    "connectors.swe.openhands",
    "connectors.swe.swebench_eval",
    "connectors.swe.swebench_predictions",
    "connectors.swe.aider",
    "connectors.swe.patch",
    "connectors.swe.swe_rows",
    "connectors.recordings.script",
    "connectors.recordings.ttyrec",
    "connectors.recordings.terminal_bench",
    "connectors.recordings.terminus",
    "connectors.recordings.terminus_rows",
    "connectors.published.table",
    "connectors.web.har",
    "connectors.web.cdp",
    "connectors.web.browser_use_history",
    "connectors.web.browser_use_messages",
    "connectors.web.webvoyager",
    "connectors.web.miniwob",
    "connectors.web.recorded_script",
    "connectors.web.browsergym",
    "connectors.web.rrweb",
    "connectors.web.mind2web",
    "connectors.web.mhtml",
    "connectors.desktop.osworld",
    "connectors.desktop.agentnet",
    "connectors.desktop.workflow",
    "connectors.desktop.ufo",
    "connectors.web.playwright_trace",
)
"""Order matters only between equal sniff scores, and between formats that say their own names: the earlier wins."""

NAMED: Final = 0.9
"""From this score on a format says its own name."""


def _connector_in(module: str) -> Connector:
    names = vars(import_module(module)).values()
    found = [
        kind for kind in names if isinstance(kind, type) and issubclass(kind, Connector) and kind.__module__ == module
    ]
    if len(found) != 1:
        raise ContractError(f"{module} should define exactly one connector, it defines {len(found)}")
    return found[0]()


@cache
def connectors() -> dict[str, Connector]:
    """Every connector by name, ours first, in the order of the registry, then users' by name.

    Raises:
        ConfigError: two connectors have one name, or an entry point is no connector.
    """
    known = {}
    for module in MODULES:
        connector = _connector_in(module)
        known[connector.name] = connector
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        kind = point.load()
        if not (isinstance(kind, type) and issubclass(kind, Connector)):
            raise ConfigError(f"Entry point '{point.name}' of {GROUP} is {point.value}, which is no Connector class.")
        if kind.name in known:
            raise ConfigError(f"Entry point '{point.name}' of {GROUP} takes the name '{kind.name}', which is taken.")
        known[kind.name] = kind()
    return known


def connector(name: str) -> Connector:
    """The connector of that name.

    Raises:
        ConfigError: there is none, with the nearest name.
    """
    known = connectors()
    if name not in known:
        nearest = get_close_matches(name, known, 1)
        raise ConfigError(f"There is no connector '{name}'.", nearest[0] if nearest else None)
    return known[name]


Withdraw = Callable[[Connector, Exception], None]
"""Told of an exception in a connector's sniffing; the connector then says nothing of that file."""


Longer = Callable[[], bytes]
"""Gives a longer beginning of the file, at most `OUTLINED_BYTES` of it, for what its first bytes do not tell."""


def sniff_one(
    one: Connector, head: bytes, uri: str, withdraw: Withdraw | None = None, longer: Longer | None = None
) -> Sniff | None:
    """What one connector says of the file; arguments and errors as of `sniff`."""
    told = _answer(one, _seen(head), uri, withdraw)
    if (told is None or told.score < NAMED) and (outline := _outline(head, longer)) is not None:
        return _answer(one, outline, uri, withdraw) or told
    return told


def _seen(head: bytes) -> bytes:
    """The head as connectors see it: without its byte order mark, which is no part of any format, or what is zipped."""
    return zip_outline(head.removeprefix(BOM))


def _outline(head: bytes, longer: Longer | None) -> bytes | None:
    """The outline of a file that is longer than its head, if it tells more than the head does."""
    if longer is None or len(head) < HEAD_BYTES:
        return None
    plain = head.removeprefix(BOM)
    outline = outlined(longer())
    return None if plain.lstrip().startswith(outline[: len(plain.lstrip())]) else outline


def _answer(one: Connector, head: bytes, uri: str, withdraw: Withdraw | None) -> Sniff | None:
    try:
        return one.sniff(head, uri)
    except (OSError, MemoryError, ConfigError, ContractError):
        raise
    except Exception as error:
        if withdraw is None:
            error.add_note(f"while connector '{one.name}' was asked about {uri}")
            raise
        withdraw(one, error)
        return None


def sniff(
    head: bytes,
    uri: str,
    among: Iterable[Connector] | None = None,
    withdraw: Withdraw | None = None,
    longer: Longer | None = None,
) -> list[tuple[Connector, Sniff]]:
    """The connectors that take the file for theirs, best first; empty if nothing recognizes it.

    Where a format says its own name (a score of `NAMED` or more), no further connector is asked. Where none does, and
    the head does not hold the first record, the file's outline is asked about; what that tells counts before what its
    head does.

    Args:
        head: the first `HEAD_BYTES` of the file, or the whole of a shorter one.
        uri: the file's name.
        among: the connectors asked; all if None.
        withdraw: told of exceptions of connectors, instead of them being raised.
        longer: gives a longer beginning; without it the head is all that is looked at.

    Raises:
        Exception: a connector's own, without `withdraw`; one of I/O, memory, configuration or contract in any case.
    """
    asked = list(connectors().values() if among is None else among)
    found = _takers(_seen(head), uri, asked, withdraw)
    if found and found[0][1].score >= NAMED:
        return found
    outline = _outline(head, longer)
    return found if outline is None else _takers(outline, uri, asked, withdraw) or found


def _takers(
    head: bytes, uri: str, asked: Iterable[Connector], withdraw: Withdraw | None
) -> list[tuple[Connector, Sniff]]:
    found: list[tuple[Connector, Sniff]] = []
    for one in asked:
        told = _answer(one, head, uri, withdraw)
        if told is not None:
            found.append((one, told))
            if told.score >= NAMED:
                break
    return sorted(found, key=lambda pair: -pair[1].score)
