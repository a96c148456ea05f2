"""The seven domains: what an action is done in."""

from __future__ import annotations

from typing import Final

DOMAINS: Final = ("mcp", "search", "terminal", "swe", "web", "os", "android")
