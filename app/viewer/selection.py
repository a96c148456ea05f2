"""State of a list, held in the address: filters, order and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import polars as pl
from starlette.requests import Request

PAGE: Final = 50
"""Rows of a list on a page."""


def number_of(request: Request, name: str, default: int = 1) -> int:
    """Return a number of the address; the default if it has none."""
    value = request.query_params.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else default


def text_of(request: Request) -> str:
    """Return the search text of the address."""
    return request.query_params.get("q", "").strip()[:200]


@dataclass(frozen=True, slots=True)
class Selection:
    """Filter, order and page of a list.

    Attributes:
        chosen: Facet → value; the empty value selects rows without a value.
        sort: Sort column, after a `-` for descending order; empty for the list's own order.
        page: Page number, from 1.
    """

    path: str
    chosen: Mapping[str, str]
    text: str
    sort: str
    page: int

    @classmethod
    def of(cls, request: Request, path: str, facets: Sequence[str], columns: Sequence[str]) -> Selection:
        """Read the selection of an address; unknown facets and columns are ignored."""
        query = request.query_params
        chosen = {name: query[name] for name in facets if name in query}
        sort = query.get("sort", "")
        sort = sort if sort.removeprefix("-") in columns else ""
        return cls(path, chosen, text_of(request), sort, number_of(request, "page"))

    def address(self, path: str | None = None, **changes: str | int | None) -> str:
        """Build the address of this selection with other values; None removes one. It starts at the first page."""
        values = {**self.chosen, "q": self.text or None, "sort": self.sort or None, **changes}
        query = urlencode({name: value for name, value in values.items() if value is not None})
        return (path or self.path) + (f"?{query}" if query else "")

    def sorted_by(self, column: str) -> str:
        """Build the address of the list sorted by a column, or in the opposite order if it is sorted by it already."""
        return self.address(sort=f"-{column}" if self.sort == column else column)

    def direction(self, column: str) -> str:
        """Return the order of the list by a column as a value of `aria-sort`: ascending, descending or none."""
        return {column: "ascending", f"-{column}": "descending"}.get(self.sort, "none")

    def sort_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Sort rows; those without a value come last."""
        if not self.sort:
            return rows
        column = self.sort.removeprefix("-")
        return rows.sort(column, descending=self.sort != column, nulls_last=True, maintain_order=True)

    def shown(self, rows: pl.DataFrame) -> dict[str, Any]:
        """Return the rows of the requested page, its number and the number of pages."""
        pages = max(1, -(-len(rows) // PAGE))
        page = min(max(1, self.page), pages)
        some = rows[(page - 1) * PAGE : page * PAGE].to_dicts()
        return {"selection": self, "rows": some, "number": len(rows), "page": page, "pages": pages}
