"""Words that make each recorded site a site of its own: its name, its news, what it sells, lends and lists.

All is drawn by a name, so that a site is the same at each recording, and no two tasks show the same one.
"""

from __future__ import annotations

from random import Random

_FIRST = [
    "Alder",
    "Birch",
    "Cobalt",
    "Drift",
    "Ember",
    "Fjord",
    "Granite",
    "Heron",
    "Indigo",
    "Juniper",
    "Kestrel",
    "Larch",
    "Meadow",
    "Nettle",
    "Otter",
]
_SECOND = [
    "Bay",
    "Corner",
    "Field",
    "Gate",
    "Hill",
    "House",
    "Lane",
    "Mill",
    "Point",
    "Quay",
    "Row",
    "Square",
    "Yard",
    "Works",
    "Bridge",
    "Wharf",
]
_NAMES = [
    "Abel",
    "Bruna",
    "Caius",
    "Dora",
    "Emil",
    "Freya",
    "Goran",
    "Hilde",
    "Ivo",
    "Jana",
    "Kaspar",
    "Lotte",
    "Milan",
    "Nadia",
    "Otis",
    "Pia",
    "Rasmus",
    "Sanna",
]
_SURNAMES = [
    "Adler",
    "Brink",
    "Castell",
    "Duarte",
    "Eklund",
    "Fontana",
    "Gallo",
    "Haas",
    "Ibsen",
    "Janek",
    "Kovac",
    "Lindt",
    "Moreau",
    "Novak",
    "Orsini",
]
_WHO = [
    "The night bus",
    "A new ferry",
    "Our cellar",
    "The old bridge",
    "The market hall",
    "A choir",
    "The lower gate",
    "Our van",
    "The pump room",
    "A visiting baker",
    "The footpath",
    "The east wing",
    "Our youngest colleague",
    "The clock tower",
    "A second lift",
    "The orchard",
    "The boat house",
    "A reading circle",
    "The car park",
    "Our partner in Leith",
    "The school band",
    "A glass roof",
    "The well",
    "The kiosk",
]
_DOES = [
    "opens again",
    "stays closed",
    "needs volunteers",
    "was repaired",
    "starts late",
    "moves next door",
    "is looking for owners",
    "wins a prize",
    "takes bookings",
    "runs every hour",
    "has been painted",
    "is free of charge",
    "welcomes dogs",
    "asks for patience",
    "sold out",
    "was measured anew",
]
_WHEN = [
    "on the second Tuesday of May",
    "until the snow melts",
    "for members and their guests",
    "after months of rain",
    "before the fair",
    "as the council decided",
    "while the road is dug up",
    "since nobody objected",
    "in spite of the wind",
    "thanks to a gift",
    "between harvest and Advent",
    "at half the usual price",
    "without any notice",
    "to everyone's surprise",
    "by popular demand",
    "from noon to dusk",
    "with a small delay",
    "under a new name",
    "once the paint is dry",
    "for the third time",
    "during the long weekend",
    "against all advice",
    "if the tide allows",
    "for the rest of the year",
]
_OF = [
    "Ash",
    "Brass",
    "Canvas",
    "Cork",
    "Enamel",
    "Felt",
    "Flax",
    "Hazel",
    "Iron",
    "Jute",
    "Linen",
    "Maple",
    "Oak",
    "Pewter",
    "Slate",
    "Tin",
    "Walnut",
    "Wicker",
]
_THINGS = [
    "apron",
    "basket",
    "bench",
    "bowl",
    "box",
    "brush",
    "bucket",
    "candle",
    "crate",
    "funnel",
    "hook",
    "jug",
    "ladle",
    "lantern",
    "mat",
    "pail",
    "peg",
    "rack",
    "stool",
    "tray",
    "trowel",
]
_DO = [
    "Air",
    "Clean",
    "Count",
    "Fetch",
    "Fix",
    "Label",
    "Measure",
    "Mend",
    "Move",
    "Oil",
    "Order",
    "Paint",
    "Pack",
    "Sharpen",
    "Sort",
    "Sweep",
    "Tidy",
    "Wrap",
]
_TOPICS = [
    "Bells",
    "Bogs",
    "Canals",
    "Dunes",
    "Eels",
    "Ferns",
    "Frost",
    "Gulls",
    "Hedges",
    "Kilns",
    "Lichens",
    "Maps",
    "Orchards",
    "Owls",
    "Peat",
    "Salt",
    "Ships",
    "Wells",
]


class Words:
    """The words of one site, by the name of what is recorded there."""

    def __init__(self, name: str) -> None:
        self._random = Random(name)

    def number(self, least: int, most: int) -> int:
        """A number between two."""
        return self._random.randint(least, most)

    def brand(self) -> str:
        """The name of a site."""
        return f"{self._random.choice(_FIRST)} {self._random.choice(_SECOND)}"

    def person(self) -> str:
        """A person."""
        return f"{self._random.choice(_NAMES)} {self._random.choice(_SURNAMES)}"

    def sentence(self) -> str:
        """A piece of news."""
        who, does, when = (self._random.choice(some) for some in (_WHO, _DOES, _WHEN))
        return f"{who} {does} {when}, says {self.person()}."

    def things(self, count: int) -> list[str]:
        """So many different goods."""
        all_of_them = [f"{of} {thing}" for of in _OF for thing in _THINGS]
        return self._random.sample(all_of_them, count)

    def chores(self, count: int) -> list[str]:
        """So many different things to do."""
        return [f"{self._random.choice(_DO)} the {thing.lower()}" for thing in self.things(count)]

    def titles(self, count: int) -> list[str]:
        """So many different titles of books."""
        topics = self._random.sample(_TOPICS, count)
        return [f"{topic} of {self.brand()}" for topic in topics]
