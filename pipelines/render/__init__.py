"""Rendering of judged transitions as the texts that models are trained on.

Pure functions: nothing here reads or writes files.
"""
