"""Actions of logs run again: boxes, sessions in them, comparison, databases."""
