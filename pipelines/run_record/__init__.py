"""What a run says of itself: its balance, what it did, how it ended, and when too much was rejected."""
