"""The seven domains: the kinds of environments in which agents act."""

from __future__ import annotations

from typing import Final

DOMAINS: Final = ("mcp", "search", "terminal", "swe", "web", "os", "android")
