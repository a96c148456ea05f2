"""One text tree of a screen, and the ids of its elements; which nodes are worth a line is for their readers."""
