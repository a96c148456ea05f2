"""Functions of which the small repositories of `benchmarks.repositories` are made, their tests, and bugs to put in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_TEXT: Final = """
# how many pages hold so many entries
def pages(entries, size):
    full, rest = divmod(entries, size)
    return full + (1 if rest > 0 else 0)
= 10, 5 -> 2
= 11, 5 -> 3
= 0, 5 -> 0

# the longest word, the first of several
def longest(text):
    words = text.split()
    best = ""
    for word in words:
        if len(word) > len(best):
            best = word
    return best
= "a bell rings now" -> "rings"
= "oak elm" -> "oak"

# the running sums of a list
def running(values):
    total, found = 0, []
    for value in values:
        total += value
        found.append(total)
    return found
= [1, 2, 3] -> [1, 3, 6]
= [] -> []

# the value within two bounds
def clamp(value, low, high):
    if value < low:
        return low
    return high if value > high else value
= 5, 1, 3 -> 3
= 0, 1, 3 -> 1
= 2, 1, 3 -> 2

# a duration in seconds as h:mm:ss
def clock(seconds):
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
= 3725 -> "1:02:05"
= 59 -> "0:00:59"

# how often each letter stands in a word, in order
def letters(word):
    found = {}
    for letter in word:
        found[letter] = found.get(letter, 0) + 1
    return sorted(found.items())
= "noon" -> [("n", 2), ("o", 2)]
= "" -> []

# a list cut into parts of equal size, the last one shorter
def parts(values, size):
    return [values[at : at + size] for at in range(0, len(values), size)]
= [1, 2, 3, 4, 5], 2 -> [[1, 2], [3, 4], [5]]
= [1], 3 -> [[1]]

# the middle value, of an even number the mean of two
def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2
= [3, 1, 2] -> 2
= [4, 1, 2, 3] -> 2.5

# cents as an amount with two places
def amount(cents):
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}"
= 1205 -> "12.05"
= -7 -> "-0.07"

# the price with a discount in percent, rounded down to cents
def reduced(cents, percent):
    return cents - cents * percent // 100
= 1000, 15 -> 850
= 99, 0 -> 99

# whether a year has a day more
def leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
= 2024 -> True
= 1900 -> False
= 2000 -> True

# the days of a month
def days(year, month):
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31
= 2023, 2 -> 28
= 2024, 2 -> 29
= 2024, 6 -> 30

# rows and columns changed about
def turned(rows):
    return [list(column) for column in zip(*rows)]
= [[1, 2], [3, 4]] -> [[1, 3], [2, 4]]
= [[1, 2, 3]] -> [[1], [2], [3]]

# the places around a cell that lie on the grid
def around(row, column, height, width):
    found = []
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        at = row + down, column + right
        if 0 <= at[0] < height and 0 <= at[1] < width:
            found.append(at)
    return found
= 0, 0, 2, 2 -> [(1, 0), (0, 1)]
= 1, 1, 3, 3 -> [(0, 1), (2, 1), (1, 0), (1, 2)]

# a text with the first letter of each word in capitals
def titled(text):
    return " ".join(word[:1].upper() + word[1:] for word in text.split())
= "the old mill" -> "The Old Mill"
= "" -> ""

# whether a text reads the same from both ends, letters only
def mirrored(text):
    found = [letter.lower() for letter in text if letter.isalpha()]
    return found == found[::-1]
= "Never odd or even" -> True
= "bell" -> False

# the greatest common divisor
def divisor(one, other):
    while other > 0:
        one, other = other, one % other
    return one
= 12, 18 -> 6
= 7, 3 -> 1

# the first numbers of Fibonacci
def fibonacci(count):
    found = [0, 1]
    while len(found) < count:
        found.append(found[-1] + found[-2])
    return found[:count]
= 6 -> [0, 1, 1, 2, 3, 5]
= 1 -> [0]

# inches as feet and inches
def feet(inches):
    whole, rest = divmod(inches, 12)
    return f"{whole} ft {rest} in"
= 70 -> "5 ft 10 in"
= 11 -> "0 ft 11 in"

# what stands in both lists, each once, in the order of the first
def shared(one, other):
    found = []
    for value in one:
        if value in other and value not in found:
            found.append(value)
    return found
= [3, 1, 3, 2], [2, 3] -> [3, 2]
= [1], [2] -> []

# degrees of Fahrenheit in whole degrees of Celsius
def celsius(degrees):
    return round((degrees - 32) * 5 / 9)
= 212 -> 100
= 32 -> 0
= -40 -> -40

# a number in Roman figures
def roman(number):
    found = ""
    for value, sign in ((10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
        while number >= value:
            found += sign
            number -= value
    return found
= 14 -> "XIV"
= 9 -> "IX"
= 38 -> "XXXVIII"

# pairs of a name and the sum of its amounts, the largest first
def ranked(rows):
    sums = {}
    for name, number in rows:
        sums[name] = sums.get(name, 0) + number
    return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))
= [("oak", 2), ("elm", 5), ("oak", 4)] -> [("oak", 6), ("elm", 5)]
= [] -> []

# lines of a text without those that are blank or begin with a mark
def plain(text, mark):
    return [line for line in text.split("\\n") if line.strip() and not line.startswith(mark)]
= "a\\n\\n# b\\nc", "#" -> ["a", "c"]
= "", "#" -> []
"""

BUGS: Final = (
    (" > ", " >= "),
    (" < ", " <= "),
    (" >= ", " > "),
    (" == ", " != "),
    (" + ", " - "),
    (" - ", " + "),
    (" // ", " / "),
    ("+= ", "= "),
    (" and ", " or "),
    ("sorted(", "list("),
    ("0, ", "1, "),
    ("return ", "return not "),
)
"""What stands in a line, and what is put in its place."""


@dataclass(frozen=True, slots=True)
class Part:
    """A function, what it is for, and cases of its tests: what it is given, and what comes back."""

    name: str
    says: str
    source: str
    cases: tuple[tuple[str, str], ...]


def _part(text: str) -> Part:
    lines = text.splitlines()
    source = [line for line in lines[1:] if not line.startswith("= ")]
    cases = [line[2:].split(" -> ") for line in lines if line.startswith("= ")]
    name = source[0].removeprefix("def ").partition("(")[0]
    says = lines[0].removeprefix("# ")
    body = [source[0], f'    """Gives {says}."""', *source[1:]]
    return Part(name, says, "\n".join(body) + "\n", tuple((arguments, wanted) for arguments, wanted in cases))


PARTS: Final = tuple(_part(text) for text in _TEXT.strip().split("\n\n"))
