"""User interfaces: the command line, the report, the viewer and the public Python functions.

No other package imports this one.
"""
