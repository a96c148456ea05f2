"""Reports of a run: its balance, its record, how it ended, and whether too much was rejected."""
