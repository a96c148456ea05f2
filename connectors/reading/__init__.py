"""Readers from bytes to values (lines, JSON of any size, archives, frames) with one policy for all formats.

No format is known here.
"""
