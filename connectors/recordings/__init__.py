"""Recordings of terminals, their input and output, by recorders and by Terminal-Bench."""
