"""What a person meets: the command line, what it prints, and what it shows of a run or a log.

Nothing below knows this room.
"""
