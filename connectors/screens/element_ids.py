"""Detection of lasting ids of elements: given by a person, and not drawn afresh by the toolkit that shows them.

Toolkits of the web draw the same ids in a browser, in an application built on one, and in the dumps of a system's
accessibility tree, so all readers of screens share the rule.

>>> bool(GENERATED_ID.fullmatch("radix-:r1:")), bool(GENERATED_ID.fullmatch("search-button"))
(True, False)
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

GENERATED_ID: Final = re.compile(
    r"""
    :[^:]*:                                          # React's useId: ":r1a:"
    | [^:]*:r[0-9a-z]+:.*                            # Radix and others on it: "radix-:r1:"
    | [0-9]+
    | (?:ember|ext-gen|ext-comp-|j_idt|uid|guid|gen)[0-9]+.*
    | (?:mui|radix|headlessui|react-aria|downshift|rc|ember|ext|yui|gwt|dijit|cdk|mat|ng|el-id|__BVID|chakra|aui)
      [-_.].*[0-9].*                                 # counters of libraries of widgets
    | .*[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-.*       # a UUID
    | .*(?:(?<![0-9A-Za-z])|_)(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{10,}(?![0-9A-Za-z]).*
    | .*[0-9]{6,}.*                                  # a time stamp or a row of a database
    | .*(?:csrf|xsrf|nonce).*
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Ids that a toolkit draws afresh on every start or load: they are left out, so that equal screens have equal text."""

_ID_LENGTH: Final = 64


@lru_cache(maxsize=16384)
def is_lasting(ident: str) -> bool:
    """Check if an id looks given by a person and not generated; see `GENERATED_ID`."""
    return len(ident) <= _ID_LENGTH and ident.isprintable() and not GENERATED_ID.fullmatch(ident)


def lasting(*idents: str | None) -> str:
    """The first of the ids that lasts; "" if none does."""
    for ident in idents:
        if ident and is_lasting(ident):
            return ident
    return ""
