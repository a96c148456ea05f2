"""What every stage works with: bytes wherever they lie, files written whole or not at all, units of work, runners.

No stage is known here. What a file holds is not known here either, but for the manifests of units.
"""
