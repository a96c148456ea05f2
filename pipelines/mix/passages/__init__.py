"""Rows of other corpora that stand in a mixture beside trajectories: read, scrubbed, judged and counted as those are.

Two stages, each a folder of units that resume. A file of a component is *read*: its rows are scrubbed, checked,
counted, and measured against benchmarks and for near duplicates, each file by itself, on any worker. Then all are
*decided* together, and what is kept of a file is a part of its component.
"""
