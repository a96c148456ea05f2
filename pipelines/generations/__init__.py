"""What earlier runs into the same folder left, and how a new generation follows them."""
