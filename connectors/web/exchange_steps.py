"""HTTP exchanges and web sockets as transitions: a request is an action, its response the next observation.

A network recording holds no actions of a person, so the browser's requests are the actions. Rules:

- Documents and data (XHR, fetch, forms, event streams) are kept. Requests for images, fonts, style sheets and scripts
  are kept only if the recipe asks for them (`Choices.static_assets`), a browser's own preflights never.
- The role of a request for its page is kept in the action's arguments (`request_role`). Rules decide what bears the
  loss.
- A chain of redirects that the log holds hop by hop is one transition, because the browser followed it by itself.
- Requests that began before any of them was answered cannot depend on an answer, so they are parallel calls of one
  turn. If the log does not state when they began and ended, each request is a turn of its own.
- The messages of a web socket are a trajectory of their own. All messages sent before the next received message are one
  action. All messages received before the next sent message are its next observation. If the messages' own numbers show
  that it answers only earlier messages (`socket_answers`), the effect of the action was still to come, and the
  observation is marked as cut by the recorder.

Exchanges are processed in the given order, which `har` and `cdp` define.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain as chained
from typing import Final
from urllib.parse import urldefrag

from trajmill.connectors.connector import Choices
from trajmill.connectors.reading.large.outline import Chosen
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.web.exchange import Exchange, Message, redirect_target
from trajmill.connectors.web.exchange_pages import Pages
from trajmill.connectors.web.exchange_text import MEDIA_TYPE, answer_of, answer_of_messages, request_of, sent_of
from trajmill.connectors.web.request_kind import ASSET, DATA, host_and_path
from trajmill.connectors.web.request_role import Page
from trajmill.connectors.web.socket_answers import late_runs
from trajmill.schemas import Environment, Observation, Trajectory

_LATER_HOPS: Final = 64
"""Number of requests after a redirect that are searched for its target."""


def trajectories(exchanges: Sequence[Exchange], choices: Choices, native: str = "") -> Iterator[Trajectory]:
    """Yield the trajectories of a recording: one per page, in order of the pages' beginnings, then one per web socket.

    Trajectories without any answer are yielded too; the caller decides whether to keep them.

    Args:
        exchanges: the exchanges in the order in which they began.
        choices: whether static assets are kept, and whether HTML bodies become the compact tree.
        native: prefix of each page's id in the native ids.
    """
    pages: dict[str, list[tuple[int, bool]]] = {}
    known: dict[str, Page] = {}
    trees = Pages(exchanges) if choices.screen == "tree" else None
    for index, exchange in enumerate(exchanges):
        pages.setdefault(exchange.page, []).append((index, bool(exchange.messages)))
        known.setdefault(exchange.page, Page()).take(exchange)
        if trees is not None:
            trees.note(index, exchange)
    for page, of_page in pages.items():
        requests = Chosen(exchanges, (index for index, socket in of_page if not socket))
        carried = (chain for chain in _chains(requests) if _is_carried(chain, choices.static_assets))
        name = f"{native}{page}"
        first = next(carried, None)
        if first is not None:
            moves = _requests(chained([first], carried), known[page], trees)
            yield Trajectory(name, "web", moves.steps, Environment(id=known[page].host or _host(first[0].url)))
        for number, index in enumerate(index for index, socket in of_page if socket):
            exchange = exchanges[index]
            sent = _socket(exchange, known[page]).steps
            if not sent:
                continue
            yield Trajectory(f"{name}#websocket-{number}", "web", sent, Environment(id=_host(exchange.url)))


def _host(url: str) -> str | None:
    return host_and_path(url)[0] or None


def _is_carried(chain: Sequence[Exchange], static_assets: bool) -> bool:
    kind = chain[-1].kind
    if kind == ASSET and chain[0].method not in ("GET", "HEAD"):
        return True
    return kind == DATA or (kind == ASSET and static_assets)


def _chains(exchanges: Sequence[Exchange]) -> Iterator[list[Exchange]]:
    """Yield the exchanges, each with the hops of its redirects."""
    taken: set[int] = set()
    for number, exchange in enumerate(exchanges):
        if number in taken:
            continue
        chain, at = [exchange], number
        while (target := redirect_target(chain[-1])) is not None:
            near = range(at + 1, min(len(exchanges), at + 1 + _LATER_HOPS))
            hop = next((n for n in near if n not in taken and _leads(chain[-1], target, exchanges[n])), None)
            if hop is None:
                break
            taken.add(hop)
            chain.append(exchanges[hop])
            at = hop
        yield chain


def _leads(before: Exchange, target: str, after: Exchange) -> bool:
    try:
        url = urldefrag(after.url)[0]
    except ValueError:
        return False
    same = before.method == after.method
    keeps_method = before.status in (307, 308)
    return (
        url == target
        and before.request_id == after.request_id
        and (same or (not keeps_method and after.method in ("GET", "HEAD")))
    )


def _turns(chains: Iterable[list[Exchange]]) -> Iterator[list[list[Exchange]]]:
    """Yield the chains in groups of requests that all began before any of them was answered."""
    group: list[list[Exchange]] = []
    until: int | None = None
    for chain in chains:
        begin, end = chain[0].began, chain[-1].ended
        together = until is not None and begin is not None and begin < until and end is not None
        if group and not together:
            yield group
            group, until = [], None
        group.append(chain)
        until = end if len(group) == 1 else None if until is None or end is None else min(until, end)
    if group:
        yield group


def _requests(chains: Iterable[list[Exchange]], page: Page, trees: Pages | None) -> Moves:
    moves = Moves(in_memory=False)
    seen = _Seen()
    for group in _turns(chains):
        before = seen.before(group[0][0].began)
        for chain in group:
            first, last = chain[0], chain[-1]
            answer = answer_of(chain, trees)
            moves.add(
                request_of(chain, page),
                before,
                answer,
                first.offset,
                first.member,
                calls=len(group),
                at=first.started,
                seconds=_duration(first, last),
            )
            seen.add(last.ended, answer)
    return moves


class _Seen:
    """Finder of the last answer that had arrived when a request began. Requests must be passed in their order."""

    def __init__(self) -> None:
        self._last: Observation | None = None
        self._coming: list[tuple[int, int, Observation | None]] = []
        self._number = 0

    def add(self, ended: int | None, answer: Observation | None) -> None:
        """Add an answer and its arrival time; None if unknown."""
        self._number += 1
        if ended is None:
            self._last = answer
        else:
            heappush(self._coming, (ended, self._number, answer))

    def before(self, began: int | None) -> Observation | None:
        """Return the last answer that arrived before `began`, or the last answer so far if `began` is None."""
        while self._coming and (began is None or self._coming[0][0] <= began):
            self._last = heappop(self._coming)[2]
        return self._last


def _duration(first: Exchange, last: Exchange) -> float | None:
    """Return the seconds from the beginning of a chain to its end; None if either is unknown or they are reversed."""
    if first.started is None or last.started is None or last.duration is None:
        return None
    took = last.started + round(last.duration * 1_000_000) - first.started
    return took / 1_000_000 if took >= 0 else None


def _socket(exchange: Exchange, page: Page) -> Moves:
    """Build the moves of a web socket: its opening, then each run of sent messages with the run received after it.

    A socket without a URL was opened before the log began; the messages received first are then only an observation.
    """
    runs: list[tuple[list[Message], list[Message]]] = [([], [])]
    for message in exchange.messages:
        if message.sent and (runs[-1][1] or len(runs) == 1):
            runs.append(([], []))
        runs[-1][0 if message.sent else 1].append(message)
    before = answer_of([exchange])
    greeting = runs[0][1]
    if greeting:
        greeted = answer_of_messages(exchange, greeting)
        if before is None:
            before = greeted
        else:
            content = f"{before.content}\n\n{greeted.content}"
            before = Observation(content, MEDIA_TYPE, uri=exchange.url, attachments=greeted.attachments)
    moves = Moves()
    if exchange.url:
        moves.add(request_of([exchange], page), None, before, exchange.offset, exchange.member, at=exchange.started)
    late = late_runs(runs)
    for number, (sent, received) in enumerate(runs[1:], 1):
        after = answer_of_messages(exchange, received) if received else None
        if after is not None and number in late:
            after = replace(after, truncation="recorder")
        at, end = sent[0].at, received[0].at if received else None
        duration = round(end - at, 6) if at is not None and end is not None and end >= at else None
        moves.add(sent_of(exchange, sent, page), before, after, exchange.offset, exchange.member, seconds=duration)
        before = after
    return moves
