"""Rows of other corpora in a mixture beside trajectories: read, scrubbed, judged and counted like those.

There are two stages, each a folder of units that resume. First, each file of a component is read on any worker: its
rows are scrubbed, checked, counted, and measured against benchmarks and for duplicates. Then all files are decided
together, and the kept rows of a file become a part of its component.
"""
