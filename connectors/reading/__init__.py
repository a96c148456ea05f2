"""Bytes to values: lines, JSON of any size, archives, frames; one policy for all formats. No format is known here."""
