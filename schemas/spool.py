"""Disk-backed storage for data of long logs that should not be held in memory: plain values, and the steps of a
trajectory.

The files are anonymous and vanish with the process. Only this process reads its own data back, so values are written
with `marshal`, which preserves lone surrogates and the identity of shared texts.
"""

from __future__ import annotations

import marshal
import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter, eq
from typing import Any, BinaryIO, Final, TypeVar, cast, overload

from trajmill.schemas.action import Action
from trajmill.schemas.observation import Attachment, Observation
from trajmill.schemas.trajectory import Step

T = TypeVar("T")

HELD_BYTES: Final = 16 << 20
"""Approximate size of the last items that a `Shelf` keeps in memory."""

_STEP_BYTES: Final = 1024
"""Approximate size of a step in memory besides its texts."""


def scratch(held_bytes: int) -> BinaryIO:
    """Return an empty seekable stream, held in memory up to a size and in an anonymous file beyond it."""
    return cast("BinaryIO", tempfile.SpooledTemporaryFile(held_bytes))


class Spool:
    """Plain values (texts, numbers, None and tuples, lists and dicts of them) in an anonymous file."""

    __slots__ = ("_end", "_file", "_is_at_end")

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=1 << 20)  # noqa: SIM115 (closed with the object)
        self._end = 0
        self._is_at_end = True

    def put(self, value: Any) -> int:
        """Write the value and return its offset, for `get`."""
        data = marshal.dumps(value)
        if not self._is_at_end:  # since seeking empties the buffer
            self._file.seek(self._end)
            self._is_at_end = True
        self._file.write(len(data).to_bytes(8, "little"))
        self._file.write(data)
        offset, self._end = self._end, self._end + 8 + len(data)
        return offset

    def get(self, offset: int) -> Any:
        """Return the value that `put` wrote at the offset."""
        self._is_at_end = False
        self._file.seek(offset)
        size = int.from_bytes(self._file.read(8), "little")
        return marshal.loads(self._file.read(size))  # noqa: S302 (this process wrote it)

    def __del__(self) -> None:
        self._file.close()


_ACTION: Final = attrgetter(*(field.name for field in fields(Action)))
_SEEN: Final = attrgetter(*(field.name for field in fields(Observation)[:-1]))
_observation: Final[Callable[..., Observation]] = Observation
_ATTACHED: Final = attrgetter(*(field.name for field in fields(Attachment)))
_STEP: Final = attrgetter(*(field.name for field in fields(Step)[3:]))


def pack_observation(seen: Observation) -> tuple[Any, ...]:
    """Return the observation as plain values; see `unpack_observation`."""
    return (*_SEEN(seen), tuple(map(_ATTACHED, seen.attachments)))


def unpack_observation(values: tuple[Any, ...]) -> Observation:
    """Return the observation that `pack_observation` packed."""
    return _observation(*values[:-1], tuple(Attachment(*attachment) for attachment in values[-1]))


def _pack_steps(steps: Sequence[Step]) -> list[tuple[Any, ...]]:
    """Convert the steps to plain values. An observation that two steps share stays one object."""
    known: dict[int, tuple[Any, ...]] = {}

    def seen(observation: Observation | None) -> tuple[Any, ...] | None:
        if observation is None:
            return None
        if id(observation) not in known:
            known[id(observation)] = pack_observation(observation)
        return known[id(observation)]

    return [(_ACTION(s.action), seen(s.observation), seen(s.next_observation), _STEP(s)) for s in steps]


def _unpack_steps(rows: Iterable[tuple[Any, ...]]) -> list[Step]:
    known: dict[int, Observation] = {}

    def seen(packed_observation: tuple[Any, ...] | None) -> Observation | None:
        if packed_observation is None:
            return None
        if id(packed_observation) not in known:
            known[id(packed_observation)] = unpack_observation(packed_observation)
        return known[id(packed_observation)]

    return [Step(Action(*action), seen(before), seen(after), *rest) for action, before, after, rest in rows]


def step_bytes(step: Step) -> int:
    """Return roughly the memory of a step that shares its observation with the step before it, in bytes."""
    action, seen = step.action, step.next_observation
    size = len(action.text) + len(action.arguments or "") + len(action.message or "") + len(action.reasoning or "")
    shown = 0 if seen is None else len(seen.content or "") + len(seen.envelope or "")
    return size + shown + len(action.sampled or "") + len(step.interleaved or "") + _STEP_BYTES


class Shelf(Sequence[T]):
    """Sequence that keeps only its last items in memory and the others in blocks in a file.

    Indexing returns a copy of an item that is not in memory. A changed item must be assigned back, which also updates
    its size.

    Args:
        pack: Function that turns a block of items into plain values, as `Spool.put` takes them.
        unpack: Inverse of `pack`.
        size: Function that returns roughly the memory of an item in bytes.
        held_bytes: Memory for the last items; `HELD_BYTES` by default.
    """

    def __init__(
        self,
        pack: Callable[[list[T]], Any],
        unpack: Callable[[Any], list[T]],
        size: Callable[[T], int],
        held_bytes: int | None = None,
    ) -> None:
        self._pack, self._unpack, self._size_of = pack, unpack, size
        self._held: list[T] = []
        self._sizes: list[int] = []
        self._held_bytes = HELD_BYTES if held_bytes is None else held_bytes
        self._size = 0
        self._written = 0
        self._begins: list[int] = []
        self._places: list[int] = []
        self._read: tuple[int, list[T]] = (-1, [])
        self._changed = False
        self._spool: Spool | None = None

    @property
    def held(self) -> int:
        """Number of the items in memory."""
        return len(self._held)

    def append(self, item: T) -> None:
        """Add an item at the end."""
        size = self._size_of(item)
        self._held.append(item)
        self._sizes.append(size)
        self._size += size
        if self._size > self._held_bytes:
            self._spill()

    def pop(self) -> T:
        """Remove the last item and return it."""
        if not self._held:
            self._checked(-1)
            self._held = list(self._block(len(self._begins) - 1))
            self._sizes = list(map(self._size_of, self._held))
            self._size = sum(self._sizes)
            self._written = self._begins.pop()
            del self._places[-1]
            self._read, self._changed = (-1, []), False
        self._size -= self._sizes.pop()
        return self._held.pop()

    def _spill(self) -> None:
        """Write the first items to the file until at most half the allowed memory is used. The last item always
        stays.
        """
        if self._spool is None:
            self._spool = Spool()
        count = 0
        while self._size > self._held_bytes // 2 and count < len(self._held) - 1:
            self._size -= self._sizes[count]
            count += 1
        if not count:
            return
        self._begins.append(self._written)
        self._places.append(self._spool.put(self._pack(self._held[:count])))
        self._written += count
        del self._held[:count], self._sizes[:count]

    def _block(self, number: int) -> list[T]:
        """Return the items of a written block. The block read last is cached, and written again if it was changed."""
        assert self._spool is not None
        before, block = self._read
        if before != number:
            if self._changed:
                self._places[before] = self._spool.put(self._pack(block))
                self._changed = False
            self._read = number, self._unpack(self._spool.get(self._places[number]))
        return self._read[1]

    def __len__(self) -> int:
        return self._written + len(self._held)

    def __eq__(self, other: object) -> bool:
        """Return True if the other is a sequence of equal items, in memory or not."""
        if not isinstance(other, Shelf | list):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[T]:
        for number in range(len(self._begins)):
            yield from self._block(number)
        yield from self._held

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if self._written <= place < self._written + len(self._held):
            return self._held[place - self._written]
        place = self._checked(place)
        if place >= self._written:
            return self._held[place - self._written]
        number = bisect_right(self._begins, place) - 1
        return self._block(number)[place - self._begins[number]]

    def __setitem__(self, place: int, item: T) -> None:
        if self._written <= place < self._written + len(self._held):
            index = place - self._written
            size = self._size_of(item)
            self._size += size - self._sizes[index]
            self._held[index], self._sizes[index] = item, size
            if self._size > self._held_bytes:
                self._spill()
            return
        place = self._checked(place)
        if place >= self._written:
            self[place] = item
            return
        number = bisect_right(self._begins, place) - 1
        self._block(number)[place - self._begins[number]] = item
        self._changed = True

    def _checked(self, place: int) -> int:
        place = place + len(self) if place < 0 else place
        if not 0 <= place < len(self):
            raise IndexError(f"there are {len(self)} items, wanted the one at {place}")
        return place


class Pile(Sequence[T]):
    """Sequence of immutable items with random access; items written to the file stand there one by one.

    Args:
        pack: Function that turns an item into plain values, as `Spool.put` takes them.
        unpack: Inverse of `pack`.
    """

    def __init__(self, pack: Callable[[T], Any], unpack: Callable[[Any], T]) -> None:
        self._pack, self._unpack = pack, unpack
        self._places = array("q")
        self._held: list[T] = []
        self._size = 0
        self._spool: Spool | None = None

    @property
    def held(self) -> int:
        """Number of the items in memory."""
        return len(self._held)

    def append(self, item: T, size: int) -> None:
        """Add an item that takes roughly `size` bytes in memory."""
        self._held.append(item)
        self._size += size
        if self._size > HELD_BYTES:
            spool = self._spool = self._spool or Spool()
            self._places.extend(spool.put(self._pack(held_item)) for held_item in self._held)
            self._held.clear()
            self._size = 0

    def __len__(self) -> int:
        return len(self._places) + len(self._held)

    def __iter__(self) -> Iterator[T]:
        for place in range(len(self._places)):
            yield self[place]
        yield from self._held

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        written = len(self._places)
        if place >= written:
            return self._held[place - written]
        if place < 0:
            raise IndexError(f"there are {len(self)} items, wanted the one at {place}")
        assert self._spool is not None
        return self._unpack(self._spool.get(self._places[place]))


class Steps(Shelf[Step]):
    """Steps of one trajectory, of which only the last are in memory.

    Args:
        held_bytes: Memory for the last steps; `HELD_BYTES` by default.
    """

    def __init__(self, steps: Iterable[Step] = (), held_bytes: int | None = None) -> None:
        super().__init__(_pack_steps, _unpack_steps, step_bytes, held_bytes)
        for step in steps:
            self.append(step)
