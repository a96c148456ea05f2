"""What a person meets: the command line, the report, the viewer and the public Python functions.

Nothing below knows this room.
"""
