"""Actions and words of a conversation in the order of the log; those of a long log are mostly kept in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from trajmill.connectors.conversation.turns import Item, Turn, pack, unpack
from trajmill.schemas import Spool, spool

_ITEM_BYTES: Final = 256


class Items(Iterable[Item]):
    """Items, of which settled ones may be kept in a file.

    A turn is settled when each of its calls is answered and a later turn has begun: it cannot change any more.
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
        """Number of items in memory."""
        return sum(not isinstance(item, int) for item in self._items)

    def append(self, item: Item) -> None:
        """Add an item at the end."""
        self._unsettled.append(len(self._items))
        self._items.append(item)
        self._size += _ITEM_BYTES
        if isinstance(item, Turn):
            self._last = item

    def grow(self, size: int) -> None:
        """Count `size` bytes read into the items, and move settled items to the file above the limit."""
        self._size += size
        if self._size > self._limit:
            self._settle()

    def _settle(self) -> None:
        """Write every settled item to the file; raise the limit if less than half of the items are settled."""
        if self._spool is None:
            self._spool = Spool()
        unsettled = []
        for position in self._unsettled:
            item = self._items[position]
            if isinstance(item, int):
                continue
            if item is self._last or (isinstance(item, Turn) and any(call.shown is None for call in item.calls)):
                unsettled.append(position)
            else:
                self._items[position] = self._spool.put(pack(item))
        share = len(unsettled) / max(1, len(self._unsettled))
        self._size = int(self._size * share)
        self._limit = max(spool.HELD_BYTES, 2 * self._size)
        self._unsettled = unsettled

    def __iter__(self) -> Iterator[Item]:
        for item in self._items:
            if isinstance(item, int):
                assert self._spool is not None
                loaded: Item = unpack(self._spool.get(item))
                yield loaded
            else:
                yield item
