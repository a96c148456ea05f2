"""What was done and said in a conversation, in the order of the log; of a long log most of it stands in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from trajmill.connectors.conversation.turns import Item, Turn, packed, unpacked
from trajmill.schemas import Spool, spool

_ITEM_BYTES: Final = 256


class Items(Iterable[Item]):
    """Items, of which those that are settled may stand in a file.

    A turn is settled when each of its calls is answered and a later turn has begun: nothing may change it then.
    """

    def __init__(self) -> None:
        self._items: list[Item | int] = []
        self._limit = spool.HELD_BYTES
        self._size = 0
        self._unsettled: list[int] = []
        self._last: Turn | None = None
        self._spool: Spool | None = None

    @property
    def held(self) -> int:
        """How many of the items stand in memory."""
        return sum(not isinstance(item, int) for item in self._items)

    def append(self, item: Item) -> None:
        """Adds an item at the end."""
        self._unsettled.append(len(self._items))
        self._items.append(item)
        self._size += _ITEM_BYTES
        if isinstance(item, Turn):
            self._last = item

    def grow(self, size: int) -> None:
        """Is told of `size` bytes that were read into the items, so that it is known when to let go of some."""
        self._size += size
        if self._size > self._limit:
            self._settle()

    def _settle(self) -> None:
        """Writes every settled item to the file; if that is less than half, the next time comes later."""
        if self._spool is None:
            self._spool = Spool()
        kept = []
        for place in self._unsettled:
            item = self._items[place]
            if isinstance(item, int):
                continue
            if item is self._last or (isinstance(item, Turn) and any(call.shown is None for call in item.calls)):
                kept.append(place)
            else:
                self._items[place] = self._spool.put(packed(item))
        share = len(kept) / max(1, len(self._unsettled))
        self._size = int(self._size * share)
        self._limit = max(spool.HELD_BYTES, 2 * self._size)
        self._unsettled = kept

    def __iter__(self) -> Iterator[Item]:
        for item in self._items:
            if isinstance(item, int):
                assert self._spool is not None
                found: Item = unpacked(self._spool.get(item))
                yield found
            else:
                yield item
